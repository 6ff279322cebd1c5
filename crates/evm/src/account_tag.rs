//! The tag of 32 bytes by which calldata names an app account: in transfers that fund a balance, and in claims that pay
//! one out.

use alloy::primitives::{Address, B256};

/// The marker on both sides of the account in a tag.
const MARK: [u8; 6] = [0x01, 0x23, 0x45, 0xab, 0xcd, 0xef];

/// The account a tag names; the zero address stands for the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(Address);

impl Tag {
    pub(crate) fn or(self, sender: Address) -> Address {
        if self.0.is_zero() { sender } else { self.0 }
    }
}

pub(crate) fn account_in(tag: &[u8; 32]) -> Option<Tag> {
    let account = tag.strip_prefix(&MARK)?.strip_suffix(&MARK)?;
    Some(Tag(Address::from_slice(account)))
}

/// The tag itself, for those who fund a balance. The zero address stands for the sender.
pub fn tag(account: Address) -> B256 {
    let mut tag = [0; 32];
    tag[..6].copy_from_slice(&MARK);
    tag[6..26].copy_from_slice(account.as_slice());
    tag[26..].copy_from_slice(&MARK);
    B256::from(tag)
}

pub(crate) fn is_tagged(input: &[u8]) -> bool {
    input.windows(32).any(|window| window.starts_with(&MARK) && window.ends_with(&MARK))
}
