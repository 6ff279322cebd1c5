//! The app balance of a wallet: available against held, how to fund it, its history, and claims.

use std::collections::HashMap;

use alloy_primitives::Address;
use api::Acting;
use axum::Json;
use axum::extract::{Query, State};
use axum::http::Method;
use domain::ledger::{Context, HoldKind, UsdcMicros};
use maud::{Markup, html};
use serde_json::{Value, json};
use store::ledger::{self, Line};

use crate::Dashboard;
use crate::account::Account;
use crate::calls::with_query;
use crate::decimal::dollars;
use crate::failure::Failure;
use crate::guard::Fields;
use crate::json::{list, text};
use crate::layout::{Frame, Page, Section};
use crate::markup::{copied, empty, field, figure, short, status, time, time_in};

/// Entries on one page.
const ENTRIES: u16 = 25;

impl Dashboard {
    /// The wallets whose balances an account sees: its own, and those linked to its keys.
    pub(super) async fn wallets_of(&self, account: &Account) -> Result<Vec<Address>, Failure> {
        let mut wallets = vec![account.address];
        for wallet in self.keys_of(account).await?.into_iter().filter_map(|key| key.wallet) {
            if !wallets.contains(&wallet) {
                wallets.push(wallet);
            }
        }
        Ok(wallets)
    }

    async fn own_wallet(&self, account: &Account, given: &str) -> Result<Address, Failure> {
        if given.is_empty() {
            return Ok(account.address);
        }
        let wallet: Address = given.parse().map_err(|_| Failure::NotFound)?;
        let own = self.wallets_of(account).await?.contains(&wallet);
        own.then_some(wallet).ok_or(Failure::NotFound)
    }
}

pub(crate) async fn page(
    State(dashboard): State<Dashboard>,
    account: Account,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Page, Failure> {
    let given = query.get("wallet").map(String::as_str).unwrap_or_default();
    let wallet = dashboard.own_wallet(&account, given).await?;
    let before = query.get("before").and_then(|text| text.parse::<i64>().ok());
    let unit = move |tx: &mut store::Tx<'_>| {
        Ok::<_, store::StoreError>((ledger::account(tx, wallet)?, ledger::entries(tx, wallet, before, ENTRIES)?))
    };
    let (held, lines) = dashboard.app.store.read(unit).await?;
    let balances = dashboard.get(Acting::Nobody, &format!("/app-fees/{wallet}/balances")).await?;
    let claims = dashboard.get(Acting::Nobody, &format!("/app-fees/{wallet}/claims")).await?;
    let wallets = dashboard.wallets_of(&account).await?;
    let keys = dashboard.keys_of(&account).await?;
    let linked = keys.iter().filter(|key| key.wallet == Some(wallet) && key.revoked_at.is_none());
    let linked: Vec<&str> = linked.map(|key| key.name.as_str()).collect();
    let available = held.available(HoldKind::Claim);
    let body = html! {
        (tabs(&wallets, wallet, &linked))
        div data-live="balance" {
            dl.figures {
                (figure("Balance", &dollars(held.balance.0), "USDC"))
                (figure("Available", &dollars(available.0), "for fast fills and claims"))
                (figure("Held", &dollars(held.held.0), "by fast fills"))
                (figure("Reserved", &dollars(held.reserved.0), "by claims and sponsored fees"))
            }
        }
        (wallet_choice())
        div.grid { (fund(&dashboard, wallet, &balances)) (withdraw(wallet, available)) }
        section.card { h2 { "History" } (history(&lines, wallet)) }
        section.card { h2 { "Claims" } (claimed(&claims)) }
    };
    let frame = Frame::new("App balance", Section::Balance, &account);
    Ok(frame.with(&["live.js", "copy.js", "balance.js"]).page(&body))
}

