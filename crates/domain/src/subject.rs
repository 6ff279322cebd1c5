//! A payment's subject: the order, deposit, claim, wallet, payout, sweep or relayed transaction it is about.
//!
//! A payment is unique by its purpose and its key while it is not void. The name it settles under is the key of its
//! settlement row and the last word of its calldata.

use alloy_primitives::{B256, keccak256};

use crate::ids::{ClaimId, OrderId, PayoutNonce, RefillId, RequestId, SweepId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The recipient's money on the destination.
    Fill,
    /// The user's money back on the origin.
    Refund,
    /// A deposit that pays for no order, back to its depositor.
    Return,
    /// The part of a filled order's deposit beyond what the order is for.
    Excess,
    /// Native currency from the treasury to one of our own wallets.
    Refill,
    /// An app balance, or a part of it, to its owner.
    Claim,
    /// Money out of a depository, signed for by its allocator. Nothing of ours moves but gas.
    Payout,
    /// The balance of a deposit address into the depository. Nothing of ours moves but gas.
    Sweep,
    /// A user's own transaction, which the user has signed for and one of our relayers sends. Nothing of ours moves but
    /// gas.
    Relay,
}

impl Purpose {
    /// Its name in the database and in texts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fill => "fill",
            Self::Refund => "refund",
            Self::Return => "return",
            Self::Excess => "excess",
            Self::Refill => "topup",
            Self::Claim => "claim",
            Self::Payout => "payout",
            Self::Sweep => "sweep",
            Self::Relay => "relay",
        }
    }

    /// Money of a request that goes back. Sweeps and relays are the user's own deposit.
    pub const fn is_refund(self) -> bool {
        match self {
            Self::Refund | Self::Return | Self::Excess | Self::Payout => true,
            Self::Fill | Self::Refill | Self::Claim | Self::Sweep | Self::Relay => false,
        }
    }
}

/// A deposit's name in 32 bytes: [`crate::deposit::key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DepositKey(pub B256);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    Fill(OrderId),
    Refund(OrderId),
    /// `row` is the deposit's row in the database.
    Return {
        row: i64,
        key: DepositKey,
    },
    Excess(DepositKey),
    Claim(ClaimId),
    Refill(RefillId),
    /// `settles` is the order that the payout refunds, else the deposit or batch that it pays for.
    Payout {
        nonce: PayoutNonce,
        settles: OrderId,
    },
    Sweep(SweepId),
    /// A relayed transaction by its request: a request is relayed once.
    Relay(RequestId),
}

impl Subject {
    pub const fn purpose(&self) -> Purpose {
        match self {
            Self::Fill(_) => Purpose::Fill,
            Self::Refund(_) => Purpose::Refund,
            Self::Return { .. } => Purpose::Return,
            Self::Excess(_) => Purpose::Excess,
            Self::Claim(_) => Purpose::Claim,
            Self::Refill(_) => Purpose::Refill,
            Self::Payout { .. } => Purpose::Payout,
            Self::Sweep(_) => Purpose::Sweep,
            Self::Relay(_) => Purpose::Relay,
        }
    }

    /// The key that is unique, with the purpose, among payments that are not void.
    pub fn key(&self) -> B256 {
        match self {
            Self::Fill(order) | Self::Refund(order) => order.0,
            Self::Return { row, .. } => B256::left_padding_from(&row.to_be_bytes()),
            Self::Excess(deposit) => deposit.0,
            Self::Claim(id) => id.0,
            Self::Refill(id) => id.0,
            Self::Payout { nonce, .. } => nonce.0,
            Self::Sweep(id) => id.0,
            Self::Relay(request) => request.0,
        }
    }

    /// The name of the settlement row, which excludes every other outcome, and the last word of the calldata.
    pub fn settles(&self) -> OrderId {
        match self {
            Self::Fill(order) | Self::Refund(order) | Self::Payout { settles: order, .. } => *order,
            Self::Return { key, .. } => OrderId(key.0),
            // An order is filled once, and beside that the excess of its deposit goes back once.
            Self::Excess(deposit) => OrderId(keccak256([b"excess".as_slice(), deposit.0.as_slice()].concat())),
            Self::Claim(_) | Self::Refill(_) | Self::Sweep(_) => OrderId(self.key()),
            // A same-chain request has its own id in its order's place.
            Self::Relay(request) => OrderId(keccak256([b"relay".as_slice(), request.0.as_slice()].concat())),
        }
    }

    /// A subject from its parts, as they are stored.
    pub fn restore(purpose: Purpose, key: B256, settles: OrderId) -> Self {
        match purpose {
            Purpose::Fill => Self::Fill(OrderId(key)),
            Purpose::Refund => Self::Refund(OrderId(key)),
            Purpose::Return => {
                let row = i64::from_be_bytes(key.0[24..].try_into().expect("a slice of eight bytes"));
                Self::Return { row, key: DepositKey(settles.0) }
            }
            Purpose::Excess => Self::Excess(DepositKey(key)),
            Purpose::Refill => Self::Refill(RefillId(key)),
            Purpose::Claim => Self::Claim(ClaimId(key)),
            Purpose::Payout => Self::Payout { nonce: PayoutNonce(key), settles },
            Purpose::Sweep => Self::Sweep(SweepId(key)),
            Purpose::Relay => Self::Relay(RequestId(key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_restored_from_what_is_stored_of_it() {
        let (order, word) = (OrderId(B256::repeat_byte(1)), B256::repeat_byte(2));
        let subjects = [
            Subject::Fill(order),
            Subject::Refund(order),
            Subject::Return { row: 7, key: DepositKey(word) },
            Subject::Excess(DepositKey(word)),
            Subject::Claim(ClaimId(word)),
            Subject::Refill(RefillId(word)),
            Subject::Payout { nonce: PayoutNonce(word), settles: order },
            Subject::Sweep(SweepId(word)),
            Subject::Relay(RequestId(word)),
        ];
        for subject in subjects {
            assert_eq!(Subject::restore(subject.purpose(), subject.key(), subject.settles()), subject);
        }
    }

    #[test]
    fn a_fill_and_the_excess_of_its_deposit_settle_under_different_names() {
        let key = B256::repeat_byte(3);
        assert_ne!(Subject::Fill(OrderId(key)).settles(), Subject::Excess(DepositKey(key)).settles());
        assert_eq!(Subject::Fill(OrderId(key)).settles(), Subject::Refund(OrderId(key)).settles());
    }
}
