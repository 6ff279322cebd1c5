//! Whether the money is where the books say: the depositories beside their ledger, and the last audit.

use alloy_primitives::Address;
use domain::ids::ChainId;
use domain::money::Amount;
use domain::time::Timestamp;
use maud::{Markup, html};
use serde_json::Value;
use store::audit_runs::AuditRun;
use store::depository_holdings::Holding;

use crate::Dashboard;
use crate::decimal::{brief, grouped};
use crate::json::{list, text};
use crate::markup::{empty, short, status, time};
use crate::times;

/// An audit older than this is said to be old.
const OLD_AFTER_MILLIS: i64 = 7 * 86_400_000;
/// Findings that the page spells out.
const MAX_FINDINGS: usize = 20;

impl Dashboard {
    /// An amount of a currency in whole units, with its symbol; of one that is not known, in smallest units.
    fn worded(&self, chain: ChainId, currency: Address, amount: Amount) -> String {
        let known = self.app.catalog.chain(chain).and_then(|chain| chain.token(currency));
        match known {
            Some(token) => format!("{} {}", brief(&amount.formatted(token.decimals)), token.symbol),
            None => format!("{amount} of {}", short(&currency.to_string())),
        }
    }
}

/// Balances of the depositories beside what they owe, both at one block.
pub(super) fn depositories(dashboard: &Dashboard, holdings: &[Holding]) -> Markup {
    html! {
        section.card {
            h2 { "Depositories" }
            @if holdings.is_empty() {
                (empty("No balance has been read yet.", &html! {
                    "The allocator reads them once a minute, from the first deposit on."
                }))
            } @else {
                div.scroll tabindex="0" {
                    table {
                        thead {
                            tr {
                                th { "Chain" } th.number { "Holds" } th.number { "Owes" } th { "Verdict" }
                                th.number { "At block" }
                            }
                        }
                        tbody {
                            @for holding in holdings {
                                @let worded = |amount| dashboard.worded(holding.chain, holding.currency, amount);
                                tr {
                                    td { (dashboard.chain_name(holding.chain.0)) }
                                    td.number { (worded(holding.held)) }
                                    td.number { (worded(holding.owed)) }
                                    td { (status(if holding.is_solvent() { "solvent" } else { "short" })) }
                                    td.number title=(times::iso(holding.noted_at)) { (grouped(holding.block)) }
                                }
                            }
                        }
                    }
                }
                p.faint { "Owed is what was deposited less what was paid out, by the allocator's ledger." }
            }
        }
    }
}

pub(super) fn last_audit(run: Option<&AuditRun>, now: Timestamp) -> Markup {
    html! {
        section.card {
            h2 { "Last audit" }
            @match run {
                None => (empty("None has been run.", &html! {
                    code { "causeway audit" } " compares every row with the chains."
                })),
                Some(run) => (verdict(run, now)),
            }
        }
    }
}

fn verdict(run: &AuditRun, now: Timestamp) -> Markup {
    let checks: Value = serde_json::from_str(&run.checks).unwrap_or_default();
    let age = now.millis().saturating_sub(run.ended_at.millis());
    let took = run.ended_at.millis().saturating_sub(run.began_at.millis());
    html! {
        p {
            @if run.different == 0 { (status("ok")) " Nothing differs." } @else {
                span class="status bad" { "differs" } " " strong { (grouped(run.different)) } " findings."
            }
        }
        dl.facts {
            div { dt { "Ended" } dd { (time(run.ended_at)) } }
            div { dt { "Took" } dd { (times::length(took)) } }
            div { dt { "Compared" } dd { (grouped(run.compared)) } }
        }
        @if age > OLD_AFTER_MILLIS { p.notice.warn { "It is more than a week old." } }
        ul.plain.findings {
            @for (chain, check, finding) in findings(&checks) {
                li { strong { (check) } @if !chain.is_empty() { " on " (chain) } ": " (finding) }
            }
        }
    }
}

/// Chain, check and text of the findings.
fn findings(checks: &Value) -> Vec<(&str, &str, &str)> {
    let mut found = Vec::new();
    for check in list(checks, "") {
        let (chain, name) = (text(check, "/chain"), text(check, "/check"));
        found.extend(list(check, "/differences").iter().filter_map(Value::as_str).map(|it| (chain, name, it)));
    }
    found.truncate(MAX_FINDINGS);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(different: u64, checks: &str) -> AuditRun {
        let (began_at, ended_at) = (Timestamp::from_secs(100), Timestamp::from_secs(104));
        AuditRun { began_at, ended_at, compared: 1_234, different, checks: checks.to_owned() }
    }

    #[test]
    fn an_audit_is_shown_with_its_verdict_and_its_findings() {
        let soon = Timestamp::from_secs(200);
        let shown = last_audit(Some(&run(0, "[]")), soon).into_string();
        assert!(shown.contains("Nothing differs") && shown.contains("1,234") && !shown.contains("week"), "{shown}");
        let checks = r#"[{"chain":"base","check":"nonces","differences":["<b> is gone"]}]"#;
        let shown = last_audit(Some(&run(1, checks)), Timestamp::from_secs(900_000)).into_string();
        assert!(shown.contains("nonces") && shown.contains("&lt;b&gt; is gone"), "{shown}");
        assert!(shown.contains("more than a week old"), "{shown}");
        assert!(last_audit(None, soon).into_string().contains("causeway audit"));
    }
}
