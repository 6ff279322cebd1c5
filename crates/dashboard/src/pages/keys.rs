//! API keys of the account: created and rotated with their text shown once, renamed, linked and revoked.

use std::collections::HashMap;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use domain::api_key::{ApiKey, ApiKeyId, Family, KeyLimits, KeyText, MAX_NAME, check_name};
use maud::{Markup, html};
use serde_json::{Value, json};
use store::key_usage::{self, Usage};
use store::keys::{self, StoredText};
use store::{StoreError, key_owners};

use crate::Dashboard;
use crate::account::Account;
use crate::chart::{Bar, bars};
use crate::decimal::grouped;
use crate::failure::Failure;
use crate::guard::Fields;
use crate::layout::{Frame, Page, Section, token};
use crate::markup::{copied, done, empty, field, status, time, words};
use crate::times;

/// Days of usage that a key's page shows.
const USAGE_DAYS: i64 = 14;
/// Times for which a replaced text may stay good, in hours.
const OVERLAPS: [(u64, &str); 4] =
    [(0, "Ends at once"), (1, "Ends in an hour"), (24, "Ends in a day"), (168, "Ends in a week")];

fn state(key: &ApiKey) -> &'static str {
    if key.revoked_at.is_some() { "revoked" } else { "active" }
}

pub(crate) async fn page(State(dashboard): State<Dashboard>, account: Account) -> Result<Page, Failure> {
    let keys = dashboard.keys_of(&account).await?;
    let body = html! {
        (new_key(&account))
        @if keys.is_empty() {
            (empty("No keys yet.", &html! {
                "A key identifies your application: it has limits of its own, webhooks, and a balance."
            }))
        } @else {
            (table(&keys))
        }
    };
    Ok(Frame::new("API keys", Section::Keys, &account).page(&body))
}

fn new_key(account: &Account) -> Markup {
    html! {
        form.card.inline method="post" action="/dashboard/keys" {
            (token(account))
            (field("name", "Name of a new key", "Only you and the operator see it.", &html! {
                input #name name="name" required maxlength=(MAX_NAME) placeholder="My application" autocomplete="off";
            }))
            button.primary type="submit" { "Create a key" }
        }
    }
}

fn table(keys: &[ApiKey]) -> Markup {
    html! {
        div.card.scroll tabindex="0" {
            table {
                thead { tr { th { "Name" } th { "Id" } th { "State" } th { "Wallet" } th { "Created" } } }
                tbody {
                    @for key in keys {
                        tr {
                            td { a href={ "/dashboard/keys/" (key.id.to_string()) } { (key.name) } }
                            td { (copied(&key.id.to_string())) }
                            td { (status(state(key))) }
                            td {
                                @match key.wallet {
                                    Some(wallet) => (copied(&wallet.to_string())),
                                    None => span.faint { "none" },
                                }
                            }
                            td { (time(key.created_at)) }
                        }
                    }
                }
            }
        }
    }
}

impl Dashboard {
    /// A new text for a key, in clear for the one who asked and sealed for the database.
    fn fresh_text(&self, id: ApiKeyId) -> Result<(KeyText, StoredText), Failure> {
        let master = self.app.webhooks.master.as_ref();
        let master = master.ok_or(Failure::Forbidden("Keys are not offered here: no master key is configured."))?;
        let text = KeyText::new(self.random());
        let stored = StoredText::new(id, &text, master, self.random());
        Ok((text, stored.map_err(|_| Failure::Internal("a key could not be sealed"))?))
    }
}

/// The page after a key got a text: the only time that it is shown.
fn shown_once(account: &Account, key: ApiKeyId, text: &KeyText) -> Page {
    let body = html! {
        div.notice.warn role="status" {
            p { strong { "Copy the key now. It is not shown again." } }
        }
        div.card {
            label for="secret" { "The key" }
            div.row {
                input.secret #secret readonly value=(text.expose()) autocomplete="off" spellcheck="false";
                button.copy type="button" data-copy=(text.expose()) hidden { "Copy" }
            }
            p.faint { "Send it as " code { "x-api-key" } ". Keep it on your server: whoever has it is you." }
        }
        p { a.button href={ "/dashboard/keys/" (key.to_string()) } { "Done" } }
    };
    Frame::new("Your key", Section::Keys, account).page(&body)
}

