//! Webhooks of a key: the endpoint, a test event, and every delivery with its attempts.

use std::collections::HashMap;
use std::sync::Arc;

use api::Acting;
use axum::extract::{Path, Query, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use domain::api_key::ApiKey;
use domain::webhook::Status;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use crate::Dashboard;
use crate::account::Account;
use crate::calls::with_query;
use crate::failure::Failure;
use crate::guard::Fields;
use crate::json::{list, number, text};
use crate::layout::{Frame, Page, Section, token};
use crate::markup::{done, empty, field, short, status, time_of, words};
use crate::times;

const ENDPOINT: &str = "/webhooks/endpoint";
/// The most lines of custom headers.
const MAX_HEADERS: usize = 10;

/// Attempts of a delivery that a page shows, and characters of each answer: a page has dozens of deliveries.
const SHOWN_ATTEMPTS: usize = 3;
const SHOWN_CHARACTERS: usize = 200;

/// Goes to the webhooks of the account's first key that is not revoked.
pub(crate) async fn first(State(dashboard): State<Dashboard>, account: Account) -> Result<Response, Failure> {
    let keys = dashboard.keys_of(&account).await?;
    match keys.iter().find(|key| key.revoked_at.is_none()) {
        Some(key) => Ok(Redirect::to(&format!("/dashboard/keys/{}/webhooks", key.id)).into_response()),
        None => {
            let body = empty(
                "Webhooks belong to a key.",
                &html! {
                    a.button.primary href="/dashboard/keys" { "Create a key" } " first."
                },
            );
            Ok(Frame::new("Webhooks", Section::Webhooks, &account).page(&body).into_response())
        }
    }
}

pub(crate) async fn page(
    State(dashboard): State<Dashboard>,
    account: Account,
    Path(id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Page, Failure> {
    let key = dashboard.own_key(&account, &id).await?;
    let endpoint = dashboard.endpoint(&key).await?;
    let member = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    let pairs = ["state", "status", "requestId", "continuation"].map(|name| (name, member(name)));
    let deliveries = dashboard.get(Acting::Key(key.clone()), &with_query("/webhooks/deliveries", pairs)).await?;
    let keys = dashboard.keys_of(&account).await?;
    let body = html! {
        (done(query.get("done").map(String::as_str)))
        (other_keys(&keys, &key))
        (settings(&account, &key, endpoint.as_ref()))
        section.card {
            h2 { "Deliveries" }
            (filter(&key, member("state")))
            (log(&account, &key, &deliveries))
            @if let Some(next) = deliveries["continuation"].as_str() {
                @let path = format!("/dashboard/keys/{}/webhooks", key.id);
                p {
                    a.button href=(with_query(&path, [("state", member("state")), ("continuation", next)])) { "Older" }
                }
            }
        }
    };
    let title = format!("Webhooks of {}", key.name);
    Ok(Frame::new(&title, Section::Webhooks, &account).page(&body))
}

impl Dashboard {
    /// The endpoint of a key; none if it has none yet.
    async fn endpoint(&self, key: &Arc<ApiKey>) -> Result<Option<Value>, Failure> {
        match self.get(Acting::Key(key.clone()), ENDPOINT).await {
            Ok(endpoint) => Ok(Some(endpoint)),
            Err(Failure::Refused { status: StatusCode::NOT_FOUND, .. }) => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

fn other_keys(keys: &[ApiKey], shown: &ApiKey) -> Markup {
    html! {
        @if keys.len() > 1 {
            ul.tabs {
                @for key in keys.iter().filter(|key| key.revoked_at.is_none() || key.id == shown.id) {
                    li {
                        a href={ "/dashboard/keys/" (key.id.to_string()) "/webhooks" }
                            aria-current=[(key.id == shown.id).then_some("true")] { (key.name) }
                    }
                }
            }
        }
    }
}

fn settings(account: &Account, key: &ApiKey, endpoint: Option<&Value>) -> Markup {
    let base = format!("/dashboard/keys/{}/webhooks", key.id);
    let nothing = Value::Null;
    let known = endpoint.unwrap_or(&nothing);
    let enabled = endpoint.is_none_or(|endpoint| endpoint["enabled"] == true);
    let chosen: Vec<&str> = list(known, "/statuses").iter().filter_map(Value::as_str).collect();
    let headers: Vec<&str> = list(known, "/headerNames").iter().filter_map(Value::as_str).collect();
    html! {
        form.card method="post" action=(base) {
            h2 { "Endpoint" }
            (token(account))
            @if let Some(why) = known["disabledBecause"].as_str() {
                p.notice.warn { "The service switched it off: " (why) }
            }
            (field("url", "URL", "https, to a public host. Every change of a request is posted there.", &html! {
                input #url name="url" type="url" required value=(text(known, "/url")) autocomplete="off";
            }))
            label.check { input type="checkbox" name="enabled" value="yes" checked[enabled]; " Enabled" }
            fieldset {
                legend { "Statuses to be told of: all, if none is chosen" }
                @for it in Status::ALL {
                    label.check {
                        input type="checkbox" name="status" value=(it.as_str()) checked[chosen.contains(&it.as_str())];
                        " " (words(it.as_str()))
                    }
                }
            }
            (field("headers", "Custom headers, one per line", &kept(&headers), &html! {
                textarea #headers name="headers" rows="2" placeholder="Name: value" spellcheck="false" {}
            }))
            div.row {
                button.primary type="submit" { "Save" }
                @if endpoint.is_some() {
                    button type="submit" formaction={ (base) "/test" } formnovalidate { "Send a test event" }
                    button.danger type="submit" formaction={ (base) "/delete" } formnovalidate { "Delete" }
                }
            }
        }
    }
}

fn kept(headers: &[&str]) -> String {
    match headers {
        [] => "Sent with every event.".to_owned(),
        names => {
            format!("Set: {}. Their values are not shown again; lines here replace all of them.", names.join(", "))
        }
    }
}

fn filter(key: &ApiKey, state: &str) -> Markup {
    let base = format!("/dashboard/keys/{}/webhooks", key.id);
    html! {
        ul.tabs {
            @for (value, label) in [("", "All"), ("due", "Due"), ("delivered", "Delivered"), ("failed", "Failed")] {
                li {
                    a href=(with_query(&base, [("state", value)])) aria-current=[(state == value).then_some("true")] {
                        (label)
                    }
                }
            }
        }
    }
}

fn log(account: &Account, key: &ApiKey, deliveries: &Value) -> Markup {
    let rows = list(deliveries, "/deliveries");
    if rows.is_empty() {
        return empty("No deliveries.", &html! { "Save an endpoint and send a test event." });
    }
    html! {
        div.scroll tabindex="0" data-live="deliveries" {
            table {
                thead {
                    tr {
                        th { "Event" } th { "Request" } th { "State" } th { "Attempts" } th { "At" }
                        th { span.hidden { "Replay" } }
                    }
                }
                tbody { @for row in rows { (delivery(account, key, row)) } }
            }
        }
    }
}

fn delivery(account: &Account, key: &ApiKey, row: &Value) -> Markup {
    let (id, attempts) = (text(row, "/deliveryId"), list(row, "/attempts"));
    html! {
        tr {
            td { (status(text(row, "/status"))) }
            td {
                @match row["requestId"].as_str() {
                    Some(request) => a href={ "/dashboard/requests/" (request) } { code { (short(request)) } },
                    None => span.faint { "test" },
                }
            }
            td {
                (status(text(row, "/state"))) @if let Some(why) = row["endedBecause"].as_str() { " " small { (why) } }
            }
            td {
                @if attempts.is_empty() { span.faint { "none yet" } } @else { (details(attempts)) }
            }
            td { (time_of(number(row, "/createdAt"))) }
            td {
                @if text(row, "/state") != "due" {
                    form method="post" action={ "/dashboard/keys/" (key.id.to_string()) "/webhooks/replay" } {
                        (token(account))
                        input type="hidden" name="delivery" value=(id);
                        button.quiet type="submit" aria-label={ "Replay delivery " (id) } { "Replay" }
                    }
                }
            }
        }
    }
}

/// The last attempts of a delivery with the beginning of each answer, folded. The interface has all of them in full.
pub(super) fn details(attempts: &[Value]) -> Markup {
    let last = attempts.get(attempts.len().saturating_sub(SHOWN_ATTEMPTS)..).unwrap_or(attempts);
    html! {
        details {
            summary { (attempts.len()) @if attempts.len() == 1 { " attempt" } @else { " attempts" } }
            @if last.len() < attempts.len() { p.faint { "The last " (last.len()) ":" } }
            ol.attempts start=(attempts.len() - last.len() + 1) {
                @for attempt in last {
                    li {
                        (time_of(number(attempt, "/at")))
                        " " @match number(attempt, "/code") {
                            Some(code) => strong { (code) },
                            None => span.faint { "no answer" },
                        }
                        @if let Some(millis) = number(attempt, "/durationMillis") { " in " (times::length(millis)) }
                        @if let Some(error) = attempt["error"].as_str() { " " (error) }
                        @if let Some(body) = attempt["body"].as_str().filter(|body| !body.is_empty()) {
                            pre tabindex="0" { (beginning(body)) }
                        }
                    }
                }
            }
        }
    }
}

/// The first characters of an answer.
fn beginning(body: &str) -> String {
    match body.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", body.get(..end).unwrap_or_default()),
        None => body.to_owned(),
    }
}

/// The custom headers of a form. None leaves those that are set.
fn headers(lines: &str) -> Result<Option<Map<String, Value>>, Failure> {
    let mut headers = Map::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or_else(|| Failure::bad("headers: write Name: value"))?;
        headers.insert(name.trim().to_owned(), json!(value.trim()));
    }
    if headers.len() > MAX_HEADERS {
        return Err(Failure::bad(format!("headers: at most {MAX_HEADERS}")));
    }
    Ok((!headers.is_empty()).then_some(headers))
}

fn back(key: &ApiKey, done: &str) -> Redirect {
    Redirect::to(&format!("/dashboard/keys/{}/webhooks?done={done}", key.id))
}

pub(crate) async fn save(
    State(dashboard): State<Dashboard>,
    account: Account,
    Path(id): Path<String>,
    fields: Fields,
) -> Result<Redirect, Failure> {
    let key = dashboard.own_key(&account, &id).await?;
    let mut body = json!({
        "url": fields.get("url"),
        "enabled": fields.get("enabled") == "yes",
        "statuses": fields.all("status").collect::<Vec<_>>(),
    });
    if let Some(headers) = headers(fields.get("headers"))? {
        body["headers"] = Value::Object(headers);
    }
    dashboard.send(Acting::Key(key.clone()), Method::PUT, ENDPOINT, &body).await?;
    Ok(back(&key, "saved"))
}

pub(crate) async fn delete(
    State(dashboard): State<Dashboard>,
    account: Account,
    Path(id): Path<String>,
) -> Result<Redirect, Failure> {
    let key = dashboard.own_key(&account, &id).await?;
    dashboard.send(Acting::Key(key.clone()), Method::DELETE, ENDPOINT, &json!({})).await?;
    Ok(back(&key, "deleted"))
}

pub(crate) async fn test(
    State(dashboard): State<Dashboard>,
    account: Account,
    Path(id): Path<String>,
) -> Result<Redirect, Failure> {
    let key = dashboard.own_key(&account, &id).await?;
    let path = format!("/webhooks/endpoints/{}/test", domain::webhook::DEFAULT_ENDPOINT);
    dashboard.send(Acting::Key(key.clone()), Method::POST, &path, &json!({})).await?;
    Ok(back(&key, "tested"))
}

pub(crate) async fn replay(
    State(dashboard): State<Dashboard>,
    account: Account,
    Path(id): Path<String>,
    fields: Fields,
) -> Result<Redirect, Failure> {
    let key = dashboard.own_key(&account, &id).await?;
    let delivery: u64 = fields.get("delivery").parse().map_err(|_| Failure::bad("delivery: not an id"))?;
    let path = format!("/webhooks/deliveries/{delivery}/replay");
    dashboard.send(Acting::Key(key.clone()), Method::POST, &path, &json!({})).await?;
    Ok(back(&key, "replayed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_attempts_are_shown_with_the_beginning_of_their_answers() {
        let attempt = |n: u16| json!({ "at": 1, "code": 500 + n, "body": format!("{n}{}", "é".repeat(300)) });
        let shown = details(&(0..5).map(attempt).collect::<Vec<_>>()).into_string();
        assert!(shown.contains("5 attempts") && shown.contains("start=\"3\""), "{shown}");
        assert!(!shown.contains("501") && shown.contains("502") && shown.contains("504"), "{shown}");
        assert!(shown.contains(&format!("4{}…<", "é".repeat(199))), "{shown}");
        assert_eq!(beginning("short"), "short");
    }

    #[test]
    fn headers_are_lines_with_a_colon() {
        assert!(headers(" \n").unwrap().is_none());
        let read = headers("A: b:c\r\n X-Y :z").unwrap().unwrap();
        assert_eq!(Value::Object(read), json!({ "A": "b:c", "X-Y": "z" }));
        assert!(headers("nothing").is_err());
        let many: String = (0..11).map(|n| format!("h{n}: v\n")).collect();
        assert!(headers(&many).is_err());
    }
}
