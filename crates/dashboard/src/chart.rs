//! Charts as SVG, drawn on the server. Colours come from the stylesheet by class; every mark says in words what it
//! shows.

use maud::{Markup, html};

use crate::decimal::dollars;

/// One bar of a chart: parts from the bottom to the top, each with its class.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub label: String,
    pub title: String,
    pub parts: Vec<(&'static str, u64)>,
}

const WIDTH: u64 = 640;
const HEIGHT: u64 = 160;

/// Bars side by side below a round number, which stands beside them with its half. The picture is stretched to its
/// place; words stand outside of it and keep their size.
pub(crate) fn bars(name: &str, bars: &[Bar], worded: impl Fn(u64) -> String) -> Markup {
    let total = |bar: &Bar| bar.parts.iter().fold(0u64, |sum, (_, value)| sum.saturating_add(*value));
    let highest = bars.iter().map(total).max().unwrap_or(0);
    let top = round_above(highest);
    let count = u64::try_from(bars.len()).unwrap_or(1).max(1);
    let slot = WIDTH / count;
    let share = |value: u64| u128::from(value) * u128::from(HEIGHT) / u128::from(top.max(1));
    let scaled = |value: u64| u64::try_from(share(value)).unwrap_or(HEIGHT);
    html! {
        figure.bars {
            ol.scale aria-hidden="true" {
                @if highest > 0 { li { (worded(top)) } li { (worded(top / 2)) } }
                li { (worded(0)) }
            }
            svg.chart viewBox={ "0 0 " (slot * count) " " (HEIGHT) } preserveAspectRatio="none" role="img"
                aria-label={ (name) ", at most " (worded(highest)) } {
                line.axis x1="0" x2=(WIDTH) y1="0" y2="0" {}
                line.axis x1="0" x2=(WIDTH) y1=(HEIGHT / 2) y2=(HEIGHT / 2) {}
                @for (index, bar) in (0u64..).zip(bars) {
                    g {
                        title { (bar.title) }
                        @let left = index * slot + slot / 5;
                        @for (class, from, height) in stacked(bar, &scaled) {
                            rect class=(class) x=(left) y=(HEIGHT - from - height) width=((slot * 3 / 5).max(1))
                                height=(height) {}
                        }
                        // The whole column answers to the pointer, also where there is nothing.
                        rect.hit x=(index * slot) y="0" width=(slot) height=(HEIGHT) {}
                    }
                }
            }
            ol.labels aria-hidden="true" { @for bar in bars { li { (bar.label) } } }
        }
    }
}

/// The next number that is read at a glance, and so is its half: 2, 4, 6, 8 or 10, or ten times one of them, and so on.
fn round_above(highest: u64) -> u64 {
    let mut power = 1u64;
    loop {
        let round = [2, 4, 6, 8, 10].into_iter().map(|step| power.saturating_mul(step)).find(|it| *it >= highest);
        match (round, power.checked_mul(10)) {
            (Some(round), _) => return round,
            (None, Some(larger)) => power = larger,
            (None, None) => return u64::MAX,
        }
    }
}

/// The parts of a bar with their bottoms and heights. A part that is there at all is seen.
fn stacked(bar: &Bar, scaled: &impl Fn(u64) -> u64) -> Vec<(&'static str, u64, u64)> {
    let mut from = 0;
    let mut parts = Vec::new();
    for (class, value) in bar.parts.iter().filter(|(_, value)| *value > 0) {
        let height = scaled(*value).max(2).min(HEIGHT.saturating_sub(from));
        parts.push((*class, from, height));
        from += height;
    }
    parts
}

