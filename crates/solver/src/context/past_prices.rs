//! Prices in the past, as feeds remember them: what happened while nobody was looking has the price of its own moment.
//!
//! A unit reaches only the database. It names the moment it needs, the walk along that chain has it read in the
//! background, and the unit finds it when its event is repeated at the next block.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy::primitives::Address;
use domain::debt::FEED_LAG;
use domain::ids::ChainId;
use domain::time::Timestamp;
use evm::ChainError;
use market::{PriceSpan, Snapshot, past_prices};
use tracing::{debug, warn};

use super::cache::Cache;
use crate::handle::ChainHandle;

/// Reads of one moment that fail, at most one for each block, before its price counts as forgotten.
const MAX_TRIES: u8 = 8;
/// Pause after a read that the nodes did not answer between them, doubled with each.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Moments that wait to be read. More of them are named again at the next block.
const MAX_WANTED: usize = 1_024;

/// A moment of a chain, for which a currency's price is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    chain: ChainId,
    currency: Address,
    /// Unix seconds.
    time: u64,
}

impl Moment {
    pub fn new((chain, currency): (ChainId, Address), time: Timestamp) -> Self {
        Self { chain, currency, time: u64::try_from(time.secs()).unwrap_or_default() }
    }
}

/// A currency's prices from a moment on, until its feed has caught up with the market.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    Known(PriceSpan),
    /// The feed does not remember.
    Forgotten,
    /// Not read yet: the event has to be repeated.
    Unread,
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    Read(PriceSpan),
    Unread {
        /// Reads after which the feed counts as having forgotten.
        failed: u8,
        /// Reads since then that say nothing about the feed.
        unanswered: u32,
    },
}

#[derive(Debug, Default)]
pub struct PastPrices {
    answers: Cache<Moment, Answer>,
    wanted: Mutex<BTreeSet<Moment>>,
}

impl PastPrices {
    /// The prices of a moment. If they are unread, the moment is noted to be read.
    pub fn at(&self, moment: Moment) -> Past {
        match self.answers.get(&moment) {
            Some((Answer::Read(span), _)) => Past::Known(span),
            Some((Answer::Unread { failed: MAX_TRIES.., .. }, _)) => Past::Forgotten,
            Some((Answer::Unread { unanswered, .. }, since)) if since.elapsed() < pause(unanswered) => Past::Unread,
            Some((Answer::Unread { .. }, _)) | None => {
                let mut wanted = self.wanted();
                if wanted.len() < MAX_WANTED {
                    wanted.insert(moment);
                }
                Past::Unread
            }
        }
    }

    /// Reads the moments of a chain that were named since, in the background, at the block of its snapshot: one that
    /// two nodes have, and whose state no node has dropped yet.
    pub(crate) fn read_wanted(self: &Arc<Self>, handle: &Arc<ChainHandle>, snapshot: Option<&Snapshot>) {
        let chain = handle.id();
        let mut wanted = self.wanted();
        if wanted.is_empty() {
            return;
        }
        let (here, elsewhere) = std::mem::take(&mut *wanted).into_iter().partition(|moment| moment.chain == chain);
        *wanted = elsewhere;
        drop(wanted);
        let here: BTreeSet<Moment> = here;
        // Without a snapshot the feeds are not known yet: the moments are named again.
        let Some(snapshot) = snapshot else { return };
        let at = snapshot.hash;
        for moment in here {
            let Some(feed) = snapshot.feed_of(moment.currency).cloned() else {
                self.failed(moment);
                continue;
            };
            // A moment that the snapshot does not reach is named again, too.
            if moment.time > snapshot.time {
                continue;
            }
            let (this, handle) = (self.clone(), handle.clone());
            self.answers.ask(moment, async move {
                let span = (moment.time, moment.time.saturating_add(FEED_LAG.as_secs()));
                let read = past_prices(&handle.nodes, handle.chain.multicall3, &feed, span, at).await;
                if let Err(error) = &read {
                    debug!(chain.id = %handle.id(), %error, "a past price could not be read");
                }
                this.answered(moment, read, handle.has_one_node());
            });
        }
    }

    /// Of several nodes, only what two of them say alike counts against the feed: one that lies, or answers with
    /// errors, must not have the moment charged without its price. It is read until they agree, as payments of the
    /// chain wait for that, and ever more rarely. The word of a single node is all there is.
    fn answered(&self, moment: Moment, read: Result<Option<PriceSpan>, ChainError>, has_one_node: bool) {
        match read {
            Ok(Some(span)) => self.learn(moment, span),
            Ok(None) => self.failed(moment),
            Err(_) if has_one_node => self.failed(moment),
            Err(_) => {
                let (failed, unanswered) = self.tries(moment);
                let unanswered = unanswered.saturating_add(1);
                self.answers.answered(moment, Some(Answer::Unread { failed, unanswered }));
            }
        }
    }

