//! Owners whose money a block has moved: an allowance that was read before may be spent.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use alloy::primitives::Address;

/// Owners remembered on one chain. At this number all are forgotten, and all earlier readings count as outdated.
const MAX_OWNERS: usize = 8_192;

#[derive(Debug, Default)]
pub struct MovedMoney(Mutex<Moves>);

#[derive(Debug, Default)]
struct Moves {
    /// When the latest move was seen, by owner.
    of: HashMap<Address, Instant>,
    of_all: Option<Instant>,
}

impl MovedMoney {
    /// Takes note of owners whose money has moved, at the moment when a block shows it.
    pub(crate) fn note(&self, owners: impl IntoIterator<Item = Address>, seen: Instant) {
        let mut moves = self.moves();
        for owner in owners {
            if moves.of.len() >= MAX_OWNERS {
                moves.of.clear();
                moves.of_all = Some(seen);
            }
            moves.of.insert(owner, seen);
        }
    }

    /// True if money of the owner has moved since a reading of it began.
    pub(crate) fn is_moved_since(&self, owner: Address, began: Instant) -> bool {
        let moves = self.moves();
        [moves.of.get(&owner), moves.of_all.as_ref()].into_iter().flatten().any(|seen| *seen >= began)
    }

    fn moves(&self) -> MutexGuard<'_, Moves> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn owner(number: usize) -> Address {
        Address::left_padding_from(&number.to_be_bytes())
    }

    #[test]
    fn a_reading_counts_until_money_of_its_owner_moves() {
        let moved = MovedMoney::default();
        let (before, seen) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        let after = seen + Duration::from_secs(1);
        moved.note([owner(1)], seen);
        for (who, began, is_moved) in
            [(owner(1), before, true), (owner(1), seen, true), (owner(1), after, false), (owner(2), before, false)]
        {
            assert_eq!(moved.is_moved_since(who, began), is_moved);
        }
    }

    #[test]
    fn a_full_table_forgets_owners_and_no_move() {
        let moved = MovedMoney::default();
        let (before, seen) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        moved.note((0..=MAX_OWNERS).map(owner), seen);
        assert_eq!(moved.moves().of.len(), 1);
        assert!(moved.is_moved_since(owner(0), before) && moved.is_moved_since(owner(MAX_OWNERS + 9), before));
        assert!(!moved.is_moved_since(owner(0), seen + Duration::from_secs(1)));
    }
}