/// The wallets, and the names of the keys that may spend the balance of the one that is shown.
fn tabs(wallets: &[Address], shown: Address, linked: &[&str]) -> Markup {
    html! {
        @if wallets.len() > 1 {
            ul.tabs {
                @for wallet in wallets {
                    li {
                        a href={ "/dashboard/balance?wallet=" (wallet.to_string()) }
                            aria-current=[(*wallet == shown).then_some("true")] {
                            (short(&wallet.to_string()))
                        }
                    }
                }
            }
        }
        p.faint {
            "Wallet " (copied(&shown.to_string()))
            @if linked.is_empty() {
                " No key is linked to it: a link on "
                a href="/dashboard/keys" { "a key's page" }
                " lets that key spend it on sponsored fees and fast fills."
            } @else { " Linked to " (linked.join(", ")) "." }
        }
    }
}

/// The wallet of the browser that deposits and signs, where there are several. A script fills it.
fn wallet_choice() -> Markup {
    html! {
        div.narrow #choice hidden {
            (field("with", "Deposit and claim with", "", &html! { select #with autocomplete="off" {} }))
        }
    }
}

fn fund(dashboard: &Dashboard, wallet: Address, balances: &Value) -> Markup {
    let funding = &balances["funding"];
    let chains = super::transfer::wallet_chains(&dashboard.app.catalog);
    html! {
        section.card #fund data-wallet=(wallet.to_string()) data-chains=(chains) data-funding=(funding.to_string())
            data-decimals=(balances.pointer("/currency/decimals").and_then(Value::as_u64).unwrap_or(6)) {
            h2 { "Deposit" }
            @if funding.is_object() {
                p {
                    "Send " (text(funding, "/symbol")) " on "
                    (dashboard.chain_name(funding["chainId"].as_u64().unwrap_or_default()))
                    " to the treasury, with the bytes below behind the call's own data. "
                    "It is credited when it is final."
                }
                dl.facts {
                    div { dt { "Treasury" } dd { (copied(text(funding, "/address"))) } }
                    div { dt { "Currency" } dd { (copied(text(funding, "/currency"))) } }
                    div { dt { "Trailing bytes" } dd { (copied(text(funding, "/calldataSuffix"))) } }
                }
                form.inline #deposit {
                    (field("deposit-amount", &format!("Amount in {}", text(funding, "/symbol")), "", &html! {
                        input #deposit-amount name="amount" inputmode="decimal" required autocomplete="off";
                    }))
                    button.primary type="submit" disabled { "Deposit with a wallet" }
                }
                p #deposit-said role="status" {}
            } @else { p.faint { "Balances are not kept here." } }
        }
    }
}

fn withdraw(wallet: Address, available: UsdcMicros) -> Markup {
    html! {
        section.card #claim data-wallet=(wallet.to_string()) {
            h2 { "Claim" }
            p { "Withdraw " (dollars(available.0)) " or less to a wallet. You sign the claim; the service pays it." }
            form #claiming {
                div.filters {
                    (field("claim-amount", "Amount in USDC", "All that is available if empty.", &html! {
                        input #claim-amount name="amount" inputmode="decimal" autocomplete="off";
                    }))
                    (field("recipient", "Recipient", "This wallet if empty.", &html! {
                        input #recipient name="recipient" autocomplete="off" spellcheck="false";
                    }))
                }
                button type="submit" disabled { "Claim with a wallet" }
            }
            p #claim-said role="status" {}
            noscript { p.faint { "A wallet signs by a script." } }
        }
    }
}

/// An entry in words; the ledger's own name stands behind them.
fn entry(context: Context, change: UsdcMicros) -> &'static str {
    match context {
        Context::BalanceTopup => "Deposit",
        Context::PayFees if change.0 < 0 => "Sponsored fees",
        Context::PayFees => "App fees",
        Context::SetPendingAmount => "Reserved",
        Context::UnsetPendingAmount => "Reservation ended",
        Context::ResetPendingAmount => "Reservation changed",
        Context::FastFillReduceBalance => "Fast fill, held or charged",
        Context::FastFillIncreaseBalance => "Fast fill, freed or credited",
        Context::Claim => "Claim",
        Context::ExecuteTransactionRequest => "Relayed call",
        Context::FixedRateAccounting => "Cost or gain of a fixed rate",
        Context::IntegratorFixedBpsAccounting => "Fixed share of the integrator",
    }
}

