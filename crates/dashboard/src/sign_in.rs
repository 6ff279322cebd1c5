//! Signing in with a wallet, and out again.

use alloy_primitives::{Address, Bytes, eip191_hash_message, hex, keccak256};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use domain::time::Timestamp;
use maud::html;
use store::sessions::{self, Session};

use crate::Dashboard;
use crate::account::Account;
use crate::cookies::Cookie;
use crate::failure::Failure;
use crate::guard::Fields;
use crate::layout::{Frame, Section};
use crate::seal::NONCE_LIFETIME;
use crate::siwe::{Message, Service};

/// The longest signature of a contract wallet.
const MAX_SIGNATURE: usize = 8 * 1024;
/// Seconds for which a browser keeps its mark.
const BROWSER_SECS: u64 = 3_600;
const OVERVIEW: &str = "/dashboard";

pub(crate) async fn page(State(dashboard): State<Dashboard>, account: Result<Account, Failure>) -> Response {
    if account.is_ok() {
        return Redirect::to(OVERVIEW).into_response();
    }
    let test = dashboard.settings.test_wallet.is_some();
    let scripts = &["sign-in.js"];
    // The test wallet has a form, which works without scripts: they offer the other wallets.
    let frame = Frame { title: "Sign in", section: Section::None, account: None, scripts, test_wallet: false };
    let body = html! {
        div.card.narrow {
            p { "Sign in with an Ethereum wallet. You sign a message; it costs nothing and moves nothing." }
            noscript {
                p.notice.warn {
                    "A wallet signs by a script: allow scripts of this page" @if test { ", or use the test wallet" } "."
                }
            }
            div #wallets .wallets aria-live="polite" {}
            p.faint #searching hidden { "Looking for wallets…" }
            p.notice.bad #problem role="alert" hidden {}
            @if test {
                hr;
                form method="post" action="/dashboard/sign-in/test" {
                    button.primary type="submit" { "Use the test wallet" }
                }
                p.faint {
                    "This is a local network: the test wallet has funds on every chain, and everybody may use it."
                }
            }
        }
    };
    frame.page(&body).into_response()
}

