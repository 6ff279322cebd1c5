//! Addresses of the machines we speak to, as text for people and as the bytes that are hashed.

use std::fmt;

use alloy_primitives::{Address, hex};
use serde::{Deserialize, Serialize};

/// The kind of machine behind a chain: it decides how an address is written and hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Vm {
    Evm,
    /// The perpetuals venue: accounts and assets are small numbers.
    Venue,
    Svm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnAccount {
    #[error("must be 0x followed by 40 hexadecimal digits")]
    Evm,
    #[error("must be a venue account index in decimal digits")]
    Venue,
    #[error("must be a base58 address of 32 bytes")]
    Svm,
}

/// The largest venue index: the venue's own clients carry it in a double.
const MAX_VENUE_INDEX: u64 = (1 << 53) - 1;

/// An address or currency on some chain. The text is echoed as it came; equality goes by the bytes.
#[derive(Clone, Debug, Eq)]
pub struct Account {
    text: String,
    bytes: Vec<u8>,
}

impl Account {
    pub fn parse(vm: Vm, text: &str) -> Result<Self, NotAnAccount> {
        let bytes = match vm {
            Vm::Evm => evm_bytes(text).ok_or(NotAnAccount::Evm)?.to_vec(),
            Vm::Venue => {
                let digits = !text.is_empty() && text.len() <= 16 && text.bytes().all(|byte| byte.is_ascii_digit());
                let index = text.parse::<u64>().ok().filter(|&index| digits && index <= MAX_VENUE_INDEX);
                u128::from(index.ok_or(NotAnAccount::Venue)?).to_be_bytes().to_vec()
            }
            Vm::Svm => {
                let bytes = bs58::decode(text).into_vec().map_err(|_| NotAnAccount::Svm)?;
                if bytes.len() == 32 { bytes } else { return Err(NotAnAccount::Svm) }
            }
        };
        Ok(Self { text: text.to_owned(), bytes })
    }

    /// What is hashed into an order.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The address, where this is one of an EVM chain.
    pub fn evm(&self) -> Option<Address> {
        (self.bytes.len() == 20).then(|| Address::from_slice(&self.bytes))
    }
}

fn evm_bytes(text: &str) -> Option<[u8; 20]> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 40)?;
    let mut bytes = [0u8; 20];
    hex::decode_to_slice(digits, &mut bytes).ok()?;
    Some(bytes)
}

impl From<Address> for Account {
    /// Lower case: the one form every client compares correctly.
    fn from(address: Address) -> Self {
        Self { text: format!("0x{}", hex::encode(address)), bytes: address.to_vec() }
    }
}

impl PartialEq for Account {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl Serialize for Account {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Account {
    /// A stored account was valid when it was stored; its form tells which machine it belongs to.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        [Vm::Evm, Vm::Venue, Vm::Svm]
            .into_iter()
            .find_map(|vm| Self::parse(vm, &text).ok())
            .ok_or_else(|| serde::de::Error::custom("not an account of any known machine"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_does_not_make_another_account() {
        let lower = Account::parse(Vm::Evm, "0xafde0c87685f1e800457b929986cd944e9d4a98c").unwrap();
        let mixed = Account::parse(Vm::Evm, "0xAfDe0C87685F1E800457b929986Cd944E9D4A98c").unwrap();
        assert_eq!(lower, mixed);
        assert_ne!(lower.text(), mixed.text());
    }

    #[test]
    fn each_machine_refuses_what_is_not_its_own() {
        for (vm, bad) in [
            (Vm::Evm, "0x000000000000000000000000000000000000000000"),
            (Vm::Evm, "afde0c87685f1e800457b929986cd944e9d4a98c"),
            (Vm::Evm, "900123"),
            (Vm::Evm, "0xafde0c87685f1e800457b929986cd944e9d4a9é"),
            (Vm::Venue, "0xafde0c87685f1e800457b929986cd944e9d4a98c"),
            (Vm::Venue, "-1"),
            (Vm::Venue, ""),
            (Vm::Venue, "9007199254740992"),
            (Vm::Svm, "0OIl"),
            (Vm::Svm, "1111"),
        ] {
            assert!(Account::parse(vm, bad).is_err(), "{vm:?} {bad}");
        }
    }

    #[test]
    fn an_account_survives_storage() {
        for (vm, text) in [(Vm::Evm, "0xAfDe0C87685F1E800457b929986Cd944E9D4A98c"), (Vm::Venue, "900123")] {
            let account = Account::parse(vm, text).unwrap();
            let stored = serde_json::to_string(&account).unwrap();
            let back: Account = serde_json::from_str(&stored).unwrap();
            assert_eq!((back.text(), back.bytes()), (account.text(), account.bytes()));
        }
    }
}
