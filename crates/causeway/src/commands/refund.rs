//! `causeway refund`: asks the running service, which alone may pay from its database, to refund a request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::config::Config;

pub async fn run(config: &Config, request: &str, by: &str, reason: &str) -> Result<()> {
    let token = config.operator.token.as_ref().context("operator.token: needed, and not configured")?;
    let token = token.read(&config.folder).context("operator.token")?;
    let url = format!("http://{}/operator/refunds", reachable(config.listen));
    let body = json!({ "requestId": request, "by": by, "reason": reason });
    // Straight to the service: a proxy from the environment has no business with the token.
    let client = reqwest::Client::builder().no_proxy().build()?;
    let answer = client.post(&url).bearer_auth(token.expose().trim()).json(&body).send().await;
    let answer = answer.with_context(|| format!("no service answers at {}; is it running?", config.listen))?;
    let status = answer.status();
    let body: Value = answer.json().await.context("the answer is not from this service")?;
    if !status.is_success() {
        bail!("not refunded: {}", body["message"].as_str().unwrap_or("the service does not say why"));
    }
    println!("request {request} is {}", body["state"].as_str().unwrap_or_default());
    Ok(())
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
