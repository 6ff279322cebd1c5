//! Live updates: the steps of the account's requests as server-sent events. A page that hears one loads its parts
//! again.

use std::time::Duration;

use api::Acting;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::api_key::ApiKeyId;
use futures::stream::{self, StreamExt};
use store::{StoreError, key_owners, sessions};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::requests::acting;
use crate::Dashboard;
use crate::account::Account;
use crate::calls::{LAST_EVENT_ID, with_query};
use crate::failure::Failure;

/// Time between two looks whether a stream may go on.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The session that a stream was opened with.
struct Reader {
    dashboard: Dashboard,
    account: Account,
    keys: Vec<ApiKeyId>,
}

impl Reader {
    /// True while the session is open and the account has the keys that it had. A browser connects again by itself.
    async fn may_go_on(&self) -> bool {
        let (session, now, address) = (self.account.session, self.dashboard.now(), self.account.address);
        let unit = move |tx: &mut store::Tx<'_>| {
            Ok::<_, StoreError>((sessions::find(tx, session, now)?, key_owners::keys_of(tx, address)?))
        };
        match self.dashboard.app.store.read(unit).await {
            Ok((open, keys)) => open.is_some() && keys.iter().map(|key| key.id).eq(self.keys.iter().copied()),
            Err(_) => false,
        }
    }
}

struct Watched {
    reader: Reader,
    events: BodyDataStream,
    checks: Interval,
}

/// The next bytes of a stream. None ends it.
async fn next(mut watched: Watched) -> Option<(Result<Bytes, axum::Error>, Watched)> {
    loop {
        tokio::select! {
            biased;
            _ = watched.checks.tick() => {
                if !watched.reader.may_go_on().await {
                    return None;
                }
            }
            bytes = watched.events.next() => return bytes.map(|bytes| (bytes, watched)),
        }
    }
}

pub(crate) async fn stream(
    State(dashboard): State<Dashboard>,
    account: Account,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let keys = dashboard.keys_of(&account).await?;
    // A browser that gets no content does not ask again.
    let Some(key) = acting(&keys) else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let texts: Vec<String> = keys.iter().map(|key| key.id.to_string()).collect();
    let path = with_query("/requests/v3/stream", [("apiKey", texts.join(",").as_str())]);
    let response = dashboard.open_behind(Acting::Key(key), &path, headers.get(LAST_EVENT_ID)).await?;
    if !response.status().is_success() {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let mut checks = interval_at(Instant::now() + CHECK_INTERVAL, CHECK_INTERVAL);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let reader = Reader { dashboard, account, keys: keys.iter().map(|key| key.id).collect() };
    let watched = Watched { reader, events: body.into_data_stream(), checks };
    Ok(Response::from_parts(parts, Body::from_stream(stream::unfold(watched, next))))
}
