//! `GET /requests/v3.csv`: every request that matches, as a table for books.
//!
//! Pages are read as the client takes them, so an export holds one page in memory however long it is. One that cannot
//! be finished ends the connection without its last chunk: nobody takes half of a table for the whole.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use domain::api_key::ApiKey;
use futures::stream;
use solver::error::Chained;
use store::listing::Position;
use tracing::warn;

use super::query::V3Query;
use super::row::{HEADER, row};
use crate::App;
use crate::caller::Keyed;
use crate::error::{ApiError, ErrorBody};
use crate::json::ApiQuery;
use crate::listing::figures::View;
use crate::listing::lookup::Lookup;
use crate::listing::open::{Long, Open};
use crate::listing::search::{Page, Search};

const REQUESTS_PER_PAGE: u16 = 100;
const MAX_PAGES: u32 = 10_000;
const TRIES: u32 = 3;

/// Exports requests as CSV.
///
/// Takes the filters and the sorting of the listing, and sends everything that matches, up to a million requests.
#[utoipa::path(
    get,
    path = "/requests/v3.csv",
    security(("apiKey" = []), ("bearer" = [])),
    params(V3Query),
    responses(
        (status = 200, description = "One line for each request, after a line of names", body = String,
         content_type = "text/csv"),
        (status = 400, description = "A parameter does not fit", body = ErrorBody),
        (status = 401, description = "No key, or not a valid one", body = ErrorBody),
        (status = 403, description = "A referrer of another integrator's key", body = ErrorBody),
        (status = 429, description = "Too many calls or open exports", body = ErrorBody),
        (status = 503, description = "The listing took too long: narrow it down", body = ErrorBody),
    )
)]
pub(crate) async fn requests_v3_csv(
    State(app): State<App>,
    Keyed(caller): Keyed,
    ApiQuery(query): ApiQuery<V3Query>,
) -> Result<Response, ApiError> {
    query.refuse_paging()?;
    let asked = query.read(Lookup::from(&app), &caller).await?;
    let open = app.open_answers.open(Long::Export, caller.id)?;
    let owner = asked.authenticated.then_some(caller);
    let mut export = Export { search: Arc::new(asked.search), owner, after: None, pages: 0, ended: false, open, app };
    // The first page is read before the answer begins, so that a query which takes too long gets an answer of its own.
    let first = export.page().await.map_err(ApiError::of_listing)?;
    let begin = Bytes::from(format!("{HEADER}\r\n{first}"));
    let rest = stream::unfold(export, next);
    let all = stream::StreamExt::chain(stream::iter([Ok::<_, io::Error>(begin)]), rest);
    // Compression asks once more after the end.
    let body = Body::from_stream(stream::StreamExt::fuse(all));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8; header=present")),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"requests.csv\"")),
    ];
    Ok((headers, body).into_response())
}

struct Export {
    app: App,
    search: Arc<Search>,
    /// The caller, where it asked for members that only a request's own integrator sees.
    owner: Option<Arc<ApiKey>>,
    after: Option<Position>,
    pages: u32,
    ended: bool,
    open: Open,
}

async fn next(mut export: Export) -> Option<(io::Result<Bytes>, Export)> {
    if export.ended {
        return None;
    }
    if export.open.stop().is_cancelled() {
        return Some(export.broken("the service is stopping"));
    }
    if export.pages == MAX_PAGES {
        return Some(export.broken("an export has a million requests at most"));
    }
    for _ in 0..TRIES {
        match export.page().await {
            Ok(text) => return Some((Ok(Bytes::from(text)), export)),
            Err(error) => warn!(error = %Chained(&error), "a page of an export could not be read"),
        }
    }
    Some(export.broken("the database does not answer"))
}

impl Export {
    /// The next requests as lines.
    async fn page(&mut self) -> Result<String, store::StoreError> {
        let (search, catalog, after) = (self.search.clone(), self.app.catalog.clone(), self.after);
        let unit = move |tx: &mut store::Tx<'_>| search.page(tx, &catalog, after, REQUESTS_PER_PAGE);
        let Page { found, last } = self.app.store.list(unit).await?;
        (self.after, self.ended) = (last, last.is_none());
        self.pages += 1;
        let view = View { catalog: &self.app.catalog, rendered: &self.app.rendered };
        Ok(found.iter().filter_map(|listed| row(listed, view, self.owner.as_deref())).collect())
    }

    fn broken(mut self, why: &'static str) -> (io::Result<Bytes>, Self) {
        self.ended = true;
        (Err(io::Error::other(why)), self)
    }
}
