//! A transfer: chosen, quoted with its costs as a picture, signed in a wallet or paid at an address, and watched on the
//! request's page.

use std::sync::Arc;

use alloy_primitives::Address;
use api::Acting;
use axum::extract::State;
use axum::http::Method;
use domain::api_key::ApiKey;
use domain::catalog::Catalog;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::pay_address::PayAt;
use super::request_table::chain_name;
use super::transfer_form::{Wish, form};
use crate::Dashboard;
use crate::account::Account;
use crate::chart::split;
use crate::decimal::{brief, dollars};
use crate::failure::Failure;
use crate::guard::Fields;
use crate::json::{amount, list, text, usd};
use crate::layout::{Frame, Page, Section};
use crate::times;

/// The chains as a wallet has to know them to be switched to one, as JSON.
pub(super) fn wallet_chains(catalog: &Catalog) -> String {
    let chain = |chain: &domain::catalog::Chain| {
        json!({
            "id": chain.id.0,
            "name": chain.presentation.display_name,
            "rpcUrl": chain.presentation.http_rpc_url,
            "explorerUrl": chain.presentation.explorer_url,
            "native": { "name": chain.native.name, "symbol": chain.native.symbol, "decimals": chain.native.decimals },
        })
    };
    Value::Array(catalog.chains().iter().map(chain).collect()).to_string()
}

fn good(keys: Vec<ApiKey>) -> Vec<ApiKey> {
    keys.into_iter().filter(|key| key.revoked_at.is_none()).collect()
}

pub(crate) async fn page(State(dashboard): State<Dashboard>, account: Account) -> Result<Page, Failure> {
    let keys = good(dashboard.keys_of(&account).await?);
    let key = keys.first().map(|key| key.id.to_string()).unwrap_or_default();
    let catalog = &dashboard.app.catalog;
    let body = html! { (form(catalog, &account, &keys, &Wish::first(catalog, key), "")) (introduction()) };
    Ok(framed(&account, &body))
}

pub(crate) async fn quote(
    State(dashboard): State<Dashboard>,
    account: Account,
    fields: Fields,
) -> Result<Page, Failure> {
    let (keys, catalog) = (good(dashboard.keys_of(&account).await?), &dashboard.app.catalog);
    let wish = Wish::of(&fields);
    let acting = match keys.iter().find(|key| key.id.to_string() == wish.key) {
        Some(key) => Acting::Key(Arc::new(key.clone())),
        None if wish.key.is_empty() => Acting::Nobody,
        None => return Err(Failure::NotFound),
    };
    if fields.get("switch") == "yes" {
        let wish = wish.switched(catalog);
        return Ok(framed(&account, &html! { (form(catalog, &account, &keys, &wish, "")) (introduction()) }));
    }
    let watched = matches!(acting, Acting::Key(_));
    let asked = match wish.ask(catalog, account.address) {
        Ok(ask) => dashboard.send(acting, Method::POST, "/quote/v2", &ask).await,
        Err(failure) => Err(failure),
    };
    // Refusals are said beside the form, which keeps what was typed.
    let quoted = match asked {
        Ok(quote) => Ok(quote),
        Err(failure @ (Failure::Bad(_) | Failure::Refused { .. })) => Err(failure.to_string()),
        Err(failure) => return Err(failure),
    };
    let receives = quoted.as_ref().map(|quote| amount(quote, "/details/currencyOut")).unwrap_or_default();
    let body = html! {
        (form(catalog, &account, &keys, &wish, &receives))
        @match &quoted {
            Ok(quote) => (offer(catalog, quote, &wish, account.address, watched)),
            Err(message) => div.notice.bad role="alert" { p { (message) } },
        }
    };
    Ok(framed(&account, &body))
}

fn framed(account: &Account, body: &Markup) -> Page {
    Frame::new("Transfer", Section::Transfer, account).with(&["copy.js", "transfer.js"]).page(body)
}

