//! Actions of operators, each with who and why recorded before it is done: refunds, gas refills, pauses of chains.

use api::Acting;
use axum::extract::State;
use axum::http::Method;
use axum::response::Redirect;
use domain::ids::{ChainId, RequestId};
use maud::{Markup, html};
use serde_json::{Value, json};
use store::chain_pauses::Pause;
use store::operator_actions::{self, Action};

use super::holdings::fillers;
use crate::Dashboard;
use crate::account::Account;
use crate::failure::Failure;
use crate::guard::Fields;
use crate::layout::token;
use crate::markup::{copied, empty, field, short, status, time, words};

const MAX_REASON: usize = 500;

impl Dashboard {
    /// Does an action with who and why recorded before it is done, and how it ended after.
    async fn act(
        &self,
        account: &Account,
        (action, subject): (&str, &str),
        reason: &str,
        call: impl Future<Output = Result<Value, Failure>>,
    ) -> Result<(), Failure> {
        if reason.is_empty() || reason.chars().count() > MAX_REASON {
            return Err(Failure::bad(format!("reason: 1 to {MAX_REASON} characters")));
        }
        let action = Action {
            at: self.now(),
            account: account.address,
            action: action.to_owned(),
            subject: subject.to_owned(),
            reason: reason.to_owned(),
            outcome: None,
        };
        let id = self.app.store.write(move |tx| operator_actions::begin(tx, &action)).await?;
        let done = call.await;
        let outcome = match &done {
            Ok(_) => "done".to_owned(),
            Err(failure) => failure.to_string(),
        };
        self.app.store.write(move |tx| operator_actions::complete(tx, id, &outcome)).await?;
        done.map(drop)
    }
}

fn reason_field(id: &str) -> Markup {
    field(
        id,
        "Reason",
        "Recorded with your address.",
        &html! {
            input id=(id) name="reason" required maxlength=(MAX_REASON) autocomplete="off";
        },
    )
}

pub(super) fn refund_form(account: &Account) -> Markup {
    html! {
        form.card method="post" action="/dashboard/operator/refund" {
            h2 { "Refund a request" }
            (token(account))
            (field("request", "Request", "One that waits for its fill.", &html! {
                input #request name="request" required autocomplete="off" spellcheck="false";
            }))
            (reason_field("refund-reason"))
            button.danger type="submit" { "Give up the fill and refund" }
        }
    }
}

pub(super) fn pause_form(dashboard: &Dashboard, account: &Account, pauses: &[Pause]) -> Markup {
    let is_paused = |chain: ChainId| pauses.iter().any(|pause| pause.chain == chain && pause.resumed.is_none());
    html! {
        form.card method="post" action="/dashboard/operator/pause" {
            h2 { "Pause a chain" }
            (token(account))
            (field("chain", "Chain", "Nothing new is quoted or paid on it. Payments under way are finished.", &html! {
                select #chain name="chain" required {
                    @for chain in dashboard.app.catalog.chains() {
                        option value=(chain.id.0) {
                            (chain.presentation.display_name) @if is_paused(chain.id) { " (paused)" }
                        }
                    }
                }
            }))
            (reason_field("pause-reason"))
            div.row {
                button.danger type="submit" name="paused" value="yes" { "Pause" }
                button type="submit" name="paused" value="no" { "Resume" }
            }
            (paused(dashboard, pauses))
        }
    }
}

/// The newest pauses, whoever decided them: the command knows no accounts.
fn paused(dashboard: &Dashboard, pauses: &[Pause]) -> Markup {
    html! {
        ul.plain.pauses {
            @for pause in pauses {
                li {
                    strong { (dashboard.chain_name(pause.chain.0)) } " "
                    (status(if pause.resumed.is_none() { "paused" } else { "resumed" }))
                    br;
                    small { (time(pause.paused.at)) ", " (short(&pause.paused.by)) ": " (pause.paused.reason) }
                    @if let Some(end) = &pause.resumed {
                        br; small { (time(end.at)) ", " (short(&end.by)) ": " (end.reason) }
                    }
                }
            }
        }
    }
}

