//! Quotes: priced from memory, then made durable. The commit is the only wait, save for fills that are tried on a node
//! first, and for a plain deposit of a user whose code is not known yet.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::venue::VenueError;
use alloy::primitives::{Address, B256, Bytes, U256};
use domain::account::{Account, Vm};
use domain::catalog::{Catalog, Chain, Currency};
use domain::deposit_address::Factory;
use domain::ids::{ChainId, OrderId, RequestId};
use domain::money::{Amount, Price, UsdMicros};
use domain::order::Order;
use domain::pricing::{Fresh, Refusal, Side};
use domain::quote::{Ask, CurrencyKey, End, Party, Quote, RefundTarget};
use domain::sponsorship::{Component, SponsorAsk};
use domain::time::Timestamp;
use evm::{ChainError, LocalSigner};
use market::MarketError;
use store::refused_recipients::Recipient;
use store::{QuoteRow, Saving, StoreError};

use crate::handle::ChainHandle;
use crate::holds::sponsorship::spendable;
use crate::quoting::routes::RouteInputs;
use crate::quoting::sponsor_accounts::SponsorAccounts;
use crate::quoting::steps::{Planner, Step, is_plain_deposit};
use crate::quoting::try_fill::{TriedRecipients, node_failed};
use crate::quoting::user_balances::UserBalances;
use crate::quoting::venue;
use crate::solver::Solver;

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
    #[error("chain {chain} gives out no deposit addresses for this transfer")]
    NoDepositAddresses { chain: ChainId },
    #[error("a deposit address needs a refund recipient where the destination currency is bought")]
    NeedsRefundRecipient,
    #[error("a wallet with code cannot deposit by a plain transfer: ask for an explicit deposit")]
    PlainDepositOfContract,
    #[error("chain {chain} takes no deposits by signature in this currency")]
    NoPermits { chain: ChainId },
    #[error("a gasless transfer on the same chain needs a sponsor: nothing of it pays for its gas")]
    GaslessUnsponsored,
    #[error("the recipient refuses the payment{}", reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default())]
    RecipientRefuses { reason: Option<String> },
    #[error("the recipient refuses the payment: it did a short while ago")]
    RecipientRefused,
    #[error("the calls revert{}", reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default())]
    CallsRevert { reason: Option<String>, data: Bytes, attempt: Box<Attempt> },
    #[error("the fill needs {needed} gas or more, which is more than the caller or we allow")]
    CallsGas { needed: u64 },
    #[error("a node of the chain could not be asked")]
    Node {
        timed_out: bool,
        #[source]
        cause: ChainError,
    },
    #[error("the venue could not be asked")]
    Venue(#[source] VenueError),
    #[error("too many accounts of the venue that are not known were asked about: try again in {secs} seconds")]
    VenueQuota { secs: u64 },
    #[error("calls are not made on the venue")]
    CallsOnVenue,
    #[error("the least is {least}")]
    BelowLeast { least: Bound },
    #[error("{0}")]
    Refused(#[from] Refusal),
    #[error("the amount does not cover its fees of {fees}")]
    TooLow { fees: Bound },
    #[error("the amount is worth less than $0.05, which is {least}")]
    Dust { least: Bound },
    #[error("the amount is higher than the available liquidity of {most}")]
    TooMuch { most: Bound },
    #[error(transparent)]
    Market(#[from] MarketError),
    #[error("store")]
    Store(#[from] StoreError),
}

/// The amount at which an ask would be taken, in the currency that it is counted in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    pub amount: Amount,
    symbol: String,
    decimals: u8,
}

impl Bound {
    pub fn new(amount: Amount, currency: &Currency) -> Self {
        Self { amount, symbol: currency.symbol.clone(), decimals: currency.decimals }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.amount.formatted(self.decimals), self.symbol)
    }
}

/// A transaction that was tried and failed.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub from: Address,
    pub to: Address,
    pub data: Bytes,
    pub value: Amount,
}

/// A quote, and the transactions that its user has to send.
#[derive(Clone, Debug)]
pub struct Quoted {
    pub quote: Quote,
    /// None for a same-chain quote.
    pub order: Option<Order>,
    pub order_id: Option<OrderId>,
    pub steps: Vec<Step>,
    /// The user's balance of the origin currency, if it is known.
    pub balance: Option<Amount>,
    /// The address to pay at, if that was asked for.
    pub deposit_address: Option<Address>,
}

