//! The filters of the listing that are measured: those that have an index, by name, and some of the others.

use alloy::primitives::B256;

use super::rows::{Row, Rows};

/// Different values of one filter, so that no answer is measured by its own echo alone.
const VALUES: usize = 40;
/// The newest requests, of which the values are taken: what people ask for is mostly of late.
const RECENT: u64 = 10_000;

/// One filter and the queries that it is measured by.
pub(crate) struct Filter {
    pub name: &'static str,
    pub queries: Vec<String>,
}

fn of(name: &'static str, queries: impl Iterator<Item = String>) -> Filter {
    Filter { name, queries: queries.take(VALUES).collect() }
}

fn one(name: &'static str, query: impl Into<String>) -> Filter {
    Filter { name, queries: vec![query.into()] }
}

/// The filters that are answered as fast in a large database as in a small one. `count` requests are there.
pub(crate) fn indexed(rows: &Rows, count: u64) -> Vec<Filter> {
    // A step that shares no factor with anything, so that all kinds are among them.
    let recent = move || (0..RECENT.min(count)).step_by(7).map(move |back| rows.row(count - 1 - back));
    let with = |keep: fn(&Row<'_>) -> bool| recent().filter(move |row| keep(row));
    let paid = || with(|row| row.state == "success" && !row.template.facts.same_chain);
    let refunded = || with(|row| row.state == "refunded" && !row.template.facts.same_chain);
    let addresses = || recent().filter_map(|row| row.deposit_address);
    let tx = |name: &str, hash: B256| format!("{name}={hash}");
    let (own, other) = (rows.own_key(), Rows::other_key(3));
    let busy = Rows::busy_user();
    let day = |row: Row<'_>| {
        let end = row.created_at / 1_000;
        format!("startTimestamp={}&endTimestamp={end}", end - 86_400)
    };
    let blocks = |row: Row<'_>| {
        let (block, chain) = (row.created_at / 2_000, row.template.facts.origin);
        format!("originChainId={chain}&startBlock={}&endBlock={block}", block - 1_000)
    };
    vec![
        one("nothing", ""),
        of("id", recent().map(|row| format!("id={}", row.id))),
        of("id, includeChildRequests", recent().map(|row| format!("id={}&includeChildRequests=true", row.id))),
        of("orderId", recent().map(|row| format!("orderId={}", row.order))),
        of("user", recent().map(|row| format!("user={}", row.user))),
        one("user, a busy one", format!("user={busy}")),
        of("recipient", recent().map(|row| format!("recipient={}", row.recipient))),
        of("term, an address", recent().map(|row| format!("term={}", row.user))),
        of("term, a hash", paid().map(|row| tx("term", row.payment_tx()))),
        of("term, a deposit address", addresses().map(|address| format!("term={address:#x}"))),
        of("depositAddress", addresses().map(|address| format!("depositAddress={address:#x}"))),
        of("depositTxHash", recent().map(|row| tx("depositTxHash", row.deposit_tx()))),
        of("fillTxHash", paid().map(|row| tx("fillTxHash", row.payment_tx()))),
        of("refundTxHash", refunded().map(|row| tx("refundTxHash", row.payment_tx()))),
        one("apiKey", format!("apiKey={own}")),
        one("apiKey, two", format!("apiKey={own},{other}")),
        one("status=success", "status=success"),
        one("status=failure", "status=failure"),
        one("status=refund", "status=refund"),
        one("status=pending", "status=pending"),
        one("failReason", "failReason=SLIPPAGE"),
        of("originChainId", recent().map(|row| format!("originChainId={}", row.template.facts.origin))),
        of("destinationChainId", recent().map(|row| format!("destinationChainId={}", row.template.facts.destination))),
        of("chainId", recent().map(|row| format!("chainId={}", row.template.facts.origin))),
        of("startTimestamp, endTimestamp", recent().map(day)),
        of("startBlock, endBlock, originChainId", recent().map(blocks)),
        one("sortBy=updatedAt", "sortBy=updatedAt"),
        one("sortBy=amountUsd", "sortBy=amountUsd&sortDirection=desc"),
        of("user and status", recent().map(|row| format!("user={}&status=success", row.user))),
        one("apiKey, status and chainId", format!("apiKey={own}&status=refund&chainId=8453")),
    ]
}

/// Filters without an index of their own: answered from the newest on as long as something matches, and ended in time
/// where nothing does.
pub(crate) fn others(rows: &Rows) -> Vec<Filter> {
    let own = rows.own_key();
    let none = "0x00000000000000000000000000000000000000ff";
    vec![
        one("requestType, none of it", "requestType=Unwrap"),
        one("currencyInAddress, none of it", format!("currencyInAddress={none}")),
        one("currencyOutAddress, none of it", format!("currencyOutAddress={none}")),
        one("currencyInSymbol", "currencyInSymbol=WETH"),
        one("currencyOutSymbol", "currencyOutSymbol=WETH"),
        one("features, none of it", "features=fast_fill"),
        one("amountUsdMin, none of it", "amountUsdMin=100000000000"),
        one("amountUsdMax, none of it", "amountUsdMax=0"),
        one("appFeesAmountUsdMin, none of it", "appFeesAmountUsdMin=100000000000"),
        one("appFeesAmountUsdMax", "appFeesAmountUsdMax=0"),
        one("fillTimeMin, none of it", "fillTimeMin=1000000"),
        one("fillTimeMax", "fillTimeMax=0.001"),
        one("referrer, none of it", format!("apiKey={own}&referrer=nobody")),
        one("failReason=UNKNOWN, none of it", "failReason=UNKNOWN"),
        one("refundFailReason, none of it", "refundFailReason=REFUND_RECIPIENT_IS_VASP"),
        one("startBlock, without a chain", "startBlock=999999999999"),
        one("endBlock, without a chain", "endBlock=1"),
        one("startBlock, endBlock, far apart", "originChainId=8453&startBlock=1&endBlock=1000000"),
        one(
            "filters, not:status",
            format!("filters={}", encoded(r#"[{"not:status":["success","refund","failure"]}]"#)),
        ),
        one("filters, not:refundTxHash", format!("filters={}", encoded(r#"[{"not:refundTxHash":null}]"#))),
        one("filters, not:fillTxHash", format!("filters={}", encoded(r#"[{"not:fillTxHash":null}]"#))),
        one("status, sortBy=updatedAt", "status=failure&sortBy=updatedAt"),
        one("includeTotal", "includeTotal=true"),
    ]
}

/// The text as a query carries it.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}
