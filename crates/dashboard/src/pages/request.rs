//! One request: what happened when, on which chains, at what cost, and why it is not done.

use std::sync::Arc;

use api::Acting;
use axum::extract::{Path, State};
use domain::api_key::ApiKey;
use domain::catalog::Catalog;
use domain::ids::{ChainId, RequestId};
use maud::{Markup, html};
use serde_json::Value;

use super::pay_address::PayAt;
use super::request_table::chain_name;
use super::requests::acting;
use super::webhooks::details;
use crate::Dashboard;
use crate::account::Account;
use crate::calls::with_query;
use crate::chart::split;
use crate::decimal::{dollars, grouped};
use crate::failure::Failure;
use crate::json::{amount, exact_amount, list, number, text, usd};
use crate::layout::{Frame, Page, Section, token};
use crate::markup::{copied, field, reason, short, status, time_in, time_of, words};
use crate::times;

/// Everything about a request that this account may see.
struct Loaded {
    record: Value,
    /// None for requests of others: they are public, and how they were decided is not.
    trace: Option<Value>,
    deliveries: Option<Value>,
}

impl Dashboard {
    async fn load_request(&self, account: &Account, id: RequestId) -> Result<Loaded, Failure> {
        let own = self.own_key_of(account, id).await?;
        let reader: Option<Arc<ApiKey>> = match &own {
            Some(key) => Some(key.clone()),
            None => acting(&self.keys_of(account).await?),
        };
        let hint = || Failure::Forbidden("Create an API key first: requests are read under one.");
        let reader = Acting::Key(reader.ok_or_else(hint)?);
        let text = id.to_string();
        let pairs = [("id", text.as_str()), ("includeAuthenticatedData", "true")];
        let found = self.get(reader, &with_query("/requests/v3", pairs)).await?;
        let record = list(&found, "/requests").first().cloned().ok_or(Failure::NotFound)?;
        let tracer = match &own {
            Some(key) => Some(Acting::Key(key.clone())),
            None => account.operator.then_some(Acting::Operator),
        };
        let trace = match tracer {
            Some(tracer) => Some(self.get(tracer, &format!("/requests/{id}/trace")).await?),
            None => None,
        };
        let deliveries = match own {
            Some(key) => {
                let path = with_query("/webhooks/deliveries", [("requestId", text.as_str()), ("limit", "50")]);
                Some(self.get(Acting::Key(key), &path).await?)
            }
            None => None,
        };
        Ok(Loaded { record, trace, deliveries })
    }
}

pub(crate) async fn page(
    State(dashboard): State<Dashboard>,
    account: Account,
    Path(id): Path<String>,
) -> Result<Page, Failure> {
    let id: RequestId = id.parse().map_err(|_| Failure::NotFound)?;
    let loaded = dashboard.load_request(&account, id).await?;
    let (record, catalog) = (&loaded.record, &dashboard.app.catalog);
    let body = html! {
        div data-live="request" data-status=(text(record, "/status")) {
            (head(record, loaded.trace.as_ref(), catalog))
            @if let Some(pay_at) = PayAt::of_record(catalog, record) { (pay_at.card()) }
            div.stacks {
                div {
                    @if let Some(trace) = &loaded.trace { (timeline(trace)) }
                    (fees(record))
                    @if let Some(trace) = &loaded.trace { (decisions(trace, catalog)) }
                }
                div {
                    (amounts(record))
                    (transactions(record, catalog))
                    @if let Some(deliveries) = &loaded.deliveries { (webhooks(deliveries)) }
                }
            }
            section.card {
                details {
                    summary { "Raw JSON" }
                    h3 { "Record" }
                    pre.raw tabindex="0" { (pretty(record)) }
                    @if let Some(trace) = &loaded.trace { h3 { "Trace" } pre.raw tabindex="0" { (pretty(trace)) } }
                }
            }
        }
        @if account.operator && is_paid_for(text(record, "/status")) { (refund_form(&account, id)) }
    };
    let title = format!("Request {}", short(&id.to_string()));
    Ok(Frame::new(&title, Section::Requests, &account).page(&body))
}

fn is_over(status: &str) -> bool {
    matches!(status, "success" | "refund" | "failure")
}

/// True while there is a deposit that an operator could have returned.
fn is_paid_for(status: &str) -> bool {
    !is_over(status) && status != "waiting"
}

