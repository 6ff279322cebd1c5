//! The process dies at every crash point; the next one finishes its unfinished work, once.

use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes, U256};
use anyhow::{Result, ensure};
use devnet::Chain;
use serde_json::Value;

use crate::claims;
use crate::gasless;
use crate::harness::{
    Harness, WAIT_TIMEOUT, amount, ask, blocks_pass, eventually, execute, new_account, request_id, take_away,
};
use crate::process::serve;
use crate::repayment;
use crate::webhooks;

const BASE: u64 = 8453;
const ARBITRUM: u64 = 42161;
/// Longer than both lives of the service take on a busy machine.
const POINT_TIMEOUT: Duration = Duration::from_secs(300);

/// Brings the service to a crash point.
async fn provoke(point: &str, harness: &Harness) -> Result<(Value, Address)> {
    let arbitrum = harness.chain("arbitrum");
    let recipient = new_account().address;
    let value = U256::from(20_000_000_000_000_000u64);
    match point {
        "reorg.undone" => {
            // The deposit's own block is taken away, and its transaction with it; it is sent again afterwards.
            let user = arbitrum.fresh_user().await?;
            // A reorg takes back the funds given in the blocks it removes.
            blocks_pass(arbitrum, 2).await?;
            let body = ask(user.address, recipient, (ARBITRUM, Address::ZERO), (BASE, Address::ZERO), value);
            let quote = harness.quote(&body).await?;
            execute(arbitrum, &quote, &user).await?;
            harness.wait_for(request_id(&quote), "success").await?;
            harness.reorg_walked(arbitrum, 3).await?;
            Ok((quote, recipient))
        }
        "hold.committed" => crate::fast_fill::crash(harness).await,
        "address.swept" => {
            let base = harness.chain("base");
            let user = base.fresh_user().await?;
            let mut body = ask(user.address, recipient, (BASE, Address::ZERO), (ARBITRUM, Address::ZERO), value);
            (body["useDepositAddress"], body["strict"]) = (true.into(), true.into());
            body["refundTo"] = user.address.to_string().into();
            let quote = harness.quote(&body).await?;
            execute(base, &quote, &user).await?;
            Ok((quote, recipient))
        }
        "bump.committed" => {
            // Gas becomes too dear for the fill that is on its way, while blocks go on.
            let base = harness.chain("base");
            let user = base.fresh_user().await?;
            let body = ask(user.address, recipient, (BASE, Address::ZERO), (ARBITRUM, Address::ZERO), value);
            let quote = harness.quote(&body).await?;
            arbitrum.pause_mining().await;
            execute(base, &quote, &user).await?;
            harness.wait_for(request_id(&quote), "submitted").await?;
            arbitrum.set_base_fee(2_000_000_000);
            arbitrum.resume_mining().await;
            Ok((quote, recipient))
        }
        "cancel.committed" | "cancel.mined" => {
            // Blocks become too dear for the fill that is on its way, and its order is about to end.
            let base = harness.chain("base");
            let user = base.fresh_user().await?;
            let body = ask(user.address, recipient, (BASE, Address::ZERO), (ARBITRUM, Address::ZERO), value);
            let quote = harness.quote(&body).await?;
            arbitrum.pause_mining().await;
            execute(base, &quote, &user).await?;
            harness.wait_for(request_id(&quote), "submitted").await?;
            arbitrum.set_base_fee(20_000_000_000);
            arbitrum.resume_mining().await;
            arbitrum.advance_time(Duration::from_secs(420)).await?;
            Ok((quote, recipient))
        }
        _ => {
            let base = harness.chain("base");
            let user = base.fresh_user().await?;
            let body = ask(user.address, recipient, (BASE, Address::ZERO), (ARBITRUM, Address::ZERO), value);
            let quote = harness.quote(&body).await?;
            execute(base, &quote, &user).await?;
            Ok((quote, recipient))
        }
    }
}

