//! Live updates: the steps of the account's requests as server-sent events. A page that hears one loads its parts
//! again.

use api::Acting;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

use super::requests::acting;
use crate::Dashboard;
use crate::account::Account;
use crate::calls::{LAST_EVENT_ID, with_query};
use crate::failure::Failure;

pub(crate) async fn stream(
    State(dashboard): State<Dashboard>,
    account: Account,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let keys = dashboard.keys_of(&account).await?;
    // A browser that gets no content does not ask again.
    let Some(key) = acting(&keys) else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let ids: Vec<String> = keys.iter().map(|key| key.id.to_string()).collect();
    let path = with_query("/requests/v3/stream", [("apiKey", ids.join(",").as_str())]);
    dashboard.open_behind(Acting::Key(key), &path, headers.get(LAST_EVENT_ID)).await
}
