//! `causeway refund`: asks the running service, which alone may pay from its database, to refund a request.

use anyhow::Result;
use serde_json::json;

use super::operator;
use crate::config::Config;

pub(crate) async fn run(config: &Config, request: &str, by: &str, reason: &str) -> Result<()> {
    let body = json!({ "requestId": request, "by": by, "reason": reason });
    let answer = operator::post(config, "/operator/refunds", &body).await?;
    println!("request {request} is {}", answer["state"].as_str().unwrap_or_default());
    Ok(())
}
