//! `GET /lives` names what is wrong, and nothing while all is well.

use alloy::primitives::{Bytes, U256};
use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::harness::{Engine, Harness, eventually, new_account};

const BASE: u64 = 8453;

async fn wrong(harness: &Harness) -> Result<(String, Vec<Value>)> {
    let (_, lives) = harness.get("/lives").await?;
    let wrong = lives["report"]["wrong"].as_array().context("report.wrong")?.clone();
    Ok((lives["status"].as_str().unwrap_or_default().to_owned(), wrong))
}

/// Somebody else has a filler's key and uses it.
#[tokio::test]
async fn lives_names_a_filler_whose_key_somebody_else_uses() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    eventually("all is well", || async { Ok(wrong(&harness).await? == ("ok".to_owned(), Vec::new())) }).await?;
    let (base, thief) = (harness.chain("base"), new_account().address);
    base.send(harness.fillers[0].private_key, thief, U256::ONE, Bytes::new()).await?;
    eventually("the lane is named", || async {
        let (status, wrong) = wrong(&harness).await?;
        let named = |it: &Value| it["name"] == "lane-quarantined" && it["chainId"] == BASE;
        Ok(status == "degraded" && wrong.iter().any(named))
    })
    .await?;
    let (_, wrong) = wrong(&harness).await?;
    ensure!(wrong.iter().all(|it| it["message"].as_str().is_some_and(|text| !text.is_empty())), "{wrong:?}");
    service.stop().await
}
