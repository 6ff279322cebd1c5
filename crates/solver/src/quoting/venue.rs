//! Quotes with the venue at one end: accounts that must exist, amounts that clients can carry, and the one step of a
//! withdrawal.

use ::venue::VenueError;
use domain::account::Vm;
use domain::ids::ChainId;
use domain::money::{Amount, Price, UsdMicros};
use domain::pricing::{Refusal, Side};
use domain::quote::{Ask, Party, Quote};
use domain::venue::{AccountIndex, Holding, MAX_JSON_INTEGER, TransferAction, Units};

use crate::handle::venue::VenueChain;
use crate::quoting::quote::{Bound, QuoteError, Quoter};

/// The least that is deposited: the venue's own bridge takes no less.
const LEAST_DEPOSIT: UsdMicros = UsdMicros(1_000_000);
/// The least that arrives of a withdrawal.
const LEAST_WITHDRAWN: UsdMicros = UsdMicros(100_000);

/// The accounts that an ask names on the venue: where a deposit goes, or whose withdrawal it is and who is refunded.
fn named(ask: &Ask, venue: ChainId) -> Vec<(Party, AccountIndex)> {
    let of = |party, account| AccountIndex::of(account).ok().map(|index| (party, index));
    let recipient = (ask.destination.chain == venue).then(|| of(Party::Recipient, &ask.recipient)).flatten();
    let user = (ask.origin.chain == venue).then(|| of(Party::User, &ask.user)).flatten();
    let refund_to = ask.refund_to.as_ref().filter(|_| ask.origin.chain == venue);
    let refund_to = refund_to.and_then(|who| of(Party::RefundRecipient, who));
    [recipient, user, refund_to].into_iter().flatten().collect()
}

impl Quoter {
    fn venue(&self) -> Option<&VenueChain> {
        self.solver.chains.get(&domain::venue::CHAIN).and_then(|handle| handle.venue.as_ref())
    }

    /// Reads the accounts of the venue that an ask names, unless they are known. Only an account that nobody has asked
    /// about lately makes a quote wait.
    pub(super) async fn learn_accounts(&self, ask: &Ask) -> Result<(), QuoteError> {
        let Some(venue) = self.venue() else { return Ok(()) };
        for (_, index) in named(ask, domain::venue::CHAIN) {
            let (with_key, now) = (ask.key.is_some(), self.solver.now());
            let read = self.solver.venue_accounts.read_for_quote(venue, index, with_key, now).await;
            read.map_err(|error| match error {
                VenueError::QuotaUsed(pause) => QuoteError::VenueQuota { secs: pause.as_secs().saturating_add(1) },
                error => QuoteError::Venue(error),
            })?;
        }
        Ok(())
    }

    /// Refuses accounts that do not exist or whose wallets are not served, and options that the venue cannot serve.
    pub(super) fn check_venue(&self, ask: &Ask, origin: Side<'_>, destination: Side<'_>) -> Result<(), QuoteError> {
        let (from, to) = (origin.chain.vm == Vm::Venue, destination.chain.vm == Vm::Venue);
        if !from && !to {
            return Ok(());
        }
        if from && to {
            return Err(Refusal::NoRoute.into());
        }
        if to && !ask.options.calls.is_empty() {
            return Err(QuoteError::CallsOnVenue);
        }
        let screening = self.solver.screening.load();
        for (party, index) in named(ask, domain::venue::CHAIN) {
            // An account that could not be read is not taken for one that exists.
            let known = self.solver.venue_accounts.known(index);
            let wallet = known.flatten().ok_or(QuoteError::InvalidRecipient { party })?;
            if screening.blocks([wallet]) {
                return Err(QuoteError::Blocked { party });
            }
        }
        Ok(())
    }
}

/// Refuses amounts below the venue's least, and those that lose digits on their way through clients.
pub(super) fn check_amounts(quote: &Quote, origin: Side<'_>, destination: Side<'_>) -> Result<(), QuoteError> {
    let (figures, prices) = (&quote.figures, &quote.figures.prices);
    let carried = |amount: Amount| u64::try_from(amount.units()).is_ok_and(|units| units <= MAX_JSON_INTEGER);
    if destination.chain.vm == Vm::Venue {
        let worth = prices.origin.usd_floor(figures.input, origin.currency.decimals).map_err(Refusal::from)?;
        if worth < LEAST_DEPOSIT {
            return Err(least(LEAST_DEPOSIT, prices.origin, origin));
        }
        return if carried(figures.output) { Ok(()) } else { Err(Refusal::OutOfRange.into()) };
    }
    if origin.chain.vm == Vm::Venue {
        let decimals = destination.currency.decimals;
        let worth = prices.destination.usd_floor(figures.output, decimals).map_err(Refusal::from)?;
        if worth < LEAST_WITHDRAWN {
            return Err(least(LEAST_WITHDRAWN, prices.destination, destination));
        }
        return if carried(figures.input) { Ok(()) } else { Err(Refusal::OutOfRange.into()) };
    }
    Ok(())
}

