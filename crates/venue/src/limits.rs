//! Ranges of a transaction's numbers that only the venue's own tools care about.

use domain::venue::Units;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutOfTransferRange {
    #[error("must be an API key index, from 0 to {}", KeyIndex::MAX)]
    KeyIndex,
    #[error("must be a nonce, from 0 to {}", Nonce::MAX)]
    Nonce,
    #[error("must be a fee in units of USDC, from 0 to {}", Units::MAX)]
    Fee,
    #[error("must be a time in milliseconds, from 0 to {MAX_TIMESTAMP}")]
    Expiry,
}

/// The latest time that a transaction can name.
const MAX_TIMESTAMP: u64 = (1 << 48) - 1;

/// The end of a transaction's life: milliseconds on the venue's clock. After it, the transaction can no longer be
/// taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Expiry(u64);

impl Expiry {
    pub fn new(millis: u64) -> Result<Self, OutOfTransferRange> {
        (millis <= MAX_TIMESTAMP).then_some(Self(millis)).ok_or(OutOfTransferRange::Expiry)
    }

    /// The latest there is, where the sum is beyond it.
    pub(crate) fn after(now_millis: u64, lifetime_millis: u64) -> Self {
        Self(now_millis.saturating_add(lifetime_millis).min(MAX_TIMESTAMP))
    }

    pub fn get(self) -> u64 {
        self.0
    }
}

/// The venue's fee for a transfer in units of USDC, charged to the sender on top of the amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fee(u64);

impl Fee {
    pub const NONE: Self = Self(0);

    pub fn new(units: u64) -> Result<Self, OutOfTransferRange> {
        (units <= Units::MAX).then_some(Self(units)).ok_or(OutOfTransferRange::Fee)
    }

    pub fn get(self) -> u64 {
        self.0
    }
}

/// The number of a transaction among those of one API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nonce(u64);

impl Nonce {
    /// The venue counts in signed 64 bits.
    pub const MAX: u64 = (1 << 63) - 1;

    pub fn new(nonce: u64) -> Result<Self, OutOfTransferRange> {
        (nonce <= Self::MAX).then_some(Self(nonce)).ok_or(OutOfTransferRange::Nonce)
    }

    pub fn get(self) -> u64 {
        self.0
    }
}

/// The place of a key among those of its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyIndex(u8);

impl KeyIndex {
    /// 255 means "none" to the venue's own tools.
    pub const MAX: u8 = 254;

    pub fn new(index: u64) -> Result<Self, OutOfTransferRange> {
        let index = u8::try_from(index).ok().filter(|index| *index <= Self::MAX);
        index.map(Self).ok_or(OutOfTransferRange::KeyIndex)
    }

    pub fn get(self) -> u8 {
        self.0
    }
}
