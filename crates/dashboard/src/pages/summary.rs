//! Figures of many requests: how many, how much, how fast, and why not.

use std::collections::BTreeMap;

use domain::time::Timestamp;
use maud::{Markup, html};
use store::overview::{Fact, MAX_FACTS};

use crate::chart::{Bar, bars, ranks};
use crate::decimal::{dollars, grouped, headline_dollars, round_dollars};
use crate::markup::{figure, words};
use crate::times;

const DAY_MILLIS: i64 = 86_400_000;
/// Shares of fills, in hundredths, whose longest time is shown.
const PERCENTILES: [usize; 5] = [50, 75, 90, 95, 99];
/// Reasons that are shown by name.
const MAX_REASONS: usize = 8;
/// Days that charts show.
pub(super) const DAYS: i64 = 7;

/// The beginning of the first day that charts show.
pub(super) fn since(now: Timestamp) -> Timestamp {
    let today = now.millis().div_euclid(DAY_MILLIS);
    Timestamp::from_millis((today - DAYS + 1).saturating_mul(DAY_MILLIS))
}

/// The day below a bar.
fn label(day: i64) -> String {
    times::short_day(Timestamp::from_millis(day.saturating_mul(DAY_MILLIS)))
}

/// Fill times in words. Blocks tell whole seconds.
fn fill_length(millis: i64) -> String {
    if millis < 1_000 { "< 1 s".to_owned() } else { times::length(millis) }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Day {
    success: u64,
    refund: u64,
    failure: u64,
    open: u64,
    volume: i64,
    app_fees: i64,
    service_fees: i64,
    sponsored: i64,
}

#[derive(Debug, Default)]
pub(super) struct Summary {
    days: BTreeMap<i64, Day>,
    total: u64,
    volume: i64,
    app_fees: i64,
    /// The service's own fees, as quoted.
    service_fees: i64,
    /// The reader is the operator, whose revenue the service's fees are.
    for_operator: bool,
    /// None where no sponsor is looked at.
    sponsored: Option<i64>,
    /// More of their fees exist than were counted.
    sponsored_capped: bool,
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
        self.sponsored_capped = spent.len() >= usize::try_from(MAX_FACTS).unwrap_or(usize::MAX);
        self.sponsored = Some(spent.iter().fold(0, |sum, (_, micros)| sum.saturating_add(*micros)));
        self
    }

    /// With the service's own fees.
    pub(super) fn for_operator(self) -> Self {
        Self { for_operator: true, ..self }
    }

    fn add(&mut self, fact: &Fact) {
        let usd = fact.amount_usd.unwrap_or_default();
        let (app_fees, service_fees) =
            (fact.app_fees_usd.unwrap_or_default(), fact.service_fees_usd.unwrap_or_default());
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
            day.app_fees = day.app_fees.saturating_add(app_fees);
            day.service_fees = day.service_fees.saturating_add(service_fees);
            self.volume = self.volume.saturating_add(usd);
            self.app_fees = self.app_fees.saturating_add(app_fees);
            self.service_fees = self.service_fees.saturating_add(service_fees);
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
    fn fill_time(&self, hundredths: usize) -> Option<i64> {
        let last = self.fill_millis.len().saturating_sub(1);
        self.fill_millis.get(last * hundredths / 100).copied()
    }

    fn percentile(&self, hundredths: usize) -> String {
        self.fill_time(hundredths).map_or_else(|| "–".to_owned(), fill_length)
    }

    /// The reasons that occur most, and then all others together.
    fn ranked_reasons(&self) -> Vec<(String, u64)> {
        let mut ranked: Vec<(String, u64)> = self.reasons.iter().map(|(name, count)| (words(name), *count)).collect();
        ranked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let others: u64 = ranked.iter().skip(MAX_REASONS).map(|(_, count)| *count).sum();
        ranked.truncate(MAX_REASONS);
        if others > 0 {
            ranked.push(("Other reasons".to_owned(), others));
        }
        ranked
    }

    pub(super) fn figures(&self) -> Markup {
        let newest = format!("newest {} of 7 days", grouped(MAX_FACTS.into()));
        let of = |capped: bool| if capped { newest.as_str() } else { "last 7 days" };
        let note = of(self.capped);
        let (good, bad) = self.ended();
        let ended = format!("{} of {}", grouped(good), grouped(good + bad));
        html! {
            @if self.capped {
                p.faint {
                    "There were many: figures and charts are of the newest " (grouped(MAX_FACTS.into()))
                    " requests of the last 7 days."
                }
            }
            dl.figures {
                (figure("Volume", &headline_dollars(self.volume), note))
                (figure("Requests", &grouped(self.total), note))
                (figure("Success rate", &self.success_rate(), &ended))
                (figure("Fill time, median", &self.percentile(50), &format!("95th {}", self.percentile(95))))
                (figure("App fees", &headline_dollars(self.app_fees), note))
                @if self.for_operator { (figure("Revenue", &headline_dollars(self.service_fees), "as quoted")) }
                @if let Some(micros) = self.sponsored {
                    (figure("Sponsored fees", &headline_dollars(micros), of(self.sponsored_capped)))
                }
            }
        }
    }

    pub(super) fn charts(&self) -> Markup {
        let fees = if self.for_operator { "Revenue by day" } else { "App fees by day" };
        let of_fees = |day: &Day| if self.for_operator { day.service_fees } else { day.app_fees };
        html! {
            div.grid {
                (self.outcomes())
                (self.dollars_by_day("Volume by day", "c-main", |day| day.volume))
                @if self.days.values().any(|day| of_fees(day) > 0) { (self.dollars_by_day(fees, "c-2", of_fees)) }
                @if self.sponsored.is_some_and(|micros| micros > 0) {
                    (self.dollars_by_day("Sponsored fees by day", "c-4", |day| day.sponsored))
                }
                @if !self.fill_millis.is_empty() {
                    section.card {
                        h2 { "Fill times" }
                        (ranks("c-main", &self.ranked_fill_times(), |millis| {
                            fill_length(i64::try_from(millis).unwrap_or(i64::MAX))
                        }))
                    }
                }
                @if !self.reasons.is_empty() {
                    section.card {
                        h2 { "Refunds and failures by reason" }
                        (ranks("c-warn", &self.ranked_reasons(), grouped))
                    }
                }
            }
        }
    }

    fn outcomes(&self) -> Markup {
        let bar = |(day, it): (&i64, &Day)| {
            let (label, Day { success, refund, failure, open, .. }) = (label(*day), it);
            let title = format!("{label}: {success} success, {refund} refund, {failure} failure, {open} under way");
            let parts = vec![("c-good", *success), ("c-busy", *open), ("c-warn", *refund), ("c-bad", *failure)];
            Bar { label, title, parts }
        };
        let counts: Vec<Bar> = self.days.iter().map(bar).collect();
        let legend = [("c-good", "Success"), ("c-busy", "Under way"), ("c-warn", "Refund"), ("c-bad", "Failure")];
        html! {
            section.card {
                h2 { "Requests by day" }
                (bars("Requests by day and outcome", &counts, grouped))
                ul.legend {
                    @for (class, name) in legend {
                        li { span class={ "dot " (class) } aria-hidden="true" {} (name) }
                    }
                }
            }
        }
    }

    fn dollars_by_day(&self, name: &str, class: &'static str, of: impl Fn(&Day) -> i64) -> Markup {
        let bar = |(day, it): (&i64, &Day)| {
            let (label, micros) = (label(*day), of(it));
            let title = format!("{label}: {}", dollars(micros));
            Bar { label, title, parts: vec![(class, micros.unsigned_abs())] }
        };
        let days: Vec<Bar> = self.days.iter().map(bar).collect();
        let worded = |micros: u64| round_dollars(i64::try_from(micros).unwrap_or(i64::MAX));
        html! { section.card { h2 { (name) } (bars(name, &days, worded)) } }
    }

    /// The times within which so many fills were made.
    fn ranked_fill_times(&self) -> Vec<(String, u64)> {
        let row = |share: usize| {
            let millis = self.fill_time(share).and_then(|millis| u64::try_from(millis).ok()).unwrap_or_default();
            (if share == 50 { "Median".to_owned() } else { format!("{share}th percentile") }, millis)
        };
        PERCENTILES.map(row).into()
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
            service_fees_usd: Some(3),
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
        assert_eq!((summary.percentile(50), summary.percentile(100)), ("< 1 s".to_owned(), "2 s".to_owned()));
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
        let charts = summary.charts().into_string();
        assert!(charts.contains("Sponsored fees by day") && charts.contains("99th percentile"), "{charts}");
        assert!(charts.contains("App fees by day") && !charts.contains("Revenue by day"), "{charts}");
        assert_eq!((summary.service_fees, summary.ranked_reasons()), (6, vec![("Slippage".to_owned(), 1)]));
        assert!(!summary.figures().into_string().contains("Revenue"));
        let summary = summary.for_operator();
        let figures = summary.figures().into_string();
        assert!(figures.contains("Revenue") && figures.contains("2 of 3") && !figures.contains("newest"), "{figures}");
        assert!(summary.charts().into_string().contains("Revenue by day"));
        let many = vec![fact(20_000, "success", 1, None); usize::try_from(MAX_FACTS).unwrap()];
        assert!(Summary::new(&many, now).figures().into_string().contains("newest 2,000"));
    }
}
