//! Field elements and their bytes. Five elements of eight bytes, little endian: hashes, public keys, points.
//!
//! The library's own `to_bytes_le` writes an element as it lies in memory, which after arithmetic may be the modulus
//! too large, and its `from_bytes_le` takes such bytes back. Both are done here, canonical in both directions.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::hex;
use poseidon_hash::{Fp5Element, Goldilocks, hash_to_quintic_extension};

pub(crate) const BYTES: usize = 40;

/// An element of the base field. Values at or above the modulus have no one to stand for.
pub(crate) fn element(value: u64) -> Option<Goldilocks> {
    (value < Goldilocks::MODULUS).then_some(Goldilocks(value))
}

/// The canonical bytes.
pub(crate) fn to_bytes(element: &Fp5Element) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (to, limb) in bytes.chunks_exact_mut(8).zip(&element.0) {
        to.copy_from_slice(&limb.to_canonical_u64().to_le_bytes());
    }
    bytes
}

/// None for bytes that are not canonical: an element has one form.
pub(crate) fn from_bytes(bytes: &[u8; BYTES]) -> Option<Fp5Element> {
    let mut limbs = [Goldilocks(0); 5];
    for (limb, from) in limbs.iter_mut().zip(bytes.chunks_exact(8)) {
        *limb = element(u64::from_le_bytes(from.try_into().ok()?))?;
    }
    Some(Fp5Element(limbs))
}

/// The hash that is signed. For a transaction it is also its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; BYTES]);

impl Digest {
    /// Poseidon2 without padding: the first eight elements and trailing zeros beside them give the same hash. Callers
    /// hash a fixed number of elements, or text without zero bytes.
    pub(crate) fn of(elements: &[Goldilocks]) -> Self {
        Self(to_bytes(&hash_to_quintic_extension(elements)))
    }

    pub fn bytes(&self) -> &[u8; BYTES] {
        &self.0
    }

    pub(crate) fn element(&self) -> Fp5Element {
        from_bytes(&self.0).expect("a digest is canonical by construction")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 80 hexadecimal digits that are a hash of the venue")]
pub struct NotADigest;

impl FromStr for Digest {
    type Err = NotADigest;

    /// 80 digits. The venue writes them bare; some clients put `0x` before them.
    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let mut bytes = [0; BYTES];
        // The decoder strips a second prefix; the length leaves no room for one.
        if digits.len() != 2 * BYTES || hex::decode_to_slice(digits, &mut bytes).is_err() {
            return Err(NotADigest);
        }
        from_bytes(&bytes).map(|_| Self(bytes)).ok_or(NotADigest)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_canonical_are_no_element() {
        for (value, ok) in [(0, true), (Goldilocks::MODULUS - 1, true), (Goldilocks::MODULUS, false), (u64::MAX, false)]
        {
            for at in 0..5 {
                let mut bytes = [0; BYTES];
                bytes[8 * at..8 * at + 8].copy_from_slice(&value.to_le_bytes());
                assert_eq!(from_bytes(&bytes).is_some(), ok, "{value} at {at}");
            }
        }
    }

    #[test]
    fn an_element_above_the_modulus_is_written_canonically() {
        let mut limbs = [Goldilocks(7); 5];
        limbs[2] = Goldilocks(Goldilocks::MODULUS + 7);
        let bytes = to_bytes(&Fp5Element(limbs));
        assert_eq!(bytes, to_bytes(&Fp5Element([Goldilocks(7); 5])));
        assert_ne!(Fp5Element(limbs).to_bytes_le(), bytes, "the library writes it as it lies in memory");
    }

    #[test]
    fn a_digest_is_read_with_or_without_a_prefix() {
        let digest = Digest::of(&[Goldilocks(1)]);
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_eq!(format!("0x{digest}").parse(), Ok(digest));
        for bad in ["", "0x", &"f".repeat(80), &format!("0x{}", &digest.to_string()[2..]), &format!("{digest}0")] {
            assert_eq!(bad.parse::<Digest>(), Err(NotADigest), "{bad}");
        }
        assert_eq!(format!("0x0x{}", &digest.to_string()[2..]).parse::<Digest>(), Err(NotADigest));
    }
}