/// Prices transfers from memory and makes promises durable.
#[derive(Clone, Debug)]
pub struct Quoter {
    pub solver: Arc<Solver>,
    pub catalog: Arc<Catalog>,
    /// Signs order ids and nothing else. Present only if this process quotes.
    pub order_key: Option<LocalSigner>,
    pub user_balances: Arc<UserBalances>,
    pub sponsor_accounts: SponsorAccounts,
    pub tried_recipients: Arc<TriedRecipients>,
}

impl Quoter {
    /// Reads the facts that an ask needs before it can be priced from memory alone.
    pub async fn prepare(&self, ask: &mut Ask) -> Result<(), QuoteError> {
        if let Some(sponsor) = &ask.options.sponsor {
            self.sponsor_accounts.learn(&self.solver.store, sponsor.wallet).await?;
        }
        self.learn_accounts(ask).await?;
        ask.options.tried_gas = self.tried_gas(ask).await?;
        self.learn_payer(ask).await
    }

    /// Reads the code of a user who would deposit by a plain transfer, unless it is known.
    async fn learn_payer(&self, ask: &Ask) -> Result<(), QuoteError> {
        let plain =
            !ask.explicit_deposit && ask.options.deposit_address.is_none() && ask.origin.chain != ask.destination.chain;
        let token = ask.origin.address.packed().is_some_and(|token| !token.is_zero());
        let handle = self.solver.chains.get(&ask.origin.chain).filter(|_| plain && token);
        if let (Some(handle), Some(user)) = (handle, ask.user.packed()) {
            let read = self.solver.recipient_code.read(handle, user, &self.solver.store, self.solver.now()).await;
            read.map_err(node_failed)?;
        }
        Ok(())
    }

    /// The id of a plain deposit counts only in a transaction that its payer sent, and a contract sends none: its
    /// deposit would go back.
    fn check_payer(&self, quote: &Quote) -> Result<(), QuoteError> {
        let is_contract = |user| self.solver.recipient_code.is_contract(quote.ask.origin.chain, user);
        match is_plain_deposit(quote) && quote.ask.user.packed().is_some_and(is_contract) {
            true => Err(QuoteError::PlainDepositOfContract),
            false => Ok(()),
        }
    }

    /// Prices an ask and begins to save it. The promise is given only once it is [durable](Saving::durable); the answer
    /// may be written meanwhile.
    pub fn promise(&self, ask: Ask) -> Result<(Quoted, Saving), QuoteError> {
        let quoted = self.price(ask)?;
        let saving = self.solver.store.begin_quote(row(&quoted.quote, quoted.order_id))?;
        Ok((quoted, saving))
    }

    /// The amount that the caller's sponsor can spend. It cannot pay for a same-chain transfer, which has no fill.
    fn spendable(&self, ask: &Ask, stays: bool) -> UsdMicros {
        let sponsor = ask.options.sponsor.as_ref().filter(|_| !stays);
        let account = sponsor.map(|sponsor| self.sponsor_accounts.known(sponsor.wallet).unwrap_or_default());
        account.map_or(UsdMicros(-1), |account| spendable(&account, self.solver.usdc_price()))
    }

