//! The last blocks and their changes to the ticks of pools, so that ticks read at one of them can be brought forward.
//!
//! Blocks are linked by their parents' hashes. A block that is not on the trail was reorganised away, or is too old.

use std::collections::{BTreeSet, VecDeque};

use alloy::primitives::{Address, B256};
use evm::pools::TickChanges;
use evm::{ChainError, Head, Nodes};

/// Blocks kept: as many as the first reading of all ticks may take.
const MAX_BLOCKS: usize = 256;

/// Heads that may be missed between two; after more, all ticks are read again.
const MAX_MISSED_BLOCKS: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Trail {
    blocks: VecDeque<TickChanges>,
}

/// The way from the trail to a head.
#[derive(Debug)]
pub(crate) struct Growth {
    head: Head,
    /// The last block that stays, and those that come after it; none when the head is not known to follow.
    follows: Option<(B256, Vec<TickChanges>)>,
}

impl Trail {
    /// Reads the blocks between the trail and a head.
    pub(crate) async fn towards(&self, nodes: &Nodes, pools: &[Address], head: Head) -> Result<Growth, ChainError> {
        let mut missing = Vec::new();
        let mut at = head.hash;
        while !self.holds(at) {
            if self.blocks.is_empty() || missing.len() == MAX_MISSED_BLOCKS {
                return Ok(Growth { head, follows: None });
            }
            let Some(block) = nodes.tick_changes(at, pools).await? else {
                return Ok(Growth { head, follows: None });
            };
            at = block.head.parent_hash;
            missing.push(block);
        }
        missing.reverse();
        Ok(Growth { head, follows: Some((at, missing)) })
    }

    pub(crate) fn grow(&mut self, growth: Growth) {
        match growth.follows {
            Some((last, blocks)) => {
                let stays = self.blocks.iter().position(|block| block.head.hash == last);
                self.blocks.truncate(stays.map_or(0, |place| place + 1));
                self.blocks.extend(blocks);
                let surplus = self.blocks.len().saturating_sub(MAX_BLOCKS);
                self.blocks.drain(..surplus);
            }
            None => {
                let start =
                    TickChanges { head: growth.head, changed: Default::default(), doubtful: Default::default() };
                self.blocks = [start].into();
            }
        }
    }

    fn holds(&self, hash: B256) -> bool {
        self.blocks.iter().any(|block| block.head.hash == hash)
    }

    /// The ticks of a pool that may have changed since a block. None when that cannot be told: the block is gone, or a
    /// node hinted at changes that it did not show.
    pub(crate) fn since(&self, hash: B256, pool: Address) -> Option<BTreeSet<i32>> {
        let mut blocks = self.blocks.iter().skip_while(|block| block.head.hash != hash);
        blocks.next()?;
        let mut ticks = BTreeSet::new();
        for block in blocks {
            if block.doubtful.contains(&pool) {
                return None;
            }
            ticks.extend(block.changed.get(&pool).into_iter().flatten());
        }
        Some(ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: Address = Address::repeat_byte(1);

    fn block(number: u8, ticks: &[i32]) -> TickChanges {
        let hash = B256::repeat_byte(number);
        let head = Head { number: number.into(), hash, parent_hash: B256::ZERO, time: 0, base_fee: 0 };
        let changed = [(POOL, ticks.iter().copied().collect())].into();
        TickChanges { head, changed, doubtful: BTreeSet::new() }
    }

    fn trail() -> Trail {
        Trail { blocks: [block(1, &[10]), block(2, &[20]), block(3, &[30, 31])].into() }
    }

    fn grown(last: u8, blocks: Vec<TickChanges>) -> Trail {
        let mut trail = trail();
        let head = blocks.last().map_or(block(last, &[]).head, |block| block.head);
        trail.grow(Growth { head, follows: Some((B256::repeat_byte(last), blocks)) });
        trail
    }

    #[test]
    fn changes_are_those_after_the_block() {
        let trail = trail();
        assert_eq!(trail.since(B256::repeat_byte(1), POOL), Some([20, 30, 31].into()));
        assert_eq!(trail.since(B256::repeat_byte(3), POOL), Some([].into()));
        assert_eq!(trail.since(B256::repeat_byte(9), POOL), None);
    }

    #[test]
    fn a_block_that_was_reorganised_away_is_unknown() {
        let trail = grown(2, vec![block(33, &[40])]);
        assert_eq!(trail.since(B256::repeat_byte(3), POOL), None);
        assert_eq!(trail.since(B256::repeat_byte(2), POOL), Some([40].into()));
        // So is a block above a chain that went back.
        assert_eq!(grown(2, vec![]).since(B256::repeat_byte(3), POOL), None);
    }

    #[test]
    fn doubt_about_a_pool_is_not_a_change_of_nothing() {
        let trail = grown(3, vec![TickChanges { doubtful: [POOL].into(), ..block(4, &[]) }]);
        assert_eq!(trail.since(B256::repeat_byte(2), POOL), None);
        assert!(trail.since(B256::repeat_byte(4), POOL).is_some());
    }

    #[test]
    fn a_head_that_does_not_follow_restarts_the_trail() {
        let mut trail = trail();
        trail.grow(Growth { head: block(9, &[]).head, follows: None });
        assert_eq!(trail.since(B256::repeat_byte(3), POOL), None);
        assert!(trail.since(B256::repeat_byte(9), POOL).is_some());
    }
}
