//! A transfer: chosen, quoted with its costs as a picture, signed in a wallet or paid at an address, and watched on the
//! request's page.

use std::sync::Arc;

use alloy_primitives::Address;
use api::Acting;
use axum::extract::State;
use axum::http::Method;
use domain::api_key::ApiKey;
use domain::catalog::{Catalog, Currency};
use domain::ids::ChainId;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::pay_address::PayAt;
use super::requests::chain_name;
use crate::Dashboard;
use crate::account::Account;
use crate::chart::split;
use crate::decimal::{brief, dollars, units};
use crate::failure::Failure;
use crate::guard::Fields;
use crate::json::{amount, list, text, usd};
use crate::layout::{Frame, Page, Section, token};
use crate::markup::field;
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

/// A currency on a chain, as a form names it: `chain:address`.
fn place(currency: &Currency) -> String {
    format!("{}:{}", currency.chain.0, currency.address)
}

fn find<'a>(catalog: &'a Catalog, given: &str) -> Option<&'a Currency> {
    let (chain, address) = given.split_once(':')?;
    let chain = catalog.chain(ChainId(chain.parse().ok()?))?;
    let address: Address = address.parse().ok()?;
    chain.currencies().find(|currency| currency.address.evm() == Some(address))
}

/// The members of the form, as they were sent or as they are at first.
#[derive(Debug, Default)]
struct Wish {
    from: String,
    to: String,
    amount: String,
    recipient: String,
    key: String,
    /// `wallet`, or `address` for somebody who can only send.
    pay: String,
    refund_to: String,
}

/// Ways to pay, and how the form names them.
const WAYS: [(&str, &str); 2] = [("wallet", "with a wallet"), ("address", "from an exchange")];

impl Wish {
    fn first(catalog: &Catalog) -> Self {
        let natives: Vec<String> = catalog.chains().iter().map(|chain| place(&chain.native)).collect();
        let at = |index: usize| natives.get(index).cloned().unwrap_or_default();
        Self { from: at(0), to: at(1), amount: "0.01".to_owned(), pay: "wallet".to_owned(), ..Self::default() }
    }

    fn of(fields: &Fields) -> Self {
        let get = |name: &str| fields.get(name).to_owned();
        Self {
            from: get("from"),
            to: get("to"),
            amount: get("amount"),
            recipient: get("recipient"),
            key: get("key"),
            pay: get("pay"),
            refund_to: get("refundTo"),
        }
    }

    fn at_address(&self) -> bool {
        self.pay == "address"
    }

    /// The account that a refund goes to: an exchange's own address would not know whose it is.
    fn refund_to(&self, user: Address) -> String {
        if self.refund_to.is_empty() { user.to_string() } else { self.refund_to.clone() }
    }

    /// The body of the quote.
    fn ask(&self, catalog: &Catalog, user: Address) -> Result<Value, Failure> {
        let currency = |name: &str, given: &str| {
            find(catalog, given).ok_or_else(|| Failure::bad(format!("{name}: choose a currency of the list")))
        };
        let (origin, destination) = (currency("from", &self.from)?, currency("to", &self.to)?);
        let amount = units(&self.amount, origin.decimals).filter(|units| units != "0");
        let problem = || Failure::bad(format!("amount: a number with at most {} decimals", origin.decimals));
        let recipient = if self.recipient.is_empty() { user.to_string() } else { self.recipient.clone() };
        let mut ask = json!({
            "user": user.to_string(),
            "recipient": recipient,
            "originChainId": origin.chain.0,
            "originCurrency": origin.address.to_string(),
            "destinationChainId": destination.chain.0,
            "destinationCurrency": destination.address.to_string(),
            "amount": amount.ok_or_else(problem)?,
            "tradeType": "EXACT_INPUT",
        });
        if self.at_address() {
            // Open, not strict: exchanges take their fee off, and what arrives is priced as it is.
            ask["useDepositAddress"] = json!(true);
            ask["refundTo"] = json!(self.refund_to(user));
        }
        Ok(ask)
    }
}

fn good(keys: Vec<ApiKey>) -> Vec<ApiKey> {
    keys.into_iter().filter(|key| key.revoked_at.is_none()).collect()
}

pub(crate) async fn page(State(dashboard): State<Dashboard>, account: Account) -> Result<Page, Failure> {
    let keys = good(dashboard.keys_of(&account).await?);
    let key = keys.first().map(|key| key.id.to_string()).unwrap_or_default();
    let wish = Wish { key, ..Wish::first(&dashboard.app.catalog) };
    let body = form(&dashboard.app.catalog, &account, &keys, &wish);
    Ok(Frame::new("Transfer", Section::Transfer, &account).page(&body))
}

