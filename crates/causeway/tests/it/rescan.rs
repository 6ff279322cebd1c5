//! A log that a node hides at first is found by the rescan once its block is final.

use alloy::primitives::{Address, U256};
use anyhow::{Result, ensure};
use devnet::Fault;

use crate::harness::{Harness, amount, ask, eventually, execute, new_account, request_id};

const BASE: u64 = 8453;
const ARBITRUM: u64 = 42161;

/// The only node there is hides a deposit's log while the walk passes, and the service is down when the node comes to
/// its senses: the rescan begins where it stood, finds the deposit, and the transfer is filled.
#[tokio::test]
async fn a_deposit_that_the_node_hides_is_filled_all_the_same() -> Result<()> {
    let harness = Harness::isolated(|config| {
        for chain in &mut config.chains {
            chain.finality_blocks = 25;
            // The endpoint that remains can be made to lie.
            chain.endpoints.remove(0);
        }
    })
    .await?;
    let service = harness.serve().await?;
    let (base, arbitrum) = (harness.chain("base"), harness.chain("arbitrum"));
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let value = U256::from(15_000_000_000_000_000u64);
    let body = ask(user.address, recipient, (BASE, Address::ZERO), (ARBITRUM, Address::ZERO), value);
    let quote = harness.quote(&body).await?;
    base.faults.set(Fault { hide_logs: true, ..Fault::default() });
    execute(base, &quote, &user).await?;
    // The chain moves by hand from here on, so that the rescan does not come by as long as the node hides.
    base.pause_mining().await;
    base.mine(2).await?;
    harness.walked(base).await?;
    ensure!(harness.status(request_id(&quote)).await?["status"] == "waiting", "the node did not hide it");
    let missed = "causeway_deposits_missed_total{chain=\"8453\"}";
    let missed_before = harness.counted(missed).await?;
    service.stop().await?;
    base.faults.clear();
    base.resume_mining().await;

    let service = harness.serve().await?;
    let status = harness.wait_for(request_id(&quote), "success").await?;
    ensure!(status["inTxHashes"].as_array().is_some_and(|hashes| hashes.len() == 1), "{status}");
    ensure!(arbitrum.balance(Address::ZERO, recipient).await? == amount(&quote["details"]["currencyOut"]["amount"]));
    eventually("it is counted", || async { Ok(harness.counted(missed).await? > missed_before) }).await?;
    service.stop().await
}
