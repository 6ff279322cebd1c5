//! The first page: what the account's keys have moved, and what to do next.

use api::Acting;
use axum::extract::State;
use domain::api_key::{ApiKey, ApiKeyId};
use domain::catalog::Catalog;
use maud::{Markup, html};
use serde_json::Value;
use store::StoreError;
use store::overview::{self, MAX_FACTS};

use super::request_table::lines;
use super::requests::{acting, bound};
use super::summary::{self, Summary};
use crate::Dashboard;
use crate::account::Account;
use crate::calls::with_query;
use crate::failure::Failure;
use crate::json::list;
use crate::layout::{Frame, Page, Section};
use crate::markup::empty;

/// Newest requests that the page shows.
const NEWEST: &str = "6";

impl Dashboard {
    /// The newest requests of an account's keys. None where a listing is turned away for being too much at once.
    async fn newest(&self, keys: &[ApiKey]) -> Result<Option<Value>, Failure> {
        let Some(key) = acting(keys) else { return Ok(None) };
        let own = bound(keys, "")?;
        let path = with_query("/requests/v3", [("apiKey", own.as_str()), ("limit", NEWEST)]);
        match self.get(Acting::Key(key), &path).await {
            Ok(found) => Ok(Some(found)),
            Err(Failure::Refused { .. }) => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

pub(crate) async fn page(State(dashboard): State<Dashboard>, account: Account) -> Result<Page, Failure> {
    let now = dashboard.now();
    let keys = dashboard.keys_of(&account).await?;
    let newest = dashboard.newest(&keys).await?;
    let ids: Vec<ApiKeyId> = keys.iter().map(|key| key.id).collect();
    let since = summary::since(now);
    let wallets = dashboard.wallets_of(&account).await?;
    let unit = move |tx: &mut store::Tx<'_>| {
        let (mut facts, mut sponsored) = (Vec::new(), Vec::new());
        for id in &ids {
            facts.extend(overview::of_key(tx, *id, since)?);
        }
        for wallet in &wallets {
            sponsored.extend(overview::sponsored(tx, *wallet, since)?);
        }
        facts.sort_by_key(|fact| std::cmp::Reverse(fact.at));
        facts.truncate(usize::try_from(MAX_FACTS).unwrap_or(usize::MAX));
        Ok::<_, StoreError>((facts, sponsored))
    };
    let (facts, sponsored) = dashboard.app.store.list(unit).await?;
    let summary = Summary::new(&facts, now).with_sponsored(&sponsored);
    let body = html! {
        @if keys.is_empty() {
            (empty("This account has no API key yet.", &html! {
                a.button.primary href="/dashboard/keys" { "Create a key" }
                " and quote with it; transfers under it appear here."
            }))
        } @else {
            div data-live="overview" {
                (summary.figures())
                @if summary.is_empty() { (first_steps()) } @else { (summary.charts()) }
                @if let Some(newest) = &newest { (newest_table(newest, &dashboard.app.catalog)) }
            }
        }
    };
    Ok(Frame::new("Overview", Section::Overview, &account).page(&body))
}

fn first_steps() -> Markup {
    html! {
        section.card {
            h2 { "Nothing has moved in the last seven days" }
            ul.plain.steps {
                li {
                    strong { "Move something." }
                    " Pick two chains, see the costs, sign, and watch it arrive. "
                    a href="/dashboard/transfer" { "Make a transfer" }
                }
                li {
                    strong { "Be told." } " Every change of a request can be posted to your server. "
                    a href="/dashboard/webhooks" { "Set up webhooks" }
                }
                li {
                    strong { "Pay for your users." } " A balance sponsors fees and fills before deposits are final. "
                    a href="/dashboard/balance" { "Fund a balance" }
                }
            }
        }
    }
}

fn newest_table(found: &Value, catalog: &Catalog) -> Markup {
    let rows = list(found, "/requests");
    html! {
        @if !rows.is_empty() {
            section.card {
                div.spread { h2 { "Newest requests" } a href="/dashboard/requests" { "All requests" } }
                div.scroll tabindex="0" { (lines(rows, catalog)) }
            }
        }
    }
}
