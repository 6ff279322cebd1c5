//! A quote: what was asked, what it costs and what arrives, and the order that follows from it.
//!
//! How the figures come about is in `pricing`; how a quote is stored, in `store`.

use alloy_primitives::{Address, B256, Bytes, U256};

use crate::account::Account;
use crate::api_key::ApiKeyId;
use crate::catalog::{Chain, Currency};
use crate::deposit_address::{AddressAsk, Derivation, Kind, Route};
use crate::fees::{AppFee, Fees};
use crate::fixed_rate::{Fixed, FixedRate};
use crate::ids::{ChainId, OrderId, RequestId};
use crate::money::{Amount, OutOfRange, Price, UsdMicros};
use crate::order::{self, Input, Order, Output, Payment, Refund};
use crate::sponsorship::{SponsorAsk, Sponsorship};
use crate::swap::Path;
use crate::time::Timestamp;
use crate::venue;

/// A currency by its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrencyKey {
    pub chain: ChainId,
    pub address: Account,
}

/// One end of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Origin,
    Destination,
}

/// Somebody a quote names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    User,
    Recipient,
    RefundRecipient,
    AppFeeRecipient,
}

/// The side of the transfer that the caller fixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trade {
    /// The amount is paid in; what arrives follows.
    ExactInput,
    /// The amount arrives, or nothing does.
    ExactOutput,
    /// The amount should arrive, within the slippage.
    ExpectedOutput,
}

/// The caller's request for a quote, checked for form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub user: Account,
    pub recipient: Account,
    pub refund_to: Option<Account>,
    pub origin: CurrencyKey,
    pub destination: CurrencyKey,
    pub trade: Trade,
    /// Of the side that is fixed.
    pub amount: Amount,
    pub slippage_bps: Option<u16>,
    pub referrer: Option<String>,
    pub explicit_deposit: bool,
    pub ttl_secs: Option<u32>,
    /// Whose key it was asked with.
    pub key: Option<ApiKeyId>,
    pub options: QuoteOptions,
}

impl Ask {
    /// Those whom the caller names: they are screened at the quote, and again when it is paid.
    pub fn parties(&self) -> impl Iterator<Item = (Party, &Account)> {
        let refund_to = self.refund_to.as_ref().map(|who| (Party::RefundRecipient, who));
        [(Party::User, &self.user), (Party::Recipient, &self.recipient)].into_iter().chain(refund_to)
    }
}

/// Options that few callers ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuoteOptions {
    pub app_fees: Vec<AppFee>,
    /// Worth of native currency to deliver beside the output.
    pub top_up: Option<UsdMicros>,
    /// The calls on the destination that spend the output.
    pub calls: Vec<Call>,
    /// Gas that the whole fill took when it was tried: with calls, and with native currency to a contract. The most
    /// that the caller allows, until it is tried.
    pub tried_gas: Option<u64>,
    /// The rest of a trade for an exact output stays with the solver, not with the recipient.
    pub true_exact_output: bool,
    pub no_origin_swap: bool,
    pub any_impact: bool,
    pub sponsor: Option<SponsorAsk>,
    pub fixed_rate: Option<FixedRate>,
    /// The deposit is to go back instead of being filled, and the key it was asked with may say so.
    pub force_refund: bool,
    /// The deposit is a plain transfer to an address of its own.
    pub deposit_address: Option<AddressAsk>,
    /// The user signs instead of sending a transaction.
    pub permit: Option<PermitAsk>,
    /// Gas of a transaction that one of our relayers is to send for the user's smart account.
    pub relayed_gas: Option<u64>,
}

/// A deposit by the user's signature, which one of our relayers sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitAsk {
    /// Time for which the signature is good, from the quote on.
    pub valid_secs: u32,
    /// The relayer that the signature names. None until it is chosen.
    pub relayer: Option<Address>,
}

