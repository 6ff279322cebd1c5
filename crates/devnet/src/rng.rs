//! A seeded random number generator: the same seed gives the same run, as far as the machine does.

use std::time::Duration;

use alloy_primitives::{B256, keccak256};

use crate::keys::Account;

/// SplitMix64: only the repeatability of a seed matters.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator of its own for one purpose: how often the others are rolled does not affect it.
    pub fn apart(&self, purpose: &str) -> Self {
        let mixed = keccak256([&self.0.to_be_bytes(), purpose.as_bytes()].concat());
        Self(u64::from_be_bytes(mixed.0[..8].try_into().expect("eight bytes")))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `sides`, which must not be zero.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.next() % sides
    }

    /// A number from the first to the last, both included.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.roll(last - first + 1)
    }

    pub fn millis(&mut self, first: u64, last: u64) -> Duration {
        Duration::from_millis(self.between(first, last))
    }

    /// True with a chance of one in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.roll(times) == 0
    }

    pub fn of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[usize::try_from(self.roll(choices.len() as u64)).expect("an index")]
    }

    pub fn word(&mut self) -> B256 {
        keccak256(self.next().to_be_bytes())
    }

    pub fn account(&mut self) -> Account {
        Account::new(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_purposes_do_not_disturb_each_other() {
        let rolls = |mut rng: Rng| (0..9).map(|_| rng.roll(1_000)).collect::<Vec<_>>();
        assert_eq!(rolls(Rng::new(7)), rolls(Rng::new(7)));
        assert_ne!(rolls(Rng::new(7)), rolls(Rng::new(8)));
        let rng = Rng::new(7);
        assert_eq!(rolls(rng.apart("kills")), rolls(rng.apart("kills")));
        assert_ne!(rolls(rng.apart("kills")), rolls(rng.apart("reorgs")));
    }

    #[test]
    fn rolls_stay_within_their_bounds() {
        let mut rng = Rng::new(1);
        assert!((0..1_000).map(|_| rng.between(3, 5)).all(|roll| (3..=5).contains(&roll)));
        assert!([1, 2, 3].contains(rng.of(&[1, 2, 3])));
    }
}
