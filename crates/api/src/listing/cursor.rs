//! The `continuation` of a page: the place of its last row, under the service's seal, so that nobody can make one up.

use alloy_primitives::{B256, hex, keccak256};
use domain::ids::RequestId;
use store::listing::{Number, Position, Sort};

use crate::error::ApiError;

/// The secret that cursors are sealed with: the same in every process of a deployment.
#[derive(Clone, Copy)]
pub struct CursorKey(B256);

impl CursorKey {
    /// Derived, so that a cursor tells nothing about the secret.
    pub fn new(secret: &[u8]) -> Self {
        Self(keccak256([b"causeway cursor".as_slice(), secret].concat()))
    }

    /// Keccak needs no construction around it to be a code over a secret in front.
    fn seal(&self, body: &[u8]) -> [u8; SEAL] {
        let mut seal = [0; SEAL];
        seal.copy_from_slice(&keccak256([self.0.as_slice(), body].concat())[..SEAL]);
        seal
    }

    pub fn write(&self, sort: Sort, position: Position) -> String {
        let mut body = vec![VERSION, order(sort)];
        body.extend_from_slice(&position.key.to_be_bytes());
        body.extend_from_slice(position.id.as_slice());
        body.extend_from_slice(&self.seal(&body));
        hex::encode(body)
    }

    pub fn read(&self, sort: Sort, text: &str) -> Result<Position, ApiError> {
        let bad = |problem: &str| ApiError::Parameter { field: "continuation", problem: problem.to_owned() };
        let mut bytes = [0; BODY + SEAL];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| bad("not one of ours"))?;
        let (body, seal) = bytes.split_at(BODY);
        // Without an early end, which would tell how much of a guess is right.
        let differs = self.seal(body).iter().zip(seal).fold(0, |differs, (one, other)| differs | (one ^ other));
        if differs != 0 || body[0] != VERSION {
            return Err(bad("not one of ours"));
        }
        if body[1] != order(sort) {
            return Err(bad("belongs to another sorting"));
        }
        let (mut key, mut id) = ([0; 8], B256::ZERO);
        key.copy_from_slice(&body[2..10]);
        id.copy_from_slice(&body[10..BODY]);
        Ok(Position { key: i64::from_be_bytes(key), id: RequestId(id) })
    }
}

impl std::fmt::Debug for CursorKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CursorKey")
    }
}

const VERSION: u8 = 1;
/// Version, order, sort key and id.
const BODY: usize = 2 + 8 + 32;
const SEAL: usize = 16;

fn order(sort: Sort) -> u8 {
    let by = match sort.by {
        Number::CreatedAt => 0,
        Number::UpdatedAt => 2,
        Number::AmountUsd => 4,
        Number::AppFeesUsd => 6,
        Number::FillMillis => 8,
    };
    by + u8::from(sort.descending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_under_its_own_key_and_sorting_only() {
        let (key, sort) = (CursorKey::new(b"one"), Sort { by: Number::CreatedAt, descending: true });
        let position = Position { key: -7, id: RequestId(B256::repeat_byte(9)) };
        let text = key.write(sort, position);
        assert_eq!(key.read(sort, &text).unwrap(), position);
        assert!(key.read(Sort { descending: false, ..sort }, &text).is_err());
        assert!(key.read(Sort { by: Number::UpdatedAt, ..sort }, &text).is_err());
        assert!(CursorKey::new(b"two").read(sort, &text).is_err());
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            assert!(key.read(sort, std::str::from_utf8(&changed).unwrap()).is_err(), "digit {at}");
        }
        for bad in ["", "00", "b2Zmc2V0OjE", &"0".repeat(1_000)] {
            assert!(key.read(sort, bad).is_err(), "{bad}");
        }
    }
}
