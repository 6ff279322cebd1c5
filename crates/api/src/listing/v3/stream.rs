//! `GET /requests/v3/stream`: the steps of requests as they are taken, as server-sent events.
//!
//! The position in the one table of events is each event's id: a client that was cut off shows the last it got and goes
//! on behind it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use domain::api_key::ApiKey;
use futures::stream::{self, Stream};
use serde::Serialize;
use solver::error::Chained;
use store::StoreError;
use store::listing::{self, Batch, Condition, Gap, Listed, Step};
use tracing::warn;
use utoipa::ToSchema;

use super::query::V3Query;
use super::record::RecordV3;
use crate::App;
use crate::caller::Keyed;
use crate::error::{ApiError, ErrorBody};
use crate::in_process::Acting;
use crate::json::ApiQuery;
use crate::listing::figures::View;
use crate::listing::filter::bad;
use crate::listing::lookup::Lookup;
use crate::listing::open::{Long, Open};

const POLL_INTERVAL: Duration = Duration::from_millis(400);
const RETRY_DELAY: Duration = Duration::from_secs(2);
const MAX_FAILURES: u32 = 5;
/// Then the client connects again, perhaps to another process.
const MAX_AGE: Duration = Duration::from_secs(3_600);
/// Events that do not match, after which the client is told how far it is all the same.
const STEPS_IN_SILENCE: i64 = 100;
const NAME: &str = "request.status.updated";

/// The data of one event.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RequestEventV3)]
pub(super) struct EventBody<'a> {
    request_id: String,
    /// As it was then.
    status: &'static str,
    /// Unix milliseconds.
    timestamp: i64,
    /// As it is now. Null where a currency of it is no longer configured.
    #[schema(required = true)]
    request: Option<RecordV3<'a>>,
}

/// Streams the steps of requests.
///
/// Takes the filters of the listing. `status` and, with `sortBy=updatedAt`, the time are those of the step. The stream
/// begins with the next step, or behind the one that `Last-Event-ID` names; 0 is the beginning of all.
#[utoipa::path(
    get,
    path = "/requests/v3/stream",
    security(("apiKey" = []), ("bearer" = [])),
    params(V3Query, ("Last-Event-ID" = Option<i64>, Header, description = "The last event that arrived")),
    responses(
        (status = 200, description = "One event for each step", body = EventBody<'static>,
         content_type = "text/event-stream"),
        (status = 400, description = "A parameter does not fit", body = ErrorBody),
        (status = 401, description = "No key, or not a valid one", body = ErrorBody),
        (status = 403, description = "A referrer of another integrator's key", body = ErrorBody),
        (status = 429, description = "Too many calls or open streams", body = ErrorBody),
        (status = 503, description = "The listing took too long: narrow it down", body = ErrorBody),
    )
)]
pub(crate) async fn requests_v3_stream(
    State(app): State<App>,
    Keyed(caller): Keyed,
    within: Option<Extension<Acting>>,
    headers: HeaderMap,
    ApiQuery(query): ApiQuery<V3Query>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    query.refuse_order()?;
    let given = headers.get("last-event-id").map(|value| position(value.to_str().ok())).transpose()?;
    let asked = query.read(Lookup::from(&app), &caller).await?;
    let kind = if within.is_some() { Long::Watch } else { Long::Stream };
    let open = app.open_answers.open(kind, caller.id)?;
    let position = match given {
        Some(position) => position,
        None => app.store.list(listing::newest).await.map_err(ApiError::of_listing)?,
    };
    let reader = Reader {
        condition: asked.search.condition,
        owner: asked.authenticated.then_some(caller),
        position,
        told: position,
        gap: None,
        ready: VecDeque::from([Event::default().id(position.to_string()).retry(RETRY_DELAY)]),
        until: Instant::now() + MAX_AGE,
        failures: 0,
        open,
        app,
    };
    Ok(Sse::new(stream::unfold(reader, next)).keep_alive(KeepAlive::default()))
}

fn position(text: Option<&str>) -> Result<i64, ApiError> {
    let number = text.and_then(|text| text.trim().parse().ok()).filter(|number: &i64| *number >= 0);
    number.ok_or_else(|| bad("Last-Event-ID", "must be the id of an event"))
}

/// One client's place in the events.
struct Reader {
    app: App,
    condition: Condition,
    /// The caller, where it asked for members that only a request's own integrator sees.
    owner: Option<Arc<ApiKey>>,
    position: i64,
    /// The last id that the client was told.
    told: i64,
    gap: Option<Gap>,
    ready: VecDeque<Event>,
    until: Instant,
    failures: u32,
    open: Open,
}

/// The next event, once there is one. None ends the stream.
async fn next(mut reader: Reader) -> Option<(Result<Event, Infallible>, Reader)> {
    loop {
        if let Some(event) = reader.ready.pop_front() {
            return Some((Ok(event), reader));
        }
        if Instant::now() >= reader.until || reader.open.stop().is_cancelled() {
            return None;
        }
        let pause = match reader.read().await {
            Ok(true) => continue,
            Ok(false) => POLL_INTERVAL,
            Err(error) => {
                reader.failures += 1;
                warn!(error = %Chained(&error), "events could not be read for a stream");
                if reader.failures == MAX_FAILURES {
                    return None;
                }
                RETRY_DELAY
            }
        };
        let stop = reader.open.stop().clone();
        stop.run_until_cancelled(tokio::time::sleep(pause)).await;
    }
}

impl Reader {
    /// Reads the next batch. True if there may be more at once.
    async fn read(&mut self) -> Result<bool, StoreError> {
        let (condition, position, gap) = (self.condition.clone(), self.position, self.gap);
        let unit = move |tx: &mut store::Tx<'_>| {
            let batch = listing::after(tx, position, &condition, gap)?;
            let mut found = Vec::with_capacity(batch.steps.len());
            for step in &batch.steps {
                found.push((*step, listing::listed(tx, step.request)?));
            }
            Ok::<_, StoreError>((batch, found))
        };
        let (Batch { position, gap, full, .. }, found) = self.app.store.list(unit).await?;
        (self.position, self.gap, self.failures) = (position, gap, 0);
        for (step, listed) in &found {
            let event = self.event(step, listed.as_ref());
            self.ready.push_back(event);
            self.told = step.sequence;
        }
        if self.position - self.told >= STEPS_IN_SILENCE {
            self.told = self.position;
            self.ready.push_back(Event::default().id(self.position.to_string()));
        }
        Ok(full || !self.ready.is_empty())
    }

    fn event(&self, step: &Step, listed: Option<&Listed>) -> Event {
        let view = View { catalog: &self.app.catalog, rendered: &self.app.rendered };
        let body = EventBody {
            request_id: step.request.to_string(),
            status: step.state.status(),
            timestamp: step.at.millis(),
            request: listed.and_then(|listed| RecordV3::new(listed, view, self.owner.as_deref())),
        };
        let data = serde_json::to_string(&body).unwrap_or_default();
        Event::default().id(step.sequence.to_string()).event(NAME).data(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_a_number_that_an_event_can_have() {
        assert_eq!(position(Some("0")).unwrap(), 0);
        assert_eq!(position(Some(" 17")).unwrap(), 17);
        for bad in [None, Some(""), Some("-1"), Some("x"), Some("9223372036854775808")] {
            assert!(position(bad).is_err(), "{bad:?}");
        }
    }
}
