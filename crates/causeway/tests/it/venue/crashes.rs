//! The process dies around a transfer on the venue; the next one finishes it, once.

use anyhow::{Result, ensure};

use super::Stage;
use crate::harness::{Engine, WAIT_TIMEOUT, amount, execute, new_account, request_id};
use crate::process::serve;

/// Dies with a fill of the venue signed, sent and not noted, and with its attempt committed.
#[tokio::test]
async fn dying_around_a_transfer_to_the_venue_pays_once() -> Result<()> {
    for point in ["payment.signed", "payment.sent"] {
        let stage = Stage::new(Engine::Sqlite).await?;
        let toml = stage.harness.folder.path().join("dev.toml");
        let base = stage.harness.chain("base");
        let (user, usdc) = (base.fresh_user().await?, base.token("USDC").address);
        let theirs = stage.balance(&stage.user)?;
        let mut first = serve(&toml, Some(point))?;
        stage.harness.wait_until_served().await?;
        let body = stage.deposit(&user.address.to_string(), &usdc.to_string(), "50000000");
        let quote = stage.harness.quote(&body).await?;
        execute(base, &quote, &user).await?;
        ensure!(!first.wait_until_dead(WAIT_TIMEOUT).await?.success(), "{point}: it ended in order");

        let second = serve(&toml, None)?;
        stage.harness.wait_until_served().await?;
        stage.harness.wait_for(request_id(&quote), "success").await?;
        let promised: u64 = amount(&quote["details"]["currencyOut"]["amount"]).to();
        stage.user_has(theirs + promised).await?;
        stage.rounds_pass().await?;
        ensure!(stage.balance(&stage.user)? == theirs + promised, "{point}: paid twice");
        ensure!(second.terminate().await?.success(), "{point}: the second one did not end in order");
    }
    Ok(())
}

/// Dies with an incoming transfer committed, and before the cursor has moved past it.
#[tokio::test]
async fn dying_with_a_withdrawal_taken_in_pays_once() -> Result<()> {
    for point in ["deposit.committed", "cursor.before"] {
        let stage = Stage::new(Engine::Sqlite).await?;
        let toml = stage.harness.folder.path().join("dev.toml");
        let optimism = stage.harness.chain("optimism");
        let (recipient, usdc) = (new_account().address, optimism.token("USDC").address);
        let mut first = serve(&toml, Some(point))?;
        stage.harness.wait_until_served().await?;
        let quote = stage.harness.quote(&stage.withdrawal(20_000_000, &recipient.to_string())).await?;
        stage.withdraw(&quote).await?;
        ensure!(!first.wait_until_dead(WAIT_TIMEOUT).await?.success(), "{point}: it ended in order");

        let second = serve(&toml, None)?;
        stage.harness.wait_until_served().await?;
        stage.harness.wait_for(request_id(&quote), "success").await?;
        stage.rounds_pass().await?;
        let promised = amount(&quote["details"]["currencyOut"]["amount"]);
        ensure!(optimism.balance(usdc, recipient).await? == promised, "{point}: paid twice, or not at all");
        ensure!(second.terminate().await?.success(), "{point}: the second one did not end in order");
    }
    Ok(())
}