    /// A quote from memory alone, without any wait. It is neither promised nor stored.
    pub fn price(&self, mut ask: Ask) -> Result<Quoted, QuoteError> {
        let origin = self.side(End::Origin, &ask.origin)?;
        let destination = self.side(End::Destination, &ask.destination)?;
        self.check_venue(&ask, origin, destination)?;
        self.check_receivers(&ask, origin.chain, destination.chain)?;
        self.screening(&ask)?;
        self.check_refusals(&ask)?;
        let here = self.solver.market.current(origin.chain.id)?;
        let there = self.solver.market.current(destination.chain.id)?;
        let handle = self.solver.chains.get(&origin.chain.id).ok_or(Refusal::NoRoute)?;
        self.learn(&ask, destination);
        let fresh = self.fresh();
        let stays = origin.chain.id == destination.chain.id;
        check_address(&ask, origin, stays)?;
        name_relayer(&mut ask, origin, handle, stays, fresh.id)?;
        let sponsor_available = self.spendable(&ask, stays);
        let inputs = RouteInputs { origin, destination, here: &here, there: &there, sponsor_available };
        let quote = if stays { self.stay(ask, inputs, fresh) } else { self.cross(ask, inputs, fresh) };
        let mut quote = quote.map_err(|error| inputs.or_missing_pools(error, stays))?;
        self.check_payer(&quote)?;
        venue::check_amounts(&quote, origin, destination)?;
        let order = quote.order();
        let order_id = order.as_ref().map(Order::id);
        if let Some(order) = order_id.filter(|_| origin.chain.vm == Vm::Venue) {
            // The memo of a withdrawal is both ids, whichever a client takes it for.
            quote.id = RequestId(order.0);
        }
        if quote.destination_swap.is_some() && quote.refund_target() == RefundTarget::Nobody {
            return Err(QuoteError::NeedsRefundRecipient);
        }
        let deposit_address = order_id.and_then(|order| address_of(&quote, order, origin.chain));
        let planner = Planner {
            recipient_code: &self.solver.recipient_code,
            user_balances: &self.user_balances,
            handle,
            origin,
            destination,
            market: &here,
            deposit_address,
        };
        let plan = planner.plan(&quote, order_id).ok_or_else(|| match quote.ask.options.permit {
            Some(_) => QuoteError::NoPermits { chain: origin.chain.id },
            None => Refusal::NoRoute.into(),
        })?;
        let price = plan.steps.iter().find_map(|step| Some(step.action?.usdc_fee)).map_or(here.gas_price(), u128::from);
        let gas = U256::from(plan.gas).checked_mul(U256::from(price));
        quote.figures.origin_gas = gas.map(Amount::new).ok_or(Refusal::OutOfRange)?;
        Ok(Quoted { quote, order, order_id, steps: plan.steps, balance: plan.balance, deposit_address })
    }

    /// Reads the code of a recipient of native currency: contracts are paid through the router.
    fn learn(&self, ask: &Ask, destination: Side<'_>) {
        let native = destination.currency.native || ask.options.top_up.is_some();
        let handle = self.solver.chains.get(&destination.chain.id).filter(|it| native && it.venue.is_none());
        if let (Some(handle), Some(recipient)) = (handle, ask.recipient.packed()) {
            self.solver.recipient_code.learn(handle, recipient, &self.solver.store, self.solver.now());
        }
    }

    fn side(&self, end: End, key: &CurrencyKey) -> Result<Side<'_>, QuoteError> {
        let chain = self.catalog.chain(key.chain).ok_or(QuoteError::UnsupportedChain { end, chain: key.chain })?;
        if self.solver.chains.get(&chain.id).is_some_and(|handle| handle.refusing().is_some() || self.lags(handle)) {
            return Err(QuoteError::ChainDisabled { end, chain: key.chain });
        }
        let currency = chain.currency(&key.address).ok_or(QuoteError::InvalidCurrency { end, chain: key.chain })?;
        Ok(Side { chain, currency })
    }

    /// True if the walk is too far behind the market's latest block: deposits would wait for it.
    pub fn lags(&self, handle: &ChainHandle) -> bool {
        const MAX_DELAY_MILLIS: u64 = 60_000;
        let seen = self.solver.market.latest(handle.id()).map_or(0, |snapshot| snapshot.block);
        let behind = seen.saturating_sub(*handle.health.taken.borrow());
        behind > (MAX_DELAY_MILLIS / handle.chain.block_time_millis.max(1)).max(10)
    }

    fn check_receivers(&self, ask: &Ask, origin: &Chain, destination: &Chain) -> Result<(), QuoteError> {
        // At a deposit address the user is nobody's wallet, and the native currency's address is whoever has paid.
        let at_address = ask.options.deposit_address.is_some();
        let is_depositor = |who: &&Account| at_address && who.evm().is_some_and(|who| who.is_zero());
        let refund_to = match &ask.refund_to {
            Some(who) => Some((Party::RefundRecipient, who)).filter(|(_, who)| !is_depositor(who)),
            None => Some((Party::User, &ask.user)).filter(|_| !at_address),
        };
        let refund_to = refund_to.map(|(party, who)| (party, who, origin));
        for (party, who, chain) in [(Party::Recipient, &ask.recipient, destination)].into_iter().chain(refund_to) {
            let handle = self.solver.chains.get(&chain.id);
            if who.packed().is_some_and(|who| handle.is_some_and(|handle| handle.cannot_receive(who))) {
                return Err(QuoteError::InvalidRecipient { party });
            }
        }
        Ok(())
    }

    /// A recipient that refused a payment a short while ago is promised nothing: it would cost us gas again.
    fn check_refusals(&self, ask: &Ask) -> Result<(), QuoteError> {
        let (currency, address) = (ask.destination.address.packed(), ask.recipient.packed());
        let (Some(currency), Some(address), true) = (currency, address, ask.origin.chain != ask.destination.chain)
        else {
            return Ok(());
        };
        let recipient = Recipient { chain: ask.destination.chain, currency, address };
        match self.solver.refused_recipients.contains(recipient, &self.solver.store, self.solver.now()) {
            true => Err(QuoteError::RecipientRefused),
            false => Ok(()),
        }
    }

    fn screening(&self, ask: &Ask) -> Result<(), QuoteError> {
        let screening = self.solver.screening.load();
        if let Some((party, _)) = ask.parties().find(|(_, who)| screening.blocks(who.packed())) {
            return Err(QuoteError::Blocked { party });
        }
        match screening.blocks(ask.options.app_fees.iter().map(|fee| fee.recipient)) {
            true => Err(QuoteError::Blocked { party: Party::AppFeeRecipient }),
            false => Ok(()),
        }
    }

    fn fresh(&self) -> Fresh {
        // All bytes are drawn at once: each draw is a call to the operating system.
        let (mut random, now) = ([0u8; 26 + 32], self.solver.now());
        (self.solver.env.random)(&mut random);
        let (mut id, mut salt) = ([0; 26], B256::ZERO);
        id.copy_from_slice(&random[..26]);
        salt.copy_from_slice(&random[26..]);
        Fresh { id: RequestId::new(now, id), salt, now }
    }

    /// The price of the ledger's USDC; one dollar where the market has none.
    pub fn usdc_price(&self) -> Price {
        self.solver.usdc_price()
    }

    /// The solver's signature of an order id: it stands by the order.
    ///
    /// None without the key: this process does not quote.
    pub fn order_signature(&self, order: OrderId) -> Option<[u8; 65]> {
        self.order_key.as_ref().map(|key| key.sign_order(order))
    }
}

