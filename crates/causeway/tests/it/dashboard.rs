//! The dashboard against a running service: signing in, and every route against those it is not for.

use std::collections::BTreeSet;
use std::time::Duration;

use alloy::primitives::{Address, U256, keccak256};
use anyhow::{Context, Result, ensure};
use causeway::env::system_env;
use causeway::service::Service;
use dashboard::{Access, ROUTES, RouteFacts};
use devnet::Account;
use domain::time::Timestamp;
use reqwest::header::{CONTENT_SECURITY_POLICY, COOKIE, LOCATION, SET_COOKIE};
use reqwest::{Client, Response, redirect};
use store::sessions::{self, Session};

use crate::fast_fill::sign;
use crate::harness::{Engine, Harness, WAIT_TIMEOUT, ask, eventually, execute, found, new_account, request_id};
use crate::isolation::{HOOK, KEY_NAME, Owned, REFERRER, by_another_key, read_until};

/// A browser without scripts: it keeps its cookies and follows no redirect.
struct Browser<'a> {
    harness: &'a Harness,
    client: Client,
    cookies: Vec<String>,
    form_token: String,
}

impl<'a> Browser<'a> {
    fn new(harness: &'a Harness) -> Result<Self> {
        let client = devnet::http::client().redirect(redirect::Policy::none()).build()?;
        Ok(Self { harness, client, cookies: Vec::new(), form_token: String::new() })
    }

    async fn get(&mut self, path: &str) -> Result<Response> {
        let call = self.client.get(self.harness.url(path)).header(COOKIE, self.cookies.join("; "));
        let response = call.send().await?;
        self.keep(&response);
        Ok(response)
    }

    async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Result<Response> {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(fields).append_pair("formToken", &self.form_token);
        let call = self.client.post(self.harness.url(path)).header(COOKIE, self.cookies.join("; "));
        let call = call.header("content-type", "application/x-www-form-urlencoded").body(body.finish());
        let response = call.send().await?;
        self.keep(&response);
        Ok(response)
    }

    fn keep(&mut self, response: &Response) {
        for set in response.headers().get_all(SET_COOKIE) {
            let pair = set.to_str().unwrap().split(';').next().unwrap().to_owned();
            let name = pair.split('=').next().unwrap().to_owned();
            self.cookies.retain(|cookie| !cookie.starts_with(&format!("{name}=")));
            self.cookies.push(pair);
        }
    }

    /// Signs in as an account, as its wallet would.
    async fn sign_in(&mut self, account: &Account) -> Result<()> {
        let address = account.address.to_string();
        let message = self.post("/dashboard/sign-in/message", &[("account", address.as_str())]).await?.text().await?;
        ensure!(message.contains(&address), "{message}");
        let signature = sign(account, &message);
        let fields = [("message", message.as_str()), ("signature", signature.as_str())];
        let answer = self.post("/dashboard/sign-in", &fields).await?;
        ensure!(answer.status() == 303, "{}", answer.text().await?);
        let page = self.get("/dashboard").await?.text().await?;
        self.form_token = between(&page, "name=\"form-token\" content=\"", "\"")?.to_owned();
        ensure!(page.contains("Sign out"), "{page}");
        // A signature opens one session.
        let again = self.post("/dashboard/sign-in", &fields).await?;
        ensure!(again.status() == 400, "a message was used twice");
        Ok(())
    }