fn least(usd: UsdMicros, price: Price, side: Side<'_>) -> QuoteError {
    match price.amount_ceil(usd, side.currency.decimals) {
        Ok(amount) => QuoteError::BelowLeast { least: Bound::new(amount, side.currency) },
        Err(error) => Refusal::from(error).into(),
    }
}

/// The transfer that a withdrawal asks its user for. None where a number would lose digits.
pub(super) fn action(venue: &VenueChain, quote: &Quote) -> Option<TransferAction> {
    let order = quote.order()?.id();
    let holding = Holding::of_currency(&quote.ask.origin.address)?;
    let amount = Units::new(u64::try_from(quote.figures.deposit.units()).ok()?).ok()?;
    TransferAction::new(venue.account, holding, amount, venue.user_fee, order)
}

#[cfg(test)]
mod tests {
    use domain::account::Account;

    use super::*;
    use crate::tests::world::{DESTINATION, ETH, ONE_ETHER, ONE_USDC, ORIGIN, USDC, chain, quote, units};

    fn checked(from: Vm, to: Vm, input: u128, output: u128) -> Result<(), QuoteError> {
        let mut quote = quote(USDC, USDC, 100 * ONE_USDC, Default::default());
        (quote.figures.input, quote.figures.output) = (units(input), units(output));
        let (mut origin, mut destination) = (chain(ORIGIN, "base"), chain(DESTINATION, "optimism"));
        (origin.vm, destination.vm) = (from, to);
        let [origin, destination] =
            [&origin, &destination].map(|chain| Side { chain, currency: chain.token(USDC).unwrap() });
        check_amounts(&quote, origin, destination)
    }

    #[test]
    fn amounts_on_the_venue_have_a_least_and_a_most() {
        let (most, dollar) = (u128::from(MAX_JSON_INTEGER), ONE_USDC);
        for (from, to, input, output) in [
            (Vm::Evm, Vm::Venue, dollar, dollar / 2),
            (Vm::Evm, Vm::Venue, most + 1, most),
            (Vm::Venue, Vm::Evm, dollar, dollar / 10),
            (Vm::Venue, Vm::Evm, most, most + 1),
            (Vm::Evm, Vm::Evm, 1, 1),
            (Vm::Evm, Vm::Evm, most + 1, most + 1),
        ] {
            assert!(checked(from, to, input, output).is_ok(), "{from:?} {to:?} {input} {output}");
        }
        for (from, to, input, output) in
            [(Vm::Evm, Vm::Venue, dollar - 1, dollar), (Vm::Venue, Vm::Evm, dollar, dollar / 10 - 1)]
        {
            let error = checked(from, to, input, output).unwrap_err();
            assert!(matches!(error, QuoteError::BelowLeast { .. }), "{from:?} {to:?} {input} {output}: {error}");
        }
        for (from, to, input, output) in [(Vm::Evm, Vm::Venue, most, most + 1), (Vm::Venue, Vm::Evm, most + 1, most)] {
            let error = checked(from, to, input, output).unwrap_err();
            assert!(matches!(error, QuoteError::Refused(Refusal::OutOfRange)), "{from:?} {to:?}: {error}");
        }
    }

    #[test]
    fn an_ask_names_the_accounts_of_its_own_end() {
        let venue = domain::venue::CHAIN;
        let index = |text: &str| Account::parse(Vm::Venue, text).unwrap();
        let mut ask = quote(ETH, USDC, ONE_ETHER, Default::default()).ask;
        assert_eq!(named(&ask, venue), vec![]);
        (ask.destination.chain, ask.recipient) = (venue, index("5"));
        ask.refund_to = Some(Account::from(alloy::primitives::Address::repeat_byte(1)));
        assert_eq!(named(&ask, venue), vec![(Party::Recipient, AccountIndex::new(5).unwrap())]);
        (ask.destination.chain, ask.origin.chain) = (ChainId(10), venue);
        (ask.user, ask.refund_to) = (index("6"), Some(index("7")));
        let six = (Party::User, AccountIndex::new(6).unwrap());
        assert_eq!(named(&ask, venue), vec![six, (Party::RefundRecipient, AccountIndex::new(7).unwrap())]);
    }
}
