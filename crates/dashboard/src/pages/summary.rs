//! Figures of many requests: how many, how much, how fast, and why not.

use std::collections::BTreeMap;

use domain::time::Timestamp;
use maud::{Markup, html};
use store::overview::{Fact, MAX_FACTS};

use crate::chart::{Bar, bars};
use crate::decimal::{dollars, grouped};
use crate::markup::figure;
use crate::times;

const DAY_MILLIS: i64 = 86_400_000;
/// Days that charts show.
pub(super) const DAYS: i64 = 7;

/// The beginning of the first day that charts show.
pub(super) fn since(now: Timestamp) -> Timestamp {
    let today = now.millis().div_euclid(DAY_MILLIS);
    Timestamp::from_millis((today - DAYS + 1).saturating_mul(DAY_MILLIS))
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Day {
    success: u64,
    refund: u64,
    failure: u64,
    open: u64,
    volume: i64,
    sponsored: i64,
}

#[derive(Debug, Default)]
pub(super) struct Summary {
    days: BTreeMap<i64, Day>,
    total: u64,
    volume: i64,
    app_fees: i64,
    /// None where no sponsor is looked at.
    sponsored: Option<i64>,
    /// In order.
    fill_millis: Vec<i64>,
    reasons: BTreeMap<String, u64>,
    /// More requests exist than were counted.
    capped: bool,
}

impl Summary {
    pub(super) fn new(facts: &[Fact], now: Timestamp) -> Self {
        let today = now.millis().div_euclid(DAY_MILLIS);
        let mut summary = Self {
            days: (today - DAYS + 1..=today).map(|day| (day, Day::default())).collect(),
            capped: facts.len() >= usize::try_from(MAX_FACTS).unwrap_or(usize::MAX),
            ..Self::default()
        };
        for fact in facts {
            summary.add(fact);
        }
        summary.fill_millis.sort_unstable();
        summary
    }

    /// With the fees that sponsors paid, by time.
    pub(super) fn with_sponsored(mut self, spent: &[(Timestamp, i64)]) -> Self {
        for (at, micros) in spent {
            let day = self.days.entry(at.millis().div_euclid(DAY_MILLIS)).or_default();
            day.sponsored = day.sponsored.saturating_add(*micros);
        }
        self.sponsored = Some(spent.iter().fold(0, |sum, (_, micros)| sum.saturating_add(*micros)));
        self
    }

    fn add(&mut self, fact: &Fact) {
        let (usd, fees) = (fact.amount_usd.unwrap_or_default(), fact.app_fees_usd.unwrap_or_default());
        let day = self.days.entry(fact.at.millis().div_euclid(DAY_MILLIS)).or_default();
        let count = match fact.state.as_str() {
            "success" => &mut day.success,
            "refunded" => &mut day.refund,
            "failed" => &mut day.failure,
            _ => &mut day.open,
        };
        *count += 1;
        self.total += 1;
        if fact.state == "success" {
            day.volume = day.volume.saturating_add(usd);
            self.volume = self.volume.saturating_add(usd);
            self.app_fees = self.app_fees.saturating_add(fees);
            self.fill_millis.extend(fact.fill_millis);
        } else if let Some(reason) = fact.fail_reason.as_ref().filter(|_| fact.state != "pending") {
            *self.reasons.entry(reason.clone()).or_default() += 1;
        }
    }

    fn ended(&self) -> (u64, u64) {
        let days = self.days.values();
        days.fold((0, 0), |(good, bad), day| (good + day.success, bad + day.refund + day.failure))
    }

    /// Per mille of those that have ended.
    fn success_rate(&self) -> String {
        let (good, bad) = self.ended();
        if good + bad == 0 {
            return "–".to_owned();
        }
        let rate = good * 1_000 / (good + bad);
        format!("{}.{} %", rate / 10, rate % 10)
    }

    /// The fill time that this share of fills does not exceed, in hundredths.
    fn percentile(&self, hundredths: usize) -> String {
        let last = self.fill_millis.len().saturating_sub(1);
        let at = self.fill_millis.get(last * hundredths / 100);
        // Blocks tell whole seconds.
        let length = |millis: &i64| if *millis < 1_000 { "< 1 s".to_owned() } else { times::length(*millis) };
        at.map_or_else(|| "–".to_owned(), length)
    }

    pub(super) fn figures(&self) -> Markup {
        let note = if self.capped { "the newest of them" } else { "last 7 days" };
        html! {
            dl.figures {
                (figure("Volume", &dollars(self.volume), note))
                (figure("Requests", &grouped(self.total), note))
                (figure("Success rate", &self.success_rate(), "of those that ended"))
                (figure("Fill time, median", &self.percentile(50), &format!("95th: {}", self.percentile(95))))
                (figure("App fees", &dollars(self.app_fees), note))
                @if let Some(micros) = self.sponsored { (figure("Sponsored fees", &dollars(micros), "last 7 days")) }
            }
        }
    }

    pub(super) fn charts(&self) -> Markup {
        let label = |day: i64| times::short_day(Timestamp::from_millis(day.saturating_mul(DAY_MILLIS)));
        let counts = self.days.iter().map(|(day, it)| Bar {
            label: label(*day),
            title: format!(
                "{}: {} success, {} refund, {} failure, {} under way",
                label(*day),
                it.success,
                it.refund,
                it.failure,
                it.open
            ),
            parts: vec![("c-good", it.success), ("c-busy", it.open), ("c-warn", it.refund), ("c-bad", it.failure)],
        });
        let volume = self.days.iter().map(|(day, it)| Bar {
            label: label(*day),
            title: format!("{}: {}", label(*day), dollars(it.volume)),
            parts: vec![("c-main", it.volume.unsigned_abs())],
        });
        let sponsored = self.days.iter().map(|(day, it)| Bar {
            label: label(*day),
            title: format!("{}: {}", label(*day), dollars(it.sponsored)),
            parts: vec![("c-4", it.sponsored.unsigned_abs())],
        });
        let (counts, volume, sponsored): (Vec<_>, Vec<_>, Vec<_>) =
            (counts.collect(), volume.collect(), sponsored.collect());
        let worded = |micros: u64| dollars(i64::try_from(micros).unwrap_or(i64::MAX));
        html! {
            div.grid {
                section.card {
                    h2 { "Requests by day" }
                    (bars("Requests by day and outcome", &counts, grouped))
                    ul.legend {
                        li { span class="dot c-good" aria-hidden="true" {} "success" }
                        li { span class="dot c-busy" aria-hidden="true" {} "under way" }
                        li { span class="dot c-warn" aria-hidden="true" {} "refund" }
                        li { span class="dot c-bad" aria-hidden="true" {} "failure" }
                    }
                }
                section.card {
                    h2 { "Volume by day" }
                    (bars("Volume by day", &volume, worded))
                }
                @if self.sponsored.is_some_and(|micros| micros > 0) {
                    section.card {
                        h2 { "Sponsored fees by day" }
                        (bars("Fees paid for users, by day", &sponsored, worded))
                    }
                }
                @if !self.reasons.is_empty() {
                    section.card {
                        h2 { "Refunds and failures by reason" }
                        table {
                            thead { tr { th { "Reason" } th.number { "Requests" } } }
                            tbody {
                                @for (reason, count) in &self.reasons {
                                    tr { td { code { (reason) } } td.number { (count) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.total == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(day: i64, state: &str, usd: i64, fill: Option<i64>) -> Fact {
        Fact {
            at: Timestamp::from_millis(day * DAY_MILLIS + 5),
            state: state.to_owned(),
            amount_usd: Some(usd),
            app_fees_usd: Some(1),
            fill_millis: fill,
            fail_reason: (state == "refunded").then(|| "SLIPPAGE".to_owned()),
        }
    }

    #[test]
    fn requests_are_counted_by_day_and_outcome() {
        let now = Timestamp::from_millis(20_000 * DAY_MILLIS + 77);
        let facts = [
            fact(20_000, "success", 5_000_000, Some(900)),
            fact(20_000, "success", 7_000_000, Some(2_000)),
            fact(19_999, "refunded", 3_000_000, None),
            fact(19_999, "pending", 1_000_000, None),
        ];
        let summary = Summary::new(&facts, now);
        assert_eq!(summary.days.len(), 7);
        assert_eq!(summary.success_rate(), "66.6 %");
        assert_eq!((summary.volume, summary.app_fees), (12_000_000, 2));
        assert_eq!((summary.percentile(50), summary.percentile(100)), ("< 1 s".to_owned(), "2.0 s".to_owned()));
        assert_eq!(summary.reasons, BTreeMap::from([("SLIPPAGE".to_owned(), 1)]));
        assert_eq!(since(now), Timestamp::from_millis(19_994 * DAY_MILLIS));
        assert_eq!(Summary::new(&[], now).success_rate(), "–");
        let (today, before) =
            (Timestamp::from_millis(20_000 * DAY_MILLIS), Timestamp::from_millis(19_998 * DAY_MILLIS));
        let summary = summary.with_sponsored(&[(today, 4), (today, 3), (before, 2)]);
        assert_eq!(
            (summary.sponsored, summary.days[&20_000].sponsored, summary.days[&19_998].sponsored),
            (Some(9), 7, 2)
        );
        assert!(summary.charts().into_string().contains("Sponsored fees by day"));
    }
}
