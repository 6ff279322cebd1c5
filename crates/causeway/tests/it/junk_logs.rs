//! Blocks that somebody fills with logs: deposits in them are filled, and the rescan passes them.

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall;
use anyhow::{Context, Result, ensure};
use devnet::Fault;
use evm::contracts::Erc20;
use evm::topics::TRANSFER;

use crate::harness::{Harness, ask, eventually, new_account, request_id, transactions};

const BASE: u64 = 8453;
const ARBITRUM: u64 = 42161;
/// The most logs that the node shows in one answer.
const MAX_LOGS: usize = 3;

/// A contract that logs transfers to an address whenever it is called, as a token would.
fn junk(to: Address) -> Bytes {
    let mut code = vec![0x60, 0x01, 0x5f, 0x52];
    for _ in 0..20 {
        for topic in [to.into_word(), Address::repeat_byte(0x99).into_word(), TRANSFER] {
            code.push(0x7f);
            code.extend(topic);
        }
        code.extend([0x60, 0x20, 0x5f, 0xa3]);
    }
    code.push(0x00);
    code.into()
}

/// The only node refuses to show more than three logs. One block has a deposit, twenty transfers of a token that nobody
/// listed, and six transfers of nothing of one that is: anybody can make both.
#[tokio::test]
async fn a_deposit_in_a_block_full_of_junk_is_filled() -> Result<()> {
    let harness = Harness::isolated(|config| {
        for chain in &mut config.chains {
            chain.finality_blocks = 10;
            // The endpoint that remains can be made to refuse.
            chain.endpoints.remove(0);
        }
    })
    .await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let (user, stranger) = (base.fresh_user().await?, base.fresh_user().await?);
    let value = U256::from(15_000_000_000_000_000u64);
    let body = ask(user.address, new_account().address, (BASE, Address::ZERO), (ARBITRUM, Address::ZERO), value);
    let quote = harness.quote(&body).await?;
    let token = new_account().address;
    base.set_code(token, junk(harness.depository)).await?;
    base.faults.set(Fault { max_logs: Some(MAX_LOGS), ..Fault::default() });

    base.pause_mining().await;
    base.submit_with(stranger.private_key, token, U256::ZERO, Bytes::new(), 1_000_000).await?;
    let nothing = Erc20::transferCall { to: harness.depository, amount: U256::ZERO }.abi_encode();
    let usdc = base.token("USDC").address;
    for _ in 0..2 * MAX_LOGS {
        base.submit_with(stranger.private_key, usdc, U256::ZERO, nothing.clone().into(), 200_000).await?;
    }
    let deposit = transactions(&quote)?.pop().context("a deposit")?;
    let deposit = base.submit_with(user.private_key, deposit.to, deposit.value, deposit.data, 200_000).await?;
    base.mine(1).await?;
    base.resume_mining().await;
    let mined = base.receipt(deposit).await?.block_number.unwrap_or_default();
    let shown: Vec<serde_json::Value> = base
        .rpc(
            "eth_getLogs",
            [serde_json::json!({ "fromBlock": format!("{mined:#x}"), "toBlock": format!("{mined:#x}") })],
        )
        .await?;
    ensure!(shown.len() > 20, "the junk is in the block of the deposit: {}", shown.len());

    harness.wait_for(request_id(&quote), "success").await?;
    // The rescan comes by once the block is final, and does not stay there.
    eventually("the block is far behind", || async { Ok(base.block_number().await? > mined + 60) }).await?;
    eventually("the rescan has passed the junk", || async {
        let metrics = harness.client.get(harness.url("/metrics")).send().await?.text().await?;
        let lag = metrics.lines().find_map(|line| line.strip_prefix("causeway_rescan_lag_blocks{chain=\"8453\"} "));
        Ok(lag.and_then(|lag| lag.trim().parse::<u64>().ok()).is_some_and(|lag| lag < 30))
    })
    .await?;
    service.stop().await
}
