//! Signatures: `s ‖ e` with `R = k·G`, `e = H(R ‖ hash)` and `s = k − e·key`.
//!
//! The library signs and verifies as well. Its `verify_signature` takes the neutral point for a public key, takes a
//! second form of every `s`, and prints what it compared in debug builds; its `sign_with_nonce` fills a short nonce up
//! with zeros. So the few lines are here, on its points and its hash.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::hex;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use goldilocks_crypto::{Point, ScalarField};
use poseidon_hash::{Goldilocks, hash_to_quintic_extension};
use sha2::{Digest as _, Sha512};
use zeroize::{Zeroize, Zeroizing};

use crate::curve;
use crate::field::{self, Digest};

const BYTES: usize = 2 * field::BYTES;

/// Both numbers are below the order: a signature cannot be written in another form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature([u8; BYTES]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a signature of the venue: 80 bytes, two numbers below the order of its curve")]
pub struct NotASignature;

impl Signature {
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NotASignature> {
        let bytes = <[u8; BYTES]>::try_from(bytes).map_err(|_| NotASignature)?;
        let signature = Self(bytes);
        signature.parts().map(|_| signature).ok_or(NotASignature)
    }

    /// As transactions carry it.
    pub fn from_base64(text: &str) -> Result<Self, NotASignature> {
        // 80 bytes are 108 characters; nothing longer is worth decoding.
        let bytes = Some(text).filter(|text| text.len() <= 108).and_then(|text| STANDARD.decode(text).ok());
        bytes.ok_or(NotASignature).and_then(|bytes| Self::from_bytes(&bytes))
    }

    pub fn to_base64(self) -> String {
        STANDARD.encode(self.0)
    }

    pub fn bytes(&self) -> &[u8; BYTES] {
        &self.0
    }

    fn parts(&self) -> Option<(ScalarField, ScalarField)> {
        let (s, e) = self.0.split_at(field::BYTES);
        Some((curve::scalar(s.try_into().ok()?)?, curve::scalar(e.try_into().ok()?)?))
    }
}

impl FromStr for Signature {
    type Err = NotASignature;

