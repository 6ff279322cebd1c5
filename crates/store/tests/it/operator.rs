//! Decisions and facts that operators read: pauses of chains, audits, holdings of depositories.

use alloy_primitives::{Address, U256};
use domain::ids::ChainId;
use domain::money::Amount;
use domain::time::Timestamp;
use store::audit_runs::{self, AuditRun};
use store::chain_pauses::{self, Decision};
use store::depository_holdings::{self, Holding};

use crate::database::Database;

crate::on_both_engines! {
    a_pause_is_in_force_until_it_is_ended
    the_last_audit_is_kept_with_its_findings
    a_holding_is_noted_over_the_one_before
}

const BASE: ChainId = ChainId(8453);

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn decision(millis: i64, by: &str) -> Decision {
    Decision { at: at(millis), by: by.to_owned(), reason: format!("as {by} says") }
}

async fn a_pause_is_in_force_until_it_is_ended(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let set = |paused: bool, decision: Decision| {
        store.write::<_, store::StoreError>(move |tx| match paused {
            true => chain_pauses::pause(tx, BASE, &decision),
            false => chain_pauses::resume(tx, BASE, &decision),
        })
    };
    assert!(!set(false, decision(1, "early")).await?, "there is nothing to end");
    assert!(set(true, decision(2, "alice")).await?);
    assert!(!set(true, decision(3, "bob")).await?, "the earlier decision stands");
    let found = store.read(|tx| chain_pauses::of(tx, BASE)).await?.unwrap();
    assert_eq!((found.paused.clone(), found.resumed.clone()), (decision(2, "alice"), None));
    assert_eq!(found.to_string(), "paused by alice: as alice says");
    assert_eq!(store.read(chain_pauses::in_force).await?, [found]);
    assert_eq!(store.read(|tx| chain_pauses::of(tx, ChainId(10))).await?, None);
    assert!(set(false, decision(4, "bob")).await?);
    assert!(!set(false, decision(5, "bob")).await?);
    assert_eq!(store.read(chain_pauses::in_force).await?, []);
    assert!(set(true, decision(6, "carol")).await?, "a chain can be paused again");
    let all = store.read(|tx| chain_pauses::newest(tx, 10)).await?;
    let ends: Vec<_> = all.iter().map(|pause| pause.resumed.as_ref().map(|it| it.by.as_str())).collect();
    assert_eq!(ends, [None, Some("bob")]);
    store.close().await;
    Ok(())
}

async fn the_last_audit_is_kept_with_its_findings(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    assert_eq!(store.read(audit_runs::last).await?, None);
    let run = |n: i64| AuditRun {
        began_at: at(n),
        ended_at: at(n + 1),
        compared: 7,
        different: n.unsigned_abs(),
        checks: format!("[{n}]"),
    };
    for n in 0..3 {
        store.write(move |tx| audit_runs::record(tx, &run(n))).await?;
    }
    assert_eq!(store.read(audit_runs::last).await?, Some(run(2)));
    store.close().await;
    Ok(())
}

async fn a_holding_is_noted_over_the_one_before(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let units = |units: u64| Amount::new(U256::from(units));
    let holding = move |held: u64, time: i64| Holding {
        chain: BASE,
        currency: Address::ZERO,
        held: units(held),
        owed: units(10),
        block: 5,
        noted_at: at(time),
    };
    assert_eq!(store.read(|tx| depository_holdings::last_noted(tx, BASE)).await?, None);
    for (held, time) in [(9, 1), (10, 2)] {
        store.write(move |tx| depository_holdings::put(tx, &holding(held, time))).await?;
    }
    assert_eq!(store.read(depository_holdings::all).await?, [holding(10, 2)]);
    assert_eq!(store.read(|tx| depository_holdings::last_noted(tx, BASE)).await?, Some(at(2)));
    assert!(holding(10, 2).is_solvent() && !holding(9, 1).is_solvent());
    store.close().await;
    Ok(())
}