/// The deposit has left the depository for the treasury, and nothing more.
async fn repaid_once(harness: &Harness, had: U256) -> Result<()> {
    let base = harness.chain("base");
    let deposited = U256::from(20_000_000_000_000_000u64);
    // Money that is not owed, so that a second payout would have something to take.
    let treasury = || base.balance(Address::ZERO, harness.treasury.address);
    eventually("the deposit is repaid", || async { Ok(treasury().await? == had + deposited) }).await?;
    base.set_balance(harness.depository, deposited).await?;
    harness.let_pass(base, 12).await?;
    ensure!(treasury().await? == had + deposited, "repaid twice");
    Ok(())
}

/// The fill is given up once another transaction has used its nonce, and the deposit goes back, once.
async fn given_up_once(harness: &Harness, quote: &Value, recipient: Address) -> Result<()> {
    let (base, arbitrum) = (harness.chain("base"), harness.chain("arbitrum"));
    let user: Address = quote["steps"][0]["items"][0]["data"]["from"].as_str().unwrap_or_default().parse()?;
    let status = harness.wait_for(request_id(quote), "refund").await?;
    ensure!(status["failReason"] == "TRANSACTION_NOT_INCLUDED", "{status}");
    let back = base.balance(Address::ZERO, user).await?;
    harness.let_pass(base, 8).await?;
    ensure!(base.balance(Address::ZERO, user).await? == back, "refunded twice");
    ensure!(arbitrum.balance(Address::ZERO, recipient).await?.is_zero(), "filled as well");
    Ok(())
}

async fn crash_at(point: &'static str) -> Result<()> {
    let harness = Harness::isolated(|config| {
        let cancels = point.starts_with("cancel.");
        for chain in &mut config.chains {
            // A fill that is to be given up must not be mined because of a higher bid.
            chain.bump_after_millis = Some(if cancels { 600_000 } else { 1_000 });
            if cancels {
                chain.finality_blocks = 4;
            }
        }
        if cancels {
            config.fees.order_lifetime_secs = 660;
        }
        if point.starts_with("payout.") {
            repayment::repaid(config);
        }
    })
    .await?;
    repayment::name_allocator(&harness).await?;
    let had = harness.chain("base").balance(Address::ZERO, harness.treasury.address).await?;
    let arbitrum = harness.chain("arbitrum");
    let toml = harness.folder.path().join("dev.toml");
    let mut first = serve(&toml, Some(point))?;
    if point == "claim.committed" {
        return claims::crash(&harness, first, &toml).await;
    }
    if point == "relay.committed" {
        return gasless::crash(&harness, first, &toml).await;
    }
    if point.starts_with("webhook.") {
        return webhooks::crash(&harness, point, first, &toml).await;
    }
    // A process that dies on becoming the worker never gets to serve.
    let at_once = point == "lease.taken";
    let mut provoked = None;
    if !at_once {
        harness.wait_until_served().await?;
        provoked = Some(provoke(point, &harness).await?);
    }
    let died = first.wait_until_dead(WAIT_TIMEOUT).await?;
    ensure!(!died.success(), "{point}: it ended in order");

    let second = serve(&toml, None)?;
    harness.wait_until_served().await?;
    let (quote, recipient) = match provoked {
        Some(provoked) => provoked,
        None => provoke(point, &harness).await?,
    };
    if point.starts_with("cancel.") {
        given_up_once(&harness, &quote, recipient).await?;
        ensure!(second.terminate().await?.success(), "{point}: the second one did not end in order");
        return Ok(());
    }
    harness.wait_for(request_id(&quote), "success").await?;
    let destination: &Chain = if point == "reorg.undone" { harness.chain("base") } else { arbitrum };
    let promised = amount(&quote["details"]["currencyOut"]["amount"]);
    eventually("the recipient is paid", || async {
        Ok(destination.balance(Address::ZERO, recipient).await? == promised)
    })
    .await?;
    // Long enough for a second payment to be mined.
    harness.let_pass(destination, 6).await?;
    ensure!(destination.balance(Address::ZERO, recipient).await? == promised, "{point}: paid twice");
    if point.starts_with("payout.") {
        repaid_once(&harness, had).await?;
    }
    ensure!(second.terminate().await?.success(), "{point}: the second one did not end in order");
    Ok(())
}

