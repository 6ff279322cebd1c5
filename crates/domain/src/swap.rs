//! Trading one currency for another on the pools of one chain.
//!
//! The market says what a pool pays; a trade is only described here, so that pricing can be a function of it.

use std::fmt;

use alloy_primitives::Address;

use crate::money::Amount;

/// The most pools one trade goes through.
pub const MAX_HOPS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a path is a row of different tokens with a fee tier between each two, at most {MAX_HOPS} of them")]
pub struct NotAPath;

/// The way through pools: the tokens it touches, and the fee tier (in millionths) of the pool between each two.
///
/// The native currency goes through pools as its wrapped token. A path of that token alone is wrapping or unwrapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    tokens: Vec<Address>,
    fees: Vec<u32>,
}

impl Path {
    pub fn new(tokens: Vec<Address>, fees: Vec<u32>) -> Result<Self, NotAPath> {
        let distinct = tokens.iter().enumerate().all(|(at, token)| !tokens[..at].contains(token));
        match tokens.len().checked_sub(1) {
            Some(hops) if hops == fees.len() && hops <= MAX_HOPS && distinct => Ok(Self { tokens, fees }),
            _ => Err(NotAPath),
        }
    }

    /// Between the native currency and its wrapped token, at par.
    pub fn wrapping(wrapped: Address) -> Self {
        Self { tokens: vec![wrapped], fees: Vec::new() }
    }

    pub fn tokens(&self) -> &[Address] {
        &self.tokens
    }

    pub fn fees(&self) -> &[u32] {
        &self.fees
    }

    /// No pool is touched: the native currency is wrapped, or unwrapped.
    pub fn is_wrapping(&self) -> bool {
        self.fees.is_empty()
    }
}

/// An answer of the market: the other side's amount, and the way that gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub amount: Amount,
    pub path: Path,
}

/// The market of one currency for another, as it stands. More in never brings less out.
pub trait Exchange: fmt::Debug {
    /// The most that this input brings.
    fn sell(&self, input: Amount) -> Option<Offer>;
    /// The least input that brings this output.
    fn buy(&self, output: Amount) -> Option<Offer>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_fee_less_than_tokens() {
        let token = Address::repeat_byte;
        assert!(Path::new(vec![token(1), token(2)], vec![500]).is_ok());
        assert!(Path::new(vec![token(1), token(2), token(3)], vec![500, 100]).is_ok());
        assert!(Path::new(vec![token(1)], vec![]).is_ok_and(|path| path.is_wrapping()));
        for (tokens, fees) in [
            (vec![], vec![]),
            (vec![token(1), token(2)], vec![]),
            (vec![token(1), token(1)], vec![500]),
            (vec![token(1), token(2), token(3), token(4)], vec![1, 1, 1]),
        ] {
            assert_eq!(Path::new(tokens, fees), Err(NotAPath));
        }
    }
}
