//! Treasury transfers that are not decided: each has its turn.

use alloy_primitives::{Address, B256, U256};
use domain::ids::ChainId;
use domain::money::Amount;
use domain::time::Timestamp;
use domain::treasury_transfer::State;
use store::StoreError;
use store::treasury_transfers::{self, TreasuryTransfer, TreasuryTransferId};

use crate::database::Database;

crate::on_both_engines! {
    every_transfer_has_its_turn_however_many_wait_before_it
}

const NOW: Timestamp = Timestamp::from_millis(1_000);
const CHAIN: ChainId = ChainId(8453);

fn transfer(n: u64) -> TreasuryTransfer {
    TreasuryTransfer {
        chain: CHAIN,
        tx: B256::from(U256::from(n)),
        ordinal: 0,
        log_index: None,
        block_number: n,
        block_hash: B256::from(U256::from(n)),
        sender: Address::repeat_byte(1),
        currency: Address::ZERO,
        amount: Amount::new(U256::from(n)),
        account: Ok(Address::repeat_byte(2)),
    }
}

async fn every_transfer_has_its_turn_however_many_wait_before_it(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let unit = |tx: &mut store::Tx<'_>| {
        for n in 1..=6 {
            treasury_transfers::put(tx, &transfer(n), NOW)?;
        }
        let mut after = TreasuryTransferId(0);
        let mut turn = |tx: &mut store::Tx<'_>| {
            let found = treasury_transfers::ripe(tx, CHAIN, 5, after, 2)?;
            after = *found.last().unwrap();
            let mut blocks = Vec::new();
            for id in found {
                blocks.push(treasury_transfers::get(tx, id)?.unwrap().transfer.block_number);
            }
            Ok::<_, StoreError>(blocks)
        };
        // The sixth is not final. None of them is decided, and all have their turn.
        assert_eq!([turn(tx)?, turn(tx)?, turn(tx)?, turn(tx)?], [[1, 2], [3, 4], [5, 1], [2, 3]]);
        let first = treasury_transfers::ripe(tx, CHAIN, 5, TreasuryTransferId(0), 1)?[0];
        treasury_transfers::gone(tx, first, NOW)?;
        assert_eq!(treasury_transfers::get(tx, first)?.unwrap().state, State::Gone);
        assert!(!treasury_transfers::ripe(tx, CHAIN, 5, TreasuryTransferId(0), 9)?.contains(&first));
        Ok::<_, StoreError>(())
    };
    Ok(store.write(unit).await?)
}