/// True once amounts and costs have turned out. The record of any other request repeats what was quoted.
fn is_filled(record: &Value) -> bool {
    text(record, "/status") == "success"
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn head(record: &Value, trace: Option<&Value>, catalog: &Catalog) -> Markup {
    let quoted = &record["data"]["route"]["quoted"];
    html! {
        section.card {
            p.lead {
                strong { (amount(quoted, "/origin/inputCurrency")) }
                " on " (chain_name(catalog, quoted, "/origin/inputCurrency/currency/chainId"))
                " → "
                strong { (amount(quoted, "/destination/outputCurrency")) }
                " on " (chain_name(catalog, quoted, "/destination/outputCurrency/currency/chainId"))
            }
            p {
                (status(text(record, "/status")))
                @if let Some(name) = record["data"]["failReason"].as_str() { " " (reason(name)) }
                @if text(record, "/status") == "waiting" {
                    " waits for its payment"
                } @else if let Some(trace) = trace.filter(|_| !is_over(text(record, "/status"))) {
                    " waits for " (text(trace, "/awaits"))
                }
            }
            dl.facts {
                div { dt { "Request" } dd { (copied(text(record, "/id"))) } }
                div { dt { "Type" } dd { (text(record, "/requestType")) } }
                div { dt { "Sender" } dd { (copied(text(record, "/user"))) } }
                div { dt { "Recipient" } dd { (copied(text(record, "/recipient"))) } }
                div { dt { "Created" } dd { (time_in(text(record, "/createdAt"))) } }
                @if let Some(name) = record["data"]["apiKeyName"].as_str() { div { dt { "Key" } dd { (name) } } }
                @if let Some(referrer) = record["data"]["referrer"].as_str() {
                    div { dt { "Referrer" } dd { (referrer) } }
                }
            }
        }
    }
}

/// The states with the time between them.
fn timeline(trace: &Value) -> Markup {
    let events = list(trace, "/events");
    let at = |event: &Value| number(event, "/at").unwrap_or_default();
    html! {
        section.card {
            h2 { "Timeline" }
            ol.timeline {
                @for (index, event) in events.iter().enumerate() {
                    li class=[(index + 1 == events.len()).then_some("last")] {
                        (status(text(event, "/state")))
                        " " (time_of(Some(at(event))))
                        @if let Some(before) = index.checked_sub(1).and_then(|before| events.get(before)) {
                            " " small { "+" (times::length(at(event).saturating_sub(at(before)))) }
                        }
                        br; small { "by " code { (text(event, "/rule")) } }
                    }
                }
            }
            @if events.is_empty() { p.faint { "Nothing has happened yet." } }
        }
    }
}

fn amounts(record: &Value) -> Markup {
    let route = &record["data"]["route"];
    let actual = if is_filled(record) { &route["actual"] } else { &Value::Null };
    let rows = [
        ("In", "/origin/inputCurrency"),
        ("Deposited", "/origin/outputCurrency"),
        ("Paid from", "/destination/inputCurrency"),
        ("Out", "/destination/outputCurrency"),
    ];
    html! {
        section.card {
            h2 { "Amounts" }
            div.scroll tabindex="0" {
                table {
                    thead { tr { th {} th.number { "Quoted" } th.number { "Actual" } } }
                    tbody {
                        @for (name, path) in rows {
                            tr {
                                th scope="row" { (name) }
                                (amount_cell(&route["quoted"], path))
                                (amount_cell(actual, path))
                            }
                        }
                        @if record["data"]["refundCurrencyData"].is_object() {
                            tr { th scope="row" { "Refunded" } td {} (amount_cell(record, "/data/refundCurrencyData")) }
                        }
                    }
                }
            }
        }
    }
}

/// An amount as readers take it in; the pointer shows it to the last decimal.
fn amount_cell(value: &Value, path: &str) -> Markup {
    let shown = amount(value, path);
    html! {
        td.number title=(exact_amount(value, path)) {
            @if shown.is_empty() { span.faint { "–" } } @else { (shown) }
        }
    }
}

/// The costs by the names that the quote's page gives them, but for the flat fee, which a record counts with the gas.
const FEES: [(&str, &str, &str); 4] = [
    ("c-1", "Gas and flat fee", "/execution/usd"),
    ("c-2", "Service", "/platform/usd"),
    ("c-3", "Swap", "/swap/usd"),
    ("c-4", "App", "/app/usd"),
];

/// Costs, whose sign in the record is what they mean for the user.
fn fees(record: &Value) -> Markup {
    let parts = |phase: &Value| FEES.map(|(class, label, path)| (class, label, -usd(phase, path)));
    let all = &record["data"]["fees"];
    let sponsored = usd(&all["actual"], "/sponsored/usd");
    html! {
        section.card {
            h2 { "Costs" }
            h3 { "As quoted" } (split("Quoted costs", &parts(&all["quoted"])))
            @if is_filled(record) {
                h3 { "As they turned out" } (split("Actual costs", &parts(&all["actual"])))
            }
            @if sponsored != 0 { p { "A sponsor pays " strong { (dollars(sponsored)) } " of it." } }
        }
    }
}

fn transactions(record: &Value, catalog: &Catalog) -> Markup {
    let sides = [("In", list(record, "/data/inTxs")), ("Out", list(record, "/data/outTxs"))];
    html! {
        section.card {
            h2 { "Transactions" }
            @if sides.iter().all(|(_, txs)| txs.is_empty()) { p.faint { "None yet." } } @else {
                div.scroll tabindex="0" {
                    table {
                        thead { tr { th {} th { "Chain" } th { "Transaction" } th.number { "Block" } th { "Status" } } }
                        tbody {
                            @for (side, txs) in sides {
                                @for tx in txs {
                                    tr {
                                        th scope="row" { (side) }
                                        td { (chain_name(catalog, tx, "/chainId")) }
                                        td { (tx_link(catalog, tx)) }
                                        td.number { (block(tx)) }
                                        td { (status(text(tx, "/status"))) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The number of a block that has something.
fn block(value: &Value) -> String {
    value["block"].as_u64().map_or_else(|| "–".to_owned(), grouped)
}

/// The hash, with the chain's explorer where it has one.
fn tx_link(catalog: &Catalog, tx: &Value) -> Markup {
    let (hash, chain) = (text(tx, "/txHash"), tx["chainId"].as_u64().unwrap_or_default());
    let explorer = catalog.chain(ChainId(chain)).map(|chain| chain.presentation.explorer_url.trim_end_matches('/'));
    html! {
        (copied(hash))
        @if let Some(explorer) = explorer.filter(|url| url.starts_with("https://")) {
            " " a href={ (explorer) "/tx/" (hash) } rel="noopener noreferrer" { "explorer" }
        }
    }
}

/// Deposits, payments and what waits, with the reasons.
fn decisions(trace: &Value, catalog: &Catalog) -> Markup {
    html! {
        section.card {
            h2 { "Decisions" }
            @if ["/due", "/deposits", "/payments"].iter().all(|path| list(trace, path).is_empty()) {
                p.faint { "Nothing had to be decided yet." }
            }
            @for due in list(trace, "/due") {
                div.notice.warn {
                    p {
                        "A " (text(due, "/purpose")) " on " (chain_name(catalog, due, "/chainId"))
                        " waits: " strong { (text(due, "/reason")) }
                        @if due["needsPerson"] == true { " A person has to look at it." }
                    }
                }
            }
            ul.plain {
                @for deposit in list(trace, "/deposits") {
                    li {
                        "Deposit in block " (block(deposit))
                        " of " (chain_name(catalog, deposit, "/chainId")) ": " (status(text(deposit, "/state")))
                        @if let Some(refused) = deposit["refused"].as_str() { " " (refused) }
                    }
                }
                @for payment in list(trace, "/payments") {
                    li {
                        (words(text(payment, "/purpose"))) " on " (chain_name(catalog, payment, "/chainId"))
                        ", nonce "
                        (number(payment, "/nonce").unwrap_or_default()) ": " (status(text(payment, "/state")))
                        @if let Some(name) = payment["failReason"].as_str() { " " (reason(name)) }
                    }
                }
            }
            @if trace["loss"].is_object() { p.notice.bad { "A reorg took its deposit away after it was paid out." } }
        }
    }
}

fn webhooks(deliveries: &Value) -> Markup {
    let rows = list(deliveries, "/deliveries");
    html! {
        section.card {
            h2 { "Webhook deliveries" }
            @if rows.is_empty() { p.faint { "None: the key has no endpoint, or had none then." } }
            ul.plain {
                @for row in rows {
                    li {
                        (status(text(row, "/status"))) " " (status(text(row, "/state")))
                        " " (time_of(number(row, "/createdAt"))) (details(list(row, "/attempts")))
                    }
                }
            }
        }
    }
}

fn refund_form(account: &Account, id: RequestId) -> Markup {
    html! {
        form.card method="post" action="/dashboard/operator/refund" {
            h2 { "Operator: refund" }
            (token(account))
            input type="hidden" name="request" value=(id.to_string());
            (field("reason", "Reason", "Kept with the request, with your address.", &html! {
                input #reason name="reason" required maxlength="500" autocomplete="off";
            }))
            button.danger type="submit" { "Give up the fill and refund" }
        }
    }
}
