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
    let deposited = base.receipt(execute(base, &quote, &user).await?).await?.block_number.unwrap_or_default();
    let taken = || async {
        let (_, lives) = harness.get("/lives").await?;
        let chains = lives["report"]["chains"].as_array().cloned().unwrap_or_default();
        anyhow::Ok(chains.iter().find(|chain| chain["id"] == BASE).and_then(|chain| chain["block"].as_u64()))
    };
    eventually("the walk is past the deposit", || async { Ok(taken().await?.is_some_and(|at| at > deposited + 1)) })
        .await?;
    ensure!(harness.status(request_id(&quote)).await?["status"] == "waiting", "the node did not hide it");
    let missed = "causeway_deposits_missed_total{chain=\"8453\"}";
    let missed_before = harness.counted(missed).await?;
    service.stop().await?;
    base.faults.clear();

    let service = harness.serve().await?;
    let status = harness.wait_for(request_id(&quote), "success").await?;
    ensure!(status["inTxHashes"].as_array().is_some_and(|hashes| hashes.len() == 1), "{status}");
    ensure!(arbitrum.balance(Address::ZERO, recipient).await? == amount(&quote["details"]["currencyOut"]["amount"]));
    ensure!(harness.counted(missed).await? > missed_before, "it is counted");
    service.stop().await
}
