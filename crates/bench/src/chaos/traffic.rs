//! The users: they request quotes, sign, send, and resend transactions that a chain dropped.

mod quote;
mod signed;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use alloy::primitives::{Address, B256, Bytes, U256};
use anyhow::Result;
use devnet::{Account, Chain, Devnet};
use domain::api_key::KeyText;
use domain::ids::OrderId;
use evm::account_tag::tag;
use evm::calldata;
use serde_json::{Value, json};

use super::addresses::{Given, Sent, address, arrivals};
use super::api::Api;
use super::calls::{self, SmartAccount};
use super::permits::{self, Permitted};
use super::plan::{Kind, Odd, Transfer};
use super::quoted::{Call, Order, order, steps};
use super::sends::Sends;
use super::venue::{self, Venue};

/// Enough gas for an approval and for every kind of deposit.
const GAS_LIMIT: u64 = 300_000;
/// Wei that nobody would send back.
pub(crate) const CRUMB: u64 = 1_000;
/// In USDC: more than the total of sponsored fees and fast fills.
const BALANCE: u64 = 1_000_000;

/// The integrator that sponsors and fast-fills: an API key, and the wallet linked to it.
#[derive(Debug)]
pub(crate) struct Integrator {
    pub key: KeyText,
    pub wallet: Account,
}

/// A deposit into a depository.
#[derive(Clone, Debug)]
pub(crate) struct Deposit {
    pub transfer: usize,
    pub chain: usize,
    pub tx: B256,
    pub id: B256,
    pub depositor: Address,
    pub currency: Address,
    pub amount: U256,
    /// It can pay for its order, or be refunded as the order's own.
    pub qualifies: bool,
    /// Returning it would cost more than its value.
    pub worthless: bool,
}

#[derive(Debug, Default)]
struct Done {
    /// Quotes received before the first fault.
    quotes: BTreeMap<usize, Value>,
    orders: BTreeMap<usize, Order>,
    deposits: Vec<Deposit>,
    /// Deposit addresses.
    given: BTreeMap<usize, Given>,
    /// Accounts of those who have their calls relayed.
    accounts: BTreeMap<usize, SmartAccount>,
    /// Permits and raw calls that were signed.
    permits: BTreeMap<usize, Permitted>,
    /// When each user began to pay.
    paying: BTreeMap<usize, Instant>,
    /// Fast fills that were accepted.
    ahead: usize,
    /// Users who have sent everything.
    through: usize,
}

/// The users' activity so far.
#[derive(Debug)]
pub(crate) struct Traffic<'a> {
    pub devnet: &'a Devnet,
    pub api: &'a Api,
    pub sends: &'a Sends<'a>,
    pub venue: &'a Venue,
    integrator: &'a Integrator,
    users: usize,
    done: Mutex<Done>,
}

impl<'a> Traffic<'a> {
    pub(crate) fn new(
        (devnet, venue): (&'a Devnet, &'a Venue),
        api: &'a Api,
        sends: &'a Sends<'a>,
        integrator: &'a Integrator,
        users: usize,
    ) -> Self {
        Self { devnet, api, sends, venue, integrator, users, done: Mutex::default() }
    }

