//! Identifiers. Each has one parser that accepts exactly one form.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::{B256, hex};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 0x followed by 64 hexadecimal digits")]
pub struct NotAnId;

/// `0x` and 64 digits; `FromStr` of `B256` would also take the digits alone.
fn parse_b256(text: &str) -> Result<B256, NotAnId> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 64).ok_or(NotAnId)?;
    let mut bytes = B256::ZERO;
    hex::decode_to_slice(digits, bytes.as_mut_slice()).map_err(|_| NotAnId)?;
    Ok(bytes)
}

macro_rules! hash_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub B256);

        impl $name {
            pub fn as_slice(&self) -> &[u8] {
                self.0.as_slice()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(hex::Buffer::<32, true>::new().format(&self.0))
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                parse_b256(text).map(Self)
            }
        }
    };
}

hash_id! {
    /// The service's name for one transfer: what clients poll, list and are told about.
    RequestId
}

hash_id! {
    /// The protocol's name for one transfer: the hash of its order, carried by deposits, fills and refunds.
    OrderId
}

hash_id! {
    /// A claim of an app balance: the digest that its wallet signs, carried by its payment.
    ClaimId
}

hash_id! {
    /// A refill of one of our own wallets, carried by its payment.
    RefillId
}

hash_id! {
    /// A sweep of a deposit address.
    SweepId
}

hash_id! {
    /// The nonce under which a depository pays out, once.
    PayoutNonce
}

impl RequestId {
    /// Milliseconds first, so that fresh rows land at the end of the index: random keys halve the insert rate.
    pub fn new(now: crate::time::Timestamp, random: [u8; 26]) -> Self {
        let mut bytes = [0u8; 32];
        bytes[..6].copy_from_slice(&now.millis().to_be_bytes()[2..]);
        bytes[6..].copy_from_slice(&random);
        Self(B256::from(bytes))
    }
}

/// The numeric id of a chain on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainId(pub u64);

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    #[test]
    fn an_id_has_one_form() {
        let digits = "ab".repeat(32);
        assert!(format!("0x{digits}").parse::<RequestId>().is_ok());
        for bad in
            [digits.clone(), format!("0x{}", &digits[2..]), format!("0x{digits}0"), format!("0x{}zz", &digits[2..])]
        {
            assert_eq!(bad.parse::<OrderId>(), Err(NotAnId), "{bad}");
        }
        assert_eq!("".parse::<OrderId>(), Err(NotAnId));
    }

    #[test]
    fn later_requests_sort_after_earlier_ones() {
        let early = RequestId::new(Timestamp::from_millis(1_790_000_000_000), [0xff; 26]);
        let late = RequestId::new(Timestamp::from_millis(1_790_000_000_001), [0; 26]);
        assert!(early < late);
    }
}