/// The course of a transfer, for somebody who has not made one.
fn introduction() -> Markup {
    html! {
        section.card {
            h2 { "How it goes" }
            ol.plain.steps {
                li { strong { "Quote." } " You see what arrives, at least and as expected, and what each part costs." }
                li { strong { "Pay." } " You sign a deposit in your wallet, or send it to an address from an exchange." }
                li {
                    strong { "Watch." } " The request's page follows it, step by step. "
                    "What cannot be filled is sent back."
                }
            }
        }
    }
}

const COSTS: [(&str, &str, &str); 4] = [
    ("c-1", "Gas of the fill", "/fees/relayerGas/amountUsd"),
    ("c-2", "Service", "/fees/relayerService/amountUsd"),
    ("c-4", "App", "/fees/app/amountUsd"),
    ("c-5", "Gas you pay", "/fees/gas/amountUsd"),
];

fn offer(catalog: &Catalog, quote: &Value, wish: &Wish, user: Address, watched: bool) -> Markup {
    let pay_at = PayAt::of_quote(catalog, quote, wish.refund_to(user));
    let costs = COSTS.map(|(class, label, path)| (class, label, usd(quote, path)));
    let seconds = quote.pointer("/details/timeEstimate").and_then(Value::as_i64).unwrap_or_default();
    let impact = usd(quote, "/details/totalImpact/usd");
    html! {
        section.card {
            h2 { "The quote" }
            p.lead {
                strong { (amount(quote, "/details/currencyIn")) }
                " on " (chain_name(catalog, quote, "/details/currencyIn/currency/chainId"))
                " → " strong { (amount(quote, "/details/currencyOut")) }
                " on " (chain_name(catalog, quote, "/details/currencyOut/currency/chainId"))
            }
            dl.facts {
                div { dt { "At least" } dd { (minimum(quote)) } }
                div { dt { "Rate" } dd { (rate(quote)) } }
                div { dt { "Takes about" } dd { (times::length(seconds.saturating_mul(1_000))) } }
                div { dt { "Total cost" } dd { (dollars(-impact)) } }
            }
            h3 { "Costs" }
            (split("Costs of the transfer", &costs))
            @if pay_at.is_none() { (steps(catalog, quote, watched)) }
        }
        @if let Some(pay_at) = &pay_at { (pay_at.card()) (awaited(quote, watched)) }
    }
}

/// The steps that a wallet signs.
fn steps(catalog: &Catalog, quote: &Value, watched: bool) -> Markup {
    html! {
        h3 { "Steps" }
        ol #steps data-steps=(quote["steps"].to_string()) data-chains=(wallet_chains(catalog))
            data-request=(text(quote, "/steps/0/requestId")) data-watched=[watched.then_some("yes")] {
            @for step in list(quote, "/steps") { li { (text(step, "/description")) } }
        }
        div #wallets .wallets {}
        p #said role="status" {}
        p.notice.bad #problem role="alert" hidden {}
        noscript { p.notice.warn { "A wallet signs by a script." } }
    }
}

/// The wait for a payment at an address; a script looks for it and goes on to the request's page.
fn awaited(quote: &Value, watched: bool) -> Markup {
    let request = text(quote, "/steps/0/requestId");
    html! {
        section.card #awaited data-request=(request) data-watched=[watched.then_some("yes")] {
            div.spread {
                p #arrived role="status" { "Waiting for the payment." }
                @if watched { a.button href={ "/dashboard/requests/" (request) } { "Go to the request" } }
            }
        }
    }
}

/// The rate with the currencies that it is between.
fn rate(quote: &Value) -> String {
    let symbol = |side: &str| text(quote, &format!("/details/{side}/currency/symbol")).to_owned();
    format!("1 {} = {} {}", symbol("currencyIn"), brief(text(quote, "/details/rate")), symbol("currencyOut"))
}

/// The least that arrives, in whole units.
fn minimum(quote: &Value) -> String {
    let out = &quote["details"]["currencyOut"];
    let decimals = out.pointer("/currency/decimals").and_then(Value::as_u64).and_then(|it| u8::try_from(it).ok());
    let amount = text(out, "/minimumAmount").parse::<domain::money::Amount>().ok().zip(decimals);
    amount.map_or_else(String::new, |(amount, decimals)| {
        format!("{} {}", brief(&amount.formatted(decimals)), text(out, "/currency/symbol"))
    })
}
