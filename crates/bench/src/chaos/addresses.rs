//! Deposit addresses of a run: those that were given out, what was sent to them, and what the chains say became of it.

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::{Address, B256, Bytes, U64, U256, keccak256};
use alloy::sol_types::SolEvent;
use anyhow::{Context, Result};
use devnet::{Account, Chain, Devnet};
use evm::contracts::DepositAddressFactory::Swept;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ledger::{Ledger, Payment};
use super::plan::{Kind, Transfer};
use super::traffic::{CRUMB, currency};
use super::verdict::{Tally, return_key};
use super::worth::TOLERANCE;

/// A deposit address that was given out, and everything that was sent to it, all in the currency of its quote.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    /// Its name in messages.
    pub label: String,
    pub order: B256,
    /// Indexes in the list of chains.
    pub chain: usize,
    pub destination: usize,
    pub from: &'static str,
    pub to: &'static str,
    pub at: Address,
    pub strict: bool,
    /// The quoted amount, and the recipient's minimum for it.
    pub quoted: U256,
    pub minimum: U256,
    pub refund_to: Address,
    pub recipient: Address,
    pub sent: Vec<Sent>,
}

/// A plain transfer to a deposit address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub tx: B256,
    pub amount: U256,
    /// So little that it may stay at the address.
    pub dust: bool,
}

/// The address in a quote's only step.
pub(crate) fn address(quote: &Value) -> Result<Address> {
    Ok(quote["steps"][0]["depositAddress"].as_str().context("a quote without a deposit address")?.parse()?)
}

/// The balance of a deposit address that went into the depository.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sweep {
    pub tx: B256,
    pub at: Address,
    pub order: B256,
    pub currency: Address,
    pub amount: U256,
}

