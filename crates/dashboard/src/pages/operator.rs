//! The operator's page: whether all is well, and the actions that exist as commands (`actions`).

use std::collections::HashMap;

use api::Acting;
use axum::extract::{Query, State};
use domain::ids::ChainId;
use domain::time::Timestamp;
use maud::{Markup, html};
use serde_json::Value;
use store::audit_runs::{self, AuditRun};
use store::chain_pauses::{self, Pause};
use store::depository_holdings::{self, Holding};
use store::lanes::Lane;
use store::operator_actions::{self, Action};
use store::overview::{self, Fact, MAX_COUNTED, Stuck, UnderWay};
use store::{StoreError, blocks, doubtful_blocks, lanes};

use super::actions::{gas_form, history, pause_form, refund_form};
use super::holdings::{inventory, lane_table};
use super::solvency::{depositories, last_audit};
use super::summary::{self, Summary};
use crate::Dashboard;
use crate::account::Account;
use crate::alarms::advice;
use crate::chart::meter;
use crate::decimal::{dollars, grouped, round_dollars};
use crate::failure::Failure;
use crate::json::{list, text, usd};
use crate::layout::{Frame, Page, Section};
use crate::markup::{coded, done, short, status, time};
use crate::times;

/// Rows of each list.
const MAX_STUCK: u32 = 50;
const MAX_UNDER_WAY: u32 = 20;
const MAX_ACTIONS: u32 = 50;
const MAX_PAUSES: u32 = 5;

/// How far a chain was followed.
struct Followed {
    chain: ChainId,
    /// The time of the last block of which everything is stored.
    last_block: Option<Timestamp>,
    /// Blocks on which nodes do not agree.
    disputed: u64,
}

/// Rows of the database that the page shows.
struct Rows {
    facts: Vec<Fact>,
    sponsored: Vec<(Timestamp, i64)>,
    /// How many requests are under way, and the oldest of them.
    under_way: (u64, Vec<UnderWay>),
    followed: Vec<Followed>,
    stuck: Vec<Stuck>,
    actions: Vec<Action>,
    /// Lanes by chain.
    lanes: Vec<(u64, Vec<Lane>)>,
    pauses: Vec<Pause>,
    audit: Option<AuditRun>,
    holdings: Vec<Holding>,
}

pub(crate) async fn page(
    State(dashboard): State<Dashboard>,
    account: Account,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Page, Failure> {
    let now = dashboard.now();
    let rows = dashboard.operator_rows().await?;
    let lives = dashboard.get(Acting::Operator, "/lives").await.unwrap_or_default();
    let risk = dashboard.get(Acting::Operator, "/operator/risk").await?;
    let losses = dashboard.get(Acting::Operator, "/operator/losses").await?;
    let summary = Summary::new(&rows.facts, now).with_sponsored(&rows.sponsored).for_operator();
    let body = html! {
        (done(query.get("done").map(String::as_str)))
        div data-live="operator" data-every="5" {
            (alarms(&dashboard, &lives))
            (summary.figures())
            (chains(&dashboard, &lives, &risk, &rows.followed))
            div.grid { (under_way(&rows.under_way, now)) (stuck(&dashboard, &rows.stuck)) }
            (inventory(&dashboard))
            (lane_table(&dashboard, &rows.lanes))
            div.grid { (depositories(&dashboard, &rows.holdings)) (last_audit(rows.audit.as_ref(), now)) }
            (lost(&losses))
            (summary.charts())
        }
        div.grid.thirds {
            (refund_form(&account)) (pause_form(&dashboard, &account, &rows.pauses)) (gas_form(&dashboard, &account))
        }
        (history(&rows.actions))
    };
    Ok(Frame::new("Operator", Section::Operator, &account).page(&body))
}

impl Dashboard {
    async fn operator_rows(&self) -> Result<Rows, Failure> {
        let since = summary::since(self.now());
        let chains: Vec<_> = self.app.catalog.chains().iter().map(|chain| chain.id).collect();
        let unit = move |tx: &mut store::Tx<'_>| {
            let (mut of_chains, mut followed) = (Vec::with_capacity(chains.len()), Vec::with_capacity(chains.len()));
            for chain in &chains {
                of_chains.push((chain.0, lanes::all(tx, *chain)?));
                followed.push(follow(tx, *chain)?);
            }
            Ok::<_, StoreError>(Rows {
                facts: overview::of_all(tx, since)?,
                sponsored: overview::sponsored_by_all(tx, since)?,
                under_way: overview::under_way(tx, MAX_UNDER_WAY)?,
                followed,
                stuck: overview::stuck(tx, MAX_STUCK)?,
                actions: operator_actions::newest(tx, MAX_ACTIONS)?,
                lanes: of_chains,
                pauses: pauses(tx)?,
                audit: audit_runs::last(tx)?,
                holdings: depository_holdings::all(tx)?,
            })
        };
        Ok(self.app.store.list(unit).await?)
    }

    pub(super) fn chain_name(&self, id: u64) -> String {
        let chain = self.app.catalog.chain(ChainId(id));
        chain.map_or_else(|| id.to_string(), |chain| chain.presentation.display_name.clone())
    }
}

