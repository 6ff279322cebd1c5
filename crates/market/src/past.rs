//! A currency's prices in the past, by the rounds that its feed keeps. They can be read whenever they are needed,
//! however long nobody was there to see them.

use alloy::primitives::aliases::U80;
use alloy::primitives::{Address, B256, Bytes};
use alloy::sol_types::SolCall;
use domain::money::Price;
use evm::contracts::PriceFeed;
use evm::{ChainError, Nodes};

use crate::watchlist::Feed;

/// Rounds read in one call.
const ROUNDS_PER_CALL: u128 = 64;
/// Calls for one span of time: what is further back is not looked for.
const MAX_CALLS: u128 = 16;

/// The lowest and the highest price within a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriceSpan {
    pub low: Price,
    pub high: Price,
}

/// A feed's prices from one time to another, in unix seconds of its chain; as far as there are any, if the span has not
/// ended. Read at one block, not earlier than the span begins. None where the feed had no fresh answer when the span
/// began, does not keep rounds for so long, or does not answer.
pub async fn past_prices(
    nodes: &Nodes,
    multicall3: Address,
    feed: &Feed,
    span: (u64, u64),
    at: B256,
) -> Result<Option<PriceSpan>, ChainError> {
    let call = |data: Vec<u8>| (feed.address, Bytes::from(data));
    let first = [call(PriceFeed::decimalsCall {}.abi_encode()), call(PriceFeed::latestRoundDataCall {}.abi_encode())];
    let (_, answers) = nodes.seconded_aggregate(multicall3, &first, at).await?;
    let mut answers = answers.into_iter().map(Result::unwrap_or_default);
    let (decimals, latest) = (answers.next().unwrap_or_default(), answers.next().unwrap_or_default());
    // A feed that does not answer remembers nothing: that is its own fault, and no node's.
    let Ok(decimals) = PriceFeed::decimalsCall::abi_decode_returns(&decimals) else { return Ok(None) };
    let Ok(latest) = PriceFeed::latestRoundDataCall::abi_decode_returns(&latest) else { return Ok(None) };
    let latest = latest.roundId.to::<u128>();
    let mut search = Search::new(span, feed.max_age_secs);
    for nth in 0..MAX_CALLS {
        // The ids of a feed behind a proxy begin anew with its aggregator: an id below the first is no round.
        let newest = latest.saturating_sub(nth * ROUNDS_PER_CALL);
        let ids = (0..ROUNDS_PER_CALL).map(|back| U80::saturating_from(newest.saturating_sub(back)));
        let calls: Vec<_> = ids.map(|id| call(PriceFeed::getRoundDataCall { id }.abi_encode())).collect();
        for answer in nodes.seconded_aggregate(multicall3, &calls, at).await?.1 {
            if search.is_over(round(&answer.unwrap_or_default())) {
                return Ok(search.found(decimals));
            }
        }
    }
    Ok(None)
}

/// An answer of a feed, and the time from which it holds.
#[derive(Clone, Copy, Debug)]
struct Round {
    answer: u128,
    since: u64,
}

/// None for a round that never was, or has no price.
fn round(answer: &Bytes) -> Option<Round> {
    let round = PriceFeed::getRoundDataCall::abi_decode_returns(answer).ok()?;
    let (answer, since) = (u128::try_from(round.answer).ok()?, u64::try_from(round.updatedAt).ok()?);
    (answer > 0 && since > 0).then_some(Round { answer, since })
}

/// The search for the rounds of a span, from the newest round back.
#[derive(Debug)]
struct Search {
    from: u64,
    to: u64,
    max_age_secs: u64,
    low: u128,
    high: u128,
    is_whole: bool,
}

impl Search {
    fn new((from, to): (u64, u64), max_age_secs: u64) -> Self {
        Self { from, to, max_age_secs, low: u128::MAX, high: 0, is_whole: false }
    }

    /// Takes the next older round; true if no other is needed, or none will help.
    fn is_over(&mut self, round: Option<Round>) -> bool {
        let Some(round) = round else { return true };
        if round.since <= self.to {
            self.low = self.low.min(round.answer);
            self.high = self.high.max(round.answer);
        }
        let began_before = round.since <= self.from;
        self.is_whole = began_before && self.from - round.since <= self.max_age_secs;
        began_before
    }

    fn found(&self, decimals: u8) -> Option<PriceSpan> {
        let price = |answer| Price::new(answer, decimals).ok();
        self.is_whole.then_some(())?;
        Some(PriceSpan { low: price(self.low)?, high: price(self.high)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds by their times and answers, the newest first.
    const ROUNDS: [(u64, u128); 5] = [(500, 50), (400, 20), (300, 90), (200, 30), (100, 70)];

    fn found(span: (u64, u64), max_age_secs: u64) -> Option<(u128, u128)> {
        let mut search = Search::new(span, max_age_secs);
        let mut rounds = ROUNDS.map(|(since, answer)| Some(Round { answer, since })).into_iter().chain([None]);
        let over = rounds.any(|round| search.is_over(round));
        assert!(over);
        search.found(8).map(|span| (span.low.answer(), span.high.answer()))
    }

    #[test]
    fn a_span_has_the_round_that_held_when_it_began_and_those_that_began_within() {
        for (span, prices) in [
            ((300, 300), (90, 90)),
            ((299, 299), (30, 30)),
            ((299, 300), (30, 90)),
            ((350, 450), (20, 90)),
            ((100, 9_000), (20, 90)),
            ((500, 560), (50, 50)),
            ((600, 700), (50, 50)),
        ] {
            assert_eq!(found(span, 1_000), Some(prices), "{span:?}");
        }
    }

    #[test]
    fn a_price_from_before_the_first_round_or_too_old_even_then_is_unknown() {
        assert_eq!(found((99, 500), 1_000), None);
        assert_eq!(found((700, 700), 199), None);
        assert_eq!(found((700, 700), 200), Some((50, 50)));
    }
}
