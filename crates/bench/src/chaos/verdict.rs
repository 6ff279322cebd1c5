//! The verdict: every deposit had exactly one end, judged from the chains alone.

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::{Address, B256, U64, U256, keccak256};
use alloy::sol_types::SolCall;
use anyhow::Result;
use devnet::Chain;
use domain::venue::AccountIndex;
use evm::contracts::Erc20;
use serde::Serialize;
use serde_json::{Value, json};

use super::addresses::Addresses;
use super::adversary::{Adversary, Brought};
use super::ends::Ends;
use super::ledger::Ledger;
use super::permit_verdict::{Permits, Relayed};
use super::plan::{SYMBOLS, Transfer};
use super::traffic::{Deposit, Traffic, currency};
use super::venue::Booked;

/// The number of deposits by their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Tally {
    pub deposits: usize,
    pub fills: usize,
    pub refunds: usize,
    pub returns: usize,
    /// Deposits not worth returning.
    pub kept: usize,
    /// Removed by a reorg, and not paid again by their users.
    pub abandoned: usize,
    /// Orders filled or refunded whose deposit is gone: the cost of a reorg to a solver that pays before finality.
    pub losses: usize,
}

/// All chains, and our initial balances there.
#[derive(Debug)]
pub(crate) struct Books {
    /// Fillers, and then relayers.
    pub wallets: Vec<Address>,
    relayers: Vec<Address>,
    pub treasury: Address,
    pub ledgers: Vec<Ledger>,
    before: Vec<Holdings>,
    /// At the last block of each ledger. Read with it: nodes forget the state of old blocks.
    after: Vec<Holdings>,
    nonces: Vec<Vec<u64>>,
}

type Holdings = BTreeMap<Address, U256>;

impl Books {
    /// Starts at the current heads.
    pub(crate) async fn open(
        chains: &[Chain],
        (fillers, relayers): (Vec<Address>, Vec<Address>),
        treasury: Address,
    ) -> Result<Self> {
        let wallets = [fillers, relayers.clone()].concat();
        let (mut ledgers, mut before, mut nonces) = (Vec::new(), Vec::new(), Vec::new());
        for chain in chains {
            let head = chain.block_number().await?;
            ledgers.push(Ledger::new(head));
            before.push(holdings(chain, &wallets, treasury, head).await?);
            let mut used = Vec::new();
            for wallet in &wallets {
                used.push(nonce(chain, *wallet, "latest").await?);
            }
            nonces.push(used);
        }
        Ok(Self { wallets, relayers, treasury, ledgers, after: before.clone(), before, nonces })
    }

    pub(crate) async fn read_on(&mut self, chains: &[Chain]) -> Result<()> {
        for ((chain, ledger), after) in chains.iter().zip(&mut self.ledgers).zip(&mut self.after) {
            ledger.read_on(chain, &self.wallets).await?;
            *after = holdings(chain, &self.wallets, self.treasury, ledger.up_to).await?;
        }
        Ok(())
    }

