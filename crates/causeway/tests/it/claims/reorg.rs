//! Claims whose payment a reorg removes, or whose payment fails.

use alloy::primitives::{B256, U256};
use anyhow::{Result, ensure};

use super::{USDC, agrees, arrived, becomes, claim, funded, listed, usdc};
use crate::audit::planted;
use crate::funding::{balance, credited};
use crate::harness::{Harness, blocks_pass, eventually, found, new_account, take_away};

/// A payment that a reorg removes goes out again, and is booked once. A payment that fails is credited back.
#[tokio::test]
async fn a_claim_survives_a_reorg_and_one_that_fails_is_credited_back() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let by = funded(&harness, 50 * USDC).await?;
    let (wallet, recipient) = (by.address, new_account().address);
    blocks_pass(base, 8).await?;
    // The chain moves by hand, so that nothing becomes final before it is taken away.
    base.pause_mining().await;
    claim(&harness, &by, recipient, Some(20 * USDC)).await?;
    eventually("it is mined", || async {
        base.mine(1).await?;
        Ok(arrived(&harness, recipient).await? == 20 * USDC)
    })
    .await?;
    harness.walked(base).await?;
    let hash = found("its hash is told", || async {
        Ok(listed(&harness, wallet).await?[0]["txHash"].as_str().map(str::parse::<B256>).transpose()?)
    });
    take_away(base, hash.await?).await?;
    becomes(&harness, wallet, "success").await?;
    credited(&harness, wallet, "30000000").await?;
    ensure!(arrived(&harness, recipient).await? == 20 * USDC, "not paid once");

    // The treasury is emptied under the payment.
    let inventory = base.balance(usdc(&harness), harness.treasury.address).await?;
    base.pause_mining().await;
    claim(&harness, &by, recipient, None).await?;
    base.set_token_balance(usdc(&harness), harness.treasury.address, U256::ZERO).await?;
    base.resume_mining().await;
    let failed = becomes(&harness, wallet, "failure").await?;
    ensure!(failed["currency"]["amount"] == "30000000", "{failed}");
    let body = balance(&harness, wallet).await?;
    ensure!(body["amount"] == "30000000" && body["availableBalanceUsd"] == 30.0, "{body}");
    // The balance can be claimed again.
    base.set_token_balance(usdc(&harness), harness.treasury.address, inventory).await?;
    harness.knows_holdings(base, "USDC").await?;
    claim(&harness, &by, recipient, None).await?;
    becomes(&harness, wallet, "success").await?;
    credited(&harness, wallet, "0").await?;
    ensure!(arrived(&harness, recipient).await? == 50 * USDC);
    service.stop().await?;
    agrees(&harness).await?;
    forged_rows_are_found(&harness).await
}

/// The audit finds each forged row, on top of the ones before.
async fn forged_rows_are_found(harness: &Harness) -> Result<()> {
    const NEWEST: &str = "(select max(sequence) from claim where state = 'success')";
    let forgeries = [
        (
            "is set aside for it",
            "update claim set state = 'pending' where sequence = (select min(sequence) from claim)",
        ),
        ("0 is booked for it", "delete from ledger_entry where entry_id like 'paid:%' and amount = 30000000"),
        ("its payment is of", "update claim set amount = amount + 1 where sequence ="),
        ("and its claim is of", "update claim set wallet = recipient where sequence ="),
    ];
    for (finding, sql) in forgeries {
        let sql = if sql.ends_with('=') { format!("{sql} {NEWEST}") } else { sql.to_owned() };
        let sql: &'static str = sql.leak();
        let found =
            planted(harness, move |tx| tx.execute(sql, &[]).map(|changed| assert_eq!(changed, 1, "{sql}"))).await?;
        ensure!(found.iter().any(|text| text.contains(finding)), "{finding}: {found:#?}");
    }
    Ok(())
}