impl QuoteOptions {
    /// True if the deposit is made at an address for one exact order.
    pub fn is_strict(&self) -> bool {
        self.deposit_address.is_some_and(|ask| ask.kind == Kind::Strict)
    }
}

/// The referrer that asks for a refund instead of a fill.
pub const FORCE_REFUND: &str = "debug-force-refund";

/// A call on the destination, made by the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub to: Address,
    pub value: Amount,
    pub data: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The same asset on another chain.
    Bridge,
    Swap,
    Wrap,
    Unwrap,
    /// The same currency on the same chain, to somebody else.
    Send,
}

/// A trade on one chain's pools that is part of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    pub path: Path,
    pub input: Amount,
    pub output: Amount,
    pub bound: Bound,
}

/// Which side of a trade is fixed, and how far the other may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// All of the input is sold, for at least this.
    LeastOutput(Amount),
    /// All of the output is bought, for at most this.
    MostInput(Amount),
}

impl Swap {
    /// The funds the trade needs: the input, or the most it may turn out to be.
    pub fn funds(&self) -> Amount {
        match self.bound {
            Bound::LeastOutput(_) => self.input,
            Bound::MostInput(most) => most,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    pub operation: Operation,
    /// The user's payment, in the origin currency.
    pub input: Amount,
    /// The amount that reaches the depository, in the deposit currency, which is also the currency of fees.
    pub deposit: Amount,
    /// The part of it that is exchanged: the deposit and the sponsor's addition, less the fees.
    pub exchanged: Amount,
    /// The solver's spending on the destination, in the payout currency.
    pub paid: Amount,
    /// The amount that arrives, in the destination currency.
    pub output: Amount,
    /// The least that may arrive.
    pub minimum: Amount,
    pub fees: Fees,
    /// Native currency that is delivered beside the output.
    pub top_up: Option<Amount>,
    pub sponsorship: Option<Sponsorship>,
    pub fixed: Option<Fixed>,
    /// The gas of the user's own transactions on the origin, in its native currency; zero until they are planned.
    /// Outside every other figure.
    pub origin_gas: Amount,
    pub slippage_bps: u16,
    pub prices: Prices,
    pub time_estimate_secs: u32,
}

impl Figures {
    /// Counts among a sponsored quote's fees what the user loses beyond them: the difference in worth between what is
    /// paid in and what arrives.
    pub(crate) fn count_loss(
        &mut self,
        origin: &Currency,
        deposit: &Currency,
        destination: &Currency,
    ) -> Result<(), OutOfRange> {
        let Some(sponsorship) = &mut self.sponsorship else { return Ok(()) };
        let paid = self.prices.origin.usd_floor(self.input, origin.decimals)?;
        let arrives = self.prices.destination.usd_floor(self.output, destination.decimals)?;
        sponsorship.count_loss(paid.checked_sub(arrives)?, self.prices.deposit, deposit.decimals)
    }
}

/// The prices at the time of the quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prices {
    pub origin: Price,
    pub deposit: Price,
    pub origin_native: Price,
    pub payout: Price,
    pub destination: Price,
    pub destination_native: Price,
}

/// The terms that bind a transfer through the depository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderTerms {
    /// Unix seconds; the order's deadline.
    pub deadline: u32,
    pub salt: B256,
    pub solver: Address,
    pub solver_chain: String,
    pub origin_chain: String,
    pub destination_chain: String,
    /// The contracts whose events count as evidence, one on each chain.
    pub origin_router: Address,
    pub destination_router: Address,
    /// The currency that reaches the depository: the origin's, or the one that the user's swap buys.
    pub deposit: CurrencyKey,
    /// The currency that the solver pays out: the destination's, or the one it swaps for it.
    pub payout: CurrencyKey,
    /// The two are different assets: the rate is ours, and only stands for the quoted amount and time.
    pub exchange: bool,
}