pub(super) fn gas_form(dashboard: &Dashboard, account: &Account) -> Markup {
    let fillers = fillers(dashboard);
    html! {
        form.card method="post" action="/dashboard/operator/topup" {
            h2 { "Fill up the fillers" }
            (token(account))
            @if fillers.is_empty() {
                p.faint { "No chain says what its wallets should have." }
            } @else {
                ul.plain {
                    @for filler in &fillers {
                        li {
                            (dashboard.chain_name(filler.chain)) " " (copied(&filler.wallet.to_string()))
                            " has " (filler.has.as_deref().unwrap_or("an unknown balance"))
                            @if let Some(lacks) = &filler.lacks { ", lacks " strong { (lacks) } }
                        }
                    }
                }
                (reason_field("topup-reason"))
                button type="submit" { "Send what is lacking" }
            }
        }
    }
}

pub(super) fn history(actions: &[Action]) -> Markup {
    html! {
        section.card {
            h2 { "Actions" }
            @if actions.is_empty() {
                (empty("No operator has acted here yet.", &html! { "Who did what, and why, is kept." }))
            } @else {
                div.scroll tabindex="0" {
                    table {
                        thead {
                            tr {
                                th { "At" } th { "Who" } th { "Action" } th { "Subject" } th { "Reason" }
                                th { "Outcome" }
                            }
                        }
                        tbody {
                            @for action in actions {
                                tr {
                                    td { (time(action.at)) }
                                    td { (copied(&action.account.to_string())) }
                                    td { (words(&action.action)) }
                                    td {
                                        @if action.subject.parse::<RequestId>().is_ok() {
                                            a href={ "/dashboard/requests/" (action.subject) } {
                                                code { (short(&action.subject)) }
                                            }
                                        } @else { (action.subject) }
                                    }
                                    td { (action.reason) }
                                    td { (action.outcome.as_deref().unwrap_or("not known")) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

pub(crate) async fn refund(
    State(dashboard): State<Dashboard>,
    account: Account,
    fields: Fields,
) -> Result<Redirect, Failure> {
    let id: RequestId = fields.get("request").parse().map_err(|_| Failure::bad("request: not a request's id"))?;
    let (subject, reason) = (id.to_string(), fields.get("reason"));
    let body = json!({ "requestId": subject, "by": account.address.to_string(), "reason": reason });
    let call = dashboard.send(Acting::Operator, Method::POST, "/operator/refunds", &body);
    dashboard.act(&account, ("refund", subject.as_str()), reason, call).await?;
    Ok(Redirect::to("/dashboard/operator?done=refunded"))
}

pub(crate) async fn top_up(
    State(dashboard): State<Dashboard>,
    account: Account,
    fields: Fields,
) -> Result<Redirect, Failure> {
    let body = json!({ "send": true });
    let call = dashboard.send(Acting::Operator, Method::POST, "/operator/topups", &body);
    dashboard.act(&account, ("top up", "every chain"), fields.get("reason"), call).await?;
    Ok(Redirect::to("/dashboard/operator?done=topped-up"))
}

pub(crate) async fn pause(
    State(dashboard): State<Dashboard>,
    account: Account,
    fields: Fields,
) -> Result<Redirect, Failure> {
    let chain: u64 = fields.get("chain").parse().map_err(|_| Failure::bad("chain: choose one of the list"))?;
    let (paused, action, done) = match fields.get("paused") {
        "yes" => (true, "pause", "paused"),
        "no" => (false, "resume", "resumed"),
        _ => return Err(Failure::bad("paused: yes or no")),
    };
    let (subject, reason) = (dashboard.chain_name(chain), fields.get("reason"));
    let by = account.address.to_string();
    let body = json!({ "chainId": chain, "paused": paused, "by": by, "reason": reason });
    let call = dashboard.send(Acting::Operator, Method::POST, "/operator/pauses", &body);
    dashboard.act(&account, (action, subject.as_str()), reason, call).await?;
    Ok(Redirect::to(&format!("/dashboard/operator?done={done}")))
}