    /// The transactions of our relayers, for a verdict on permits and raw calls.
    pub(crate) fn permits<'a>(&'a self, traffic: &'a Traffic<'_>) -> Permits<'a> {
        let of_chain = |(chain, ledger): (usize, &Ledger)| {
            let depository = traffic.devnet.chains[chain].contracts.depository;
            let sent = ledger.payments.iter().filter(|payment| self.relayers.contains(&payment.from));
            sent.map(|payment| Relayed::of(chain, depository, payment)).collect::<Vec<_>>()
        };
        Permits {
            devnet: traffic.devnet,
            api: traffic.api,
            ledgers: &self.ledgers,
            relayed: self.ledgers.iter().enumerate().flat_map(of_chain).collect(),
            reorged: traffic.sends.relays_reorged(),
        }
    }

    /// Everything that is not as it should be, and the tally.
    pub(crate) async fn judge(
        &self,
        traffic: &Traffic<'_>,
        transfers: &[Transfer],
        adversary: &Adversary,
    ) -> Result<(Vec<String>, Tally)> {
        let chains = &traffic.devnet.chains;
        let (mut wrong, mut tally) = (Vec::new(), Tally::default());
        let mut present: Vec<Vec<Deposit>> = vec![Vec::new(); transfers.len()];
        let mut gone = vec![0; transfers.len()];
        for deposit in traffic.deposits() {
            let receipt: Value = chains[deposit.chain].rpc("eth_getTransactionReceipt", [deposit.tx]).await?;
            match receipt["status"].as_str() {
                Some("0x1") => {
                    tally.deposits += 1;
                    present[deposit.transfer].push(deposit);
                }
                Some(_) => wrong.push(format!("deposit {} reverted: the run itself is at fault", deposit.tx)),
                None if traffic.sends.is_abandoned(deposit.tx) => gone[deposit.transfer] += 1,
                None => wrong.push(format!("deposit {} is not on its chain yet", deposit.tx)),
            }
        }
        tally.abandoned = gone.iter().sum();
        let (booked, permits) = (traffic.venue.booked()?, self.permits(traffic));
        for transfer in transfers {
            let (books, permits, present) = (self, &permits, &present[transfer.index]);
            let ends = Ends { books, traffic, transfer, present, booked: &booked, permits };
            ends.judge(gone[transfer.index], &mut wrong, &mut tally).await?;
        }
        self.addresses(traffic, adversary, &mut wrong, &mut tally).await?;
        for permit in adversary.permits() {
            permits.judge(&permit, &mut wrong, &mut tally).await?;
        }
        let call = |transfer: &Transfer| Some((transfer.kind, traffic.permit(transfer.index)?));
        let calls: Vec<_> = transfers.iter().filter(|it| it.kind.is_raw_call()).filter_map(call).collect();
        permits.given_up(&calls, &mut wrong)?;
        self.venue(traffic, transfers, &booked, &mut wrong)?;
        let brought = self.brought(chains, adversary, &mut wrong).await?;
        adversary.robbed(traffic.devnet, &mut wrong).await?;
        self.unknown(traffic, adversary, &permits, &mut wrong)?;
        let of_users = present.iter().flatten().map(|it| (it.chain, it.currency, it.amount));
        let of_addresses =
            self.ledgers.iter().enumerate().flat_map(|(chain, ledger)| {
                ledger.sweeps.iter().map(move |sweep| (chain, sweep.currency, sweep.amount))
            });
        let brought = brought.iter().map(|it| (it.chain, it.currency, it.amount));
        let relayed = permits.relayed.iter();
        let relayed = relayed.flat_map(|it| it.brought.iter().map(|&(currency, amount)| (it.chain, currency, amount)));
        let deposits: Vec<_> = of_users.chain(of_addresses).chain(brought).chain(relayed).collect();
        self.inventory(chains, &deposits, &mut wrong);
        self.wallets(chains, &mut wrong).await?;
        self.relayers(chains, &mut wrong).await?;
        Ok((wrong, tally))
    }

    /// Deposit addresses of the adversary's victims: they are served like all others.
    async fn addresses(
        &self,
        traffic: &Traffic<'_>,
        adversary: &Adversary,
        wrong: &mut Vec<String>,
        tally: &mut Tally,
    ) -> Result<()> {
        let addresses = Addresses { devnet: traffic.devnet, ledgers: &self.ledgers };
        for given in adversary.victims() {
            let (fills, _) = addresses.judge(&given, wrong, tally).await?;
            if given.strict && !given.sent.is_empty() && fills != 1 {
                wrong.push(format!("{}: its order has {fills} fills", given.label));
            }
        }
        Ok(())
    }

    /// The venue's books agree with what the users did there.
    fn venue(
        &self,
        traffic: &Traffic<'_>,
        transfers: &[Transfer],
        booked: &Booked,
        wrong: &mut Vec<String>,
    ) -> Result<()> {
        let (mut causes, mut users) = (BTreeSet::new(), BTreeSet::new());
        for transfer in transfers.iter().filter(|transfer| transfer.kind.uses_venue()) {
            causes.extend(traffic.order(transfer.index).map(|order| order.id));
            users.insert(AccountIndex::new(traffic.venue.account(transfer.index)?.index)?);
        }
        booked.books(&causes, &users, wrong);
        Ok(())
    }

    /// The adversary's deposits on the chains. Each has an end, and no order more ends than deposits or one.
    async fn brought(&self, chains: &[Chain], adversary: &Adversary, wrong: &mut Vec<String>) -> Result<Vec<Brought>> {
        let mut present = Vec::new();
        for deposit in adversary.deposits() {
            let receipt: Value = chains[deposit.chain].rpc("eth_getTransactionReceipt", [deposit.tx]).await?;
            match receipt["status"].as_str() {
                Some("0x1") => present.push(deposit),
                Some(_) => {}
                None => wrong.push(format!("the adversary's deposit {} is not on its chain yet", deposit.tx)),
            }
        }
        let count = |id: &B256| self.ledgers.iter().map(|it| it.by_id().get(id).map_or(0, Vec::len)).sum::<usize>();
        for id in adversary.ids() {
            let of_id = present.iter().filter(|deposit| deposit.id == id);
            let returns = of_id.clone().map(|deposit| count(&return_key(chains[deposit.chain].id, deposit.tx)));
            let (deposits, ends) = (of_id.clone().count(), count(&id) + returns.sum::<usize>());
            if ends > deposits.max(1) || ends < deposits.min(1) {
                wrong.push(format!("{deposits} deposits of the adversary under {id} have {ends} ends"));
            }
        }
        Ok(present)
    }

    /// Every transaction of our wallets is for an order, for a deposit, a payout from a depository, or a sweep into
    /// one; those of relayers submit permits and raw calls that were signed.
    fn unknown(
        &self,
        traffic: &Traffic<'_>,
        adversary: &Adversary,
        permits: &Permits<'_>,
        wrong: &mut Vec<String>,
    ) -> Result<()> {
        let deposits = traffic.deposits();
        let chains = &traffic.devnet.chains;
        let orders = deposits.iter().map(|deposit| deposit.id);
        let returned = deposits.iter().map(|deposit| return_key(chains[deposit.chain].id, deposit.tx));
        let brought = adversary.deposits();
        let brought = brought.iter().map(|deposit| return_key(chains[deposit.chain].id, deposit.tx));
        let mut known: BTreeSet<B256> = orders.chain(returned).chain(brought).chain(adversary.ids()).collect();
        known.extend(traffic.orders());
        known.extend(permits.relayed.iter().map(|relay| return_key(chains[relay.chain].id, relay.tx)));
        for (chain, ledger) in chains.iter().zip(&self.ledgers) {
            known.extend(ledger.sweeps.iter().flat_map(|sweep| sweep.return_ids(chain.id)));
            known.extend(ledger.sweeps.iter().map(|sweep| sweep.order));
        }
        for (chain, ledger) in chains.iter().zip(&self.ledgers) {
            for payment in ledger.payments.iter().filter(|payment| !self.relayers.contains(&payment.from)) {
                // Payouts, and sweeps of deposit addresses.
                let pays_nobody =
                    [chain.contracts.depository, chain.contracts.deposit_address_factory].contains(&payment.to);
                if !pays_nobody && !payment.id().is_some_and(|id| known.contains(&id)) {
                    wrong.push(format!("{} on {} is for nothing we know of", payment.hash, chain.name));
                }
            }
        }
        let signed = traffic.permits().into_iter().chain(adversary.permits());
        let signed: BTreeSet<B256> = signed.map(|permit| permit.relay()).collect::<Result<_>>()?;
        for relay in permits.relayed.iter().filter(|relay| !relay.gives_up) {
            let chain = &chains[relay.chain];
            let is_signed = relay.id.is_some_and(|id| signed.contains(&id));
            let takes = [Some(chain.contracts.approval_proxy), traffic.entry_point()];
            if !is_signed || !takes.contains(&Some(relay.to)) {
                wrong.push(format!("{} on {} relays nothing that was signed", relay.tx, chain.name));
            }
        }
        Ok(())
    }

    /// Relayers hold gas and nothing else.
    async fn relayers(&self, chains: &[Chain], wrong: &mut Vec<String>) -> Result<()> {
        for chain in chains {
            for symbol in SYMBOLS.into_iter().filter(|symbol| *symbol != "ETH") {
                for &relayer in &self.relayers {
                    let held = chain.balance(chain.token(symbol).address, relayer).await?;
                    if !held.is_zero() {
                        wrong.push(format!("relayer {relayer} on {} holds {held} of {symbol}", chain.name));
                    }
                }
            }
        }
        Ok(())
    }

    /// Our balance is the initial one, plus deposits, less payments and gas.
    fn inventory(&self, chains: &[Chain], deposits: &[(usize, Address, U256)], wrong: &mut Vec<String>) {
        for (index, chain) in chains.iter().enumerate() {
            let ledger = &self.ledgers[index];
            let ours = |who: &Address| {
                self.wallets.contains(who) || *who == self.treasury || *who == chain.contracts.depository
            };
            for (&currency, &held) in &self.after[index] {
                let mut has = self.before[index][&currency];
                let of_currency = deposits.iter().filter(|(chain, of, _)| *chain == index && *of == currency);
                has += of_currency.fold(U256::ZERO, |sum, (_, _, amount)| sum + *amount);
                for payment in &ledger.payments {
                    if currency.is_zero() {
                        let sent = if payment.success && !ours(&payment.to) { payment.value } else { U256::ZERO };
                        has = has.saturating_sub(sent + payment.fee);
                    } else {
                        let out = payment.transfers.iter();
                        let out = out.filter(|it| it.token == currency && ours(&it.from) && !ours(&it.to));
                        has = has.saturating_sub(out.fold(U256::ZERO, |sum, it| sum + it.amount));
                    }
                }
                if has != held {
                    wrong.push(format!("{}: {held} of {currency} is there, and {has} should be", chain.name));
                }
            }
        }
    }

    /// Each nonce was used once, and none is pending.
    async fn wallets(&self, chains: &[Chain], wrong: &mut Vec<String>) -> Result<()> {
        for (index, chain) in chains.iter().enumerate() {
            for (wallet, first) in self.wallets.iter().zip(&self.nonces[index]) {
                let sent = self.ledgers[index].payments.iter().filter(|payment| payment.from == *wallet);
                let nonces: Vec<u64> = sent.map(|payment| payment.nonce).collect();
                if nonces != (*first..*first + nonces.len() as u64).collect::<Vec<_>>() {
                    wrong.push(format!("wallet {wallet} on {}: its nonces are {nonces:?}", chain.name));
                }
                let (mined, waiting) =
                    (nonce(chain, *wallet, "latest").await?, nonce(chain, *wallet, "pending").await?);
                if mined != waiting {
                    wrong.push(format!("wallet {wallet} on {}: {mined} are mined of {waiting}", chain.name));
                }
            }
        }
        Ok(())
    }
}

