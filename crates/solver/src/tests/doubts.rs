//! Blocks that too few nodes have: how far they are walked, and that they are read again.

use alloy::primitives::B256;
use domain::money::UsdMicros;
use evm::{AgreedBlock, Block};
use store::blocks::Cursor;
use store::doubtful_blocks;

use super::world::{BLOCK, NOW, ORIGIN, World, head};
use crate::chain::apply_block::apply_block;
use crate::error::SolverError;

fn empty(stands: bool) -> AgreedBlock {
    let block = Block { head: head(BLOCK), deposits: vec![], sent: vec![], named: vec![], treasury_transfers: vec![] };
    AgreedBlock { block, stands, unseconded: vec![], open: false, refuted: false }
}

/// The node that showed the block may have hidden native currency for the treasury, of which no log tells.
#[tokio::test]
async fn an_empty_block_that_too_few_nodes_have_is_read_again() {
    let world = World::new().await;
    let (solver, handle) = (world.solver(|| NOW), world.handle(ORIGIN));
    assert!(apply_block(&solver, &handle, &empty(false)).await.unwrap());
    assert!(!apply_block(&solver, &handle, &empty(true)).await.unwrap());
}

#[tokio::test]
async fn blocks_of_one_node_are_walked_only_so_far_and_never_below_finality() {
    let cases = [(900, 0, 8), (12, 0, 8), (3, 0, 3), (0, 0, 0), (900, 100, 256), (12, 100, 12)];
    for (finality, one_node, expected) in cases {
        let world = World::with(|settings| {
            settings.finality = finality;
            settings.one_node_below = UsdMicros(one_node);
        })
        .await;
        let handle = world.handle(ORIGIN);
        let walked = (1..=1_000).take_while(|number| {
            let may = handle.may_walk_ahead();
            if may {
                handle.health.walked(BLOCK + number, false);
            }
            may
        });
        assert_eq!(walked.count(), expected, "finality {finality}");
        assert!(handle.nodes_in_doubt().iter().any(|said| said.contains("too few nodes")), "finality {finality}");
        handle.health.walked(BLOCK + 1_001, true);
        assert_eq!(handle.may_walk_ahead(), finality > 0, "a block that most nodes have lets the walk go on");
    }
}

/// A restart does not let one node lead the walk further.
#[tokio::test]
async fn blocks_that_too_few_nodes_have_are_counted_after_a_restart() {
    let world = World::new().await;
    let runs = world.store.write(|tx| {
        for number in [3, 7, 8, 9, 10] {
            doubtful_blocks::put(tx, ORIGIN, Cursor { number, hash: B256::repeat_byte(1) }, NOW, 100)?;
        }
        let mut run = |last, most| doubtful_blocks::run_up_to(tx, ORIGIN, last, most);
        Ok::<_, SolverError>([run(10, 8)?, run(10, 2)?, run(11, 8)?, run(3, 8)?, run(2, 8)?])
    });
    assert_eq!(runs.await.unwrap(), [4, 2, 0, 1, 0]);
}
