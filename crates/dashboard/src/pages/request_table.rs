//! Requests as a table, for every page that lists them.

use domain::catalog::Catalog;
use domain::ids::ChainId;
use maud::{Markup, html};
use serde_json::Value;

use crate::decimal::dollars;
use crate::json::{amount, text, usd};
use crate::markup::{reason, short, status, time_in};

/// Columns of the table with their classes, in the order of their cells.
const COLUMNS: [(Option<&str>, &str); 7] = [
    (None, "Request"),
    (None, "Status"),
    (Some("wide"), "Type"),
    (None, "In"),
    (None, "Out"),
    (Some("number"), "Worth"),
    (None, "Created"),
];

/// Requests as a table, the first of them on top.
pub(super) fn lines(rows: &[Value], catalog: &Catalog) -> Markup {
    html! {
        // On a phone every line becomes a block of its own; with their roles spelled out, rows stay rows.
        table.stack role="table" {
            thead role="rowgroup" {
                tr role="row" {
                    @for (class, name) in COLUMNS { th class=[class] role="columnheader" { (name) } }
                }
            }
            tbody role="rowgroup" { @for row in rows { (line(row, catalog)) } }
        }
    }
}

/// The chain of an amount, by its name.
pub(super) fn chain_name(catalog: &Catalog, value: &Value, path: &str) -> String {
    let id = value.pointer(path).and_then(Value::as_u64).unwrap_or_default();
    let chain = catalog.chain(ChainId(id));
    chain.map_or_else(|| id.to_string(), |chain| chain.presentation.display_name.clone())
}

fn line(row: &Value, catalog: &Catalog) -> Markup {
    let (id, quoted) = (text(row, "/id"), &row["data"]["route"]["quoted"]);
    html! {
        tr role="row" {
            td role="cell" { a href={ "/dashboard/requests/" (id) } { code { (short(id)) } } }
            td role="cell" {
                (status(text(row, "/status")))
                @if let Some(name) = row["data"]["failReason"].as_str() { " " small.wide { (reason(name)) } }
            }
            td.wide role="cell" { (text(row, "/requestType")) }
            td.tight role="cell" {
                (amount(quoted, "/origin/inputCurrency")) br;
                small { (chain_name(catalog, quoted, "/origin/inputCurrency/currency/chainId")) }
            }
            td.tight role="cell" {
                (amount(quoted, "/destination/outputCurrency"))
                br; small { (chain_name(catalog, quoted, "/destination/outputCurrency/currency/chainId")) }
            }
            td.number role="cell" { (dollars(usd(quoted, "/origin/inputCurrency/amountUsd"))) }
            td role="cell" { (time_in(text(row, "/createdAt"))) }
        }
    }
}
