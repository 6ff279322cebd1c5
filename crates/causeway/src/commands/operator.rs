//! Calls of the running service's operator routes: it alone may write to its database.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::config::Config;

/// Posts to a route and gives its answer; a refusal is an error that says what the service says.
pub async fn post(config: &Config, path: &str, body: &Value) -> Result<Value> {
    let token = config.operator.token.as_ref().context("operator.token: needed, and not configured")?;
    let token = token.read(&config.folder).context("operator.token")?;
    let url = format!("http://{}{path}", reachable(config.listen));
    // Straight to the service: a proxy from the environment has no business with the token.
    let client = reqwest::Client::builder().no_proxy().build()?;
    let answer = client.post(&url).bearer_auth(token.expose().trim()).json(body).send().await;
    let answer = answer.with_context(|| format!("no service answers at {}; is it running?", config.listen))?;
    let status = answer.status();
    let answer: Value = answer.json().await.context("the answer is not from this service")?;
    if !status.is_success() {
        bail!("refused: {}", answer["message"].as_str().unwrap_or("the service does not say why"));
    }
    Ok(answer)
}

/// A service that listens everywhere is reached here.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}
