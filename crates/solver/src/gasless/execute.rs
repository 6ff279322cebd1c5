//! Raw calls: a paid relay of a call that a smart account has signed for, ERC-4337 or EIP-7702.
//!
//! The call runs as whoever its own signatures say; the relayer adds gas and nothing else. It is simulated first. With
//! the request of a quote it has to bring that quote's deposit; without one its gas is charged to the caller's app
//! balance.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, Bytes, keccak256};
use domain::account::Account;
use domain::api_key::ApiKeyId;
use domain::fees::Fees;
use domain::ids::{ChainId, RequestId};
use domain::money::Amount;
use domain::quote::{Ask, CurrencyKey, Figures, Operation, Prices, Quote, QuoteOptions, Trade};
use domain::request::State;
use domain::revert::Revert;
use domain::time::Timestamp;
use evm::simulate::{has_deposit, has_failed_operation};
use evm::{ChainError, Refusal, SignedAuthorization, Simulated, Simulation};
use market::Market;
use store::payments::PaymentRow;
use store::relays::Relay;
use store::requests::Request;
use store::{StoreError, Tx, relays, requests};

use crate::context::PayContext;
use crate::error::SolverError;
use crate::gasless::permits::{self, PermitError};
use crate::gasless::relay::{self, order_of};
use crate::handle::ChainHandle;
use crate::payments::gas;
use crate::quoting::quote::row;
use crate::solver::Solver;

/// The most gas of one call.
const MAX_GAS: u64 = 3_000_000;
/// Time within which a call has to be mined.
const VALIDITY: Duration = Duration::from_secs(300);
/// Calls of one key that may fail at our cost within the time for which a failure counts.
const MAX_VOIDS_OF_KEY: u64 = 5;
/// The same of all keys on a chain.
const MAX_VOID_CALLS: u64 = 20;
/// Calls of one key at our cost that no block has: the same balance may stand behind all of them.
const MAX_LIVE_OF_KEY: u64 = 8;

/// A call as it is asked for.
#[derive(Clone, Debug)]
pub struct Wish {
    pub chain: ChainId,
    pub to: Address,
    pub data: Bytes,
    pub authorizations: Vec<SignedAuthorization>,
    /// The request whose deposit the call brings.
    pub request: Option<RequestId>,
    pub key: ApiKeyId,
    /// The wallet whose app balance pays for the gas.
    pub payer: Option<Address>,
    pub referrer: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    #[error("chain {0} takes no calls")]
    UnsupportedChain(ChainId),
    #[error("calls of our own contracts and wallets are not relayed")]
    Target,
    #[error("the quote is for chain {0}")]
    OtherChain(ChainId),
    #[error("the call makes no deposit of the quoted amount under the quote's order")]
    NoDeposit,
    #[error("neither the quote nor a sponsor pays for the gas")]
    Unpaid,
    #[error("the call fails: {revert}")]
    Reverts { revert: Revert, data: Bytes },
    #[error("an operation inside the call fails")]
    OperationFails,
    #[error("the call takes {needed} gas, and at most {most} are relayed")]
    TooMuchGas { needed: u64, most: u64 },
    #[error("its bytes and authorizations alone take more gas than the {most} that are relayed")]
    TooLong { most: u64 },
    #[error("the chain does not take them")]
    Authorizations,
    #[error("{0}")]
    Permit(#[from] PermitError),
}

impl From<StoreError> for ExecuteError {
    fn from(error: StoreError) -> Self {
        Self::Permit(error.into())
    }
}

impl From<SolverError> for ExecuteError {
    fn from(error: SolverError) -> Self {
        Self::Permit(error.into())
    }
}

impl From<ChainError> for ExecuteError {
    fn from(error: ChainError) -> Self {
        Self::Permit(error.into())
    }
}

/// Raw calls as integrators ask for them.
#[derive(Clone, Debug)]
pub struct Executions(pub Arc<Solver>);

impl Executions {
    /// Simulates a call and sends it. Not to be called in a future that a caller may drop: a committed payment has to
    /// be handed to its lane.
    pub async fn execute(self, wish: Wish) -> Result<RequestId, ExecuteError> {
        let solver = &self.0;
        let handle = solver.chains.get(&wish.chain).filter(|handle| handle.venue.is_none());
        let handle = handle.ok_or(ExecuteError::UnsupportedChain(wish.chain))?;
        if handle.cannot_receive(wish.to) {
            return Err(ExecuteError::Target);
        }
        let quoted = match wish.request {
            Some(id) => Some(self.quoted(id, &wish).await?),
            None => None,
        };
        let payer = payer(quoted.as_ref(), &wish)?;
        let mut random = [0u8; 26];
        (solver.env.random)(&mut random);
        let relayers = handle.lanes.call_relayers();
        let relayer = relayers.get(usize::from(random[0]) % relayers.len().max(1));
        let relayer = *relayer.ok_or(ExecuteError::UnsupportedChain(wish.chain))?;
        let gas = simulate(handle, &wish, relayer, quoted.as_ref(), &solver.market).await?;
        let now = solver.now();
        let id = quoted.as_ref().map_or_else(|| RequestId::new(now, random), |request| request.id);
        // By the chain's clock, which also says when its time is over.
        let deadline = solver.context().chain_time(wish.chain).plus(VALIDITY);
        let relay = Relay { charged: payer.is_some(), ..relay_of(&wish, id, relayer, gas, quoted.as_ref(), deadline)? };
        let opened = match quoted {
            Some(_) => None,
            None => Some(unquoted(&wish, id, gas, handle, solver)?),
        };
        let unit = move |tx: &mut Tx<'_>, context: &PayContext| begin(tx, &relay, opened.as_ref(), payer, context);
        let paid = solver.decide(unit).await?;
        relay::hand_over(solver, paid).await;
        Ok(id)
    }