/// Names the relayer that alone may send what the user signs.
fn name_relayer(
    ask: &mut Ask,
    origin: Side<'_>,
    handle: &ChainHandle,
    stays: bool,
    id: RequestId,
) -> Result<(), QuoteError> {
    let Some(permit) = &mut ask.options.permit else { return Ok(()) };
    let pays_gas = |sponsor: &SponsorAsk| sponsor.selected().contains(&Component::Execution);
    if stays && !ask.options.sponsor.as_ref().is_some_and(pays_gas) {
        return Err(QuoteError::GaslessUnsponsored);
    }
    let relayers = handle.lanes.permit_relayers();
    // Any byte of the id: quotes spread over the relayers.
    let chosen = relayers.get(usize::from(id.0[31]) % relayers.len().max(1));
    match chosen.filter(|_| !origin.currency.native && origin.chain.vm == Vm::Evm) {
        Some(relayer) => permit.relayer = Some(*relayer),
        None => return Err(QuoteError::NoPermits { chain: origin.chain.id }),
    }
    Ok(())
}

/// A deposit address is paid in a currency that the solver takes as it is, and its order is filled on another chain.
fn check_address(ask: &Ask, origin: Side<'_>, stays: bool) -> Result<(), QuoteError> {
    let chain = origin.chain.id;
    match ask.options.deposit_address {
        None => Ok(()),
        Some(_) if stays || origin.chain.deposit_address_factory.is_none() => {
            Err(QuoteError::NoDepositAddresses { chain })
        }
        Some(_) if !origin.currency.held => Err(QuoteError::InvalidCurrency { end: End::Origin, chain }),
        Some(_) => Ok(()),
    }
}

fn address_of(quote: &Quote, order: OrderId, origin: &Chain) -> Option<Address> {
    // The factory comes last: making one takes a hash, and most quotes have no address.
    let derivation = quote.derivation(order)?;
    Some(Factory::new(origin.deposit_address_factory?).address_of(derivation))
}

pub(crate) fn row(quote: &Quote, order_id: Option<OrderId>) -> QuoteRow {
    const KEPT_AFTER_DEADLINE: Duration = Duration::from_secs(86_400);
    let deadline = quote.terms.as_ref().map(|terms| Timestamp::from_secs(terms.deadline.into()));
    let deadline = deadline.unwrap_or(quote.created_at);
    QuoteRow::new(quote, order_id, deadline.plus(KEPT_AFTER_DEADLINE))
}
