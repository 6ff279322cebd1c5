//! Requests of the account's keys: the filters of the listing as a form whose address can be shared, and as a table.

use std::sync::Arc;

use api::Acting;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use domain::api_key::ApiKey;
use domain::catalog::Catalog;
use maud::{Markup, html};
use serde_json::Value;
use store::saved_views;
use url::form_urlencoded;

use super::request_table::lines;
use super::views::bar;
use crate::Dashboard;
use crate::account::Account;
use crate::calls::with_query;
use crate::failure::Failure;
use crate::json::list;
use crate::layout::{Frame, Page, Section};
use crate::markup::{empty, field, words};
use crate::times;

/// The parameters of a page that are passed on, as its form names them.
const PASSED: [&str; 40] = [
    "term",
    "id",
    "includeChildRequests",
    "depositAddress",
    "currencyInChainId",
    "currencyOutChainId",
    "startBlock",
    "endBlock",
    "user",
    "recipient",
    "status",
    "requestType",
    "originChainId",
    "destinationChainId",
    "chainId",
    "currencyInSymbol",
    "currencyOutSymbol",
    "currencyInAddress",
    "currencyOutAddress",
    "startTimestamp",
    "endTimestamp",
    "amountUsdMin",
    "amountUsdMax",
    "appFeesAmountUsdMin",
    "appFeesAmountUsdMax",
    "fillTimeMin",
    "fillTimeMax",
    "failReason",
    "refundFailReason",
    "features",
    "referrer",
    "filters",
    "sortBy",
    "sortDirection",
    "limit",
    "continuation",
    "orderId",
    "depositTxHash",
    "fillTxHash",
    "refundTxHash",
];
const STATUSES: [&str; 5] = ["success", "failure", "refund", "pending", "depositing"];
const TYPES: [&str; 7] = ["Bridge", "Crosschain Swap", "Same-chain Swap", "Send", "Wrap", "Unwrap", "Call"];
const SORTS: [(&str, &str); 3] = [("", "Creation"), ("updatedAt", "Last change"), ("amountUsd", "Amount")];
const DIRECTIONS: [(&str, &str); 2] = [("asc", "Ascending"), ("desc", "Descending")];

/// The query of the page: the passed members with a value, the chosen key, and whether everybody's requests are wanted.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pairs: Vec<(String, String)>,
    /// `since` and `until` as the listing names them, in Unix seconds.
    times: Vec<(&'static str, String)>,
    key: String,
    everybody: bool,
}

impl Asked {
    pub(super) fn parse(query: Option<&str>) -> Self {
        let mut asked = Self::default();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()).take(100) {
            let value = value.trim();
            match name.as_ref() {
                "apiKey" => value.clone_into(&mut asked.key),
                "scope" => asked.everybody = value == "all",
                "since" | "until" if !value.is_empty() => {
                    let listed = if name == "since" { "startTimestamp" } else { "endTimestamp" };
                    asked.times.push((listed, secs(value)));
                    asked.pairs.push((name.to_string(), value.to_owned()));
                }
                name if PASSED.contains(&name) && !value.is_empty() => {
                    asked.pairs.push((name.to_owned(), value.to_owned()));
                }
                _ => {}
            }
        }
        asked
    }

    fn get(&self, name: &str) -> &str {
        self.pairs.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The query of the listing: bound to the account's own keys, unless an operator asks for everybody's.
    fn listing<'a>(&'a self, keys: &'a str, operator: bool) -> Vec<(&'a str, &'a str)> {
        let own = if self.everybody && operator { "" } else { keys };
        let passed = self.pairs.iter().filter(|(name, _)| PASSED.contains(&name.as_str()));
        let passed = passed.map(|(name, value)| (name.as_str(), value.as_str()));
        let times = self.times.iter().map(|(name, value)| (*name, value.as_str()));
        passed.chain(times).chain([("apiKey", own), ("includeAuthenticatedData", "true")]).collect()
    }

    /// The filters as a query, from the first page on.
    pub(super) fn query(&self) -> String {
        let address = self.address("", "continuation", "");
        address.strip_prefix('?').unwrap_or_default().to_owned()
    }

    /// The address of this page with another member.
    fn address<'a>(&'a self, path: &str, name: &'a str, value: &'a str) -> String {
        let kept = self.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).filter(|(it, _)| *it != name);
        let scope = if self.everybody { "all" } else { "" };
        with_query(path, kept.chain([("apiKey", self.key.as_str()), ("scope", scope), (name, value)]))
    }
}