impl Sweep {
    /// Ids under which its deposit, or a part of it, may go back.
    pub(crate) fn return_ids(&self, chain: u64) -> [B256; 2] {
        let key = return_key(chain, self.tx);
        [key, keccak256([b"excess".as_slice(), key.as_slice()].concat())]
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Log {
    address: Address,
    topics: Vec<B256>,
    data: Bytes,
    transaction_hash: B256,
    log_index: U64,
}

/// The sweeps in some blocks. The depository's log of a sweep stands just before the factory's.
pub(crate) async fn sweeps(chain: &Chain, from: u64, to: u64) -> Result<Vec<Sweep>> {
    let (factory, depository) = (chain.contracts.deposit_address_factory, chain.contracts.depository);
    let filter = json!([{ "address": [factory, depository], "fromBlock": U64::from(from), "toBlock": U64::from(to) }]);
    let logs: Vec<Log> = chain.rpc("eth_getLogs", filter).await?;
    let place = |log: &Log| (log.transaction_hash, log.log_index.to::<u64>());
    let deposits: BTreeMap<_, _> =
        logs.iter().filter(|log| log.address == depository).map(|log| (place(log), log)).collect();
    let mut sweeps = Vec::new();
    for log in logs.iter().filter(|log| log.address == factory) {
        let [Swept::SIGNATURE_HASH, at, order, token] = log.topics[..] else { continue };
        let (tx, index) = place(log);
        let deposit = deposits.get(&(tx, index.wrapping_sub(1))).context("a sweep without its deposit")?;
        // Depositor, token if it is none of the native currency, amount and id.
        let words = deposit.data.len() / 32;
        let amount = words.checked_sub(2).and_then(|at| deposit.data.get(32 * at..32 * at + 32));
        let amount = amount.and_then(U256::try_from_be_slice).context("an odd deposit")?;
        let (at, currency) = (Address::from_word(at), Address::from_word(token));
        sweeps.push(Sweep { tx, at, order, currency, amount });
    }
    Ok(sweeps)
}

/// The verdict on deposit addresses.
pub(crate) struct Addresses<'a> {
    pub devnet: &'a Devnet,
    pub ledgers: &'a [Ledger],
}

/// The ends of what was swept from one address.
#[derive(Clone, Debug, Default)]
struct Ends {
    fills: usize,
    refunds: usize,
    returns: usize,
    /// Received by the recipient, and back at the refund recipient.
    paid: U256,
    back: U256,
}

impl Addresses<'_> {
    /// Everything that arrived at an address was swept or is dust that stays, and every sweep has exactly one end.
    /// Returns the fills and refunds of the order that the address was given out for.
    pub(crate) async fn judge(
        &self,
        given: &Given,
        wrong: &mut Vec<String>,
        tally: &mut Tally,
    ) -> Result<(usize, usize)> {
        let (origin, destination) = (&self.devnet.chains[given.chain], &self.devnet.chains[given.destination]);
        let mut say = |text: String| wrong.push(format!("{}: {text}", given.label));
        let (mut arrived, mut dust, mut payments) = (U256::ZERO, U256::ZERO, 0);
        for sent in &given.sent {
            let receipt: Value = origin.rpc("eth_getTransactionReceipt", [sent.tx]).await?;
            match receipt["status"].as_str() {
                Some("0x1") => {
                    arrived += sent.amount;
                    dust += if sent.dust { sent.amount } else { U256::ZERO };
                    payments += usize::from(!sent.dust);
                }
                Some(_) => say(format!("transfer {} reverted: the run itself is at fault", sent.tx)),
                None => say(format!("transfer {} is not on its chain yet", sent.tx)),
            }
        }
        let asset = currency(origin, given.from);
        let sweeps: Vec<&Sweep> =
            self.ledgers[given.chain].sweeps.iter().filter(|sweep| sweep.at == given.at).collect();
        let swept = sweeps.iter().fold(U256::ZERO, |sum, sweep| sum + sweep.amount);
        let left = origin.balance(asset, given.at).await?;
        if swept + left != arrived || sweeps.iter().any(|sweep| sweep.currency != asset) {
            say(format!("{arrived} arrived at {}, {swept} was swept and {left} is there", given.at));
        }
        if left > dust {
            say(format!("{left} stays at {}, and is not dust", given.at));
        }
        let orders: BTreeSet<B256> = sweeps.iter().map(|sweep| sweep.order).chain([given.order]).collect();
        let (mut all, mut first) = (Ends::default(), (0, 0));
        for order in orders {
            let ends = self.ends(given, order, &sweeps, &mut say);
            if order == given.order {
                first = (ends.fills, ends.refunds);
            }
            all.fills += ends.fills;
            all.refunds += ends.refunds;
            all.returns += ends.returns;
            all.paid += ends.paid;
            all.back += ends.back;
        }
        // Nobody else pays this recipient: its balance is the fills.
        let got = destination.balance(currency(destination, given.to), given.recipient).await?;
        if got != all.paid {
            say(format!("the recipient has {got}, and the fills are {}", all.paid));
        }
        self.fair(given, (arrived, left, got, all.back), sweeps.len(), &mut say);
        if given.strict {
            strictly(given, arrived, (first, got), &mut say);
        }
        if payments > 0 && all.fills + all.refunds + all.returns == 0 {
            say("it was paid for and has no end".to_owned());
        }
        tally.deposits += payments;
        tally.fills += all.fills;
        tally.refunds += all.refunds;
        tally.returns += all.returns;
        Ok(first)
    }

    /// The ends of the sweeps under one order: a fill or a refund once, a return for each of the others.
    fn ends(&self, given: &Given, order: B256, sweeps: &[&Sweep], say: &mut impl FnMut(String)) -> Ends {
        let (origin, destination) = (&self.devnet.chains[given.chain], &self.devnet.chains[given.destination]);
        let (here, there) = (&self.ledgers[given.chain], &self.ledgers[given.destination]);
        let (paid_in, paid_out) = (currency(origin, given.from), currency(destination, given.to));
        let of = |ledger: &Ledger, id: B256| -> Vec<Payment> {
            ledger.by_id().get(&id).into_iter().flatten().map(|payment| (*payment).clone()).collect()
        };
        let back = |payments: &[Payment]| {
            payments.iter().fold(U256::ZERO, |sum, payment| sum + payment.paid(paid_in, given.refund_to))
        };
        let (fills, refunds) = (of(there, order), of(here, order));
        let of_order: Vec<_> = sweeps.iter().filter(|sweep| sweep.order == order).collect();
        let mut ends = Ends {
            fills: fills.len(),
            refunds: refunds.len(),
            paid: fills.iter().fold(U256::ZERO, |sum, payment| sum + payment.paid(paid_out, given.recipient)),
            back: back(&refunds),
            ..Ends::default()
        };
        for sweep in &of_order {
            let [returned, excess] = sweep.return_ids(origin.id).map(|id| of(here, id));
            if returned.len() > 1 || excess.len() > 1 {
                let (returned, excess) = (returned.len(), excess.len());
                say(format!("sweep {} was returned {returned} times, its excess {excess} times", sweep.tx));
            }
            ends.returns += returned.len();
            ends.back += back(&returned) + back(&excess);
        }
        let worthless = of_order.iter().filter(|sweep| is_worthless(given.from, sweep.amount)).count();
        let (owed, has) = (of_order.len(), ends.fills + ends.refunds + ends.returns);
        if ends.fills + ends.refunds > 1 || has > owed || has + worthless < owed {
            let Ends { fills, refunds, returns, .. } = ends;
            say(format!("{owed} sweeps under {order} have {fills} fills, {refunds} refunds and {returns} returns"));
        }
        ends
    }

