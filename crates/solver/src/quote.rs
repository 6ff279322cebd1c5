//! Quoting: from memory to a durable promise, with one wait, the commit; and one more where the caller's own calls are
//! to be tried first.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes};
use domain::account::Account;
use domain::catalog::{Chain, Currency};
use domain::ids::{ChainId, OrderId, RequestId};
use domain::money::{Amount, UsdMicros};
use domain::order::Order;
use domain::pricing::{Fresh, Refusal, Side, SolverOption};
use domain::quote::{Ask, CurrencyKey, End, Party, Quote};
use domain::revert::Revert;
use domain::time::Timestamp;
use evm::ChainError;
use market::MarketError;
use store::dues::Due;
use store::payments::Purpose;
use store::{QuoteRow, Saving, StoreError, contracts, idempotency, requests};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::chain_handle::ChainHandle;
use crate::error::Chained;
use crate::payment_call::PaymentCall;
use crate::routes::RouteInputs;
use crate::solver::Solver;
use crate::sponsor::spendable;
use crate::steps::{Planner, Step};

#[derive(Debug, thiserror::Error)]
pub enum QuoteError {
    #[error("chain {chain} is not supported")]
    UnsupportedChain { end: End, chain: ChainId },
    #[error("{chain} takes no transfers at the moment")]
    ChainDisabled { end: End, chain: ChainId },
    #[error("not a currency of chain {chain}")]
    InvalidCurrency { end: End, chain: ChainId },
    #[error("this address cannot receive")]
    InvalidRecipient { party: Party },
    #[error("this address is not served")]
    Blocked { party: Party },
    #[error("the currency can only be deposited after a swap, which the caller forbids")]
    OriginSwapsDisabled,
    #[error("chain {chain} has no contract through which tokens could be routed")]
    NoSpendLimiter { chain: ChainId },
    #[error("the calls revert{}", reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default())]
    CallsRevert { reason: Option<String>, data: Bytes, attempt: Box<Attempt> },
    #[error("the fill needs {needed} gas or more, which is more than the caller or we allow")]
    CallsGas { needed: u64 },
    #[error("the destination chain could not be asked")]
    Node {
        timed_out: bool,
        #[source]
        cause: ChainError,
    },
    #[error("{0}")]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Market(#[from] MarketError),
    #[error("store")]
    Store(#[from] StoreError),
}

/// A transaction that was tried and failed.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub from: Address,
    pub to: Address,
    pub data: Bytes,
    pub value: Amount,
}

/// A quote, and what its user has to send.
#[derive(Clone, Debug)]
pub struct Quoted {
    pub quote: Quote,
    /// None for what the user does alone on one chain.
    pub order: Option<Order>,
    pub order_id: Option<OrderId>,
    pub steps: Vec<Step>,
    /// What the user holds of the origin currency, where that is known.
    pub balance: Option<Amount>,
}

/// What the caller's calls may need, as long as they were not tried.
const UNTRIED_CALLS_GAS: u64 = 1_000_000;
/// The most gas a caller's calls may take of a fill.
const MAX_CALLS_GAS: u64 = 3_000_000;

impl Solver {
    /// What has to be known before an ask can be priced from memory alone.
    pub async fn prepare(&self, ask: &mut Ask) -> Result<(), QuoteError> {
        if let Some(sponsor) = &ask.options.sponsor {
            self.balances.learn(&self.store, sponsor.wallet).await?;
        }
        match ask.options.calls.is_empty() {
            true => ask.options.calls_gas = None,
            false => ask.options.calls_gas = Some(self.try_calls(ask).await?),
        }
        Ok(())
    }

    /// A promise: priced, and given only once it is [durable](Saving::durable), which need not be waited for before the
    /// answer is written.
    pub fn promise(&self, ask: Ask) -> Result<(Quoted, Saving), QuoteError> {
        let quoted = self.price(ask)?;
        let saving = self.store.begin_quote(row(&quoted.quote, quoted.order_id))?;
        Ok((quoted, saving))
    }

    /// The time of the newest block of all chains; long ago where none is known.
    fn chain_time(&self) -> Timestamp {
        let times = self.chains.keys().filter_map(|chain| self.market.latest(*chain));
        let newest = times.filter_map(|snapshot| i64::try_from(snapshot.time).ok()).max();
        Timestamp::from_secs(newest.unwrap_or_default())
    }

    /// What the caller's sponsor can spend. What a user does alone it cannot pay for: nothing of ours stands between.
    fn spendable(&self, ask: &Ask, stays: bool) -> UsdMicros {
        let sponsor = ask.options.sponsor.as_ref().filter(|_| !stays);
        let account = sponsor.map(|sponsor| self.balances.known(sponsor.wallet).unwrap_or_default());
        account.map_or(UsdMicros(-1), |account| spendable(&account, self.usdc_price()))
    }