/// The process dies between a block's commits and its cursor, and finds another block in its place when it comes back:
/// the events of the first one are taken back, and the deposit that lands again is the same deposit.
#[tokio::test]
async fn a_block_replaced_while_we_were_dead_is_taken_back() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let (base, arbitrum) = (harness.chain("base"), harness.chain("arbitrum"));
    let toml = harness.folder.path().join("dev.toml");
    let (user, recipient) = (arbitrum.fresh_user().await?, new_account().address);
    // A reorg takes back the funds given in the blocks it removes.
    blocks_pass(arbitrum, 2).await?;
    let mut first = serve(&toml, Some("cursor.before"))?;
    harness.wait_until_served().await?;
    let value = U256::from(20_000_000_000_000_000u64);
    let quote =
        harness.quote(&ask(user.address, recipient, (ARBITRUM, Address::ZERO), (BASE, Address::ZERO), value)).await?;
    let deposit = execute(arbitrum, &quote, &user).await?;
    let raw: Bytes = arbitrum.rpc("eth_getRawTransactionByHash", [deposit]).await?;
    first.wait_until_dead(WAIT_TIMEOUT).await?;
    take_away(arbitrum, deposit).await?;

    let second = serve(&toml, None)?;
    harness.wait_until_served().await?;
    // The payment was committed with the deposit, so it goes out; the deposit is no longer claimed to be there.
    harness.wait_for(request_id(&quote), "success").await?;
    // Each chain is walked by itself: the fill's may be ahead of the deposit's.
    eventually("the deposit is taken back", || async {
        Ok(harness.status(request_id(&quote)).await?["inTxHashes"] == serde_json::json!([]))
    })
    .await?;
    let _: B256 = arbitrum.rpc("eth_sendRawTransaction", [raw]).await?;
    eventually("the deposit is known again", || async {
        Ok(harness.status(request_id(&quote)).await?["inTxHashes"][0] == deposit.to_string())
    })
    .await?;
    harness.let_pass(base, 5).await?;
    ensure!(base.balance(Address::ZERO, recipient).await? == amount(&quote["details"]["currencyOut"]["amount"]));
    ensure!(second.terminate().await?.success());
    Ok(())
}

/// A test for every point, so that they run side by side and a failure names its point.
macro_rules! dying_at {
    ($($point:literal => $test:ident;)*) => {
        /// The points and the tests that die there.
        pub const TESTED: &[(&str, &str)] = &[$(($point, stringify!($test))),*];

        $(
            #[tokio::test]
            async fn $test() -> Result<()> {
                tokio::time::timeout(POINT_TIMEOUT, crash_at($point)).await?
            }
        )*
    };
}

dying_at! {
    "deposit.committed" => dying_with_a_deposit_committed_pays_once;
    "payment.signed" => dying_with_a_payment_signed_pays_once;
    "payment.sent_one_node" => dying_with_a_payment_at_one_node_pays_once;
    "payment.sent" => dying_with_a_payment_sent_pays_once;
    "bump.committed" => dying_with_a_higher_offer_committed_pays_once;
    "cancel.committed" => dying_with_a_cancellation_committed_refunds_once;
    "cancel.mined" => dying_with_a_cancellation_mined_refunds_once;
    "reorg.undone" => dying_with_a_reorg_undone_pays_once;
    "cursor.before" => dying_before_the_cursor_moves_pays_once;
    "payout.intended" => dying_with_a_payout_intended_repays_once;
    "payout.signed" => dying_with_a_payout_signed_repays_once;
    "payout.sent" => dying_with_a_payout_sent_repays_once;
    "hold.committed" => dying_with_a_hold_committed_pays_once;
    "claim.committed" => dying_with_a_claim_committed_pays_once;
    "relay.committed" => dying_with_a_relay_committed_deposits_once;
    "lease.taken" => dying_with_the_lease_taken_pays_once;
    "address.swept" => dying_with_a_deposit_address_swept_pays_once;
    "webhook.claimed" => dying_with_a_webhook_claimed_posts_it;
    "webhook.posted" => dying_with_a_webhook_posted_repeats_it_under_its_id;
}
