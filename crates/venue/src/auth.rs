//! Tokens by which an account reads its own history: a signed deadline.

use std::fmt;
use std::str::FromStr;

use domain::venue::AccountIndex;
use poseidon_hash::Goldilocks;

use crate::field::{self, Digest};
use crate::key::{ApiKey, PublicKey};
use crate::limits::KeyIndex;
use crate::schnorr::Signature;

/// The claims of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenClaims {
    /// Unix seconds.
    pub deadline: u64,
    pub account: AccountIndex,
    pub key_index: KeyIndex,
}

/// A token as the venue's header carries it: `<deadline>:<account>:<key>:<signature>`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AuthToken {
    pub claims: TokenClaims,
    signature: Signature,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be deadline, account, key index and signature, with colons between")]
pub struct NotAToken;

/// Longer than any token: four numbers and 160 digits.
const MAX_TEXT: usize = 220;

impl TokenClaims {
    /// Digits and colons, so that it cannot be the fields of a transaction: those begin with a network id, whose bytes
    /// are no text.
    fn hash(&self) -> Digest {
        let text = self.to_string();
        let element = |chunk: &[u8]| {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            field::element(u64::from_le_bytes(bytes)).expect("text is below the modulus")
        };
        let elements: Vec<Goldilocks> = text.as_bytes().chunks(8).map(element).collect();
        Digest::of(&elements)
    }
}

impl fmt::Display for TokenClaims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.deadline, self.account, self.key_index.get())
    }
}

impl AuthToken {
    pub fn new(claims: TokenClaims, key: &ApiKey, randomness: &[u8; 32]) -> Self {
        Self { claims, signature: key.sign(&claims.hash(), randomness) }
    }

    pub fn verify(&self, public: &PublicKey) -> bool {
        public.verify(&self.claims.hash(), &self.signature)
    }

    /// The header's value. Whoever has it reads the account's history until the deadline.
    pub fn expose(&self) -> String {
        format!("{}:{}", self.claims, self.signature)
    }
}

impl fmt::Debug for AuthToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AuthToken({}:…)", self.claims)
    }
}

impl FromStr for AuthToken {
    type Err = NotAToken;

    fn from_str(text: &str) -> Result<Self, NotAToken> {
        let mut parts = Some(text).filter(|text| text.len() <= MAX_TEXT).ok_or(NotAToken)?.split(':');
        let mut next = || parts.next().ok_or(NotAToken);
        let (deadline, account, key_index, signature) = (next()?, next()?, next()?, next()?);
        let number = |text: &str| text.parse::<u64>().ok().filter(|number| number.to_string() == text);
        let claims = TokenClaims {
            deadline: number(deadline).ok_or(NotAToken)?,
            account: account.parse().map_err(|_| NotAToken)?,
            key_index: number(key_index).and_then(|index| KeyIndex::new(index).ok()).ok_or(NotAToken)?,
        };
        let signature = signature.parse().map_err(|_| NotAToken)?;
        parts.next().is_none().then_some(Self { claims, signature }).ok_or(NotAToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_claims_alone() {
        let key = ApiKey::from_seed(b"seed");
        let claims = TokenClaims {
            deadline: 1_700_000_600,
            account: AccountIndex::new(5).unwrap(),
            key_index: KeyIndex::new(3).unwrap(),
        };
        let token = AuthToken::new(claims, &key, &[0; 32]);
        assert!(token.verify(key.public()));
        let text = token.expose();
        assert_eq!(text.parse(), Ok(token));
        let later: AuthToken = text.replacen("1700000600", "1700000601", 1).parse().unwrap();
        assert!(!later.verify(key.public()));
        for bad in ["", "1:2:3", &format!("{text}:"), &format!("0{text}"), &format!("+{text}"), &"1".repeat(1000)] {
            assert_eq!(bad.parse::<AuthToken>(), Err(NotAToken), "{bad}");
        }
        assert!(!format!("{token:?}").contains(&token.signature.to_string()));
    }
}