impl Dashboard {
    fn service_host(&self) -> String {
        let host = self.base_url.host_str().unwrap_or_default();
        self.base_url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// The chain that messages name: contract wallets are asked on it.
    fn sign_in_chain(&self) -> u64 {
        let balances = domain::ledger::currency_of(&self.app.catalog).map(|currency| currency.chain.0);
        balances.or_else(|| self.app.catalog.chains().first().map(|chain| chain.id.0)).unwrap_or(1)
    }

    fn fresh_message(&self, account: Address, browser: &str, now: Timestamp) -> String {
        let (host, uri) = (self.service_host(), format!("{}/dashboard", self.app.addresses.base_url));
        let message = Message {
            account,
            nonce: self.seal.nonce(browser, self.random(), now),
            issued_at: now,
            expires_at: now.plus(NONCE_LIFETIME),
        };
        message.text(Service { host: &host, uri: &uri, chain_id: self.sign_in_chain() })
    }

    fn parse_message(&self, text: &str) -> Option<Message> {
        let (host, uri) = (self.service_host(), format!("{}/dashboard", self.app.addresses.base_url));
        Message::parse(text, Service { host: &host, uri: &uri, chain_id: self.sign_in_chain() })
    }

    /// The browser's mark, and the header that sets it where it has none.
    fn browser(&self, headers: &HeaderMap) -> (String, Option<HeaderValue>) {
        let known = self.cookies.read(headers, Cookie::Browser);
        match known.filter(|mark| mark.len() == 32 && mark.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            Some(mark) => (mark, None),
            None => {
                let mark = hex::encode(self.random::<16>());
                let set = self.cookies.set(Cookie::Browser, &mark, BROWSER_SECS);
                (mark, set)
            }
        }
    }

    /// Opens a session for an account that has signed, and goes to the overview.
    async fn open_session(&self, account: Address, nonce: String, now: Timestamp) -> Result<Response, Failure> {
        let token = hex::encode(self.random::<32>());
        let session = Session {
            token_hash: keccak256(&token),
            account,
            nonce,
            created_at: now,
            expires_at: now.plus(self.settings.session),
        };
        if !self.app.store.write(move |tx| sessions::open(tx, &session)).await? {
            return Err(Failure::bad("This message was signed in with before. Try again."));
        }
        let cookie = self.cookies.set(Cookie::Session, &token, self.settings.session.as_secs());
        let cookie = cookie.ok_or(Failure::Internal("a cookie"))?;
        Ok(([(header::SET_COOKIE, cookie)], Redirect::to(OVERVIEW)).into_response())
    }

    /// True if the wallet's key, or its contract, signed the message.
    async fn is_signed(&self, message: &str, account: Address, signature: Bytes) -> Result<bool, Failure> {
        if evm::signed_by_key(account, message, &signature) {
            return Ok(true);
        }
        let Some(nodes) = self.app.claims.nodes() else { return Ok(false) };
        // Contracts are asked at a node: few at a time, whoever asks.
        let _seat = self.contract_sign_ins.acquire().await.map_err(|_| Failure::Internal("the seats are closed"))?;
        let signed = evm::signed_by_contract(nodes, account, message, signature).await;
        signed
            .map_err(|_| Failure::bad("The chain could not be asked whether the wallet's contract signed. Try again."))
    }
}

/// The message for a wallet to sign, as plain text.
pub(crate) async fn message(
    State(dashboard): State<Dashboard>,
    headers: HeaderMap,
    fields: Fields,
) -> Result<Response, Failure> {
    let account: Address = fields.get("account").parse().map_err(|_| Failure::bad("account: not an address"))?;
    let (browser, set) = dashboard.browser(&headers);
    let text = dashboard.fresh_message(account, &browser, dashboard.now());
    let mut response = text.into_response();
    if let Some(cookie) = set {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// Takes a signed message and opens a session.
pub(crate) async fn sign_in(
    State(dashboard): State<Dashboard>,
    headers: HeaderMap,
    fields: Fields,
) -> Result<Response, Failure> {
    // Forms send lines with a carriage return.
    let text = fields.get("message").replace("\r\n", "\n");
    let message = dashboard.parse_message(&text).ok_or_else(|| Failure::bad("This is not a message of ours."))?;
    let signature = fields.get("signature").parse::<Bytes>().ok();
    let signature = signature.filter(|bytes| !bytes.is_empty() && bytes.len() <= MAX_SIGNATURE);
    let signature = signature.ok_or_else(|| Failure::bad("signature: must be hexadecimal"))?;
    let (now, browser) = (dashboard.now(), dashboard.cookies.read(&headers, Cookie::Browser).unwrap_or_default());
    if now >= message.expires_at || !dashboard.seal.is_nonce(&browser, &message.nonce, now) {
        return Err(Failure::bad("The message has expired, or was made for another browser. Try again."));
    }
    if !dashboard.is_signed(&text, message.account, signature).await? {
        return Err(Failure::Forbidden("The signature is not that of the account in the message."));
    }
    dashboard.open_session(message.account, message.nonce, now).await
}

/// Signs in with the test wallet, where there is one.
pub(crate) async fn test(State(dashboard): State<Dashboard>, headers: HeaderMap) -> Result<Response, Failure> {
    let wallet = dashboard.settings.test_wallet.as_ref().ok_or(Failure::NotFound)?;
    let (now, (browser, _)) = (dashboard.now(), dashboard.browser(&headers));
    let text = dashboard.fresh_message(wallet.address(), &browser, now);
    let message = dashboard.parse_message(&text).ok_or(Failure::Internal("a message of our own"))?;
    let signature = wallet.sign_digest(eip191_hash_message(&text)).as_bytes();
    if !evm::signed_by_key(message.account, &text, &signature) {
        return Err(Failure::Internal("the test wallet's signature"));
    }
    dashboard.open_session(message.account, message.nonce, now).await
}

/// Ends the session, on the server as well as in the browser.
pub(crate) async fn sign_out(State(dashboard): State<Dashboard>, account: Account) -> Result<Response, Failure> {
    let (session, now) = (account.session, dashboard.now());
    dashboard.app.store.write(move |tx| sessions::end(tx, session, now)).await?;
    let cookie = dashboard.cookies.set(Cookie::Session, "", 0).ok_or(Failure::Internal("a cookie"))?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/dashboard/sign-in")).into_response())
}