pub(crate) async fn create(
    State(dashboard): State<Dashboard>,
    account: Account,
    fields: Fields,
) -> Result<Page, Failure> {
    let name = fields.get("name").to_owned();
    check_name(&name).map_err(|error| Failure::bad(format!("name: {error}")))?;
    let key = ApiKey {
        id: ApiKeyId::new(dashboard.random()),
        name,
        wallet: None,
        limits: KeyLimits::default(),
        may_force_refund: false,
        created_at: dashboard.now(),
        rotated_at: None,
        revoked_at: None,
    };
    let (text, stored) = dashboard.fresh_text(key.id)?;
    let (id, owner) = (key.id, account.address);
    let unit = move |tx: &mut store::Tx<'_>| {
        if key_owners::count(tx, owner)? >= u64::from(key_owners::MAX_KEYS) {
            return Ok::<_, StoreError>(false);
        }
        keys::create(tx, &key, &stored)?;
        key_owners::give(tx, key.id, owner, key.created_at)
    };
    if !dashboard.app.store.write(unit).await? {
        return Err(Failure::bad(format!(
            "An account has at most {} keys. Revoke one that is not in use.",
            key_owners::MAX_KEYS
        )));
    }
    Ok(shown_once(&account, id, &text))
}

pub(crate) async fn one(
    State(dashboard): State<Dashboard>,
    account: Account,
    Path(id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Page, Failure> {
    let key = dashboard.own_key(&account, &id).await?;
    let (id, today) = (key.id, key_usage::day(dashboard.now()));
    let from = today - USAGE_DAYS + 1;
    let usage = dashboard.app.store.read(move |tx| key_usage::since(tx, id, from)).await?;
    let body = html! {
        (done(query.get("done").map(String::as_str)))
        (about(&key))
        section.card {
            h2 { "Limits and usage" }
            h3 { "Calls by day" }
            (usage_chart(&usage, from, today))
            (limits(&key, &usage, today))
        }
        @if key.revoked_at.is_none() { (changes(&account, &key)) }
    };
    Ok(Frame::new(&key.name, Section::Keys, &account).with(&["copy.js", "link.js"]).page(&body))
}

fn about(key: &ApiKey) -> Markup {
    let id = key.id.to_string();
    html! {
        dl.facts.card {
            div { dt { "Id" } dd { (copied(&id)) } }
            div { dt { "State" } dd { (status(state(key))) } }
            div { dt { "Created" } dd { (time(key.created_at)) } }
            @if let Some(at) = key.rotated_at { div { dt { "Rotated" } dd { (time(at)) } } }
            @if let Some(at) = key.revoked_at { div { dt { "Revoked" } dd { (time(at)) } } }
            div {
                dt { "Linked wallet" }
                dd {
                    @match key.wallet {
                        Some(wallet) => (copied(&wallet.to_string())),
                        None => span.faint { "none: fees cannot be sponsored" },
                    }
                }
            }
            div {
                dt { "Webhooks" } dd { a href={ "/dashboard/keys/" (id) "/webhooks" } { "Open" } }
            }
            div { dt { "Requests" } dd { a href={ "/dashboard/requests?apiKey=" (id) } { "Show" } } }
        }
    }
}

fn usage_chart(usage: &[(i64, Usage)], from: i64, today: i64) -> Markup {
    let of_day = |day: i64| {
        let rows = usage.iter().filter(|(at, _)| *at == day);
        rows.fold((0u64, 0u64), |(calls, refused), (_, it)| (calls + it.calls, refused + it.refused))
    };
    let day = |day: i64| {
        let (calls, refused) = of_day(day);
        let label = times::short_day(domain::time::Timestamp::from_secs(day.saturating_mul(86_400)));
        let title = format!("{label}: {} calls, {} refused", grouped(calls), grouped(refused));
        Bar { label, title, parts: vec![("c-main", calls.saturating_sub(refused)), ("c-bad", refused)] }
    };
    let days: Vec<Bar> = (from..=today).map(day).collect();
    bars("Calls by day", &days, grouped)
}

fn limits(key: &ApiKey, usage: &[(i64, Usage)], today: i64) -> Markup {
    let sum = |family: Family, since: i64| {
        let rows = usage.iter().filter(|(day, it)| *day >= since && it.family == family);
        rows.fold((0u64, 0u64), |(calls, refused), (_, it)| (calls + it.calls, refused + it.refused))
    };
    html! {
        div.scroll tabindex="0" {
            table {
                thead {
                    tr {
                        th { "Routes" } th.number { "Limit" } th.number { "Today" } th.number { "14 days" }
                        th.number { "Refused" }
                    }
                }
                tbody {
                    @for family in Family::ALL {
                        @let (calls, refused) = sum(family, i64::MIN);
                        tr {
                            td { (words(family.as_str())) }
                            td.number { (key.limits.rate(family).to_string()) }
                            td.number { (grouped(sum(family, today).0)) }
                            td.number { (grouped(calls)) }
                            td.number { (grouped(refused)) }
                        }
                    }
                }
            }
        }
    }
}

fn changes(account: &Account, key: &ApiKey) -> Markup {
    let base = format!("/dashboard/keys/{}", key.id);
    html! {
        div.grid {
            form.card method="post" action={ (base) "/rename" } {
                h2 { "Rename" }
                (token(account))
                (field("name", "New name", "", &html! {
                    input #name name="name" required maxlength=(MAX_NAME) value=(key.name) autocomplete="off";
                }))
                button type="submit" { "Rename" }
            }
            form.card method="post" action={ (base) "/rotate" } {
                h2 { "Rotate" }
                (token(account))
                (field("overlap", "The old key", "Webhooks are signed with the new key at once.", &html! {
                    select #overlap name="overlap" {
                        @for (hours, label) in OVERLAPS { option value=(hours) { (label) } }
                    }
                }))
                button type="submit" { "Rotate the key" }
            }
            section.card #link data-key=(key.id.to_string()) {
                h2 { "Link a wallet" }
                p {
                    "Its app balance pays sponsored fees and fast fills of this key. Linking is a signature; "
                    "the key cannot withdraw."
                }
                div #wallets .wallets {}
                p.notice.bad #problem role="alert" hidden {}
                noscript { p.faint { "A wallet signs by a script." } }
            }
            form.card method="post" action={ (base) "/revoke" } {
                h2 { "Revoke" }
                (token(account))
                p { "The key ends for good, and with it its webhooks." }
                label.check { input type="checkbox" name="sure" value="yes" required; " I am sure." }
                button.danger type="submit" { "Revoke the key" }
            }
        }
    }
}