    /// The request of a quote that waits for its deposit.
    async fn quoted(&self, id: RequestId, wish: &Wish) -> Result<Request, ExecuteError> {
        let found = self.0.store.read(move |tx| requests::find(tx, id)).await?;
        // A request of another key is not this caller's to act on.
        let theirs = |request: &Request| request.quote.ask.key.is_none_or(|key| key == wish.key);
        let found = found.filter(|request| request.parent.is_none() && theirs(request));
        let request = found.ok_or(PermitError::NotFound)?;
        let origin = request.quote.ask.origin.chain;
        if origin != wish.chain {
            return Err(ExecuteError::OtherChain(origin));
        }
        match request.state {
            State::Waiting if request.quote.ask.options.deposit_address.is_some() => Err(ExecuteError::NoDeposit),
            State::Waiting if request.quote.terms.is_some() => Ok(request),
            State::Waiting => Err(ExecuteError::NoDeposit),
            _ => Err(PermitError::InFlight.into()),
        }
    }
}

/// The wallet that pays for the gas; none where the quote's own fees do.
fn payer(quoted: Option<&Request>, wish: &Wish) -> Result<Option<Address>, ExecuteError> {
    let charged = quoted.is_some_and(|request| request.quote.ask.options.relayed_gas.is_some());
    match (charged, wish.payer) {
        (true, _) => Ok(None),
        (false, Some(wallet)) => Ok(Some(wallet)),
        (false, None) => Err(ExecuteError::Unpaid),
    }
}

/// The gas limit of a call that was just simulated, and did what it is for.
async fn simulate(
    handle: &ChainHandle,
    wish: &Wish,
    relayer: Address,
    quoted: Option<&Request>,
    market: &Market,
) -> Result<u64, ExecuteError> {
    let most = quoted.map_or(MAX_GAS, |request| match request.quote.ask.options.relayed_gas {
        Some(overhead) => gas::relay_limit(request.quote.origin_swap.is_some()).saturating_add(overhead).min(MAX_GAS),
        None => MAX_GAS,
    });
    let least = gas::least(&wish.data, wish.authorizations.len());
    if least > most {
        return Err(ExecuteError::TooLong { most });
    }
    let price = market.latest(handle.id()).ok_or(PermitError::NotNow)?;
    let with = |gas: u64| Simulation {
        from: relayer,
        base_fee: price.base_fee,
        max_fee: price.max_fee(),
        to: wish.to,
        data: wish.data.clone(),
        gas,
        authorizations: wish.authorizations.clone(),
    };
    let (used, logs) = match handle.nodes.simulated(&with(most)).await {
        Ok(Simulated::Succeeds { gas_used, logs }) => (gas_used, logs),
        Ok(Simulated::Reverts { revert, data }) => return Err(ExecuteError::Reverts { revert, data }),
        Err(error) => return Err(refused(error, most)),
    };
    if has_failed_operation(&logs) {
        return Err(ExecuteError::OperationFails);
    }
    if let Some((request, terms)) = quoted.and_then(|request| Some((request, request.quote.terms.as_ref()?))) {
        let currency = terms.deposit.address.packed().unwrap_or_default();
        let least = request.quote.figures.deposit.units();
        if !has_deposit(&logs, handle.chain.depository, currency, least, request.order_id.0) {
            return Err(ExecuteError::NoDeposit);
        }
    }
    let needed = needed_gas(used, least, most)?;
    // An entry point wants as much as its operations may take, however much they do.
    let enough = match handle.nodes.simulated(&with(needed)).await? {
        Simulated::Succeeds { logs, .. } => !has_failed_operation(&logs),
        Simulated::Reverts { .. } => false,
    };
    Ok(if enough { needed } else { most })
}

/// The gas limit of a call that took so much when it was simulated. Calls keep a part of the gas back from those that
/// they make, and storage may change until it is mined.
fn needed_gas(used: u64, least: u64, most: u64) -> Result<u64, ExecuteError> {
    let needed = used.saturating_add(used / 2).saturating_add(30_000).max(least);
    if needed > most { Err(ExecuteError::TooMuchGas { needed, most }) } else { Ok(needed) }
}

/// The refusal of a node to simulate a call. Some chains ask more gas for bytes than others.
fn refused(error: ChainError, most: u64) -> ExecuteError {
    match error.refusal() {
        Some(Refusal::GasTooLow) => ExecuteError::TooLong { most },
        Some(Refusal::Authorizations) => ExecuteError::Authorizations,
        _ => error.into(),
    }
}

fn relay_of(
    wish: &Wish,
    id: RequestId,
    relayer: Address,
    gas: u64,
    quoted: Option<&Request>,
    deadline: Timestamp,
) -> Result<Relay, ExecuteError> {
    let authorizations = match wish.authorizations.is_empty() {
        true => Vec::new(),
        false => serde_json::to_vec(&wish.authorizations)
            .map_err(|_| SolverError::InvariantViolated("authorizations that cannot be written"))?,
    };
    Ok(Relay {
        request: id,
        chain: wish.chain,
        account: account(wish, quoted),
        relayer,
        target: wish.to,
        data: wish.data.clone(),
        authorizations: authorizations.into(),
        gas,
        key: Some(wish.key),
        charged: false,
        deadline,
    })
}

/// The account behind a call, as this caller names it: entry points are everybody's, and a caller that names somebody
/// else must not stand in that one's way.
fn account(wish: &Wish, quoted: Option<&Request>) -> Address {
    let user = quoted.and_then(|request| request.quote.ask.user.packed()).unwrap_or(wish.to);
    Address::from_word(keccak256([wish.key.to_string().as_bytes(), user.as_slice()].concat()))
}

/// The quote of a call that nobody was quoted: it moves nothing, and its gas is charged beside it.
fn unquoted(
    wish: &Wish,
    id: RequestId,
    gas: u64,
    handle: &ChainHandle,
    solver: &Solver,
) -> Result<Quote, ExecuteError> {
    let snapshot = solver.market.latest(handle.id()).ok_or(PermitError::NotNow)?;
    let native = snapshot.price(Address::ZERO).map_err(|_| PermitError::NotNow)?;
    let place = CurrencyKey { chain: handle.id(), address: Address::ZERO.into() };
    let account = Account::from(wish.to);
    let ask = Ask {
        user: account.clone(),
        recipient: account,
        refund_to: None,
        origin: place.clone(),
        destination: place,
        trade: Trade::ExactInput,
        amount: Amount::ZERO,
        slippage_bps: None,
        referrer: wish.referrer.clone(),
        explicit_deposit: true,
        ttl_secs: None,
        key: Some(wish.key),
        options: QuoteOptions { relayed_gas: Some(gas), ..QuoteOptions::default() },
    };
    let figures = Figures {
        operation: Operation::Send,
        input: Amount::ZERO,
        deposit: Amount::ZERO,
        exchanged: Amount::ZERO,
        paid: Amount::ZERO,
        output: Amount::ZERO,
        minimum: Amount::ZERO,
        fees: Fees::default(),
        top_up: None,
        sponsorship: None,
        fixed: None,
        origin_gas: Amount::ZERO,
        slippage_bps: 0,
        prices: Prices {
            origin: native,
            deposit: native,
            origin_native: native,
            payout: native,
            destination: native,
            destination_native: native,
        },
        time_estimate_secs: 0,
    };
    Ok(Quote { id, ask, figures, created_at: solver.now(), origin_swap: None, destination_swap: None, terms: None })
}

fn begin(
    tx: &mut Tx<'_>,
    relay: &Relay,
    opened: Option<&Quote>,
    payer: Option<Address>,
    context: &PayContext,
) -> Result<Option<PaymentRow>, ExecuteError> {
    let mut request = match opened {
        Some(quote) => requests::open(tx, &row(quote, None))?.ok_or(PermitError::NotFound)?,
        None => {
            let found = requests::find(tx, relay.request)?.ok_or(PermitError::NotFound)?;
            requests::lock_order(tx, order_of(&found))?.ok_or(PermitError::NotFound)?
        }
    };
    if request.state != State::Waiting {
        return Err(PermitError::InFlight.into());
    }
    let parties = request.quote.ask.parties().filter_map(|(_, who)| who.packed());
    if context.screening.blocks(parties.chain([relay.account])) {
        return Err(PermitError::Blocked.into());
    }
    let cost = permits::cost(relay, context)?;
    let payer = match payer {
        Some(wallet) => Some((wallet, cost)),
        None => {
            permits::is_rested(tx, relay, context)?;
            is_welcome(tx, relay, context)?;
            let terms = request.quote.terms.as_ref().ok_or(PermitError::NotAsked)?;
            permits::is_affordable(&request.quote, terms, relay.chain, cost, context)?;
            None
        }
    };
    Ok(relay::begin(tx, &mut request, relay, payer, context).map_err(PermitError::from)?)
}

/// Refuses a call at our cost of a key that has too many under way, or of which too many have failed.
fn is_welcome(tx: &mut Tx<'_>, relay: &Relay, context: &PayContext) -> Result<(), PermitError> {
    let (Some(key), Some((handle, _))) = (relay.key, context.on(relay.chain)) else { return Err(PermitError::NotNow) };
    let since = permits::since(context.now);
    // Keys cost nothing: a caller with many of them is stopped here.
    let (_, calls) = relays::voids_on_since(tx, relay.chain, handle.chain.approval_proxy, since)?;
    if calls >= MAX_VOID_CALLS {
        return Err(permits::stopped(relay, "raw calls", context));
    }
    let (voids, live) = relays::calls_of_key(tx, relay.chain, handle.chain.approval_proxy, key, since)?;
    if voids >= MAX_VOIDS_OF_KEY {
        return Err(PermitError::Paused);
    }
    if live >= MAX_LIVE_OF_KEY { Err(PermitError::Busy) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_takes_more_gas_than_is_relayed_is_refused() {
        assert!(matches!(needed_gas(100_000, 21_000, MAX_GAS), Ok(180_000)));
        assert!(matches!(needed_gas(1_000, 90_000, MAX_GAS), Ok(90_000)), "its bytes alone take that");
        assert!(matches!(needed_gas(1_980_000, 21_000, MAX_GAS), Ok(MAX_GAS)));
        for (used, most) in [(1_980_001, MAX_GAS), (200_000, 300_000), (u64::MAX, MAX_GAS)] {
            let refused = needed_gas(used, 21_000, most);
            assert!(matches!(refused, Err(ExecuteError::TooMuchGas { most: told, .. }) if told == most), "{used}");
        }
    }

    #[test]
    fn the_longest_call_is_relayed_without_a_quote_alone() {
        assert!(gas::least(&[1; 32 * 1024], 4) < MAX_GAS, "the longest call fits without a quote");
        assert!(gas::least(&[1; 32 * 1024], 0) > gas::relay_limit(false), "and not in the gas of a deposit");
    }
}
