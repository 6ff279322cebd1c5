//! A payment that was mined and not applied: the node did not show it, or the unit failed.

use alloy::primitives::{Address, U256};
use anyhow::{Result, ensure};
use store::{Store, StoreError, Tx};

use crate::harness::{Engine, Harness, amount, ask, eventually, execute, new_account, request_id};

const BASE: u64 = 8453;
const ARBITRUM: u64 = 42161;
const MISSED: &str = "causeway_payments_missed_total{chain=\"42161\"}";

/// Forgets that the fill was mined, as if the walk had passed its block without it: the walk does not come back, and
/// every node says that the nonce is used.
fn forget(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let sql = "update payment set state = 'sent', block_number = null, block_hash = null, fee = null
               where purpose = 'fill'";
    assert_eq!(tx.execute(sql, &[])?, 1);
    assert_eq!(tx.execute("update request set state = 'submitted' where state = 'success'", &[])?, 1);
    Ok(())
}

#[tokio::test]
async fn a_payment_that_the_walk_did_not_see_is_found_by_its_receipt() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, |config| {
        config.solver.filler_keys.truncate(1);
        config.solver.filler_addresses.truncate(1);
    })
    .await?;
    let (base, arbitrum) = (harness.chain("base"), harness.chain("arbitrum"));
    let value = U256::from(15_000_000_000_000_000u64);
    let quoted = async || {
        let (user, recipient) = (base.fresh_user().await?, new_account().address);
        let body = ask(user.address, recipient, (BASE, Address::ZERO), (ARBITRUM, Address::ZERO), value);
        anyhow::Ok((harness.quote(&body).await?, user, recipient))
    };
    let service = harness.serve().await?;
    let (first, user, recipient) = quoted().await?;
    execute(base, &first, &user).await?;
    harness.wait_for(request_id(&first), "success").await?;
    harness.walked(arbitrum).await?;
    let missed_before = harness.counted(MISSED).await?;
    service.stop().await?;
    {
        let store = Store::open(&causeway::assemble::database(&harness.config)?)?;
        store.write(forget).await?;
        store.close().await;
    }

    let service = harness.serve().await?;
    harness.wait_for(request_id(&first), "success").await?;
    let paid = amount(&first["details"]["currencyOut"]["amount"]);
    ensure!(arbitrum.balance(Address::ZERO, recipient).await? == paid, "it was paid once");
    eventually("it is counted", || async { Ok(harness.counted(MISSED).await? > missed_before) }).await?;
    // The lane goes on.
    let (second, user, _) = quoted().await?;
    execute(base, &second, &user).await?;
    harness.wait_for(request_id(&second), "success").await?;
    service.stop().await
}
