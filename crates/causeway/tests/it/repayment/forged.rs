//! Rows that somebody forged in the database: the allocator signs nothing for them.

use super::*;

/// Three forged rows in the solver's tables and one in the allocator's own: none is signed for.
#[tokio::test]
async fn forged_rows_are_refused() -> Result<()> {
    // Filled while nobody repays, so that there is time to forge.
    let harness = harness(Engine::Sqlite, |_| ()).await?;
    let mut unpaid = harness.config.clone();
    unpaid.allocator = None;
    let service = Service::start(&unpaid, system_env()).await?;
    harness.wait_until_served().await?;
    let base = harness.chain("base");
    let user = base.fresh_user().await?;
    let mut orders = Vec::new();
    for _ in 0..4 {
        let quote = transfer(&harness, &user, "ETH", ETHER / 100).await?;
        orders.push(quote["protocol"]["v2"]["orderId"].as_str().unwrap().parse::<B256>()?);
        // The solver itself would notice a forged fill that is not final yet.
        eventually("fill and deposit are final", || async {
            let trace = harness.trace(request_id(&quote)).await?;
            Ok(trace["payments"][0]["state"] == "final" && trace["deposits"][0]["state"] == "final")
        })
        .await?;
    }
    service.solver.store.write(move |tx| forge(tx, &orders)).await?;
    service.stop().await?;

    let treasury = base.balance(Address::ZERO, harness.treasury.address).await?;
    let service = harness.serve().await?;
    eventually("the honest one is repaid", || async {
        Ok(base.balance(Address::ZERO, harness.treasury.address).await? > treasury)
    })
    .await?;
    let reasons = |tx: &mut Tx<'_>| {
        let rows = tx.rows("select refusal from depository_deposit where settled = 2 order by block_number", &[])?;
        rows.iter().map(|row| row.text(0).map(str::to_owned)).collect::<Result<Vec<_>, StoreError>>()
    };
    eventually("the others are refused", || async { Ok(service.solver.store.read(reasons).await?.len() == 3) }).await?;
    let expected = [
        "the transaction that settled it is not on the chain",
        "the transaction that settled it names another order",
        "the stored quote is not the one of the order",
    ];
    ensure!(service.solver.store.read(reasons).await? == expected);
    // A payout to somebody else, as if the allocator itself had decided on it.
    let thief = new_account().address;
    let steal = move |tx: &mut Tx<'_>| {
        let key =
            tx.row("select deposit_key from depository_deposit where settled = 2 limit 1", &[])?.unwrap().b256(0)?;
        let held = depository_ledger::lock(tx, key)?.unwrap();
        depository_ledger::promise(tx, &held, held.deposit.amount, Amount::ZERO)?;
        let payout = forged(&held, thief);
        payouts::insert(tx, &payout, &[(key, payout.amount)], State::Intended, outside_now())?;
        Ok::<_, StoreError>(())
    };
    service.solver.store.write(steal).await?;
    eventually("it says why not", || async {
        Ok(all_payouts(&service).await?.iter().any(|payout| payout.payout.recipient == thief && payout.note.is_some()))
    })
    .await?;
    harness.let_pass(base, 10).await?;
    ensure!(base.balance(Address::ZERO, thief).await?.is_zero());
    ensure!(base.balance(Address::ZERO, harness.treasury.address).await? == treasury + U256::from(ETHER / 100));
    ensure!(held(&harness, Address::ZERO).await? == U256::from(3 * (ETHER / 100)));
    service.stop().await
}