/// A priced promise, with all that is needed to rebuild its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quote {
    pub id: RequestId,
    pub ask: Ask,
    pub figures: Figures,
    pub created_at: Timestamp,
    /// The user's own trade, before the deposit or instead of one.
    pub origin_swap: Option<Swap>,
    /// The solver's trade, as part of the fill.
    pub destination_swap: Option<Swap>,
    /// None for a same-chain request.
    pub terms: Option<OrderTerms>,
}

/// Where a deposit goes back to when it cannot be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefundTarget<'a> {
    Named(&'a Account),
    /// Whom the deposit names: the sender of the transfer, where that is known.
    Depositor,
    /// Nobody: the caller named nobody, and the wallet that pays is not the user's.
    Nobody,
}

impl Quote {
    /// Where the deposit goes back to. The native currency's address stands for whoever has paid, at a deposit address.
    pub fn refund_target(&self) -> RefundTarget<'_> {
        match (&self.ask.refund_to, self.ask.options.deposit_address) {
            (Some(who), Some(_)) if who.evm().is_some_and(|who| who.is_zero()) => RefundTarget::Depositor,
            (Some(who), _) => RefundTarget::Named(who),
            (None, None) => RefundTarget::Named(&self.ask.user),
            (None, Some(_)) => RefundTarget::Nobody,
        }
    }

    /// The derivation of the address to pay at. None where the quote has no address, or no order.
    ///
    /// A strict address whose deposits go back to whoever has paid is swept by operators: nobody is known whom its salt
    /// could name. The number of a route is taken from its order, so that every quote has an address of its own:
    /// options differ between quotes, and what arrives must be priced by those of whoever gave the address out.
    pub fn derivation(&self, order: OrderId) -> Option<Derivation> {
        let (asked, terms) = (self.ask.options.deposit_address?, self.terms.as_ref()?);
        if let (Kind::Strict, RefundTarget::Named(depositor)) = (asked.kind, self.refund_target()) {
            return Some(Derivation::Strict { order, depositor: depositor.evm()? });
        }
        let key = self.ask.key.map(|key| key.to_string()).unwrap_or_default();
        let mut counter = [0; 8];
        counter.copy_from_slice(&order.as_slice()[..8]);
        let route = Route {
            destination: &terms.destination_chain,
            currency: &self.ask.destination.address,
            recipient: &self.ask.recipient,
            refund_to: self.ask.refund_to.as_ref().and_then(Account::evm),
            integrator: &key,
            counter: u64::from_be_bytes(counter),
        };
        Some(Derivation::Open(route.key()))
    }

    /// Who is paid on the destination: the recipient, or the router that makes the caller's calls.
    pub fn payee(&self, terms: &OrderTerms) -> Account {
        if self.ask.options.calls.is_empty() { self.ask.recipient.clone() } else { terms.destination_router.into() }
    }

    /// The worth of a deposit at the price it was quoted with. An amount without such a price is worth the most there
    /// is.
    pub fn deposit_worth(&self, chain: &Chain, currency: Address, amount: Amount) -> UsdMicros {
        let quoted = self.terms.as_ref().is_some_and(|terms| terms.deposit.address.packed() == Some(currency));
        let token = chain.token(currency).filter(|_| quoted);
        let worth = token.and_then(|token| self.figures.prices.deposit.usd_floor(amount, token.decimals).ok());
        worth.unwrap_or(UsdMicros(i64::MAX))
    }

    /// The order that the solver commits to. None where the user needs no solver.
    pub fn order(&self) -> Option<Order> {
        let terms = self.terms.as_ref()?;
        let refund = |chain: &str, recipient: &Account, currency: &Account, router| Refund {
            chain: chain.to_owned(),
            recipient: recipient.clone(),
            currency: currency.clone(),
            // Gas is deducted from refunds, so no floor can be promised.
            minimum: Amount::ZERO,
            deadline: terms.deadline,
            extra_data: order::fill_contract_data(router),
        };
        // Zero is the depositor that the deposit names.
        let nobody = Account::from(Address::ZERO);
        let back_to = match self.refund_target() {
            RefundTarget::Named(who) => who,
            RefundTarget::Depositor | RefundTarget::Nobody => &nobody,
        };
        let deposited = &terms.deposit.address;
        let on_origin = refund(&terms.origin_chain, back_to, deposited, terms.origin_router);
        // Whoever is refunded on the venue has an account there: the recipient of a deposit into it. A withdrawal is
        // refunded on the venue alone, because its user has no address elsewhere.
        let named = if self.ask.destination.chain == venue::CHAIN { &self.ask.recipient } else { back_to };
        let on_destination = (terms.deposit.chain != venue::CHAIN)
            .then(|| refund(&terms.destination_chain, named, &self.ask.destination.address, terms.destination_router));
        let output = Payment {
            recipient: self.payee(terms),
            currency: self.ask.destination.address.clone(),
            minimum: self.figures.minimum,
            expected: self.figures.output,
        };
        let top_up = self.figures.top_up.map(|amount| Payment {
            recipient: self.ask.recipient.clone(),
            currency: Address::ZERO.into(),
            minimum: amount,
            expected: amount,
        });
        let calls = self.ask.options.calls.iter();
        Some(Order {
            solver_chain: terms.solver_chain.clone(),
            solver: terms.solver,
            salt: U256::from_be_bytes(terms.salt.0),
            inputs: vec![Input {
                chain: terms.origin_chain.clone(),
                currency: terms.deposit.address.clone(),
                amount: self.figures.deposit,
                weight: U256::from(1u8),
                refunds: [Some(on_origin), on_destination].into_iter().flatten().collect(),
            }],
            output: Output {
                chain: terms.destination_chain.clone(),
                payments: std::iter::once(output).chain(top_up).collect(),
                calls: calls.map(|call| order::call_data(call.to, &call.data, call.value)).collect(),
                deadline: terms.deadline,
                extra_data: order::fill_contract_data(terms.destination_router),
            },
            fees: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Vm;
    use crate::pricing::tests::a_quote;

    fn of_venue(text: &str) -> Account {
        Account::parse(Vm::Venue, text).unwrap()
    }

    #[test]
    fn a_deposit_into_the_venue_is_refunded_there_to_its_recipient() {
        let mut quote = a_quote();
        (quote.ask.destination, quote.ask.recipient) =
            (CurrencyKey { chain: venue::CHAIN, address: of_venue("0") }, of_venue("722011"));
        if let Some(terms) = &mut quote.terms {
            (terms.payout, terms.destination_router) = (quote.ask.destination.clone(), Address::ZERO);
        }
        let order = quote.order().unwrap();
        let refunds = &order.inputs[0].refunds;
        assert_eq!(
            (&refunds[0].recipient, refunds[0].extra_data.len()),
            (quote.ask.refund_to.as_ref().unwrap_or(&quote.ask.user), 32)
        );
        assert_eq!((refunds[1].recipient.text(), refunds[1].currency.text()), ("722011", "0"));
        assert!(refunds[1].extra_data.is_empty() && order.output.extra_data.is_empty());
    }

    #[test]
    fn a_withdrawal_from_the_venue_is_refunded_on_the_venue_alone() {
        let mut quote = a_quote();
        (quote.ask.origin, quote.ask.user) =
            (CurrencyKey { chain: venue::CHAIN, address: of_venue("0") }, of_venue("5"));
        if let Some(terms) = &mut quote.terms {
            (terms.deposit, terms.origin_router) = (quote.ask.origin.clone(), Address::ZERO);
        }
        let order = quote.order().unwrap();
        let [refund] = &order.inputs[0].refunds[..] else { panic!("one refund") };
        assert_eq!((refund.recipient.text(), refund.extra_data.len()), ("5", 0));
    }
}
