//! `GET /requests/v2`: the older listing, for anybody, until its sunset.

pub(super) mod query;
pub(super) mod record;

use axum::extract::State;
use domain::catalog::Currency;
use serde::Serialize;
use store::StoreError;
use utoipa::ToSchema;

use self::query::V2Query;
use self::record::{Reading, RecordV2};
use crate::App;
use crate::caller::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::json::{Answer, ApiQuery};
use crate::listing::figures::View;
use crate::listing::lookup::Lookup;
use crate::retirement::DeprecationBody;

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RequestsV2)]
pub(super) struct RequestsV2<'a> {
    requests: Vec<RecordV2<'a>>,
    /// Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    continuation: Option<String>,
    deprecation: DeprecationBody<'a>,
}

/// Lists requests, as before v3.
///
/// Deprecated: its limit is cut every month, and after `Sunset` it answers 410. To move to `GET /requests/v3`: send a key.
/// `hash` is `term`, or `depositTxHash`, `fillTxHash` and `refundTxHash`; `user` is the sender alone, beside `recipient` and
/// `depositAddress`; `referrer` needs `apiKey`. In records, `hash` of a transaction is `txHash`; `fees` are the former
/// `expandedPriceImpact` with amounts, whose `relay` is `platform`; `appFees` and `paidAppFees` are `appFees.quoted` and `appFees.actual`;
/// `feeSponsorship` is all about sponsors; `metadata` is `sender` and `data.route`; `referrer` is `data.referrer`, for its
/// own integrator; `"N/A"` is null; and a fill on its way is `submitted`.
#[utoipa::path(
    get,
    path = "/requests/v2",
    params(V2Query),
    responses(
        (status = 200, description = "A page of requests", body = RequestsV2<'static>),
        (status = 400, description = "A parameter does not fit", body = ErrorBody),
        (status = 410, description = "The route has been retired: use its successor", body = ErrorBody),
        (status = 429, description = "Too many calls: the limit is cut every month", body = ErrorBody),
        (status = 503, description = "The listing took too long: narrow it down", body = ErrorBody),
    )
)]
pub(crate) async fn requests_v2(
    State(app): State<App>,
    caller: Caller,
    ApiQuery(query): ApiQuery<V2Query>,
) -> Result<Answer, ApiError> {
    let asked = query.read(Lookup::from(&app), caller.key()).await?;
    let sort = asked.search.sort;
    let after = asked.continuation.as_deref().map(|text| app.cursor_key.read(sort, text)).transpose()?;
    let parts = app.clone();
    // Written where it is read, as in v3.
    let unit = move |tx: &mut store::Tx<'_>| {
        let page = asked.search.page(tx, &parts.catalog, after, asked.limit)?;
        let price_now = |currency: &Currency| {
            let market = parts.market.current(currency.chain).ok()?;
            market.price(currency.address.evm()?).ok()
        };
        let reading = Reading {
            view: View { catalog: &parts.catalog, rendered: &parts.rendered },
            price_now: &price_now,
            caller: caller.key(),
            authenticated: asked.authenticated,
            order_data: asked.order_data,
        };
        let body = RequestsV2 {
            requests: page.found.iter().filter_map(|listed| RecordV2::new(listed, reading)).collect(),
            continuation: page.last.map(|position| parts.cursor_key.write(sort, position)),
            deprecation: parts.retirement.body(),
        };
        Ok::<_, StoreError>(Answer::of(&body))
    };
    app.store.list(unit).await.map_err(ApiError::of_listing)?
}