    /// Creates a key and returns its id and its text.
    async fn create_key(&mut self, name: &str) -> Result<(String, String)> {
        let page = self.post("/dashboard/keys", &[("name", name)]).await?.text().await?;
        let text = between(&page, "id=\"secret\" readonly value=\"", "\"")?.to_owned();
        let id = between(&page, "href=\"/dashboard/keys/key_", "\"")?;
        Ok((format!("key_{id}"), text))
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Result<&'a str> {
    let (_, rest) = text.split_once(before).with_context(|| format!("no {before} in {text}"))?;
    Ok(rest.split_once(after).context("an end")?.0)
}

/// Something of the owner's that another account asks for by a route.
enum Reach {
    /// The path names the owner's key, or an operator's page: it is not there for others.
    Path,
    /// A query names something of the owner's: it is not there for others.
    Query(String),
    /// A form names something of the owner's: it is not there for others.
    Form(Vec<(&'static str, String)>),
    /// Nothing can be named: the page is about the caller alone.
    Nothing,
    /// A form that is about the caller alone, or that needs another's signature: whatever it says, the owner's pages
    /// stay as they are.
    Act(Vec<(&'static str, String)>),
    /// The end of the caller's own session.
    SignOut,
    /// A page of public records, without the members that are the owner's.
    PublicRecord,
    /// A stream, which has no end; it is bound to the keys of the caller as a listing is, and read beside a transfer.
    Stream,
}

/// Routes that are open to everyone, by name: a new one is added here by somebody who has thought about it.
const EVERYONE: [(&str, &str); 5] = [
    ("get", "/dashboard/sign-in"),
    ("post", "/dashboard/sign-in"),
    ("post", "/dashboard/sign-in/message"),
    // These two are there where a test wallet is configured, on local networks.
    ("post", "/dashboard/sign-in/test"),
    ("post", "/dashboard/test-wallet"),
];

/// The name of the owner's saved view.
const VIEW: &str = "owners-view";

/// A route that is added is not known here, and the test fails until somebody has decided how others could misuse it.
fn reach(route: &RouteFacts, owned: &Owned) -> Result<Reach> {
    let own = |name: &str, value: &str| Reach::Query(format!("?{name}={value}"));
    if route.access == Access::Operator || route.path.contains("{key}") {
        return Ok(Reach::Path);
    }
    Ok(match (route.method, route.path) {
        ("get", "/dashboard/requests" | "/dashboard/requests.csv") => own("apiKey", &owned.key),
        ("get", "/dashboard/balance") => own("wallet", &owned.wallet),
        ("post", "/dashboard/balance/claim") => Reach::Form(vec![("wallet", owned.wallet.clone())]),
        ("post", "/dashboard/transfer") => Reach::Form(vec![("key", owned.key.clone())]),
        ("get", "/dashboard/requests/{id}") => Reach::PublicRecord,
        ("get", "/dashboard/live") => Reach::Stream,
        // The signature of a claim is the wallet's: whoever hands it in, it pays the same.
        ("post", "/dashboard/balance/permit") => {
            let signature = format!("0x{}", "11".repeat(65));
            Reach::Act(vec![("claim", owned.request.clone()), ("signature", signature)])
        }
        ("get", "/dashboard" | "/dashboard/keys" | "/dashboard/webhooks" | "/dashboard/transfer") => Reach::Nothing,
        ("post", "/dashboard/keys") => Reach::Act(vec![("name", KEY_NAME.to_owned())]),
        ("post", "/dashboard/sign-out") => Reach::SignOut,
        // A view is found by its account and its name: the name of another account's view names one's own.
        ("post", "/dashboard/requests/views") => {
            Reach::Act(vec![("name", VIEW.to_owned()), ("query", "status=failure".to_owned())])
        }
        ("post", "/dashboard/requests/views/delete") => Reach::Act(vec![("name", VIEW.to_owned())]),
        other => anyhow::bail!("nobody has said how others could misuse {other:?}"),
    })
}

/// A transfer under a key, once it is listed.
async fn listed_transfer(harness: &Harness, key: &str, referrer: &str) -> Result<String> {
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let user = base.fresh_user().await?;
    let (here, there) = ((base.id, Address::ZERO), (optimism.id, Address::ZERO));
    let mut body = ask(user.address, user.address, here, there, U256::from(10_000_000_000_000_000u64));
    body["referrer"] = serde_json::json!(referrer);
    let call = harness.client.post(harness.url("/quote/v2")).header("x-api-key", key).json(&body);
    let quote = call.send().await?.json().await?;
    execute(base, &quote, &user).await?;
    let id = request_id(&quote).to_owned();
    harness.wait_for(&id, "success").await?;
    eventually("the transfer is listed", || async {
        let call = harness.client.get(harness.url(&format!("/requests/v3?id={id}"))).header("x-api-key", key);
        let found: serde_json::Value = call.send().await?.json().await?;
        Ok(found["requests"].as_array().is_some_and(|all| !all.is_empty()))
    })
    .await?;
    Ok(id)
}

/// Gives the owner a key with a webhook, a view, and a transfer that has arrived.
async fn own(harness: &Harness, owner: &mut Browser<'_>, account: &Account) -> Result<Owned> {
    let (key, text) = owner.create_key(KEY_NAME).await?;
    let hook = format!("http://127.0.0.1:9/{HOOK}");
    let fields = [("url", hook.as_str()), ("enabled", "yes")];
    ensure!(owner.post(&format!("/dashboard/keys/{key}/webhooks"), &fields).await?.status() == 303);
    let fields = [("name", VIEW), ("query", "status=success")];
    ensure!(owner.post("/dashboard/requests/views", &fields).await?.status() == 303);
    let request = listed_transfer(harness, &text, REFERRER).await?;
    let delivery = found("a delivery", || async {
        let call = harness.client.get(harness.url("/webhooks/deliveries")).header("x-api-key", &text);
        let logged: serde_json::Value = call.send().await?.json().await?;
        Ok(logged.pointer("/deliveries/0/deliveryId").and_then(|id| id.as_str()).map(str::to_owned))
    })
    .await?;
    Ok(Owned { key, text, wallet: account.address.to_string(), request, delivery })
}

#[tokio::test]
async fn every_page_is_for_its_own_account_and_for_operators_where_it_says_so() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (mut owner, mut other, mut nobody) =
        (Browser::new(&harness)?, Browser::new(&harness)?, Browser::new(&harness)?);
    let account = new_account();
    owner.sign_in(&account).await?;
    other.sign_in(&new_account()).await?;
    let (_, theirs) = other.create_key("theirs").await?;
    let live = other.get("/dashboard/live").await?;
    let owned = own(&harness, &mut owner, &account).await?;
    ensure!(owner.get(&format!("/dashboard/keys/{}", owned.key)).await?.status() == 200);
    // A stream that was open all the time tells of one's own transfer, and of nothing before it.
    let own = listed_transfer(&harness, &theirs, "their-shop").await?;
    let told = read_until(live, &own).await?;
    ensure!(!told.contains(&owned.request) && !told.contains(REFERRER), "{told}");

    let mut tried = BTreeSet::new();
    for route in ROUTES.iter().filter(|route| route.access != Access::Everyone) {
        let path = route.path.replace("{key}", &owned.key).replace("{id}", &owned.request);
        let answer = if route.method == "get" { nobody.get(&path).await? } else { nobody.post(&path, &[]).await? };
        let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        ensure!(location == Some("/dashboard/sign-in"), "{route:?} without a session: {}", answer.status());
        if route.method == "post" {
            let kept = std::mem::take(&mut owner.form_token);
            let answer = owner.post(&path, &[]).await?;
            ensure!(answer.status() == 403 || route.access == Access::Operator, "{route:?}: {}", answer.status());
            owner.form_token = kept;
        }
        by_another(&mut owner, &mut other, route, &path, &owned).await?;
        tried.insert((route.method, route.path));
    }
    ensure!(tried.len() > 25, "{tried:?}");
    let everyone = ROUTES.iter().filter(|route| route.access == Access::Everyone);
    let everyone: Vec<_> = everyone.map(|route| (route.method, route.path)).collect();
    ensure!(everyone == EVERYONE, "{everyone:?}");
    by_another_key(&harness, &owned, &theirs).await?;
    // The owner sees what others do not.
    let page = owner.get(&format!("/dashboard/requests/{}", owned.request)).await?.text().await?;
    ensure!(OWNERS_ALONE.iter().all(|text| page.contains(text)), "{page}");
    // Nothing of that has changed the key.
    let page = owner.get(&format!("/dashboard/keys/{}", owned.key)).await?;
    ensure!(page.headers()[CONTENT_SECURITY_POLICY].to_str()?.starts_with("default-src 'none'"));
    let page = page.text().await?;
    ensure!(page.contains(KEY_NAME) && page.contains("status good") && !page.contains(&owned.text), "{page}");
    service.stop().await
}

/// Parts of a request's page that its own integrator alone gets.
const OWNERS_ALONE: [&str; 4] = ["Timeline", "Webhook deliveries", REFERRER, KEY_NAME];

/// The owner's pages that nobody else's act may change.
async fn shown(owner: &mut Browser<'_>) -> Result<Vec<String>> {
    let mut pages = Vec::new();
    for path in ["/dashboard/keys", "/dashboard/requests", "/dashboard/balance"] {
        let page = owner.get(path).await?;
        ensure!(page.status() == 200, "{path}: {}", page.status());
        pages.push(page.text().await?);
    }
    ensure!(pages[0].contains(KEY_NAME) && pages[1].contains(VIEW) && pages[1].contains("status=success"), "{pages:?}");
    Ok(pages)
}

/// Another account tries to get at what the owner has, by one route.
async fn by_another(
    owner: &mut Browser<'_>,
    other: &mut Browser<'_>,
    route: &RouteFacts,
    path: &str,
    owned: &Owned,
) -> Result<()> {
    let hidden = |status: reqwest::StatusCode| -> Result<()> {
        ensure!(status == 404, "{route:?} of another account: {status}");
        Ok(())
    };
    fn pairs<'a>(fields: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
        fields.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }
    match reach(route, owned)? {
        Reach::Path if route.method == "get" => hidden(other.get(path).await?.status()),
        Reach::Path => hidden(other.post(path, &[]).await?.status()),
        Reach::Query(query) => hidden(other.get(&format!("{path}{query}")).await?.status()),
        Reach::Form(fields) => hidden(other.post(path, &pairs(&fields)).await?.status()),
        Reach::Act(fields) => {
            let before = shown(owner).await?;
            let status = other.post(path, &pairs(&fields)).await?.status();
            ensure!(!status.is_server_error() && status != 403, "{route:?}: {status}");
            ensure!(shown(owner).await? == before, "{route:?} changed the pages of another account");
            Ok(())
        }
        Reach::SignOut => {
            let mut third = Browser::new(other.harness)?;
            third.sign_in(&new_account()).await?;
            ensure!(third.post(path, &[]).await?.status() == 303 && third.get("/dashboard").await?.status() == 303);
            shown(owner).await.map(drop)
        }
        Reach::PublicRecord => {
            let answer = other.get(path).await?;
            ensure!(answer.status() == 200, "{route:?}: {}", answer.status());
            let page = answer.text().await?;
            ensure!(page.contains("Transactions"), "{page}");
            ensure!(OWNERS_ALONE.iter().all(|text| !page.contains(text)), "{page}");
            Ok(())
        }
        Reach::Stream => {
            ensure!(other.get(path).await?.status() == 200, "{route:?}");
            Ok(())
        }
        Reach::Nothing => {
            let page = other.get(path).await?.text().await?;
            ensure!(!page.contains(&owned.key) && !page.contains(&owned.request), "{route:?}: {page}");
            Ok(())
        }
    }
}

#[tokio::test]
async fn a_key_is_renamed_rotated_and_revoked_and_a_session_ends() -> Result<()> {
    let harness = Harness::new(Engine::Postgres).await?;
    let service = harness.serve().await?;
    let mut browser = Browser::new(&harness)?;
    browser.sign_in(&new_account()).await?;
    let (key, first) = browser.create_key("first").await?;
    let base = format!("/dashboard/keys/{key}");
    ensure!(browser.post(&format!("{base}/rename"), &[("name", "second")]).await?.status() == 303);
    ensure!(browser.post(&format!("{base}/rename"), &[("name", " ")]).await?.status() == 400);
    ensure!(browser.get(&base).await?.text().await?.contains("<h1>second</h1>"));
    let page = browser.post(&format!("{base}/rotate"), &[("overlap", "0")]).await?.text().await?;
    let second = between(&page, "id=\"secret\" readonly value=\"", "\"")?.to_owned();
    let status = async |text: &str| -> Result<u16> {
        let call = harness.client.get(harness.url("/requests/v3")).header("x-api-key", text);
        Ok(call.send().await?.status().as_u16())
    };
    ensure!(status(&second).await? == 200 && status(&first).await? == 401);
    let webhooks = format!("{base}/webhooks");
    let fields = [("url", "http://127.0.0.1:9/hook"), ("enabled", "yes"), ("headers", "X-One: 1")];
    ensure!(browser.post(&webhooks, &fields).await?.status() == 303);
    let page = browser.get(&webhooks).await?.text().await?;
    ensure!(page.contains("http://127.0.0.1:9/hook") && page.to_lowercase().contains("set: x-one"), "{page}");
    ensure!(browser.post(&webhooks, &[("url", "not a url")]).await?.status() == 400);
    for page in ["/dashboard/requests?status=success", "/dashboard/transfer", "/dashboard/balance", "/dashboard"] {
        ensure!(browser.get(page).await?.status() == 200, "{page}");
    }
    let wrong = browser.get("/dashboard/requests?status=nothing").await?.text().await?;
    ensure!(wrong.contains("role=\"alert\"") && wrong.contains("status"), "{wrong}");
    ensure!(browser.post(&format!("{base}/revoke"), &[]).await?.status() == 400, "nobody was asked");
    ensure!(browser.post(&format!("{base}/revoke"), &[("sure", "yes")]).await?.status() == 303);
    ensure!(status(&second).await? == 401);
    // The cookie of a session that was ended opens nothing, and the stream that it opened ends.
    let cookies = browser.cookies.clone();
    let mut live = browser.get("/dashboard/live").await?;
    ensure!(live.chunk().await?.is_some(), "a stream begins with its position");
    ensure!(browser.post("/dashboard/sign-out", &[]).await?.status() == 303);
    let ended = async {
        while live.chunk().await?.is_some() {}
        Ok::<_, reqwest::Error>(())
    };
    tokio::time::timeout(WAIT_TIMEOUT, ended).await.context("a stream goes on after its session")??;
    browser.cookies = cookies;
    ensure!(browser.get("/dashboard").await?.status() == 303);
    service.stop().await
}

#[tokio::test]
async fn a_session_needs_the_accounts_own_signature() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (account, thief) = (new_account(), new_account());
    let mut browser = Browser::new(&harness)?;
    let address = account.address.to_string();
    let message = browser.post("/dashboard/sign-in/message", &[("account", address.as_str())]).await?.text().await?;
    let stolen = sign(&thief, &message);
    let fields = [("message", message.as_str()), ("signature", stolen.as_str())];
    let by_other = browser.post("/dashboard/sign-in", &fields).await?;
    ensure!(by_other.status() == 403, "{}", by_other.status());
    let signature = sign(&account, &message);
    // Another browser, with a mark of its own, cannot use it.
    let mut stranger = Browser::new(&harness)?;
    let fields = [("message", message.as_str()), ("signature", signature.as_str())];
    ensure!(stranger.post("/dashboard/sign-in", &fields).await?.status() == 400);
    contract_wallets(&harness).await?;
    expired_session(&harness, &service).await?;
    let call = browser.client.post(harness.url("/dashboard/sign-in")).header("sec-fetch-site", "cross-site");
    ensure!(call.body("").send().await?.status() == 403, "a form of another site was taken");
    // Programs get a few words at the root, and browsers the dashboard.
    let (code, about) = harness.get("/").await?;
    ensure!(code == 200 && about["name"] == "Causeway", "{about}");
    let call = browser.client.get(harness.url("/")).header("accept", "text/html");
    ensure!(call.send().await?.headers()[LOCATION] == "/dashboard");
    service.stop().await
}

/// A contract wallet signs in by EIP-1271, asked on the chain of app balances.
async fn contract_wallets(harness: &Harness) -> Result<()> {
    // One contract accepts every signature, and one answers something else.
    for (code, accepted) in [("631626ba7e60e01b60005260206000f3", true), ("63deadbeef60e01b60005260206000f3", false)] {
        let contract = new_account().address;
        harness.chain("base").set_code(contract, code.parse()?).await?;
        let (mut browser, address) = (Browser::new(harness)?, contract.to_string());
        let message =
            browser.post("/dashboard/sign-in/message", &[("account", address.as_str())]).await?.text().await?;
        let answer =
            browser.post("/dashboard/sign-in", &[("message", message.as_str()), ("signature", "0x01")]).await?;
        let expected = if accepted { 303 } else { 403 };
        ensure!(answer.status() == expected, "{}: {}", answer.status(), answer.text().await?);
        ensure!((browser.get("/dashboard").await?.status() == 200) == accepted);
    }
    Ok(())
}

/// A session opens pages until it expires, whatever its cookie says.
async fn expired_session(harness: &Harness, service: &Service) -> Result<()> {
    let now = (system_env().clock)();
    let before = Timestamp::from_millis(now.millis() - 1);
    for (token, expires_at, status) in [("open", now.plus(Duration::from_secs(600)), 200), ("over", before, 303)] {
        let session = Session {
            token_hash: keccak256(token),
            account: new_account().address,
            nonce: format!("nonce of the session that is {token}"),
            created_at: before,
            expires_at,
        };
        ensure!(service.solver.store.write(move |tx| sessions::open(tx, &session)).await?);
        let mut browser = Browser::new(harness)?;
        browser.cookies.push(format!("causeway_session={token}"));
        ensure!(browser.get("/dashboard").await?.status() == status, "a session that is {token}");
    }
    Ok(())
}