    fn done(&self) -> std::sync::MutexGuard<'_, Done> {
        self.done.lock().expect("nothing panics while holding it")
    }

    pub(crate) fn order(&self, transfer: usize) -> Option<Order> {
        self.done().orders.get(&transfer).cloned()
    }

    /// The ids of all orders.
    pub(crate) fn orders(&self) -> Vec<B256> {
        self.done().orders.values().map(|order| order.id).collect()
    }

    pub(crate) fn deposits(&self) -> Vec<Deposit> {
        self.done().deposits.clone()
    }

    /// The deposit address of a transfer that has one.
    pub(crate) fn given(&self, transfer: usize) -> Option<Given> {
        self.done().given.get(&transfer).cloned()
    }

    /// The smart account of a transfer that has one.
    pub(crate) fn account(&self, transfer: usize) -> Option<SmartAccount> {
        self.done().accounts.get(&transfer).copied()
    }

    /// The contract that relayers call for smart accounts, if there are any.
    pub(crate) fn entry_point(&self) -> Option<Address> {
        self.done().accounts.values().next().map(SmartAccount::entry_point)
    }

    /// The permit or raw call of a transfer that has one.
    pub(crate) fn permit(&self, transfer: usize) -> Option<Permitted> {
        self.done().permits.get(&transfer).cloned()
    }

    /// The permits and raw calls of all transfers that have one.
    pub(crate) fn permits(&self) -> Vec<Permitted> {
        self.done().permits.values().cloned().collect()
    }

    /// When this user began to pay. None for one that never did.
    pub(crate) fn paying_since(&self, transfer: usize) -> Option<Instant> {
        self.done().paying.get(&transfer).copied()
    }

    /// The number of accepted fast fills.
    pub(crate) fn ahead(&self) -> usize {
        self.done().ahead
    }

    /// True if every user has sent everything.
    pub(crate) fn is_through(&self) -> bool {
        self.done().through >= self.users
    }

    /// Funds the users. It runs before any reorg, which would remove the funds.
    pub(crate) async fn fund(&self, transfers: &[Transfer]) -> Result<()> {
        permits::fund(self.devnet, self.sends, transfers).await?;
        let accounts = calls::fund(self.devnet, transfers).await?;
        self.done().accounts = accounts;
        for transfer in transfers.iter().filter(|transfer| !transfer.kind.is_gasless()) {
            if transfer.kind.uses_venue() {
                self.venue.open(transfer.index, transfer.user)?;
            }
            let chain = &self.devnet.chains[transfer.origin];
            for who in [transfer.user.address, transfer.stranger.address] {
                chain.set_balance(who, U256::from(10u64).pow(U256::from(18))).await?;
                for symbol in BTreeSet::from([transfer.from, transfer.mistaken]).into_iter().filter(|it| *it != "ETH") {
                    let token = chain.token(symbol);
                    let plenty = U256::from(1_000u64) * U256::from(10u64).pow(U256::from(token.decimals));
                    chain.set_token_balance(token.address, who, plenty).await?;
                }
            }
        }
        let (chain, wallet) = (self.devnet.chain(domain::ledger::CHAIN), &self.integrator.wallet);
        let usdc = chain.token("USDC");
        let balance = U256::from(BALANCE) * U256::from(10u64).pow(U256::from(usdc.decimals));
        chain.set_token_balance(usdc.address, wallet.address, balance).await?;
        let transfer = calldata::erc20_fill(self.devnet.keys.treasury.address, balance, tag(wallet.address));
        chain.send(wallet.private_key, usdc.address, U256::ZERO, transfer).await?;
        Ok(())
    }

    /// True if the integrator's balance is credited.
    pub(crate) async fn is_funded(&self) -> bool {
        self.api.available(self.integrator.wallet.address).await.is_ok_and(|micros| micros > 0)
    }

    /// Requests a quote before the first fault: half of the users do.
    pub(crate) async fn ask_early(&self, transfer: &Transfer) -> Result<()> {
        if transfer.early && transfer.kind != Kind::Orphan {
            let quote = self.quote(transfer, self.amount(transfer)).await;
            self.done().quotes.insert(transfer.index, quote);
        }
        Ok(())
    }

    /// One transfer from the quote to the last transaction of its user.
    pub(crate) async fn run(&self, transfer: &Transfer) -> Result<()> {
        tokio::time::sleep(transfer.at).await;
        let done = self.transfer(transfer).await;
        self.done().through += 1;
        done
    }

    async fn transfer(&self, transfer: &Transfer) -> Result<()> {
        let chain = &self.devnet.chains[transfer.origin];
        let (user, stranger) = (&transfer.user, &transfer.stranger);
        let amount = self.amount(transfer);
        if transfer.kind == Kind::Orphan {
            return self.pay(transfer, user, (transfer.from, amount), transfer.word, false).await;
        }
        let early = self.done().quotes.remove(&transfer.index);
        let quote = match early {
            Some(quote) => quote,
            None => self.quote(transfer, amount).await,
        };
        let order = order(&quote)?;
        self.done().orders.insert(transfer.index, order.clone());
        let small = self.small(transfer);
        let third = amount / U256::from(3);
        match transfer.kind {
            Kind::Fill | Kind::Forced | Kind::Sponsored => self.follow(transfer, &quote, order.id, amount).await,
            Kind::Ahead => {
                self.fill_ahead(&order.request).await;
                self.follow(transfer, &quote, order.id, amount).await
            }
            Kind::Short => self.pay(transfer, user, (transfer.from, third), order.id, true).await,
            Kind::Double => {
                self.follow(transfer, &quote, order.id, amount).await?;
                self.pay(transfer, user, (transfer.from, amount), order.id, true).await
            }
            Kind::Dust => {
                let dust = self.pay(transfer, stranger, (transfer.from, small), order.id, false);
                let paid = self.follow(transfer, &quote, order.id, amount);
                // Either may come first.
                let (dust, paid) = tokio::join!(dust, paid);
                dust.and(paid)
            }
            Kind::WrongCurrency => {
                let wrong = units(chain, transfer.mistaken, transfer.size);
                if transfer.coin {
                    self.follow(transfer, &quote, order.id, amount).await?;
                }
                self.pay(transfer, user, (transfer.mistaken, wrong), order.id, false).await
            }
            Kind::VenueIn => {
                if transfer.coin {
                    self.fill_ahead(&order.request).await;
                }
                self.follow(transfer, &quote, order.id, amount).await
            }
            Kind::VenueOut | Kind::VenueOdd => self.withdraw(transfer, &quote).await,
            Kind::OpenAddress | Kind::StrictAddress => self.pay_at_address(transfer, &quote, &order).await,
            Kind::Authorization | Kind::Permit2 => self.sign_permit(transfer, &quote, order).await,
            Kind::UserOperation | Kind::DelegatedBatch => self.sign_call(transfer, &quote, order).await,
            Kind::Orphan => Ok(()),
        }
    }

    /// Pays for a withdrawal on the venue, or nearly.
    async fn withdraw(&self, transfer: &Transfer, quote: &Value) -> Result<()> {
        self.done().paying.entry(transfer.index).or_insert_with(Instant::now);
        let (account, due) = (self.venue.account(transfer.index)?, venue::Order::of(quote)?);
        let (first, second) = match transfer.odd() {
            None => (due, None),
            Some(Odd::Short) => (venue::Order { amount: due.amount / 3, ..due }, None),
            Some(Odd::Twice) => (due, Some(due)),
            Some(Odd::Stray) => (venue::Order { memo: transfer.word, ..due }, None),
        };
        for order in [Some(first), second].into_iter().flatten() {
            self.venue.send(&account, order).await?;
        }
        Ok(())
    }

    /// Pays by plain transfers to an address, as an exchange would.
    async fn pay_at_address(&self, transfer: &Transfer, quote: &Value, order: &Order) -> Result<()> {
        let (at, amount) = (address(quote)?, self.amount(transfer));
        let given = Given {
            label: format!("transfer {} ({:?})", transfer.index, transfer.kind),
            order: order.id,
            chain: transfer.origin,
            destination: transfer.destination,
            from: transfer.from,
            to: transfer.to,
            at,
            strict: transfer.kind == Kind::StrictAddress,
            quoted: amount,
            minimum: order.minimum,
            refund_to: transfer.user.address,
            recipient: transfer.recipient,
            sent: Vec::new(),
        };
        self.done().given.insert(transfer.index, given);
        for (from, what, dust) in arrivals(transfer, amount) {
            let call = match transfer.from {
                "ETH" => (at, what, Bytes::new()),
                token => {
                    let token = self.devnet.chains[transfer.origin].token(token).address;
                    (token, U256::ZERO, calldata::transfer(at, what))
                }
            };
            // Sent again whenever a reorg drops it: the run knows what has to arrive.
            let tx = self.sign(transfer, from, call, false)?;
            if let Some(given) = self.done().given.get_mut(&transfer.index) {
                given.sent.push(Sent { tx, amount: what, dust });
            }
            self.sends.send(tx).await;
            tokio::time::sleep(Duration::from_millis(transfer.choice * 130)).await;
        }
        Ok(())
    }

    fn amount(&self, transfer: &Transfer) -> U256 {
        if transfer.kind.leaves_venue() {
            // Its USDC has six decimals, and sizes are cents.
            return U256::from(transfer.size * 10_000);
        }
        units(&self.devnet.chains[transfer.origin], transfer.from, transfer.size)
    }

    /// Too little to be returned, or just enough.
    fn small(&self, transfer: &Transfer) -> U256 {
        match (transfer.coin, transfer.from) {
            (true, "ETH") => U256::from(CRUMB),
            (true, _) => U256::ONE,
            (false, _) => self.amount(transfer) / U256::from(4),
        }
    }

    async fn fill_ahead(&self, request: &str) {
        let body = json!({ "requestId": request });
        let answer = self.api.persist("/fast-fill", Some(&self.integrator.key), &body).await;
        self.done().ahead += usize::from(answer.is_some_and(|(code, _)| code == 200));
    }

    /// Follows the steps of the quote. The last one is the deposit.
    async fn follow(&self, transfer: &Transfer, quote: &Value, id: B256, amount: U256) -> Result<()> {
        let calls = steps(quote)?;
        let last = calls.len() - 1;
        for (place, call) in calls.into_iter().enumerate() {
            let tx = self.sign(transfer, &transfer.user, call, true)?;
            if place == last {
                let what = (transfer.from, amount);
                self.expect(transfer, &transfer.user, tx, what, id, true);
            }
            self.sends.send(tx).await;
        }
        Ok(())
    }

    /// Pays into the depository without following the steps.
    async fn pay(
        &self,
        transfer: &Transfer,
        from: &Account,
        what: (&str, U256),
        id: B256,
        qualifies: bool,
    ) -> Result<()> {
        let chain = &self.devnet.chains[transfer.origin];
        let (depository, order) = (chain.contracts.depository, OrderId(id));
        let call = match what.0 {
            "ETH" => (depository, what.1, calldata::deposit_native(from.address, order)),
            token => (chain.token(token).address, U256::ZERO, calldata::implicit_deposit(depository, what.1, order)),
        };
        let tx = self.sign(transfer, from, call, true)?;
        self.expect(transfer, from, tx, what, id, qualifies);
        self.sends.send(tx).await;
        Ok(())
    }

    fn sign(&self, transfer: &Transfer, from: &Account, call: Call, optional: bool) -> Result<B256> {
        self.done().paying.entry(transfer.index).or_insert_with(Instant::now);
        self.sends.sign(transfer.origin, from, call, GAS_LIMIT, optional)
    }

    fn expect(&self, transfer: &Transfer, from: &Account, tx: B256, what: (&str, U256), id: B256, qualifies: bool) {
        let currency = currency(&self.devnet.chains[transfer.origin], what.0);
        let worthless = what.1 <= if currency.is_zero() { U256::from(CRUMB) } else { U256::ONE };
        self.done().deposits.push(Deposit {
            transfer: transfer.index,
            chain: transfer.origin,
            tx,
            id,
            depositor: from.address,
            currency,
            amount: what.1,
            qualifies,
            worthless,
        });
    }
}

/// The token address; zero for the native currency.
pub(crate) fn currency(chain: &Chain, symbol: &str) -> Address {
    if symbol == "ETH" { Address::ZERO } else { chain.token(symbol).address }
}

/// An amount of this size, in the smallest units.
pub(crate) fn units(chain: &Chain, symbol: &str, size: u64) -> U256 {
    let exponent = if symbol == "ETH" { 13 } else { chain.token(symbol).decimals - 2 };
    U256::from(size) * U256::from(10u64).pow(U256::from(exponent))
}