/// A time of a form's control, in UTC and Unix seconds. Text that is no time is left for the listing to refuse.
fn secs(given: &str) -> String {
    let whole = if given.len() == 16 { format!("{given}:00Z") } else { format!("{given}Z") };
    times::parse_iso(&whole).map_or_else(|| given.to_owned(), |at| at.secs().to_string())
}

/// The key that reads for the account: one that is good, if there is one.
pub(super) fn acting(keys: &[ApiKey]) -> Option<Arc<ApiKey>> {
    let good = keys.iter().find(|key| key.revoked_at.is_none());
    good.or(keys.first()).cloned().map(Arc::new)
}

/// The key that reads: the chosen one, under which its own integrator's filters are allowed, or any.
fn reading(keys: &[ApiKey], chosen: &str) -> Option<Arc<ApiKey>> {
    let key = keys.iter().find(|key| key.id.to_string() == chosen);
    key.cloned().map(Arc::new).or_else(|| acting(keys))
}

/// The ids that a listing is bound to. Keys of others are not among them, whatever the address says.
pub(super) fn bound(keys: &[ApiKey], chosen: &str) -> Result<String, Failure> {
    let ids: Vec<String> = keys.iter().map(|key| key.id.to_string()).collect();
    if chosen.is_empty() {
        return Ok(ids.join(","));
    }
    let own = ids.into_iter().find(|id| id == chosen);
    own.ok_or(Failure::NotFound)
}

pub(crate) async fn page(
    State(dashboard): State<Dashboard>,
    account: Account,
    RawQuery(query): RawQuery,
) -> Result<Page, Failure> {
    let keys = dashboard.keys_of(&account).await?;
    let frame = Frame::new("Requests", Section::Requests, &account);
    let asked = Asked::parse(query.as_deref());
    let Some(key) = reading(&keys, &asked.key) else {
        let body = empty(
            "Requests belong to a key.",
            &html! {
                a.button.primary href="/dashboard/keys" { "Create a key" } " first."
            },
        );
        return Ok(frame.page(&body));
    };
    let own = bound(&keys, &asked.key)?;
    let path = with_query("/requests/v3", asked.listing(&own, account.operator));
    let found = match dashboard.get(Acting::Key(key), &path).await {
        Ok(found) => Ok(found),
        // A filter that does not fit is said above the form, which keeps what was typed.
        Err(Failure::Refused { status, message }) if status.is_client_error() || status == 503 => Err(message),
        Err(failure) => return Err(failure),
    };
    let owner = account.address;
    let views = dashboard.app.store.read(move |tx| saved_views::of(tx, owner)).await?;
    let body = html! {
        (bar(&account, &asked, &views))
        (form(&asked, &keys, &dashboard.app.catalog, account.operator))
        @match &found {
            Err(message) => div.notice.bad role="alert" { p { (message) } },
            Ok(found) => (table(&asked, found, &dashboard.app.catalog)),
        }
    };
    Ok(frame.page(&body))
}

fn chosen(name: &str, current: &str, options: &[(String, String)]) -> Markup {
    html! {
        select id=(name) name=(name) {
            option value="" { "Any" }
            @for (value, label) in options { option value=(value) selected[value == current] { (label) } }
        }
    }
}

fn same(texts: &[&str]) -> Vec<(String, String)> {
    texts.iter().map(|text| ((*text).to_owned(), (*text).to_owned())).collect()
}

fn named(choices: &[(&str, &str)]) -> Vec<(String, String)> {
    choices.iter().map(|(value, name)| ((*value).to_owned(), (*name).to_owned())).collect()
}

/// Words of the interface as a list of choices.
fn worded(texts: &[&str]) -> Vec<(String, String)> {
    texts.iter().map(|text| ((*text).to_owned(), words(text))).collect()
}

fn typed(asked: &Asked, name: &str, label: &str, hint: &str) -> Markup {
    field(name, label, hint, &html! { input id=(name) name=(name) value=(asked.get(name)) autocomplete="off"; })
}

fn moment(asked: &Asked, name: &str, label: &str) -> Markup {
    let control = html! { input type="datetime-local" id=(name) name=(name) value=(asked.get(name)); };
    field(name, label, "In UTC.", &control)
}