/// A change of a balance; most entries change either what there is or what is held.
fn change(micros: i64) -> Markup {
    html! { @if micros == 0 { span.faint { "–" } } @else { (dollars(micros)) } }
}

fn history(lines: &[Line], wallet: Address) -> Markup {
    if lines.is_empty() {
        return empty("Nothing has happened to this balance.", &html! { "A deposit is the first entry." });
    }
    html! {
        div.scroll tabindex="0" {
            table {
                thead {
                    tr {
                        th { "At" } th { "Entry" } th.number { "Change" } th.number { "Held" } th.number { "Balance" }
                        th { "Request" }
                    }
                }
                tbody {
                    @for line in lines {
                        tr {
                            td { (time(line.at)) }
                            td title=(line.context.as_str()) { (entry(line.context, line.delta)) }
                            td.number { (change(line.delta.0)) }
                            td.number { (change(line.held.0.saturating_add(line.reserved.0))) }
                            td.number { (dollars(line.balance_after.0)) }
                            td {
                                @if let Some(id) = line.request {
                                    a href={ "/dashboard/requests/" (id.to_string()) } {
                                        code { (short(&id.to_string())) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        @if let Some(last) = lines.last().filter(|_| lines.len() == usize::from(ENTRIES)) {
            @let (wallet, before) = (wallet.to_string(), last.sequence.to_string());
            @let pairs = [("wallet", wallet.as_str()), ("before", before.as_str())];
            p { a.button href=(with_query("/dashboard/balance", pairs)) { "Older" } }
        }
    }
}

fn claimed(claims: &Value) -> Markup {
    let rows = list(claims, "/claims");
    html! {
        @if rows.is_empty() { p.faint { "None yet." } } @else {
            div.scroll tabindex="0" {
                table {
                    thead {
                        tr {
                            th { "At" } th.number { "Amount" } th { "Recipient" } th { "Status" } th { "Transaction" }
                        }
                    }
                    tbody {
                        @for row in rows {
                            tr {
                                td { (time_in(text(row, "/createdAt"))) }
                                td.number { (crate::json::amount(row, "/currency")) }
                                td { (copied(text(row, "/recipient"))) }
                                td { (status(text(row, "/status"))) }
                                td { @if let Some(hash) = row["txHash"].as_str() { (copied(hash)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Asks what a wallet has to sign to be paid.
pub(crate) async fn claim(
    State(dashboard): State<Dashboard>,
    account: Account,
    fields: Fields,
) -> Result<Json<Value>, Failure> {
    let wallet = dashboard.own_wallet(&account, fields.get("wallet")).await?;
    let currency = domain::ledger::currency_of(&dashboard.app.catalog);
    let currency = currency.ok_or(Failure::Forbidden("Balances are not kept here."))?;
    let mut body = json!({ "chainId": currency.chain.0, "currency": currency.address.to_string() });
    if !fields.get("recipient").is_empty() {
        body["recipient"] = json!(fields.get("recipient"));
    }
    if !fields.get("amount").is_empty() {
        let units = crate::decimal::units(fields.get("amount"), currency.decimals);
        body["amount"] = json!(units.ok_or_else(|| Failure::bad("amount: not a number"))?);
    }
    let path = format!("/app-fees/{wallet}/claim");
    Ok(Json(dashboard.send(Acting::Nobody, Method::POST, &path, &body).await?))
}

/// Hands in the signature of a claim. The signature is the wallet's: nobody else's session can give it.
pub(crate) async fn permit(
    State(dashboard): State<Dashboard>,
    _account: Account,
    fields: Fields,
) -> Result<Json<Value>, Failure> {
    let path = with_query("/execute/permits", [("signature", fields.get("signature"))]);
    let body = json!({ "kind": "claim", "requestId": fields.get("claim") });
    Ok(Json(dashboard.send(Acting::Nobody, Method::POST, &path, &body).await?))
}