pub(crate) async fn rename(
    State(dashboard): State<Dashboard>,
    account: Account,
    Path(id): Path<String>,
    fields: Fields,
) -> Result<Redirect, Failure> {
    let (key, name) = (dashboard.own_key(&account, &id).await?, fields.get("name").to_owned());
    check_name(&name).map_err(|error| Failure::bad(format!("name: {error}")))?;
    let id = key.id;
    dashboard.app.store.write(move |tx| keys::rename(tx, id, &name)).await?;
    dashboard.app.keys.forget(id);
    Ok(Redirect::to(&format!("/dashboard/keys/{id}?done=renamed")))
}

pub(crate) async fn rotate(
    State(dashboard): State<Dashboard>,
    account: Account,
    Path(id): Path<String>,
    fields: Fields,
) -> Result<Page, Failure> {
    let id = dashboard.own_key(&account, &id).await?.id;
    let hours = fields.get("overlap").parse::<u64>().ok();
    let hours = hours.filter(|hours| OVERLAPS.iter().any(|(known, _)| known == hours));
    let overlap = Duration::from_secs(hours.ok_or_else(|| Failure::bad("overlap: choose one of the list"))? * 3_600);
    let (text, stored) = dashboard.fresh_text(id)?;
    let now = dashboard.now();
    let rotated = dashboard.app.store.write(move |tx| keys::rotate(tx, id, &stored, now.plus(overlap), now)).await?;
    if !rotated {
        return Err(Failure::bad("The key is revoked."));
    }
    dashboard.app.keys.forget(id);
    Ok(shown_once(&account, id, &text))
}

pub(crate) async fn revoke(
    State(dashboard): State<Dashboard>,
    account: Account,
    Path(id): Path<String>,
    fields: Fields,
) -> Result<Redirect, Failure> {
    let (id, now) = (dashboard.own_key(&account, &id).await?.id, dashboard.now());
    if fields.get("sure") != "yes" {
        return Err(Failure::bad("Say that you are sure: a revoked key does not come back."));
    }
    dashboard.app.store.write(move |tx| keys::revoke(tx, id, now)).await?;
    dashboard.app.keys.forget(id);
    Ok(Redirect::to(&format!("/dashboard/keys/{id}?done=revoked")))
}

/// Asks for the message that links a wallet, or links it with the signature.
pub(crate) async fn wallet(
    State(dashboard): State<Dashboard>,
    account: Account,
    Path(id): Path<String>,
    fields: Fields,
) -> Result<Response, Failure> {
    let key = dashboard.own_key(&account, &id).await?;
    let mut body = json!({ "wallet": fields.get("wallet") });
    if !fields.get("signature").is_empty() {
        body["signature"] = json!(fields.get("signature"));
    }
    let answer: Value = dashboard.send(api::Acting::Key(key), Method::POST, "/keys/wallet", &body).await?;
    Ok(Json(answer).into_response())
}
