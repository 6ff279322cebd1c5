//! The dashboard against a running service: signing in, and every route against those it is not for.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use dashboard::{Access, ROUTES, RouteFacts};
use devnet::Account;
use reqwest::header::{CONTENT_SECURITY_POLICY, COOKIE, LOCATION, SET_COOKIE};
use reqwest::{Client, Response, redirect};

use crate::fast_fill::sign;
use crate::harness::{Engine, Harness, new_account};

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

/// The path of a route with a key and a request in place of their names.
fn path(route: &RouteFacts, key: &str) -> String {
    route.path.replace("{key}", key).replace("{id}", &format!("0x{}", "77".repeat(32)))
}

#[tokio::test]
async fn every_page_is_for_its_own_account_and_for_operators_where_it_says_so() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (mut owner, mut other, mut nobody) =
        (Browser::new(&harness)?, Browser::new(&harness)?, Browser::new(&harness)?);
    owner.sign_in(&new_account()).await?;
    other.sign_in(&new_account()).await?;
    let (key, text) = owner.create_key("mine").await?;
    let with_key = harness.client.get(harness.url("/requests/v3")).header("x-api-key", &text).send().await?;
    ensure!(with_key.status() == 200, "the new key is not good");
    ensure!(owner.get(&format!("/dashboard/keys/{key}")).await?.status() == 200);

    // Every route of the table: one that is added is tried here too.
    let mut tried = BTreeSet::new();
    for route in ROUTES.iter().filter(|route| route.access != Access::Everyone) {
        let path = path(route, &key);
        let answer = if route.method == "get" { nobody.get(&path).await? } else { nobody.post(&path, &[]).await? };
        let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        ensure!(location == Some("/dashboard/sign-in"), "{route:?} without a session: {}", answer.status());
        if route.path.contains("{key}") || route.access == Access::Operator {
            let answer = if route.method == "get" { other.get(&path).await? } else { other.post(&path, &[]).await? };
            ensure!(answer.status() == 404, "{route:?} of another account: {}", answer.status());
        }
        if route.method == "post" {
            let kept = std::mem::take(&mut owner.form_token);
            let answer = owner.post(&path, &[]).await?;
            ensure!(answer.status() == 403 || route.access == Access::Operator, "{route:?}: {}", answer.status());
            owner.form_token = kept;
        }
        tried.insert(route.path);
    }
    ensure!(tried.len() > 20, "{tried:?}");
    // Nothing of that has changed the key.
    let page = owner.get(&format!("/dashboard/keys/{key}")).await?;
    ensure!(page.headers()[CONTENT_SECURITY_POLICY].to_str()?.starts_with("default-src 'none'"));
    let page = page.text().await?;
    ensure!(page.contains("mine") && page.contains("status good") && !page.contains(&text), "{page}");
    service.stop().await
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
    // The cookie of a session that was ended opens nothing.
    let cookies = browser.cookies.clone();
    ensure!(browser.post("/dashboard/sign-out", &[]).await?.status() == 303);
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
    let call = browser.client.post(harness.url("/dashboard/sign-in")).header("sec-fetch-site", "cross-site");
    ensure!(call.body("").send().await?.status() == 403, "a form of another site was taken");
    // Programs get a few words at the root, and browsers the dashboard.
    let (code, about) = harness.get("/").await?;
    ensure!(code == 200 && about["name"] == "Causeway", "{about}");
    let call = browser.client.get(harness.url("/")).header("accept", "text/html");
    ensure!(call.send().await?.headers()[LOCATION] == "/dashboard");
    service.stop().await
}
