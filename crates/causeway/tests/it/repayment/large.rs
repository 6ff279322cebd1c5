//! Deposits that are more than our own funds may return: they go back out of the depository.

use super::*;

/// Deposits native currency, and waits for the part of it that comes back.
async fn deposited_and_returned(
    chain: &Chain,
    user: &Account,
    depository: Address,
    value: U256,
    data: Bytes,
) -> Result<U256> {
    let had = chain.balance(Address::ZERO, user.address).await?;
    let sent = chain.send(user.private_key, depository, value, data).await?.transaction_hash;
    let left = had - value - fee_of(chain, sent).await?;
    let has = balance_when(chain, (Address::ZERO, user.address), "it is back", |has| has > left).await?;
    Ok(has - left)
}

/// A deposit that is more than our own funds may return goes back out of the depository.
#[tokio::test]
async fn a_large_stray_deposit_goes_back_out_of_the_depository() -> Result<()> {
    let harness = harness(Engine::Sqlite, |_| ()).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let user = base.fresh_user().await?;
    // Our wallets hold fifty each, and a return may take a tenth of what one can pay.
    let value = U256::from(20u64) * U256::from(ETHER);
    let data = calldata::deposit_native(user.address, domain::ids::OrderId(B256::repeat_byte(0xdd)));
    let treasury = base.balance(Address::ZERO, harness.treasury.address).await?;
    let back = deposited_and_returned(base, &user, harness.depository, value, data).await?;
    ensure!(back < value && back > value - U256::from(ETHER / 1_000), "{back}");
    // What was kept for gas is repaid to us, and nothing stays.
    eventually("the rest is repaid", || async {
        Ok(held(&harness, Address::ZERO).await?.is_zero()
            && base.balance(Address::ZERO, harness.treasury.address).await? == treasury + value - back)
    })
    .await?;
    service.stop().await
}

/// A second deposit under a filled order, too large for our own funds: a request of its own, refunded by the
/// depository.
#[tokio::test]
async fn a_large_second_deposit_is_refunded_out_of_the_depository() -> Result<()> {
    let harness = harness(Engine::Sqlite, |_| ()).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let user = base.fresh_user().await?;
    let quote = transfer(&harness, &user, "ETH", ETHER / 50).await?;
    let order = quote["protocol"]["v2"]["orderId"].as_str().unwrap().parse()?;
    let value = U256::from(20u64) * U256::from(ETHER);
    let data = calldata::deposit_native(user.address, order);
    deposited_and_returned(base, &user, harness.depository, value, data).await?;
    let child = |tx: &mut Tx<'_>| {
        let row = tx.row("select state from request where parent_id is not null", &[])?;
        row.map(|row| row.text(0).map(str::to_owned)).transpose()
    };
    eventually("its request says so", || async {
        let state: Option<String> = service.solver.store.read::<_, StoreError>(child).await?;
        Ok(state.as_deref() == Some("refunded"))
    })
    .await?;
    ensure!(harness.status(request_id(&quote)).await?["status"] == "success");
    eventually("nothing stays", || async { Ok(held(&harness, Address::ZERO).await?.is_zero()) }).await?;
    service.stop().await
}
