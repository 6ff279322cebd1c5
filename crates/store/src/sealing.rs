//! Sealed secrets: stored encrypted and authenticated, under a master key that is not in the database.
//!
//! The cipher is ChaCha20-Poly1305 with a random nonce; the secret's owner is authenticated data, so a sealed secret
//! moved to another row does not open.

use std::fmt;

use alloy_primitives::hex;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// The version byte in front of every sealed secret, which leaves room for another cipher.
const VERSION: u8 = 1;

pub struct MasterKey(LessSafeKey);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("the master key must be 32 bytes in hexadecimal (64 digits), as `openssl rand -hex 32` gives them")]
    MasterKey,
    #[error("a secret could not be encrypted")]
    Seal,
    #[error("a stored secret does not open with this master key")]
    Open,
}

impl MasterKey {
    pub fn new(bytes: &[u8; 32]) -> Result<Self, SealError> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, bytes).map_err(|_| SealError::MasterKey)?;
        Ok(Self(LessSafeKey::new(key)))
    }

    pub fn from_hex(text: &str) -> Result<Self, SealError> {
        let mut bytes = [0u8; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| SealError::MasterKey)?;
        Self::new(&bytes)
    }

    /// `nonce` must be fresh randomness, never used twice.
    pub fn seal(&self, owner: &str, secret: &str, nonce: [u8; NONCE_LEN]) -> Result<Vec<u8>, SealError> {
        let mut text = secret.as_bytes().to_vec();
        let tag = self
            .0
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(owner), &mut text)
            .map_err(|_| SealError::Seal)?;
        Ok([&[VERSION], nonce.as_slice(), &text, tag.as_ref()].concat())
    }

    pub fn open(&self, owner: &str, sealed: &[u8]) -> Result<String, SealError> {
        let rest = sealed.strip_prefix(&[VERSION]).ok_or(SealError::Open)?;
        let (nonce, text) = rest.split_at_checked(NONCE_LEN).ok_or(SealError::Open)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError::Open)?;
        let mut text = text.to_vec();
        let opened = self.0.open_in_place(nonce, Aad::from(owner), &mut text).map_err(|_| SealError::Open)?;
        String::from_utf8(opened.to_vec()).map_err(|_| SealError::Open)
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_opens_for_its_owner_with_its_master_key_and_not_otherwise() {
        let master = MasterKey::new(&[7; 32]).unwrap();
        let sealed = master.seal("key_1", "hunter2", [9; 12]).unwrap();
        assert_eq!(master.open("key_1", &sealed).unwrap(), "hunter2");
        assert_eq!(master.open("key_2", &sealed), Err(SealError::Open));
        assert_eq!(MasterKey::new(&[8; 32]).unwrap().open("key_1", &sealed), Err(SealError::Open));
        assert!(!sealed.windows(7).any(|window| window == b"hunter2"));
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(master.open("key_1", &changed), Err(SealError::Open), "byte {at}");
        }
        assert_eq!(master.open("key_1", &sealed[..10]), Err(SealError::Open));
        assert_eq!(master.open("key_1", &[]), Err(SealError::Open));
    }

    #[test]
    fn a_master_key_is_32_bytes_in_hexadecimal() {
        assert!(MasterKey::from_hex(&"ab".repeat(32)).is_ok());
        for bad in ["", "ab", &"ab".repeat(31), &"zz".repeat(32)] {
            assert_eq!(MasterKey::from_hex(bad).map(drop), Err(SealError::MasterKey), "{bad}");
        }
    }
}