/// Filters by a part of a request that few people look for: ids, hashes, addresses, and figures of its fees.
fn rarer(asked: &Asked, chains: &[(String, String)]) -> Markup {
    let choose = |name: &str, label: &str| field(name, label, "", &chosen(name, asked.get(name), chains));
    html! {
        (typed(asked, "orderId", "Order", "Its id."))
        (typed(asked, "depositTxHash", "Deposit transaction", "Its hash."))
        (typed(asked, "fillTxHash", "Fill transaction", ""))
        (typed(asked, "refundTxHash", "Refund transaction", ""))
        (typed(asked, "depositAddress", "Deposit address", ""))
        (typed(asked, "currencyInAddress", "Contract of the currency in", ""))
        (typed(asked, "currencyOutAddress", "Contract of the currency out", ""))
        (choose("currencyInChainId", "Chain of the currency in"))
        (choose("currencyOutChainId", "Chain of the currency out"))
        (typed(asked, "startBlock", "Block from", ""))
        (typed(asked, "endBlock", "Block to", ""))
        (typed(asked, "appFeesAmountUsdMin", "App fees from", "Dollars."))
        (typed(asked, "appFeesAmountUsdMax", "App fees to", ""))
        (typed(asked, "refundFailReason", "Reason of the refund", ""))
        (typed(asked, "referrer", "Referrer", "Of one key, which has to be chosen."))
    }
}

fn form(asked: &Asked, keys: &[ApiKey], catalog: &Catalog, operator: bool) -> Markup {
    let chains: Vec<(String, String)> =
        catalog.chains().iter().map(|chain| (chain.id.to_string(), chain.presentation.display_name.clone())).collect();
    let keys: Vec<(String, String)> = keys.iter().map(|key| (key.id.to_string(), key.name.clone())).collect();
    let choose = |name: &str, label: &str, options: &[(String, String)]| {
        field(name, label, "", &chosen(name, asked.get(name), options))
    };
    let shown = ["term", "status", "originChainId", "destinationChainId", "continuation"];
    let open = asked.pairs.iter().any(|(name, _)| !shown.contains(&name.as_str()));
    html! {
        form.card.filters method="get" action="/dashboard/requests" role="search" {
            (field("term", "Search", "", &html! {
                input #term name="term" value=(asked.get("term")) type="search" autocomplete="off"
                    placeholder="Id, hash or address";
            }))
            (choose("status", "Status", &worded(&STATUSES)))
            (choose("originChainId", "From", &chains))
            (choose("destinationChainId", "To", &chains))
            (field("apiKey", "Key", "", &chosen("apiKey", &asked.key, &keys)))
            details open[open] {
                summary { "More filters" }
                div.filters {
                    (choose("requestType", "Type", &same(&TYPES)))
                    (typed(asked, "user", "Sender", ""))
                    (typed(asked, "recipient", "Recipient", ""))
                    (typed(asked, "currencyInSymbol", "Currency in", "Such as USDC."))
                    (typed(asked, "currencyOutSymbol", "Currency out", ""))
                    (typed(asked, "amountUsdMin", "Dollars from", ""))
                    (typed(asked, "amountUsdMax", "Dollars to", ""))
                    (moment(asked, "since", "Since"))
                    (moment(asked, "until", "Until"))
                    (typed(asked, "fillTimeMin", "Fill time from", "Seconds."))
                    (typed(asked, "fillTimeMax", "Fill time to", ""))
                    (typed(asked, "failReason", "Fail reason", ""))
                    (typed(asked, "features", "Features", "Such as fast_fill,app_fees."))
                    (rarer(asked, &chains))
                    (typed(asked, "filters", "Groups", "JSON: [{\"status\":\"success\"},{\"not:user\":\"0x…\"}]"))
                    (field("sortBy", "Sort by", "", &html! {
                        select #sortBy name="sortBy" {
                            @for (value, label) in SORTS {
                                option value=(value) selected[value == asked.get("sortBy")] { (label) }
                            }
                        }
                    }))
                    (choose("sortDirection", "Order", &named(&DIRECTIONS)))
                    @if operator {
                        label.check {
                            input type="checkbox" name="scope" value="all" checked[asked.everybody];
                            " Requests of everybody"
                        }
                    }
                }
            }
            div.row {
                button.primary type="submit" { "Show" }
                a.button href="/dashboard/requests" { "Clear" }
                a.button href=(asked.address("/dashboard/requests.csv", "continuation", "")) { "Export CSV" }
            }
        }
    }
}

