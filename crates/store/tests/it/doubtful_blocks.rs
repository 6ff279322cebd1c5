//! Doubtful blocks: noted once, asked for in turn, and gone with a reorg.

use alloy_primitives::B256;
use domain::ids::ChainId;
use domain::time::Timestamp;
use store::blocks::{self, Cursor};
use store::{StoreError, Tx, doubtful_blocks};

use crate::database::Database;

crate::on_both_engines! {
    a_doubtful_block_waits_until_it_is_settled_or_taken_back
}

const CHAIN: ChainId = ChainId(1);

fn block(number: u64) -> Cursor {
    Cursor { number, hash: B256::repeat_byte(u8::try_from(number).unwrap()) }
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

async fn a_doubtful_block_waits_until_it_is_settled_or_taken_back(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let unit = |tx: &mut Tx<'_>| {
        let numbers = |tx: &mut Tx<'_>| {
            let found = doubtful_blocks::next(tx, CHAIN, 10)?;
            Ok::<_, StoreError>(found.iter().map(|it| it.block.number).collect::<Vec<_>>())
        };
        for number in 1..=4 {
            assert!(doubtful_blocks::put(tx, CHAIN, block(number), at(1), 4)?);
        }
        assert!(!doubtful_blocks::put(tx, CHAIN, block(5), at(1), 4)?, "there are too many");
        assert_eq!(doubtful_blocks::count(tx, CHAIN)?, 4);
        assert_eq!(doubtful_blocks::count(tx, ChainId(2))?, 0);
        doubtful_blocks::asked(tx, CHAIN, block(1), at(2))?;
        assert_eq!(numbers(tx)?, [2, 3, 4, 1], "whoever was asked longest ago comes first");
        doubtful_blocks::remove(tx, CHAIN, block(2))?;
        let other = Cursor { hash: B256::ZERO, ..block(3) };
        assert!(doubtful_blocks::is_noted(tx, CHAIN, block(3))?);
        assert!(!doubtful_blocks::is_noted(tx, CHAIN, other)?, "another block in its place");
        blocks::rewind(tx, CHAIN, block(3))?;
        assert_eq!(numbers(tx)?, [3, 1], "a reorg takes back what is above its fork");
        Ok::<_, StoreError>(())
    };
    store.write(unit).await?;
    Ok(())
}
