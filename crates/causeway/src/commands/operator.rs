//! Calls to the operator routes of the running service, which alone may write to its database.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::config::Config;

/// Posts to a route and returns its answer; a refusal is an error with the service's message.
pub(crate) async fn post(config: &Config, path: &str, body: &Value) -> Result<Value> {
    let token = config.operator.token.as_ref().context("operator.token: needed, and not configured")?;
    let token = token.read(&config.folder).context("operator.token")?;
    let url = format!("http://{}{path}", reachable(config.listen));
    // No proxy: the token must not reach a proxy taken from the environment.
    let client = evm::http::client().build()?;
    let answer = client.post(&url).bearer_auth(token.expose().trim()).json(body).send().await;
    let answer = answer.with_context(|| format!("no service answers at {}; is it running?", config.listen))?;
    let status = answer.status();
    let answer: Value = answer.json().await.context("the answer is not from this service")?;
    if !status.is_success() {
        bail!("refused: {}", answer["message"].as_str().unwrap_or("the service does not say why"));
    }
    Ok(answer)
}

/// An unspecified listen address is reached over loopback.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}