/// Parts of one whole as a single bar with a legend: what a transfer costs, and who is paid. Parts of less than a
/// thousandth are the rounding of the others, and are left out as those of nothing are.
pub(crate) fn split(name: &str, parts: &[(&'static str, &str, i64)]) -> Markup {
    let total = parts.iter().fold(0u64, |sum, (_, _, micros)| sum.saturating_add(micros.unsigned_abs()));
    let mut from = 0u64;
    let mut marks = Vec::new();
    for (class, label, micros) in parts.iter().filter(|(_, _, micros)| micros.unsigned_abs() > total / 1_000) {
        let size = u128::from(micros.unsigned_abs());
        let width = u64::try_from(size * u128::from(WIDTH) / u128::from(total.max(1))).unwrap_or(0).max(2);
        marks.push((*class, *label, *micros, from, width));
        from += width;
    }
    html! {
        figure.split {
            @if marks.is_empty() {
                p.faint { "Nothing is charged." }
            } @else {
                svg.chart viewBox={ "0 0 " (from.max(WIDTH)) " 28" } preserveAspectRatio="none" role="img"
                    aria-label=(name) {
                    @for (class, label, micros, left, width) in &marks {
                        rect class=(class) x=(left) y="0" width=(width) height="28" {
                            title { (label) ": " (dollars(*micros)) }
                        }
                    }
                }
                ul.legend {
                    @for (class, label, micros, ..) in &marks {
                        li {
                            span class={ "dot " (class) } aria-hidden="true" {}
                            (label) " " strong { (dollars(*micros)) }
                        }
                    }
                }
            }
        }
    }
}

/// Values as lying bars, each beside its name and its value in words: for names that are too long to stand below a bar.
pub(crate) fn ranks(class: &str, rows: &[(String, u64)], worded: impl Fn(u64) -> String) -> Markup {
    let highest = rows.iter().map(|(_, value)| *value).max().unwrap_or(0).max(1);
    let share = |value: u64| u64::try_from(u128::from(value) * 100 / u128::from(highest)).unwrap_or(100);
    html! {
        table.ranks {
            tbody {
                @for (name, value) in rows {
                    tr {
                        th scope="row" { (name) }
                        td {
                            svg.meter viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" {
                                rect.track x="0" y="0" width="100" height="8" {}
                                rect class=(class) x="0" y="0" width=(share(*value).max(1)) height="8" {}
                            }
                        }
                        td.number { (worded(*value)) }
                    }
                }
            }
        }
    }
}

/// A level against a limit.
pub(crate) fn meter(name: &str, used: u64, limit: u64) -> Markup {
    let share = u64::try_from(u128::from(used) * 100 / u128::from(limit.max(1))).unwrap_or(100).min(100);
    let class = if share >= 90 {
        "c-bad"
    } else if share >= 60 {
        "c-warn"
    } else {
        "c-good"
    };
    html! {
        svg.meter viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={ (name) ": " (share) " %" } {
            rect.track x="0" y="0" width="100" height="8" {}
            rect class=(class) x="0" y="0" width=(share) height="8" {}
        }
    }
}

/// A store against its target, in hundredths of it: little is bad.
pub(crate) fn level(name: &str, share: u64) -> Markup {
    let class = match share {
        0..25 => "c-bad",
        25..50 => "c-warn",
        _ => "c-good",
    };
    html! {
        svg.meter viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={ (name) ": " (share) " %" } {
            rect.track x="0" y="0" width="100" height="8" {}
            rect class=(class) x="0" y="0" width=(share.min(100)) height="8" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decimal::grouped;

    fn bar(parts: Vec<(&'static str, u64)>) -> Bar {
        Bar { label: "day".to_owned(), title: "title".to_owned(), parts }
    }

    #[test]
    fn a_bar_is_never_higher_than_its_room() {
        let scaled = |value: u64| value;
        let parts = stacked(&bar(vec![("a", 100), ("b", 0), ("c", 1), ("d", 900)]), &scaled);
        assert_eq!(parts, [("a", 0, 100), ("c", 100, 2), ("d", 102, HEIGHT - 102)]);
    }

    #[test]
    fn a_scale_ends_with_a_round_number() {
        for (highest, top) in [(0, 2), (1, 2), (2, 2), (3, 4), (9, 10), (11, 20), (120_000_000, 200_000_000)] {
            assert_eq!(round_above(highest), top, "{highest}");
        }
        assert_eq!(round_above(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_cost_that_is_rounding_is_left_out() {
        let drawn = split("costs", &[("a", "Gas", 20_000), ("b", "Swap", 1), ("c", "App", 0)]).into_string();
        assert!(drawn.contains("Gas") && !drawn.contains("Swap") && !drawn.contains("App"), "{drawn}");
    }

    #[test]
    fn charts_of_nothing_and_of_everything_are_drawn() {
        assert!(bars("none", &[], grouped).into_string().contains("<svg"));
        assert!(bars("much", &[bar(vec![("a", u64::MAX), ("b", u64::MAX)])], grouped).into_string().contains("rect"));
        assert!(split("none", &[("a", "fee", 0)]).into_string().contains("Nothing is charged"));
        assert!(split("one", &[("a", "fee", -5), ("b", "gas", i64::MIN)]).into_string().contains("rect"));
        let ranked = ranks("c-warn", &[("most".to_owned(), u64::MAX), ("none".to_owned(), 0)], grouped).into_string();
        assert!(ranked.contains("width=\"100\"") && ranked.contains("width=\"1\""), "{ranked}");
        assert!(meter("m", u64::MAX, 0).into_string().contains("c-bad"));
        assert!(level("l", 0).into_string().contains("c-bad") && level("l", 400).into_string().contains("c-good"));
    }

    #[test]
    fn no_mark_carries_a_style_that_the_policy_forbids() {
        let drawn =
            bars("x", &[bar(vec![("a", 1)])], grouped).into_string() + &split("y", &[("a", "b", 3)]).into_string();
        assert!(!drawn.contains("style="), "{drawn}");
    }
}