/// The id of a deposit in the payment that returns it. Every deposit here is alone in its transaction.
pub(crate) fn return_key(chain: u64, tx: B256) -> B256 {
    keccak256([chain.to_be_bytes().as_slice(), tx.as_slice(), &0u32.to_be_bytes()].concat())
}

async fn nonce(chain: &Chain, who: Address, tag: &str) -> Result<u64> {
    Ok(chain.rpc::<U64>("eth_getTransactionCount", (who, tag)).await?.to())
}

/// Balances of all our addresses together, by currency.
async fn holdings(chain: &Chain, wallets: &[Address], treasury: Address, block: u64) -> Result<Holdings> {
    let mut all = Holdings::new();
    for symbol in SYMBOLS {
        let token = currency(chain, symbol);
        let mut sum = U256::ZERO;
        for &owner in wallets.iter().chain([&treasury, &chain.contracts.depository]) {
            let held: U256 = if token.is_zero() {
                chain.rpc("eth_getBalance", (owner, U64::from(block))).await?
            } else {
                let call = json!({"to": token, "data": alloy::primitives::Bytes::from(Erc20::balanceOfCall { owner }.abi_encode())});
                chain.rpc("eth_call", (call, U64::from(block))).await?
            };
            sum += held;
        }
        all.insert(token, sum);
    }
    Ok(all)
}
