//! Quoting: from memory to a durable promise, with one wait, the commit.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes};
use domain::account::Account;
use domain::catalog::{Chain, Currency};
use domain::ids::{ChainId, OrderId, RequestId};
use domain::money::Amount;
use domain::pricing::{self, Fresh, Rates, Refusal, Side};
use domain::quote::{Ask, CurrencyKey, Quote};
use evm::calldata;
use market::{MarketError, Snapshot};
use store::{QuoteRow, StoreError, requests};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::error::Chained;
use crate::site::Site;
use crate::solver::Solver;

#[derive(Debug, thiserror::Error)]
pub enum QuoteError {
    #[error("{field}: chain {chain} is not supported")]
    UnsupportedChain { field: &'static str, chain: ChainId },
    #[error("{field}: {chain} takes no transfers at the moment")]
    ChainDisabled { field: &'static str, chain: ChainId },
    #[error("originCurrency: not a currency of chain {chain}")]
    InvalidInputCurrency { chain: ChainId },
    #[error("destinationCurrency: not a currency of chain {chain}")]
    InvalidOutputCurrency { chain: ChainId },
    #[error("{field}: this address cannot receive")]
    InvalidRecipient { field: &'static str },
    #[error("{field}: this address is not served")]
    Blocked { field: &'static str },
    #[error("{0}")]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Market(#[from] MarketError),
    #[error("store")]
    Store(#[from] StoreError),
}

/// A quote, and what its user has to send.
#[derive(Clone, Debug)]
pub struct Quoted {
    pub quote: Quote,
    pub order_id: OrderId,
    pub steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    Approve,
    Deposit,
}

/// One transaction of the user's.
#[derive(Clone, Debug)]
pub struct Step {
    pub kind: StepKind,
    pub to: Address,
    pub data: Bytes,
    pub value: Amount,
    pub max_fee: u128,
    pub tip: u128,
}

impl Solver {
    /// A promise: priced, and durable before it is answered.
    pub async fn quote(&self, ask: Ask) -> Result<Quoted, QuoteError> {
        let quoted = self.price(ask)?;
        self.store.write_quote(row(&quoted.quote, quoted.order_id)).await?;
        Ok(quoted)
    }

    /// What a quote would say. Nothing is promised or kept, and nothing is waited for.
    pub fn price(&self, ask: Ask) -> Result<Quoted, QuoteError> {
        let origin = self.side("originChainId", &ask.origin, |chain| QuoteError::InvalidInputCurrency { chain })?;
        let destination =
            self.side("destinationChainId", &ask.destination, |chain| QuoteError::InvalidOutputCurrency { chain })?;
        self.check_receivers(&ask, origin.chain, destination.chain)?;
        self.screen(&ask)?;
        let here = self.market.current(origin.chain.id)?;
        let there = self.market.current(destination.chain.id)?;
        let rates = self.rates(&ask, origin, destination, &here, &there)?;
        let quote = pricing::price(ask, origin, destination, &rates, &self.terms, self.fresh())?;
        let order_id = quote.order().id();
        let steps = steps(&quote, order_id, origin, &here);
        Ok(Quoted { quote, order_id, steps })
    }

    fn side(
        &self,
        field: &'static str,
        key: &CurrencyKey,
        unknown: impl Fn(ChainId) -> QuoteError,
    ) -> Result<Side<'_>, QuoteError> {
        let chain = self.catalog.chain(key.chain).ok_or(QuoteError::UnsupportedChain { field, chain: key.chain })?;
        if self.sites.get(&chain.id).is_some_and(|site| site.refusing().is_some() || self.lags(site)) {
            return Err(QuoteError::ChainDisabled { field, chain: key.chain });
        }
        let currency = chain.currency(&key.address).ok_or_else(|| unknown(key.chain))?;
        Ok(Side { chain, currency })
    }

    /// The walker is too far behind what the market sees: deposits would wait for it.
    fn lags(&self, site: &Site) -> bool {
        const PATIENCE_MILLIS: u64 = 60_000;
        let seen = self.market.latest(site.id()).map_or(0, |snapshot| snapshot.block);
        let behind = seen.saturating_sub(*site.taken.borrow());
        behind > (PATIENCE_MILLIS / site.chain.block_time_millis.max(1)).max(10)
    }

    fn check_receivers(&self, ask: &Ask, origin: &Chain, destination: &Chain) -> Result<(), QuoteError> {
        let refund_to = ask.refund_to.as_ref().map(|who| ("refundTo", who, origin));
        for (field, who, chain) in [("recipient", &ask.recipient, destination)].into_iter().chain(refund_to) {
            let site = self.sites.get(&chain.id);
            if who.evm().is_some_and(|who| site.is_some_and(|site| site.cannot_receive(who))) {
                return Err(QuoteError::InvalidRecipient { field });
            }
        }
        Ok(())
    }

    fn screen(&self, ask: &Ask) -> Result<(), QuoteError> {
        let parties =
            [("user", Some(&ask.user)), ("recipient", Some(&ask.recipient)), ("refundTo", ask.refund_to.as_ref())];
        let blocked =
            |who: Option<&Account>| who.and_then(Account::evm).is_some_and(|who| self.screen.blocked.contains(&who));
        match parties.into_iter().find(|(_, who)| blocked(*who)) {
            Some((field, _)) => Err(QuoteError::Blocked { field }),
            None => Ok(()),
        }
    }

    fn fresh(&self) -> Fresh {
        let (mut id, mut salt, now) = ([0u8; 26], B256::ZERO, self.now());
        (self.outside.random)(&mut id);
        (self.outside.random)(salt.as_mut_slice());
        Fresh { id: RequestId::new(now, id), salt, now }
    }

    fn rates(
        &self,
        ask: &Ask,
        origin: Side<'_>,
        destination: Side<'_>,
        here: &Snapshot,
        there: &Snapshot,
    ) -> Result<Rates, QuoteError> {
        let (paid, gas) = (address(destination.currency), destination.chain.fill_gas);
        let site = self.sites.get(&destination.chain.id);
        let recipient = ask.recipient.evm().filter(|_| destination.currency.native);
        if let (Some(site), Some(recipient)) = (site, recipient) {
            self.recipients.learn(site, recipient);
        }
        let to_wallet = recipient.is_some_and(|who| !self.recipients.is_contract(destination.chain.id, who));
        Ok(Rates {
            origin: here.price(address(origin.currency))?,
            origin_native: here.price(Address::ZERO)?,
            destination: there.price(paid)?,
            destination_native: there.price(Address::ZERO)?,
            origin_gas_price: here.gas_price(),
            fill_cost: there.cost(if to_wallet { gas.native_typical } else { gas.erc20_typical }),
            payable: site.map_or(Amount::ZERO, |site| site.payable(paid, there)),
        })
    }

    /// The solver's word that it stands by an order.
    pub fn order_signature(&self, order: OrderId) -> [u8; 65] {
        self.order_key.sign_order(order)
    }
}

fn address(currency: &Currency) -> Address {
    currency.address.evm().unwrap_or(Address::ZERO)
}

fn row(quote: &Quote, order_id: OrderId) -> QuoteRow {
    const KEPT_AFTER_DEADLINE: Duration = Duration::from_secs(86_400);
    let deadline = domain::time::Timestamp::from_secs(quote.deadline.into());
    QuoteRow {
        request_id: quote.id.0,
        order_id: Some(order_id.0),
        created_at: quote.created_at.millis(),
        expires_at: deadline.plus(KEPT_AFTER_DEADLINE).millis(),
        body: serde_json::to_string(quote).expect("a quote has no map with other keys than text"),
    }
}

/// What the user sends, in order. Whether an allowance is already there is not known without asking a node, so the
/// approval is always listed.
fn steps(quote: &Quote, order: OrderId, origin: Side<'_>, market: &Snapshot) -> Vec<Step> {
    let (token, amount) = (address(origin.currency), quote.figures.input);
    let user = quote.ask.user.evm().unwrap_or(Address::ZERO);
    let depository = origin.chain.depository;
    // Twice the base fee and the tip: the next blocks may be dearer than this one.
    let max_fee = market.base_fee.saturating_mul(2).saturating_add(market.tip);
    let step = |kind, to, data, value| Step { kind, to, data, value, max_fee, tip: market.tip };
    if origin.currency.native {
        return vec![step(StepKind::Deposit, depository, calldata::deposit_native(user, order), amount)];
    }
    if !quote.ask.explicit_deposit {
        let data = calldata::implicit_deposit(depository, amount.units(), order);
        return vec![step(StepKind::Deposit, token, data, Amount::ZERO)];
    }
    let approve =
        |amount: Amount| step(StepKind::Approve, token, calldata::approve(depository, amount.units()), Amount::ZERO);
    let data = calldata::deposit_erc20(user, token, amount.units(), order);
    let deposit = step(StepKind::Deposit, depository, data, Amount::ZERO);
    let reset = origin.currency.resets_allowance.then(|| approve(Amount::ZERO));
    reset.into_iter().chain([approve(amount), deposit]).collect()
}

/// Deletes quotes nobody acted on, in small batches, for as long as the service runs.
pub async fn prune(solver: Arc<Solver>, stop: CancellationToken) {
    let mut pause = Duration::ZERO;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let now = solver.now();
        pause = match solver.store.write(move |tx| requests::prune_quotes(tx, now)).await {
            Ok(true) => Duration::from_millis(50),
            Ok(false) => Duration::from_secs(60),
            Err(error) => {
                warn!(error = %Chained(&error), "old quotes could not be deleted");
                Duration::from_secs(60)
            }
        };
    }
}