fn table(asked: &Asked, found: &Value, catalog: &Catalog) -> Markup {
    let rows = list(found, "/requests");
    if rows.is_empty() {
        return empty("No requests match.", &html! { a.button href="/dashboard/transfer" { "Make a transfer" } });
    }
    html! {
        div.card.scroll tabindex="0" data-live="requests" { (lines(rows, catalog)) }
        @if let Some(next) = found["continuation"].as_str() {
            p { a.button href=(asked.address("/dashboard/requests", "continuation", next)) { "Next page" } }
        }
    }
}

/// The table for books: the listing's own export, bound to the account's keys.
pub(crate) async fn csv(
    State(dashboard): State<Dashboard>,
    account: Account,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let keys = dashboard.keys_of(&account).await?;
    let asked = Asked::parse(query.as_deref());
    let key = reading(&keys, &asked.key).ok_or(Failure::NotFound)?;
    let own = bound(&keys, &asked.key)?;
    let pairs = asked.listing(&own, account.operator).into_iter();
    let pairs = pairs.filter(|(name, _)| !matches!(*name, "limit" | "continuation"));
    dashboard.open(Acting::Key(key), &with_query("/requests/v3.csv", pairs)).await
}

#[cfg(test)]
mod tests {
    use domain::api_key::{ApiKeyId, KeyLimits};
    use domain::time::Timestamp;

    use super::*;

    fn key(n: u8, revoked: bool) -> ApiKey {
        ApiKey {
            id: ApiKeyId::new([n; 10]),
            name: format!("key {n}"),
            wallet: None,
            limits: KeyLimits::default(),
            may_force_refund: false,
            created_at: Timestamp::from_secs(1),
            rotated_at: None,
            revoked_at: revoked.then_some(Timestamp::from_secs(2)),
        }
    }

    #[test]
    fn a_listing_is_bound_to_the_accounts_own_keys() {
        let keys = [key(1, true), key(2, false)];
        assert_eq!(acting(&keys).unwrap().id, keys[1].id);
        assert_eq!(reading(&keys, &keys[0].id.to_string()).unwrap().id, keys[0].id);
        assert_eq!(reading(&keys, &key(3, false).id.to_string()).unwrap().id, keys[1].id);
        let both = format!("{},{}", keys[0].id, keys[1].id);
        assert_eq!(bound(&keys, "").unwrap(), both);
        assert_eq!(bound(&keys, &keys[0].id.to_string()).unwrap(), keys[0].id.to_string());
        assert!(bound(&keys, &key(3, false).id.to_string()).is_err());
        for query in ["apiKey=x&status=success", "scope=all&status=success&apiKey=&unknown=1&user="] {
            let asked = Asked::parse(Some(query));
            let expected = [("status", "success"), ("apiKey", both.as_str()), ("includeAuthenticatedData", "true")];
            assert_eq!(asked.listing(&both, false), expected);
        }
        let since = Asked::parse(Some("since=2026-09-21T14:13&until=soon"));
        let expected = [("startTimestamp", "1789999980"), ("endTimestamp", "soon")];
        assert_eq!(since.listing(&both, false)[..2], expected);
        assert_eq!(since.address("/p", "limit", "5"), "/p?since=2026-09-21T14%3A13&until=soon&limit=5");
        let family = Asked::parse(Some("id=0x01&includeChildRequests=true&startBlock=5&depositAddress=0x02"));
        assert_eq!(family.listing(&both, false).len(), 6);
        let everybody = Asked::parse(Some("scope=all"));
        assert_eq!(everybody.listing(&both, true)[0], ("apiKey", ""));
    }

    #[test]
    fn the_address_of_a_page_keeps_its_filters() {
        let asked = Asked::parse(Some("status=success&continuation=a&scope=all"));
        assert_eq!(asked.address("/p", "continuation", "b"), "/p?status=success&scope=all&continuation=b");
        assert_eq!(asked.address("/p", "continuation", ""), "/p?status=success&scope=all");
        assert_eq!(asked.query(), "status=success&scope=all");
        // A view opens as it was saved.
        assert_eq!(Asked::parse(Some(&asked.query())).query(), asked.query());
        assert_eq!(Asked::parse(Some("unknown=1")).query(), "");
    }
}
