//! Queries that are refused, with the field they are refused for.

use axum::response::IntoResponse;
use store::StoreError;

use super::seeds::{self, World};
use super::{account, escape, read};
use crate::error::ApiError;

super::on_both_engines! {
    a_query_that_does_not_fit_is_refused_by_the_name_of_its_field
    filters_that_do_not_fit_are_refused
}

async fn a_query_that_does_not_fit_is_refused_by_the_name_of_its_field(world: World) -> anyhow::Result<()> {
    let own = seeds::OWN_KEY;
    let both = format!("apiKey={own},{}&referrer=shop", seeds::FOREIGN_KEY);
    let unknown = format!("apiKey={own},key_ffffffffffffffffffff&referrer=shop");
    let long = format!("apiKey={}", (0..71).map(|n| format!("key_{n:020}")).collect::<Vec<_>>().join(","));
    for (query, status, field) in [
        ("limit=0", 400, "limit"),
        ("limit=51", 400, "limit"),
        ("limit=ten", 400, "limit"),
        ("includeTotal=yes", 400, "includeTotal"),
        ("includeAuthenticatedData=1", 400, "includeAuthenticatedData"),
        ("id=0x12&includeChildRequests=true", 400, "id"),
        ("user=0x12", 400, "user"),
        ("recipient=not%20an%20address", 400, "recipient"),
        // Letters in mixed case are a checksum.
        ("user=0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed", 400, "user"),
        ("depositAddress=0xzz", 400, "depositAddress"),
        ("term=%3Cscript%3E", 400, "term"),
        ("orderId=7", 400, "orderId"),
        ("depositTxHash=0xab", 400, "depositTxHash"),
        ("fillTxHash=x", 400, "fillTxHash"),
        ("refundTxHash=", 400, "refundTxHash"),
        ("originChainId=base", 400, "originChainId"),
        ("destinationChainId=-1", 400, "destinationChainId"),
        ("chainId=1.5", 400, "chainId"),
        ("currencyInChainId=x", 400, "currencyInChainId"),
        ("currencyOutAddress=0x1", 400, "currencyOutAddress"),
        ("status=waiting", 400, "status"),
        ("status=submitted", 400, "status"),
        ("status=fallback", 400, "status"),
        ("failReason=NO_SUCH_REASON", 400, "failReason"),
        ("refundFailReason=SLIPPAGE", 400, "refundFailReason"),
        ("requestType=Gift", 400, "requestType"),
        ("features=fast_fill,magic", 400, "features"),
        ("sortBy=id", 400, "sortBy"),
        ("sortDirection=up", 400, "sortDirection"),
        ("startTimestamp=yesterday", 400, "startTimestamp"),
        ("endBlock=-5", 400, "endBlock"),
        ("amountUsdMin=1e3", 400, "amountUsdMin"),
        ("amountUsdMax=0.0000001", 400, "amountUsdMax"),
        ("appFeesAmountUsdMin=.5", 400, "appFeesAmountUsdMin"),
        ("fillTimeMax=-1", 400, "fillTimeMax"),
        ("amountUsdMin=5&amountUsdMax=4", 400, "amountUsdMin"),
        ("startTimestamp=5&endTimestamp=4", 400, "startTimestamp"),
        ("startBlock=5&endBlock=4", 400, "startBlock"),
        ("fillTimeMin=5&fillTimeMax=4", 400, "fillTimeMin"),
        ("referrer=shop", 400, "referrer"),
        ("referrer=", 400, "referrer"),
        (&format!("apiKey={own}&referrer="), 400, "referrer"),
        (&both, 403, "referrer"),
        (&unknown, 403, "referrer"),
        (&long, 400, "apiKey"),
    ] {
        check(&world, query, status, field).await?;
    }
    read(&world, &world.caller, "user=0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed").await?;
    Ok(())
}

async fn filters_that_do_not_fit_are_refused(world: World) -> anyhow::Result<()> {
    let own = seeds::OWN_KEY;
    let null_among = serde_json::json!([{ "status": ["success", null] }]);
    let many: Vec<_> = (0..21).map(|_| serde_json::json!({})).collect();
    let values: Vec<_> = (0..51).map(|_| account(1)).collect();
    let in_all: Vec<_> = (0..5).map(|_| serde_json::json!({ "user": values[..41] })).collect();
    for (filters, status, field) in [
        ("{".to_owned(), 400, "filters"),
        ("{}".to_owned(), 400, "filters"),
        ("[1]".to_owned(), 400, "filters"),
        (r#"[{"magic":1}]"#.to_owned(), 400, "filters"),
        (r#"[{"features":"fast_fill"}]"#.to_owned(), 400, "filters"),
        (r#"[{"status":true}]"#.to_owned(), 400, "filters"),
        (r#"[{"status":[]}]"#.to_owned(), 400, "filters"),
        (r#"[{"status":[["success"]]}]"#.to_owned(), 400, "filters"),
        (null_among.to_string(), 400, "filters"),
        (serde_json::json!(many).to_string(), 400, "filters"),
        (serde_json::json!([{ "user": values }]).to_string(), 400, "filters"),
        (serde_json::json!(in_all).to_string(), 400, "filters"),
        (r#"[{"status":"waiting"}]"#.to_owned(), 400, "status"),
        (r#"[{"referrer":"shop"}]"#.to_owned(), 400, "referrer"),
        (r#"[{"not:referrer":"shop"}]"#.to_owned(), 400, "referrer"),
        (serde_json::json!([{ "referrer": "shop", "not:apiKey": own }]).to_string(), 400, "referrer"),
        (serde_json::json!([{ "referrer": null, "apiKey": seeds::FOREIGN_KEY }]).to_string(), 403, "referrer"),
    ] {
        check(&world, &format!("filters={}", escape(&filters)), status, field).await?;
    }
    Ok(())
}

async fn check(world: &World, query: &str, status: u16, field: &str) -> anyhow::Result<()> {
    let Err(error) = read(world, &world.caller, query).await else { anyhow::bail!("{query} is accepted") };
    let message = error.to_string();
    assert!(message.starts_with(field), "{query}: {message}");
    assert_eq!(error.into_response().status().as_u16(), status, "{query}: {message}");
    Ok(())
}

#[test]
fn a_listing_that_takes_too_long_says_how_to_narrow_it_down() {
    let (status, body) = ApiError::of_listing(StoreError::Timeout).answer();
    let body = serde_json::to_value(body).unwrap();
    assert_eq!((status.as_u16(), &body["errorCode"]), (503, &"REQUEST_TIMED_OUT".into()));
    assert!(body["message"].as_str().unwrap().contains("narrow it down"), "{body}");
}
