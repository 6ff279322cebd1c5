//! The first page: what the account's keys have moved, and what to do next.

use axum::extract::State;
use domain::api_key::ApiKeyId;
use maud::html;
use store::StoreError;
use store::overview::{self, MAX_FACTS};

use super::summary::{self, Summary};
use crate::Dashboard;
use crate::account::Account;
use crate::failure::Failure;
use crate::layout::{Frame, Page, Section};
use crate::markup::empty;

pub(crate) async fn page(State(dashboard): State<Dashboard>, account: Account) -> Result<Page, Failure> {
    let now = dashboard.now();
    let keys: Vec<ApiKeyId> = dashboard.keys_of(&account).await?.into_iter().map(|key| key.id).collect();
    let (ids, since) = (keys.clone(), summary::since(now));
    let unit = move |tx: &mut store::Tx<'_>| {
        let mut facts = Vec::new();
        for id in &ids {
            facts.extend(overview::of_key(tx, *id, since)?);
        }
        facts.sort_by_key(|fact| std::cmp::Reverse(fact.at));
        facts.truncate(usize::try_from(MAX_FACTS).unwrap_or(usize::MAX));
        Ok::<_, StoreError>(facts)
    };
    let facts = dashboard.app.store.list(unit).await?;
    let summary = Summary::new(&facts, now);
    let body = html! {
        @if keys.is_empty() {
            (empty("This account has no API key yet.", &html! {
                a.button.primary href="/dashboard/keys" { "Create a key" }
                " and quote with it; transfers under it appear here."
            }))
        } @else if summary.is_empty() {
            (empty("Nothing has moved in the last seven days.", &html! {
                a.button.primary href="/dashboard/transfer" { "Make a transfer" }
            }))
        } @else {
            div data-live="overview" { (summary.figures()) (summary.charts()) }
        }
    };
    Ok(Frame::new("Overview", Section::Overview, &account).page(&body))
}
