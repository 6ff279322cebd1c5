//! `GET /requests/v3`: the listing, for holders of a key.

mod query;
mod record;

use axum::extract::State;
use serde::Serialize;
use store::StoreError;
use store::listing::{self, Listing};
use utoipa::ToSchema;

use self::query::V3Query;
use self::record::RecordV3;
use crate::App;
use crate::caller::Keyed;
use crate::error::{ApiError, ErrorBody};
use crate::json::{Answer, ApiQuery};

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RequestsV3)]
pub struct RequestsV3<'a> {
    requests: Vec<RecordV3<'a>>,
    /// Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    continuation: Option<String>,
    /// The number of all matches, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
}

/// Lists requests.
#[utoipa::path(
    get,
    path = "/requests/v3",
    params(V3Query),
    responses(
        (status = 200, description = "A page of requests", body = RequestsV3<'static>),
        (status = 400, description = "A parameter does not fit", body = ErrorBody),
        (status = 401, description = "No key, or not a valid one", body = ErrorBody),
        (status = 403, description = "A referrer of another integrator's key", body = ErrorBody),
        (status = 429, description = "Too many calls", body = ErrorBody),
        (status = 503, description = "The listing took too long: narrow it down", body = ErrorBody),
    )
)]
pub async fn requests_v3(
    app: State<App>,
    Keyed(caller): Keyed,
    ApiQuery(query): ApiQuery<V3Query>,
) -> Result<Answer, ApiError> {
    let asked = query.read(&app, &caller).await?;
    let after = asked.continuation.as_deref().map(|text| app.cursor_key.read(asked.sort, text)).transpose()?;
    // One more than is shown says whether there is another page.
    let listing = Listing { condition: asked.condition, sort: asked.sort, after, limit: asked.limit + 1 };
    let (limit, total, unpaid) = (usize::from(asked.limit), asked.total, asked.unpaid);
    let catalog = app.catalog.clone();
    let unit = move |tx: &mut store::Tx<'_>| {
        let mut positions = listing::page(tx, &listing)?;
        let more = positions.len() > limit;
        positions.truncate(limit);
        let mut found = Vec::with_capacity(positions.len());
        for position in &positions {
            found.extend(listing::listed(tx, position.id)?);
        }
        let total = if total { Some(listing::count(tx, &listing.condition)?) } else { None };
        if let (true, None, Some(id)) = (found.is_empty(), after, unpaid) {
            found.extend(listing::unpaid(tx, id, &listing.condition, &catalog)?);
        }
        let last = positions.last().copied().filter(|_| more);
        Ok::<_, StoreError>((found, last, total))
    };
    let (found, last, total) = app.store.list(unit).await?;
    let shown = |listed| RecordV3::new(listed, &app, asked.authenticated.then_some(&*caller));
    let body = RequestsV3 {
        requests: found.iter().filter_map(shown).collect(),
        continuation: last.map(|position| app.cursor_key.write(asked.sort, position)),
        total: total.map(|total| total.max(found.len() as u64)),
    };
    Answer::of(&body)
}