fn follow(tx: &mut store::Tx<'_>, chain: ChainId) -> Result<Followed, StoreError> {
    let last_block = match blocks::cursor(tx, chain)? {
        Some(cursor) => blocks::time_of(tx, chain, cursor.number)?,
        None => None,
    };
    Ok(Followed { chain, last_block, disputed: doubtful_blocks::count(tx, chain)? })
}

/// The pauses in force, and then the newest that ended.
fn pauses(tx: &mut store::Tx<'_>) -> Result<Vec<Pause>, StoreError> {
    let mut pauses = chain_pauses::in_force(tx)?;
    pauses.extend(chain_pauses::newest(tx, MAX_PAUSES)?.into_iter().filter(|pause| pause.resumed.is_some()));
    Ok(pauses)
}

fn alarms(dashboard: &Dashboard, lives: &Value) -> Markup {
    let wrong = list(lives, "/report/wrong");
    html! {
        @if lives.is_null() {
            div.notice.bad role="alert" {
                p { "The service's own report cannot be made: the database does not answer." }
            }
        } @else if wrong.is_empty() {
            div.notice.good { p { strong { "All is well." } " Nothing needs a person." } }
        } @else {
            section.card {
                h2 { "Alarms" }
                ul.plain {
                    @for it in wrong {
                        li.notice.bad {
                            strong { (text(it, "/name")) }
                            @if let Some(chain) = it["chainId"].as_u64() { " on " (dashboard.chain_name(chain)) }
                            ": " (text(it, "/message"))
                            @if let Some(advice) = advice(text(it, "/name")) {
                                br; small { "It means that " (coded(advice.means)) ". To do: " (coded(advice.remedy)) "." }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn chains(dashboard: &Dashboard, lives: &Value, risk: &Value, followed: &[Followed]) -> Markup {
    let of = |id: &Value| list(risk, "/chains").iter().find(|it| it["chainId"] == *id);
    let follows = |id: &Value| followed.iter().find(|it| id.as_u64() == Some(it.chain.0));
    let now = dashboard.now();
    html! {
        section.card {
            h2 { "Chains" }
            div.scroll tabindex="0" {
                table {
                    thead {
                        tr {
                            th { "Chain" } th.number { "Block" } th { "Payments" } th { "Market" } th { "Nodes" }
                            th.number { "Disputed blocks" } th { "Risk budget used" }
                        }
                    }
                    tbody {
                        @for chain in list(lives, "/report/chains") {
                            tr {
                                th scope="row" { (dashboard.chain_name(chain["id"].as_u64().unwrap_or_default())) }
                                td.number {
                                    @match chain["block"].as_u64() {
                                        Some(block) => (grouped(block)), None => span.faint { "–" }
                                    }
                                    @if let Some(at) = follows(&chain["id"]).and_then(|it| it.last_block) {
                                        br; small { (times::length(now.millis().saturating_sub(at.millis()))) " old" }
                                    }
                                }
                                td {
                                    @match chain["paused"].as_str() {
                                        Some(why) => { (status("paused")) " " small { (why.strip_prefix("paused ").unwrap_or(why)) } }
                                        None => (said(&chain["refusing"]))
                                    }
                                }
                                td { (said(&chain["market"])) }
                                td { (said(&chain["nodes"])) }
                                td.number { (disputed(follows(&chain["id"]))) }
                                td { @if let Some(it) = of(&chain["id"]) { (budget(it)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn disputed(followed: Option<&Followed>) -> Markup {
    match followed.map(|it| it.disputed) {
        None => html! { span.faint { "–" } },
        Some(0) => html! { "0" },
        Some(count) => html! { span class="status bad" { (grouped(count)) } },
    }
}

/// A complaint, or that there is none.
fn said(value: &Value) -> Markup {
    match value.as_str() {
        Some(problem) => html! { span class="status bad" { "problem" } " " small { (problem) } },
        None => status("ok"),
    }
}

fn budget(risk: &Value) -> Markup {
    let used = [("Open", "/openUsd", "/openLimitUsd"), ("This minute", "/minuteUsd", "/minuteLimitUsd")];
    html! {
        div.halves {
            @for (name, path, limit) in used {
                @let (used, limit) = (usd(risk, path), usd(risk, limit));
                div {
                    (meter(name, used.unsigned_abs(), limit.unsigned_abs()))
                    small { (name) ": " (dollars(used)) " of " (round_dollars(limit)) }
                }
            }
        }
    }
}

/// Requests between their deposit and their end, the oldest first.
fn under_way((count, oldest): &(u64, Vec<UnderWay>), now: Timestamp) -> Markup {
    html! {
        section.card {
            h2 { "Requests under way" }
            @if oldest.is_empty() { p.faint { "None." } } @else {
                p {
                    strong { (grouped(*count)) @if *count >= u64::from(MAX_COUNTED) { " or more" } }
                    @if usize::try_from(*count).is_ok_and(|count| count > oldest.len()) {
                        ", of which these are the oldest"
                    }
                }
                div.scroll tabindex="0" {
                    table {
                        thead { tr { th { "Request" } th { "State" } th.number { "Worth" } th.number { "Age" } } }
                        tbody {
                            @for row in oldest {
                                @let id = row.request.to_string();
                                tr {
                                    td { a href={ "/dashboard/requests/" (id) } { code { (short(&id)) } } }
                                    td { (status(row.state.as_str())) }
                                    td.number { (row.amount_usd.map_or_else(String::new, dollars)) }
                                    td.number { (times::length(now.millis().saturating_sub(row.since.millis()))) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn stuck(dashboard: &Dashboard, rows: &[Stuck]) -> Markup {
    html! {
        section.card {
            h2 { "Payments that wait" }
            @if rows.is_empty() { p.faint { "None." } } @else {
                div.scroll tabindex="0" {
                    table {
                        thead { tr { th { "Request" } th { "Payment" } th { "Chain" } th { "Reason" } th { "Since" } } }
                        tbody {
                            @for row in rows {
                                @let id = row.request.to_string();
                                tr {
                                    td { a href={ "/dashboard/requests/" (id) } { code { (short(&id)) } } }
                                    td {
                                        (row.purpose)
                                        @if row.needs_person { " " span class="status bad" { "needs a person" } }
                                    }
                                    td { (dashboard.chain_name(row.chain.0)) }
                                    td { (row.reason) }
                                    td { (time(row.since)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn lost(losses: &Value) -> Markup {
    let rows = list(losses, "/losses");
    html! {
        @if !rows.is_empty() {
            section.card {
                h2 { "Losses to reorgs" }
                p { "May come back: $" (text(losses, "/missingUsd")) ". Booked: $" (text(losses, "/bookedUsd")) "." }
            }
        }
    }
}
