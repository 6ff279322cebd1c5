//! Cases of funding: credits that wait for a price hold up no others.

use alloy::primitives::{Address, B256, U256};
use domain::ids::OrderId;
use evm::SeenTreasuryTransfer;
use store::{Tx, ledger};

use super::world::*;
use crate::chain::apply_block::{Finals, apply_ripe};
use crate::error::SolverError;
use crate::integrators::funding;

const APP: Address = Address::repeat_byte(0x66);
/// More transfers than are looked at in one block.
const DUST: u64 = 1_500;

fn transfer(n: u64, currency: Address, amount: u128) -> SeenTreasuryTransfer {
    SeenTreasuryTransfer {
        tx: OrderId(B256::from(U256::from(n))).0,
        ordinal: 0,
        log_index: None,
        sender: USER,
        currency,
        amount: U256::from(amount),
        account: Ok(APP),
    }
}

#[tokio::test]
async fn dust_without_a_price_does_not_hold_up_the_funding_behind_it() {
    let world = World::new().await;
    // Its market knows no prices.
    let (solver, handle) = (world.solver(|| NOW), world.handle(ORIGIN));
    let of = handle.clone();
    let unit = world.unit(move |tx, context| {
        for n in 0..DUST {
            funding::apply(tx, &of, head(BLOCK), &transfer(n, ETH, 1), context)?;
        }
        funding::apply(tx, &of, head(BLOCK + 1), &transfer(DUST, USDC, 100 * ONE_USDC), context)
    });
    unit.await.unwrap();
    for block in 0..2 {
        apply_ripe(&solver, &handle, head(BLOCK + 100 + block), Finals::All).await.unwrap();
    }
    let read = |tx: &mut Tx<'_>| Ok::<_, SolverError>(ledger::account(tx, APP)?.balance.0);
    assert_eq!(world.store.read(read).await.unwrap(), 100_000_000);
}