/// A fill that never was; one that was another order's; a quote that promises less; a deposit that never was.
fn forge(tx: &mut Tx<'_>, at: &[B256]) -> Result<(), StoreError> {
    let hash = "update payment set tx_hash = $2 where order_id = $1";
    tx.execute(hash, &[at[0].into(), B256::repeat_byte(0xaa).into()])?;
    let other = tx.row("select tx_hash from payment where order_id = $1", &[at[3].into()])?.unwrap().b256(0)?;
    tx.execute(hash, &[at[1].into(), other.into()])?;
    let quote = tx.row("select quote from request where order_id = $1", &[at[2].into()])?.unwrap();
    let mut quote: Value = serde_json::from_str(quote.text(0)?).unwrap();
    let minimum = &mut quote["figures"][6];
    assert_eq!(minimum.as_str().map(|it| it.bytes().all(|digit| digit.is_ascii_digit())), Some(true), "{minimum}");
    *minimum = "1".into();
    tx.execute("update request set quote = $2 where order_id = $1", &[at[2].into(), quote.to_string().into()])?;
    let copied = tx.execute(
        "insert into deposit (chain_id, tx_hash, ordinal, log_index, block_number, block_hash, block_time, order_id,
         depositor, payer, sender, currency, amount, state, seen_at, claim)
         select chain_id, $2, ordinal, log_index, block_number, block_hash, block_time, order_id, depositor, payer,
         sender, currency, '1000000000000000000', state, seen_at, claim from deposit where order_id = $1",
        &[at[3].into(), B256::repeat_byte(0xbb).into()],
    )?;
    assert_eq!(copied, 1);
    Ok(())
}

fn outside_now() -> domain::time::Timestamp {
    (system_env().clock)()
}

fn forged(held: &depository_ledger::Held, thief: Address) -> Payout {
    let subject = identity::batch_key(&[held.deposit.key]);
    Payout {
        nonce: identity::nonce(Kind::Batch, subject),
        kind: Kind::Batch,
        subject,
        chain: ChainId(BASE),
        currency: Address::ZERO,
        recipient: thief,
        amount: held.deposit.amount,
    }
}

/// More than came in cannot be promised, whoever asks.
#[tokio::test]
async fn the_database_itself_refuses_to_promise_too_much() -> Result<()> {
    let harness = harness(Engine::Sqlite, |config| {
        if let Some(allocator) = &mut config.allocator {
            allocator.batch_age_secs = 100_000;
        }
    })
    .await?;
    let service = harness.serve().await?;
    let user = harness.chain("base").fresh_user().await?;
    transfer(&harness, &user, "ETH", ETHER / 100).await?;
    eventually("it is booked as settled", || async {
        let held = service
            .solver
            .store
            .read(|tx| depository_ledger::reimbursable(tx, ChainId(BASE), Address::ZERO, 10))
            .await?;
        Ok(held.len() == 1)
    })
    .await?;
    let promise = |tx: &mut Tx<'_>| {
        let held = depository_ledger::reimbursable(tx, ChainId(BASE), Address::ZERO, 10)?.remove(0);
        let more = Amount::new(held.deposit.amount.units() + U256::from(1));
        depository_ledger::promise(tx, &held, more, Amount::ZERO)
    };
    ensure!(service.solver.store.write(promise).await.is_err());
    // Nor is what may be promised paid to anybody but the treasury, whatever the row says.
    let thief = new_account().address;
    let steal = move |tx: &mut Tx<'_>| {
        let held = depository_ledger::reimbursable(tx, ChainId(BASE), Address::ZERO, 10)?.remove(0);
        depository_ledger::promise(tx, &held, held.deposit.amount, Amount::ZERO)?;
        let payout = forged(&held, thief);
        let id = payouts::insert(tx, &payout, &[(held.deposit.key, payout.amount)], State::Intended, outside_now())?;
        // Not even if it looks as if that had been decided before a crash.
        let (issued, expiration, struct_hash) = (4_000_000_000, 4_000_000_900, B256::repeat_byte(7));
        let decided = payouts::Signature { ordinal: 1, issued, expiration, struct_hash, bytes: None };
        payouts::decide(tx, id.expect("it is new"), &decided, outside_now())?;
        Ok::<_, StoreError>(())
    };
    service.solver.store.write(steal).await?;
    let refused =
        |payout: &payouts::PayoutRow| payout.note.as_ref().is_some_and(|note| note.contains("the treasury only"));
    eventually("it says why not", || async { Ok(all_payouts(&service).await?.iter().any(refused)) }).await?;
    service.stop().await
}
