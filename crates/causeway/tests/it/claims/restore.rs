//! Claims and a database that is older than the chain.

use anyhow::{Result, ensure};

use super::{USDC, agrees, arrived, asked, becomes, body, claim, funded, listed, post, sign};
use crate::funding::credited;
use crate::harness::{Harness, blocks_pass, eventually, new_account};
use crate::process::{recover, serve};
use crate::restore::restore;

/// A backup from before the claims pays none until it has recovered, and then knows every payment and its recipient.
#[tokio::test]
async fn a_restored_backup_pays_no_claim_twice() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let toml = harness.folder.path().join("dev.toml");
    let (database, backup) = (harness.folder.path().join("causeway.db"), harness.folder.path().join("backup.db"));
    let service = harness.serve().await?;
    let by = funded(&harness, 100 * USDC).await?;
    let (wallet, recipient) = (by.address, new_account().address);
    // The backup holds the claim that was asked for, and not its signature.
    let known = asked(&harness, wallet, &body(&harness, recipient, Some(40 * USDC))).await?;
    service.stop().await?;
    std::fs::copy(&database, &backup)?;
    let service = harness.serve().await?;
    ensure!(post(&harness, &known, &sign(&by, &known)?).await?.0 == 200);
    becomes(&harness, wallet, "success").await?;
    // The backup holds nothing at all of this one.
    claim(&harness, &by, recipient, Some(50 * USDC)).await?;
    becomes(&harness, wallet, "success").await?;
    credited(&harness, wallet, "10000000").await?;
    service.stop().await?;

    restore(&harness, &backup)?;
    let served = serve(&toml, None)?;
    eventually("it refuses to pay", || async {
        let Ok((_, lives)) = harness.get("/lives").await else { return Ok(false) };
        Ok(lives.to_string().contains("causeway recover"))
    })
    .await?;
    // The old balance is back, and claims against it wait.
    let unlucky = new_account().address;
    claim(&harness, &by, unlucky, Some(10 * USDC)).await?;
    ensure!(post(&harness, &known, &sign(&by, &known)?).await?.0 == 200);
    blocks_pass(harness.chain("base"), 12).await?;
    ensure!(listed(&harness, wallet).await?.iter().all(|claim| claim["status"] == "pending"));
    ensure!(arrived(&harness, recipient).await? == 90 * USDC && arrived(&harness, unlucky).await? == 0);
    ensure!(served.terminate().await?.success());

    let recovered = recover(&toml).await?;
    ensure!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
    let served = serve(&toml, None)?;
    harness.wait_until_served().await?;
    credited(&harness, wallet, "0").await?;
    let statuses: Vec<_> = listed(&harness, wallet).await?.iter().map(|claim| claim["status"].clone()).collect();
    ensure!(statuses == ["success", "success", "success"], "{statuses:?}");
    ensure!(arrived(&harness, recipient).await? == 90 * USDC && arrived(&harness, unlucky).await? == 10 * USDC);
    ensure!(served.terminate().await?.success());
    agrees(&harness).await
}
