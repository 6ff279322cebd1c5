//! A chain changes its mind.

use alloy::primitives::{Address, U256};
use anyhow::{Result, ensure};

use crate::stand::{Stand, amount, ask, blocks_pass, eventually, execute, new_account, request_id};

const BASE: u64 = 8453;
const ARBITRUM: u64 = 42161;

/// The fill's block is replaced by one without it: the same payment goes out again, and only it.
#[tokio::test]
async fn a_fill_that_a_reorg_removes_is_sent_again() -> Result<()> {
    let stand = Stand::alone(|_| ()).await?;
    let service = stand.serve().await?;
    let (base, arbitrum) = (stand.chain("base"), stand.chain("arbitrum"));
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let value = U256::from(15_000_000_000_000_000u64);
    let quote =
        stand.quote(&ask(user.address, recipient, (BASE, Address::ZERO), (ARBITRUM, Address::ZERO), value)).await?;
    execute(base, &quote, &user).await?;
    let status = stand.wait_for(request_id(&quote), "success").await?;
    let promised = amount(&quote["details"]["currencyOut"]["amount"]);
    let fill = arbitrum.receipt(status["txHashes"][0].as_str().unwrap().parse()?).await?;
    arbitrum.reorg(arbitrum.block_number().await? - fill.block_number.unwrap() + 1, &[]).await?;
    eventually("the recipient is paid again", || async {
        Ok(arbitrum.balance(Address::ZERO, recipient).await? == promised)
    })
    .await?;
    blocks_pass(arbitrum, 5).await?;
    ensure!(arbitrum.balance(Address::ZERO, recipient).await? == promised);
    ensure!(stand.status(request_id(&quote)).await?["status"] == "success");
    service.stop().await
}

/// The deposit's block is replaced after the fill: the request stays done, and the deposit that lands again is the same
/// one, not a second.
#[tokio::test]
async fn a_deposit_that_lands_again_after_its_fill_is_adopted() -> Result<()> {
    let stand = Stand::alone(|_| ()).await?;
    let service = stand.serve().await?;
    let (base, arbitrum) = (stand.chain("base"), stand.chain("arbitrum"));
    let (user, recipient) = (arbitrum.fresh_user().await?, new_account().address);
    // A reorg takes back what was given in the blocks it removes.
    blocks_pass(arbitrum, 2).await?;
    let value = U256::from(15_000_000_000_000_000u64);
    let quote =
        stand.quote(&ask(user.address, recipient, (ARBITRUM, Address::ZERO), (BASE, Address::ZERO), value)).await?;
    let deposit = execute(arbitrum, &quote, &user).await?;
    let raw: alloy::primitives::Bytes = arbitrum.rpc("eth_getRawTransactionByHash", [deposit]).await?;
    let status = stand.wait_for(request_id(&quote), "success").await?;
    ensure!(status["inTxHashes"][0] == deposit.to_string());
    let depth = arbitrum.block_number().await? - arbitrum.receipt(deposit).await?.block_number.unwrap() + 1;
    arbitrum.reorg(depth, &[]).await?;
    let _: alloy::primitives::B256 = arbitrum.rpc("eth_sendRawTransaction", [raw]).await?;
    arbitrum.receipt(deposit).await?;
    eventually("the deposit is known again", || async {
        Ok(stand.status(request_id(&quote)).await?["inTxHashes"][0] == deposit.to_string())
    })
    .await?;
    blocks_pass(base, 5).await?;
    ensure!(base.balance(Address::ZERO, recipient).await? == amount(&quote["details"]["currencyOut"]["amount"]));
    ensure!(stand.status(request_id(&quote)).await?["status"] == "success");
    service.stop().await
}

/// A chain that takes back what it called final is not paid on until a person has looked.
#[tokio::test]
async fn a_reorg_deeper_than_finality_stops_the_chain() -> Result<()> {
    let stand = Stand::alone(|_| ()).await?;
    let service = stand.serve().await?;
    let arbitrum = stand.chain("arbitrum");
    let finality = stand.config.chains.iter().find(|chain| chain.id == ARBITRUM).unwrap().finality_blocks;
    blocks_pass(arbitrum, finality + 3).await?;
    arbitrum.reorg(finality + 2, &[]).await?;
    eventually("the chain is refused", || async {
        let (_, lives) = stand.get("/lives").await?;
        let chains = lives["report"]["chains"].as_array().cloned().unwrap_or_default();
        let refused =
            |chain: &serde_json::Value| chain["refusing"].as_str().is_some_and(|why| why.contains("took back"));
        Ok(chains.iter().any(|chain| chain["id"] == ARBITRUM && refused(chain)))
    })
    .await?;
    let user = new_account().address;
    let body = ask(user, user, (BASE, Address::ZERO), (ARBITRUM, Address::ZERO), U256::from(10u64.pow(16)));
    let (code, answer) = stand.post("/quote/v2", &body).await?;
    ensure!(code == 400 && answer["errorCode"] == "CHAIN_DISABLED", "{code} {answer}");
    service.stop().await
}
