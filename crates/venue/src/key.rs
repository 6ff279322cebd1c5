//! API keys of venue accounts: a private number, and the point that the venue knows.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::hex;
use goldilocks_crypto::{Point, ScalarField};
use zeroize::Zeroizing;

use crate::curve;
use crate::field::{self, Digest};
use crate::schnorr::{self, Signature};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAKey {
    #[error("must be 80 hexadecimal digits: a number from 1 to the order of the venue's curve, little endian")]
    Private,
    #[error("must be 80 hexadecimal digits: a point of the venue's curve")]
    Public,
}

/// The private key. It is wiped when it is dropped, and never printed.
pub struct ApiKey {
    scalar: Zeroizing<ScalarField>,
    public: PublicKey,
}

impl ApiKey {
    fn of(scalar: ScalarField) -> Self {
        let point = curve::times_generator(&scalar);
        let public = PublicKey { bytes: field::to_bytes(&point.encode()), point };
        Self { scalar: Zeroizing::new(scalar), public }
    }

    /// The same seed gives the same key. The key is as secret as the seed.
    pub fn from_seed(seed: &[u8]) -> Self {
        Self::of(schnorr::scalar_from(&[b"causeway venue key", seed]))
    }

    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs a hash. Fresh randomness is 32 bytes of the operating system's; even without it nothing is given away.
    pub fn sign(&self, message: &Digest, randomness: &[u8; 32]) -> Signature {
        schnorr::sign(&self.scalar, message, randomness)
    }

    /// The private digits, for a file that only its owner can read.
    pub fn expose(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(2 + 2 * field::BYTES));
        text.push_str("0x");
        for byte in Zeroizing::new(self.scalar.to_bytes_le()).iter() {
            let digit = |nibble: u8| char::from_digit(nibble.into(), 16).expect("four bits are a digit");
            text.extend([digit(byte >> 4), digit(byte & 15)]);
        }
        text
    }

    #[cfg(test)]
    pub(crate) fn scalar(&self) -> &ScalarField {
        &self.scalar
    }
}

impl FromStr for ApiKey {
    type Err = NotAKey;

    /// 80 digits, with or without `0x`. The venue's signer also takes zero and numbers above the order; neither is a
    /// key that anybody should hold.
    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let bytes = Zeroizing::new(digits(text).ok_or(NotAKey::Private)?);
        let scalar = curve::scalar(&bytes).filter(|scalar| !scalar.is_zero());
        scalar.map(Self::of).ok_or(NotAKey::Private)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({})", self.public)
    }
}

/// The point that verifies signatures: never the neutral one, and in one form.
#[derive(Clone, Copy)]
pub struct PublicKey {
    bytes: [u8; field::BYTES],
    point: Point,
}

impl PublicKey {
    pub fn bytes(&self) -> &[u8; field::BYTES] {
        &self.bytes
    }

    pub fn verify(&self, message: &Digest, signature: &Signature) -> bool {
        schnorr::verify(&self.point, message, signature)
    }
}

impl FromStr for PublicKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let bytes = digits(text).ok_or(NotAKey::Public)?;
        let point = field::from_bytes(&bytes).and_then(|element| curve::point(&element));
        point.map(|point| Self { bytes, point }).ok_or(NotAKey::Public)
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for PublicKey {}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.bytes))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn digits(text: &str) -> Option<[u8; field::BYTES]> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let mut bytes = [0; field::BYTES];
    let fits = digits.len() == 2 * field::BYTES;
    (fits && hex::decode_to_slice(digits, &mut bytes).is_ok()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_from_its_digits() {
        let key = ApiKey::from_seed(b"seed");
        let again: ApiKey = key.expose().parse().unwrap();
        assert_eq!(again.public(), key.public());
        assert_eq!(key.public().to_string().parse::<PublicKey>().unwrap(), *key.public());
    }

    #[test]
    fn zero_and_numbers_above_the_order_are_no_keys() {
        let order = hex::encode(ScalarField::N.to_bytes_le());
        for bad in ["", "0x", &"0".repeat(80), &"f".repeat(80), &order, &"1".repeat(79)] {
            assert!(matches!(bad.parse::<ApiKey>(), Err(NotAKey::Private)), "{bad}");
        }
    }

    #[test]
    fn the_neutral_point_and_foreign_bytes_are_no_public_keys() {
        for bad in [&"0".repeat(80), &"f".repeat(80), "1234"] {
            assert_eq!(bad.parse::<PublicKey>(), Err(NotAKey::Public), "{bad}");
        }
    }

    #[test]
    fn a_printed_key_shows_its_public_half_only() {
        let key = ApiKey::from_seed(b"seed");
        let printed = format!("{key:?}");
        assert!(printed.contains(&key.public().to_string()) && !printed.contains(&key.expose()[2..]));
    }
}