    pub(crate) fn learn(&self, moment: Moment, span: PriceSpan) {
        self.answers.answered(moment, Some(Answer::Read(span)));
    }

    pub(crate) fn failed(&self, moment: Moment) {
        let failed = self.tries(moment).0.saturating_add(1);
        if failed == MAX_TRIES {
            let Moment { chain, currency, time } = moment;
            warn!(chain.id = %chain, %currency, time, "no feed remembers the price of a moment: fast fills are charged without it");
        }
        self.answers.answered(moment, Some(Answer::Unread { failed, unanswered: 0 }));
    }

    /// Reads of a moment that failed, and those since that were not answered.
    fn tries(&self, moment: Moment) -> (u8, u32) {
        match self.answers.get(&moment) {
            Some((Answer::Unread { failed, unanswered }, _)) => (failed, unanswered),
            Some((Answer::Read(_), _)) | None => (0, 0),
        }
    }

    fn wanted(&self) -> MutexGuard<'_, BTreeSet<Moment>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pause after so many reads that were not answered.
fn pause(unanswered: u32) -> Duration {
    let Some(doublings) = unanswered.checked_sub(1) else { return Duration::ZERO };
    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(doublings)).min(MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use domain::money::Price;

    use super::*;

    #[test]
    fn a_moment_is_named_until_it_is_read_or_forgotten() {
        let moment = |secs| Moment::new((ChainId(1), Address::ZERO), Timestamp::from_secs(secs));
        let (known, lost) = (moment(7), moment(8));
        let past = PastPrices::default();
        assert_eq!((past.at(known), past.at(known)), (Past::Unread, Past::Unread));
        assert_eq!(past.wanted().len(), 1);
        let span = PriceSpan { low: Price::DOLLAR, high: Price::DOLLAR };
        past.learn(known, span);
        assert_eq!(past.at(known), Past::Known(span));
        for _ in 0..MAX_TRIES {
            assert_eq!(past.at(lost), Past::Unread);
            past.failed(lost);
        }
        assert_eq!(past.at(lost), Past::Forgotten);
    }

    const MOMENT: Moment = Moment { chain: ChainId(1), currency: Address::ZERO, time: 7 };

    #[test]
    fn neither_a_dispute_between_nodes_nor_the_errors_of_one_make_a_price_forgotten() {
        let errors: [fn() -> ChainError; 2] =
            [|| ChainError::NotSeconded(ChainId(1)), || ChainError::NoEndpoint(ChainId(1))];
        for error in errors {
            let past = PastPrices::default();
            for _ in 0..3 * MAX_TRIES {
                past.answered(MOMENT, Err(error()), false);
                assert_eq!(past.at(MOMENT), Past::Unread);
            }
            // Nor do they end the tries that failed before them.
            for _ in 1..MAX_TRIES {
                past.answered(MOMENT, Ok(None), false);
                past.answered(MOMENT, Err(error()), false);
                assert_eq!(past.at(MOMENT), Past::Unread);
            }
            past.answered(MOMENT, Ok(None), false);
            assert_eq!(past.at(MOMENT), Past::Forgotten);
        }
    }

    #[test]
    fn the_errors_of_the_only_node_make_a_price_forgotten() {
        let past = PastPrices::default();
        for _ in 0..MAX_TRIES {
            assert_eq!(past.at(MOMENT), Past::Unread);
            past.answered(MOMENT, Err(ChainError::NoEndpoint(ChainId(1))), true);
        }
        assert_eq!(past.at(MOMENT), Past::Forgotten);
    }

    #[test]
    fn nodes_that_do_not_agree_are_asked_ever_more_rarely() {
        assert_eq!(
            [0, 1, 2, 3, 7, 8, 100].map(|times| pause(times).as_millis()),
            [0, 250, 500, 1_000, 16_000, 30_000, 30_000]
        );
        let past = PastPrices::default();
        for _ in 0..20 {
            past.answered(MOMENT, Err(ChainError::NotSeconded(ChainId(1))), false);
        }
        assert_eq!(
            (past.at(MOMENT), past.wanted().len()),
            (Past::Unread, 0),
            "it is not named before the pause is over"
        );
        past.answered(MOMENT, Ok(None), false);
        assert_eq!((past.at(MOMENT), past.wanted().len()), (Past::Unread, 1));
    }
}