    /// 160 bare hexadecimal digits, as auth tokens carry it.
    fn from_str(text: &str) -> Result<Self, NotASignature> {
        let mut bytes = [0; BYTES];
        if text.len() != 2 * BYTES || text.starts_with("0x") || hex::decode_to_slice(text, &mut bytes).is_err() {
            return Err(NotASignature);
        }
        Self::from_bytes(&bytes)
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Signs a hash. The nonce is a hash of the key, the message and the caller's randomness: it is unpredictable if either
/// key or randomness is, and two messages never share one even if the randomness repeats. The same three give the same
/// signature.
pub(crate) fn sign(key: &ScalarField, message: &Digest, randomness: &[u8; 32]) -> Signature {
    let key_bytes = Zeroizing::new(key.to_bytes_le());
    let nonce = Zeroizing::new(scalar_from(&[b"causeway venue nonce", &key_bytes[..], randomness, message.bytes()]));
    let challenge = challenge(&curve::times_generator(&nonce), message);
    let product = Zeroizing::new(challenge.mul(key));
    let mut bytes = [0; BYTES];
    bytes[..field::BYTES].copy_from_slice(&curve::subtract(&nonce, &product).to_bytes_le());
    bytes[field::BYTES..].copy_from_slice(&challenge.to_bytes_le());
    Signature(bytes)
}

pub(crate) fn verify(public: &Point, message: &Digest, signature: &Signature) -> bool {
    let Some((s, e)) = signature.parts() else { return false };
    let commitment = curve::times_generator(&s).add(&public.mul(&e));
    challenge(&commitment, message).0 == e.0
}

fn challenge(commitment: &Point, message: &Digest) -> ScalarField {
    let mut input = [Goldilocks(0); 10];
    input[..5].copy_from_slice(&commitment.encode().0);
    input[5..].copy_from_slice(&message.element().0);
    ScalarField::from_fp5_element(&hash_to_quintic_extension(&input))
}

/// An even draw from 1 to the order less one. The order is a little below 2^319, so that about one draw in 2^30 is
/// repeated.
pub(crate) fn scalar_from(parts: &[&[u8]]) -> ScalarField {
    let drawn = (0..=u8::MAX).find_map(|attempt| {
        let mut hash = Sha512::new();
        for part in parts {
            hash.update(part);
        }
        let mut wide: [u8; 64] = hash.chain_update([attempt]).finalize().into();
        let mut bytes = Zeroizing::new([0; field::BYTES]);
        bytes.copy_from_slice(&wide[..field::BYTES]);
        wide.zeroize();
        bytes[field::BYTES - 1] &= 0x7f;
        curve::scalar(&bytes).filter(|scalar| !scalar.is_zero())
    });
    drawn.expect("256 draws do not all miss a range that almost fills its bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::ApiKey;

    fn message(n: u64) -> Digest {
        Digest::of(&[Goldilocks(n)])
    }

    #[test]
    fn a_signature_verifies_for_its_message_and_key_alone() {
        let (key, other) = (ApiKey::from_seed(b"one"), ApiKey::from_seed(b"two"));
        for n in 0..16 {
            let signature = key.sign(&message(n), &[n as u8; 32]);
            assert!(key.public().verify(&message(n), &signature));
            assert!(!key.public().verify(&message(n + 1), &signature));
            assert!(!other.public().verify(&message(n), &signature));
        }
    }

    #[test]
    fn every_changed_bit_spoils_a_signature() {
        let key = ApiKey::from_seed(b"one");
        let signature = key.sign(&message(1), &[0; 32]);
        for bit in (0..640).step_by(7) {
            let mut bytes = *signature.bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let read = Signature::from_bytes(&bytes);
            assert!(read.is_err() || read.is_ok_and(|it| !key.public().verify(&message(1), &it)), "bit {bit}");
        }
    }

    #[test]
    fn the_second_form_of_a_signature_is_refused() {
        let key = ApiKey::from_seed(b"one");
        let mut refused = 0;
        for n in 0..64 {
            let signature = key.sign(&message(n), &[0; 32]);
            let (s, _) = signature.parts().unwrap();
            let mut bytes = *signature.bytes();
            bytes[..40].copy_from_slice(&s.add_inner(ScalarField::N).to_bytes_le());
            let public = field::to_bytes(&curve::times_generator(key.scalar()).encode());
            // The library takes the other form wherever its digits hold it.
            let theirs = goldilocks_crypto::verify_signature(&bytes, message(n).bytes(), &public);
            refused += usize::from(theirs.is_ok_and(|valid| valid));
            assert_eq!(Signature::from_bytes(&bytes), Err(NotASignature));
        }
        assert!(refused > 0, "there was nothing to refuse");
    }

    #[test]
    fn nonces_differ_by_message_key_and_randomness() {
        let (one, two) = (ApiKey::from_seed(b"one"), ApiKey::from_seed(b"two"));
        let commitments = [
            one.sign(&message(1), &[0; 32]),
            one.sign(&message(2), &[0; 32]),
            one.sign(&message(1), &[1; 32]),
            two.sign(&message(1), &[0; 32]),
        ];
        let mut seen: Vec<_> = commitments.iter().map(|it| it.bytes()[40..].to_vec()).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), commitments.len());
        assert_eq!(one.sign(&message(1), &[0; 32]), commitments[0], "signing is deterministic for the same randomness");
    }

    #[test]
    fn the_library_verifies_our_signatures() {
        let key = ApiKey::from_seed(b"one");
        let signature = key.sign(&message(3), &[9; 32]);
        let valid = goldilocks_crypto::verify_signature(signature.bytes(), message(3).bytes(), key.public().bytes());
        assert!(valid.unwrap());
    }

    #[test]
    fn signatures_are_read_in_their_two_texts_only() {
        let signature = ApiKey::from_seed(b"one").sign(&message(1), &[0; 32]);
        assert_eq!(Signature::from_base64(&signature.to_base64()), Ok(signature));
        assert_eq!(signature.to_string().parse(), Ok(signature));
        for bad in ["", "====", &signature.to_base64()[1..], &"A".repeat(1_000_000)] {
            assert_eq!(Signature::from_base64(bad), Err(NotASignature));
        }
        assert!(format!("0x{}", &signature.to_string()[2..]).parse::<Signature>().is_err());
    }
}