    /// What a quote would say, from memory alone: nothing is waited for. Nothing is promised or kept.
    pub fn price(&self, ask: Ask) -> Result<Quoted, QuoteError> {
        let origin = self.side(End::Origin, &ask.origin)?;
        let destination = self.side(End::Destination, &ask.destination)?;
        self.check_receivers(&ask, origin.chain, destination.chain)?;
        self.screening(&ask)?;
        let here = self.market.current(origin.chain.id)?;
        let there = self.market.current(destination.chain.id)?;
        let handle = self.chains.get(&origin.chain.id).ok_or(Refusal::NoRoute)?;
        self.learn(&ask, destination);
        let stays = origin.chain.id == destination.chain.id;
        let sponsor_available = self.spendable(&ask, stays);
        let inputs = RouteInputs { origin, destination, here: &here, there: &there, sponsor_available };
        let fresh = self.fresh();
        let quote = if stays { self.stay(ask, inputs, fresh) } else { self.cross(ask, inputs, fresh) };
        let quote = quote.map_err(|error| inputs.or_missing_pools(error, stays))?;
        let order = quote.order();
        let order_id = order.as_ref().map(Order::id);
        let planner = Planner { accounts: &self.accounts, handle, origin, destination, market: &here };
        let plan = planner.plan(&quote, order_id).ok_or(Refusal::NoRoute)?;
        Ok(Quoted { quote, order, order_id, steps: plan.steps, balance: plan.balance })
    }

    /// Whether a native recipient is a contract decides how it is paid.
    fn learn(&self, ask: &Ask, destination: Side<'_>) {
        let native = destination.currency.native || ask.options.top_up.is_some();
        let handle = self.chains.get(&destination.chain.id).filter(|_| native);
        if let (Some(handle), Some(recipient)) = (handle, ask.recipient.evm()) {
            self.accounts.learn_code(handle, recipient, &self.store, self.now());
        }
    }

    /// Calls on the destination are tried before they are promised: the one time a quote waits for a node. Says what gas
    /// they need.
    async fn try_calls(&self, ask: &Ask) -> Result<u64, QuoteError> {
        let (limit, mut ask) = (ask.options.calls_gas, ask.clone());
        let most = limit.unwrap_or(MAX_CALLS_GAS).min(MAX_CALLS_GAS);
        let assumed = limit.unwrap_or(UNTRIED_CALLS_GAS).min(most);
        ask.options.calls_gas = Some(assumed);
        let draft = self.price(ask)?;
        let (Some(terms), Some(order)) = (&draft.quote.terms, draft.order_id) else {
            return Err(Refusal::NotOnOneChain(SolverOption::Calls).into());
        };
        let handle = self.chains.get(&terms.payout.chain).ok_or(Refusal::NoRoute)?;
        let due = Due {
            purpose: Purpose::Fill,
            subject: order.0,
            request: draft.quote.id,
            order,
            chain: terms.payout.chain,
            currency: terms.payout.address.evm().unwrap_or_default(),
            recipient: draft.quote.payee(terms).evm().unwrap_or_default(),
            amount: draft.quote.figures.paid,
            since: self.now(),
        };
        let swap = draft.quote.destination_swap.as_ref();
        let call = PaymentCall::of(&due, due.amount, handle, false, Some((&draft.quote, swap)));
        let call = call.ok_or(QuoteError::NoSpendLimiter { chain: terms.payout.chain })?;
        let from = handle.richest(self.market.latest(handle.id()).as_deref());
        let attempt = evm::Attempt {
            from,
            to: call.target,
            value: call.value.units(),
            data: call.data.clone(),
            // With a price: calls that behave when gas is free must not pass.
            max_fee: self.market.latest(handle.id()).map(|snapshot| snapshot.max_fee()),
            // Priced as if they needed little, and tried with all they may have.
            gas: Some(call.gas.saturating_add(most - assumed)),
        };
        let tried = handle.nodes.estimate_gas(attempt).await;
        let needed = tried.map_err(|error| calls_failed(error, from, &call))?;
        if needed > most {
            return Err(QuoteError::CallsGas { needed });
        }
        Ok(needed)
    }

