//! `GET /requests/v3`: the listing, for holders of a key.

mod export;
pub(super) mod query;
pub(super) mod record;
pub(super) mod row;
mod stream;

use axum::extract::State;
use serde::Serialize;
use store::StoreError;
use utoipa::ToSchema;

pub(crate) use self::export::{__path_requests_v3_csv, requests_v3_csv};
use self::query::V3Query;
use self::record::RecordV3;
pub(crate) use self::stream::{__path_requests_v3_stream, requests_v3_stream};
use crate::App;
use crate::caller::Keyed;
use crate::error::{ApiError, ErrorBody};
use crate::json::{Answer, ApiQuery};
use crate::listing::figures::View;
use crate::listing::lookup::Lookup;

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RequestsV3)]
pub(super) struct RequestsV3<'a> {
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
    security(("apiKey" = []), ("bearer" = [])),
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
pub(crate) async fn requests_v3(
    State(app): State<App>,
    Keyed(caller): Keyed,
    ApiQuery(query): ApiQuery<V3Query>,
) -> Result<Answer, ApiError> {
    let asked = query.read(Lookup::from(&app), &caller).await?;
    let sort = asked.search.sort;
    let after = asked.continuation.as_deref().map(|text| app.cursor_key.read(sort, text)).transpose()?;
    let parts = app.clone();
    // Written where it is read, at the low priority of those threads: a page takes longer to write than a quote.
    let unit = move |tx: &mut store::Tx<'_>| {
        let page = asked.search.page(tx, &parts.catalog, after, asked.limit)?;
        let total = if asked.total { Some(asked.search.total(tx, &parts.catalog)?) } else { None };
        let view = View { catalog: &parts.catalog, rendered: &parts.rendered };
        let shown = |listed| RecordV3::new(listed, view, asked.authenticated.then_some(&*caller));
        let body = RequestsV3 {
            requests: page.found.iter().filter_map(shown).collect(),
            continuation: page.last.map(|position| parts.cursor_key.write(sort, position)),
            total,
        };
        Ok::<_, StoreError>(Answer::of(&body))
    };
    app.store.list(unit).await.map_err(ApiError::of_listing)?
}