    /// Where both ends are one asset, or dollars, what was paid and what came back is what was sent, less fees and gas.
    fn fair(
        &self,
        given: &Given,
        (arrived, left, got, back): (U256, U256, U256, U256),
        sweeps: usize,
        say: &mut impl FnMut(String),
    ) {
        if (given.from == "ETH") != (given.to == "ETH") {
            return;
        }
        let micros = |chain: usize, symbol: &str, amount: U256| {
            // A millionth of an ether counts as three tenths of a cent: only the bound depends on it.
            let (decimals, factor) = match symbol {
                "ETH" => (18, 3_000u64),
                token => (self.devnet.chains[chain].token(token).decimals, 1),
            };
            amount * U256::from(factor) / U256::from(10u64).pow(U256::from(decimals - 6))
        };
        let sent = micros(given.chain, given.from, arrived.saturating_sub(left));
        let received = micros(given.destination, given.to, got) + micros(given.chain, given.from, back);
        let least = (sent * U256::from(9) / U256::from(10)).saturating_sub(U256::from(1_000_000 * sweeps as u64));
        if received < least || received > sent + U256::from(TOLERANCE.unsigned_abs()) {
            say(format!("{received} millionths of a dollar came of {sent}"));
        }
    }
}

/// A strict address pays for its order with the quoted amount or more, and with nothing less.
fn strictly(
    given: &Given,
    arrived: U256,
    ((fills, refunds), got): ((usize, usize), U256),
    say: &mut impl FnMut(String),
) {
    // The market moves ether against the rest, and may have left a quote behind.
    let exchanged = (given.from == "ETH") != (given.to == "ETH");
    let enough = arrived >= given.quoted;
    let fine = if enough { fills == 1 || (exchanged && refunds == 1) } else { fills == 0 };
    if !fine {
        say(format!("{arrived} arrived of {}: {fills} fills and {refunds} refunds", given.quoted));
    }
    if fills == 1 && got < given.minimum {
        say(format!("the recipient has {got}, and {} is the least", given.minimum));
    }
}

/// Less than sending it back costs.
fn is_worthless(symbol: &str, amount: U256) -> bool {
    amount <= if symbol == "ETH" { U256::from(1_000) } else { U256::ONE }
}

/// The transfers to an address: who sends how much, and whether it is dust.
pub(crate) fn arrivals(transfer: &Transfer, amount: U256) -> Vec<(&Account, U256, bool)> {
    let (user, stranger) = (&transfer.user, &transfer.stranger);
    let part = |tenths: u64| amount * U256::from(tenths) / U256::from(10);
    let crumb = if transfer.from == "ETH" { U256::from(CRUMB) } else { U256::ONE };
    let dust = (stranger, crumb, true);
    if transfer.kind == Kind::StrictAddress {
        return match transfer.choice % 4 {
            0 => vec![(user, amount, false)],
            1 => vec![(user, part(15), false)],
            2 => vec![(user, part(6), false)],
            _ => vec![dust, (user, amount, false)],
        };
    }
    let times = usize::try_from(1 + transfer.choice % 3).unwrap_or(1);
    let paid = [part(if transfer.coin { 10 } else { 13 }), part(8), part(10)].map(|part| (user, part, false));
    let first = (transfer.choice >= 6).then_some(dust);
    first.into_iter().chain(paid.into_iter().take(times)).collect()
}
