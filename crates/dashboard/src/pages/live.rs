//! Live updates: the steps of the account's requests as server-sent events. A page that hears one loads its parts
//! again.

use api::Acting;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::requests::acting;
use crate::Dashboard;
use crate::account::Account;
use crate::calls::with_query;
use crate::failure::Failure;

pub(crate) async fn stream(State(dashboard): State<Dashboard>, account: Account) -> Result<Response, Failure> {
    let keys = dashboard.keys_of(&account).await?;
    // A browser that gets no content does not ask again.
    let Some(key) = acting(&keys) else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let ids: Vec<String> = keys.iter().map(|key| key.id.to_string()).collect();
    let path = with_query("/requests/v3/stream", [("apiKey", ids.join(",").as_str())]);
    dashboard.open(Acting::Key(key), &path).await
}