pub(crate) async fn quote(
    State(dashboard): State<Dashboard>,
    account: Account,
    fields: Fields,
) -> Result<Page, Failure> {
    let keys = good(dashboard.keys_of(&account).await?);
    let wish = Wish::of(&fields);
    let acting = match keys.iter().find(|key| key.id.to_string() == wish.key) {
        Some(key) => Acting::Key(Arc::new(key.clone())),
        None if wish.key.is_empty() => Acting::Nobody,
        None => return Err(Failure::NotFound),
    };
    let watched = matches!(acting, Acting::Key(_));
    let asked = match wish.ask(&dashboard.app.catalog, account.address) {
        Ok(ask) => dashboard.send(acting, Method::POST, "/quote/v2", &ask).await,
        Err(failure) => Err(failure),
    };
    // Refusals are said beside the form, which keeps what was typed.
    let quoted = match asked {
        Ok(quote) => Ok(quote),
        Err(failure @ (Failure::Bad(_) | Failure::Refused { .. })) => Err(failure.to_string()),
        Err(failure) => return Err(failure),
    };
    let body = html! {
        (form(&dashboard.app.catalog, &account, &keys, &wish))
        @match &quoted {
            Ok(quote) => (offer(&dashboard.app.catalog, quote, &wish, account.address, watched)),
            Err(message) => div.notice.bad role="alert" { p { (message) } },
        }
    };
    let frame = Frame::new("Transfer", Section::Transfer, &account);
    Ok(frame.with(&["copy.js", "transfer.js"]).page(&body))
}

fn form(catalog: &Catalog, account: &Account, keys: &[ApiKey], wish: &Wish) -> Markup {
    let currencies = |name: &str, chosen: &str| {
        html! {
            select id=(name) name=(name) required {
                @for chain in catalog.chains() {
                    optgroup label=(chain.presentation.display_name) {
                        @for currency in chain.currencies() {
                            @let value = place(currency);
                            option value=(value) selected[value == chosen] {
                                (currency.symbol) " on " (chain.presentation.display_name)
                            }
                        }
                    }
                }
            }
        }
    };
    html! {
        form.card.filters.roomy method="post" action="/dashboard/transfer" {
            (token(account))
            (field("from", "From", "", &currencies("from", &wish.from)))
            (field("to", "To", "", &currencies("to", &wish.to)))
            (field("amount", "Amount", "", &html! {
                input #amount name="amount" required inputmode="decimal" value=(wish.amount) autocomplete="off";
            }))
            (field("pay", "Pay", "", &html! {
                select #pay name="pay" {
                    @for (value, name) in WAYS { option value=(value) selected[value == wish.pay] { (name) } }
                }
            }))
            (field("key", "Under the key", "Without one, you cannot watch it here.", &html! {
                select #key name="key" {
                    @for key in keys {
                        @let id = key.id.to_string();
                        option value=(id) selected[id == wish.key] { (key.name) }
                    }
                    option value="" selected[wish.key.is_empty()] { "none" }
                }
            }))
            details open[!wish.recipient.is_empty() || !wish.refund_to.is_empty()] {
                summary { "Another recipient" }
                div.filters.roomy {
                    (field("recipient", "Recipient", "Your own wallet if empty.", &html! {
                        input #recipient name="recipient" value=(wish.recipient) autocomplete="off" spellcheck="false";
                    }))
                    // A deposit from a wallet goes back to it; the style shows this for an address alone.
                    div.refund-to {
                        (field("refundTo", "Refund to", "Your own wallet if empty, never an exchange's.", &html! {
                            input #refundTo name="refundTo" value=(wish.refund_to) autocomplete="off"
                                spellcheck="false";
                        }))
                    }
                }
            }
            div.row { button.primary type="submit" { "Quote" } }
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
                div { dt { "Rate" } dd { (brief(text(quote, "/details/rate"))) } }
                div { dt { "Takes about" } dd { (times::length(seconds.saturating_mul(1_000))) } }
                div { dt { "Worth less by" } dd { (dollars(-impact)) } }
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

/// The least that arrives, in whole units.
fn minimum(quote: &Value) -> String {
    let out = &quote["details"]["currencyOut"];
    let decimals = out.pointer("/currency/decimals").and_then(Value::as_u64).and_then(|it| u8::try_from(it).ok());
    let amount = text(out, "/minimumAmount").parse::<domain::money::Amount>().ok().zip(decimals);
    amount.map_or_else(String::new, |(amount, decimals)| {
        format!("{} {}", brief(&amount.formatted(decimals)), text(out, "/currency/symbol"))
    })
}