    fn side(&self, end: End, key: &CurrencyKey) -> Result<Side<'_>, QuoteError> {
        let chain = self.catalog.chain(key.chain).ok_or(QuoteError::UnsupportedChain { end, chain: key.chain })?;
        if self.chains.get(&chain.id).is_some_and(|handle| handle.refusing().is_some() || self.lags(handle)) {
            return Err(QuoteError::ChainDisabled { end, chain: key.chain });
        }
        let currency = chain.currency(&key.address).ok_or(QuoteError::InvalidCurrency { end, chain: key.chain })?;
        Ok(Side { chain, currency })
    }

    /// The walker is too far behind what the market sees: deposits would wait for it.
    pub fn lags(&self, handle: &ChainHandle) -> bool {
        const MAX_DELAY_MILLIS: u64 = 60_000;
        let seen = self.market.latest(handle.id()).map_or(0, |snapshot| snapshot.block);
        let behind = seen.saturating_sub(*handle.taken.borrow());
        behind > (MAX_DELAY_MILLIS / handle.chain.block_time_millis.max(1)).max(10)
    }

    fn check_receivers(&self, ask: &Ask, origin: &Chain, destination: &Chain) -> Result<(), QuoteError> {
        let refund_to = ask.refund_to.as_ref().map_or((Party::User, &ask.user), |who| (Party::RefundRecipient, who));
        let receivers = [(Party::Recipient, &ask.recipient, destination), (refund_to.0, refund_to.1, origin)];
        for (party, who, chain) in receivers {
            let handle = self.chains.get(&chain.id);
            if who.evm().is_some_and(|who| handle.is_some_and(|handle| handle.cannot_receive(who))) {
                return Err(QuoteError::InvalidRecipient { party });
            }
        }
        Ok(())
    }

    fn screening(&self, ask: &Ask) -> Result<(), QuoteError> {
        let parties = [
            (Party::User, Some(&ask.user)),
            (Party::Recipient, Some(&ask.recipient)),
            (Party::RefundRecipient, ask.refund_to.as_ref()),
        ];
        let screening = self.screening.load();
        let blocked =
            |who: Option<&Account>| who.and_then(Account::evm).is_some_and(|who| screening.blocked.contains(&who));
        if let Some((party, _)) = parties.into_iter().find(|(_, who)| blocked(*who)) {
            return Err(QuoteError::Blocked { party });
        }
        match ask.options.app_fees.iter().any(|fee| screening.blocked.contains(&fee.recipient)) {
            true => Err(QuoteError::Blocked { party: Party::AppFeeRecipient }),
            false => Ok(()),
        }
    }

    fn fresh(&self) -> Fresh {
        // Drawn at once: asking for randomness is a call to the operating system.
        let (mut random, now) = ([0u8; 26 + 32], self.now());
        (self.env.random)(&mut random);
        let (mut id, mut salt) = ([0; 26], B256::ZERO);
        id.copy_from_slice(&random[..26]);
        salt.copy_from_slice(&random[26..]);
        Fresh { id: RequestId::new(now, id), salt, now }
    }

    /// The solver's word that it stands by an order.
    ///
    /// None where the key is not: this process does not quote.
    pub fn order_signature(&self, order: OrderId) -> Option<[u8; 65]> {
        self.order_key.as_ref().map(|key| key.sign_order(order))
    }
}

pub(crate) fn address(currency: &Currency) -> Address {
    currency.address.evm().unwrap_or(Address::ZERO)
}

fn row(quote: &Quote, order_id: Option<OrderId>) -> QuoteRow {
    const KEPT_AFTER_DEADLINE: Duration = Duration::from_secs(86_400);
    let deadline = quote.terms.as_ref().map(|terms| Timestamp::from_secs(terms.deadline.into()));
    let deadline = deadline.unwrap_or(quote.created_at);
    QuoteRow::new(quote, order_id, deadline.plus(KEPT_AFTER_DEADLINE))
}

/// A node that cannot be asked is not the calls' fault.
fn calls_failed(error: ChainError, from: Address, call: &PaymentCall) -> QuoteError {
    let attempt = Box::new(Attempt { from, to: call.target, data: call.data.clone(), value: call.value });
    match error.refusal() {
        Some(evm::Refusal::Reverted(data)) => {
            let reason = Some(evm::revert::decode(data)).filter(|revert| *revert != Revert::Silent);
            let (reason, data) = (reason.map(|revert| revert.to_string()), data.clone());
            QuoteError::CallsRevert { reason, data, attempt }
        }
        Some(evm::Refusal::OutOfGas) => QuoteError::CallsGas { needed: call.gas },
        _ => QuoteError::Node { timed_out: matches!(error, ChainError::Timeout { .. }), cause: error },
    }
}

/// Longer than any quote is.
const CONTRACTS_KEPT_MILLIS: i64 = 30 * 86_400_000;

/// How far our clock is believed to be ahead of the newest block.
const AHEAD_OF_CHAINS: Duration = Duration::from_secs(3_600);

/// How long an answer is kept under the name its caller gave the call.
const ANSWERS_KEPT_MILLIS: i64 = 24 * 3_600_000;

/// Deletes quotes nobody acted on, and answers kept long enough, in small batches, for as long as the service runs.
pub async fn prune(solver: Arc<Solver>, stop: CancellationToken) {
    let mut pause = Duration::ZERO;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let now = solver.now();
        // A promise is kept until the chains say that it has ended, however far ahead our own clock is.
        let expired = solver.chain_time().plus(AHEAD_OF_CHAINS).min(now);
        let forgotten = Timestamp::from_millis(now.millis().saturating_sub(CONTRACTS_KEPT_MILLIS));
        let kept_since = Timestamp::from_millis(now.millis().saturating_sub(ANSWERS_KEPT_MILLIS));
        let unit = move |tx: &mut store::Tx<'_>| {
            contracts::prune(tx, forgotten)?;
            let more = idempotency::prune(tx, kept_since)?;
            Ok::<_, StoreError>(requests::prune_quotes(tx, expired)? || more)
        };
        pause = match solver.store.write(unit).await {
            Ok(true) => Duration::from_millis(50),
            Ok(false) => Duration::from_secs(60),
            Err(error) => {
                warn!(error = %Chained(&error), "old quotes could not be deleted");
                Duration::from_secs(60)
            }
        };
    }
}
