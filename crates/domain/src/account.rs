//! Addresses of the machines we speak to, as text for people and as the bytes that are hashed.

use std::cell::RefCell;
use std::fmt;
use std::hash::{Hash, Hasher};

use alloy_primitives::{Address, hex};

use crate::memo::Memo;

/// The kind of machine behind a chain: it decides how an address is written and hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    #[error("the checksum is wrong: check the address, or write it in lower case")]
    Checksum,
}

/// The largest venue index: the venue's own clients carry it in a double.
const MAX_VENUE_INDEX: u64 = (1 << 53) - 1;

/// An address or currency on some chain. The text is echoed as it came; equality goes by the bytes.
///
/// Both are held in place: a quote copies its accounts about thirty times.
#[derive(Clone, Eq)]
pub struct Account {
    text: Short<44>,
    bytes: Short<32>,
}

/// At most so many bytes. The longest text is that of 32 bytes in base 58.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Short<const N: usize> {
    bytes: [u8; N],
    length: u8,
}

impl<const N: usize> Short<N> {
    /// None where it does not fit.
    fn of(from: &[u8]) -> Option<Self> {
        let mut bytes = [0; N];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        Some(Self { bytes, length: u8::try_from(from.len()).ok()? })
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// An address as text.
const CHECKSUMMED_LEN: usize = 42;

thread_local! {
    /// A checksum is a hash, and clients ask for quotes of the same currencies and wallets.
    static CHECKSUMS: RefCell<Memo<bool, CHECKSUMMED_LEN>> = RefCell::new(Memo::new());
}

fn is_checksummed(text: &str) -> bool {
    let check = || Address::parse_checksummed(text, None).is_ok();
    CHECKSUMS.with_borrow_mut(|checksums| checksums.value_of(text.as_bytes(), check))
}

impl Account {
    pub fn parse(vm: Vm, text: &str) -> Result<Self, NotAnAccount> {
        let (bytes, refusal) = match vm {
            Vm::Evm => (evm_bytes(text).and_then(|bytes| Short::of(&bytes)), NotAnAccount::Evm),
            Vm::Venue => (venue_bytes(text).and_then(|bytes| Short::of(&bytes)), NotAnAccount::Venue),
            Vm::Svm => (svm_bytes(text).and_then(|bytes| Short::of(&bytes)), NotAnAccount::Svm),
        };
        let account = bytes.zip(Short::of(text.as_bytes())).map(|(bytes, text)| Self { text, bytes });
        account.ok_or(refusal)
    }

    /// Reads an address as people hand it over: where its letters are in mixed case they are a checksum (ERC-55), and a
    /// wrong one is a typing error. What was stored once is read by [`Self::parse`], whatever its letters are.
    pub fn read(vm: Vm, text: &str) -> Result<Self, NotAnAccount> {
        let account = Self::parse(vm, text)?;
        let digits = text.strip_prefix("0x").unwrap_or(text).as_bytes();
        let mixed = digits.iter().any(u8::is_ascii_uppercase) && digits.iter().any(u8::is_ascii_lowercase);
        if vm == Vm::Evm && mixed && !is_checksummed(text) {
            return Err(NotAnAccount::Checksum);
        }
        Ok(account)
    }

    /// The bytes that are hashed into an order.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    pub fn text(&self) -> &str {
        // It was text when it came.
        std::str::from_utf8(self.text.as_slice()).unwrap_or_default()
    }

    /// The address, where this is one of an EVM chain.
    pub fn evm(&self) -> Option<Address> {
        <[u8; 20]>::try_from(self.bytes()).ok().map(Address::from)
    }

    /// The 20 bytes that rows of deposits and payments know an account by: an EVM address, or the number of an account
    /// or a currency of the venue. Zero is the native currency of either. None for machines that nobody pays on.
    pub fn packed(&self) -> Option<Address> {
        let index = <[u8; 16]>::try_from(self.bytes()).ok().map(|index| Address::left_padding_from(&index));
        index.or_else(|| self.evm())
    }

    /// The account behind 20 bytes of a row, by the machine of the row's chain. None where no account of it has them.
    pub fn unpacked(vm: Vm, packed: Address) -> Option<Self> {
        match vm {
            Vm::Evm => Some(packed.into()),
            Vm::Venue => {
                let (high, low) = packed.split_at(12);
                let index = u64::from_be_bytes(low.try_into().ok()?);
                Self::parse(vm, &index.to_string()).ok().filter(|_| high.iter().all(|byte| *byte == 0))
            }
            Vm::Svm => None,
        }
    }
}

fn evm_bytes(text: &str) -> Option<[u8; 20]> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 40)?;
    let mut bytes = [0u8; 20];
    hex::decode_to_slice(digits, &mut bytes).ok()?;
    Some(bytes)
}

fn venue_bytes(text: &str) -> Option<[u8; 16]> {
    let digits = !text.is_empty() && text.len() <= 16 && text.bytes().all(|byte| byte.is_ascii_digit());
    let index = text.parse::<u64>().ok().filter(|&index| digits && index <= MAX_VENUE_INDEX)?;
    Some(u128::from(index).to_be_bytes())
}

fn svm_bytes(text: &str) -> Option<[u8; 32]> {
    bs58::decode(text).into_vec().ok()?.try_into().ok()
}

impl From<Address> for Account {
    /// Lower case: the one form every client compares correctly.
    fn from(address: Address) -> Self {
        let fits = "an address fits an account";
        let text = Short::of(hex::Buffer::<20, true>::new().format(&address).as_bytes()).expect(fits);
        Self { text, bytes: Short::of(address.as_slice()).expect(fits) }
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

impl PartialEq for Account {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Hash for Account {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
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
    fn a_wrong_checksum_is_a_typing_error() {
        let right = "0xafDE0c87685F1e800457b929986cd944e9D4A98C";
        let right = Account::parse(Vm::Evm, right).unwrap().evm().unwrap().to_checksum(None);
        for good in [right.clone(), right.to_lowercase(), format!("0x{}", right[2..].to_uppercase())] {
            assert_eq!(Account::read(Vm::Evm, &good).map(|account| account.text().to_owned()), Ok(good));
        }
        let at = right.rfind(|letter: char| letter.is_ascii_lowercase()).unwrap();
        let wrong = format!("{}{}{}", &right[..at], right[at..=at].to_uppercase(), &right[at + 1..]);
        for text in [&wrong, &right, &wrong] {
            assert_eq!(Account::read(Vm::Evm, text).is_ok(), *text == right, "{text}");
        }
        assert_eq!(Account::read(Vm::Evm, &wrong), Err(NotAnAccount::Checksum));
        assert!(Account::parse(Vm::Evm, &wrong).is_ok(), "what was stored is read as it is");
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
    fn rows_know_accounts_of_both_machines_by_twenty_bytes() {
        for (vm, text) in [
            (Vm::Evm, "0xafde0c87685f1e800457b929986cd944e9d4a98c"),
            (Vm::Venue, "0"),
            (Vm::Venue, "722011"),
            (Vm::Venue, "9007199254740991"),
        ] {
            let account = Account::parse(vm, text).unwrap();
            assert_eq!(Account::unpacked(vm, account.packed().unwrap()), Some(account));
        }
        assert_eq!(Account::parse(Vm::Venue, "0").unwrap().packed(), Some(Address::ZERO));
        assert_eq!(Account::unpacked(Vm::Venue, Address::repeat_byte(1)), None);
        assert_eq!(Account::parse(Vm::Venue, "5").unwrap().evm(), None);
    }
}
