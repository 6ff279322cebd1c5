//! API keys: whose call it is, what it may do, and how often.
//!
//! The text of a key is a secret; its id is not. How a text is kept is the store's matter.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use alloy_primitives::{Address, hex};

use crate::time::Timestamp;

/// The public name of a key: in listings, logs and quotes, where its text never is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiKeyId([u8; 10]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be key_ followed by 20 lower-case hexadecimal digits")]
pub struct NotAKeyId;

impl ApiKeyId {
    const PREFIX: &str = "key_";

    pub const fn new(random: [u8; 10]) -> Self {
        Self(random)
    }
}

impl fmt::Display for ApiKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, hex::encode(self.0))
    }
}

impl FromStr for ApiKeyId {
    type Err = NotAKeyId;

    fn from_str(text: &str) -> Result<Self, NotAKeyId> {
        digits(text, Self::PREFIX).map(Self).ok_or(NotAKeyId)
    }
}

/// The secret that the caller sends and that its webhooks are signed with. It does not print itself.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the text of a key")]
pub struct NotAKey;

impl KeyText {
    /// Scanners for leaked secrets know a key by it.
    const PREFIX: &str = "cwk_";

    pub fn new(random: [u8; 32]) -> Self {
        Self(format!("{}{}", Self::PREFIX, hex::encode(random)))
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl FromStr for KeyText {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        digits::<32>(text, Self::PREFIX).map(|_| Self(text.to_owned())).ok_or(NotAKey)
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyText")
    }
}

/// Lower case only: a text has one form.
fn digits<const N: usize>(text: &str, prefix: &str) -> Option<[u8; N]> {
    let digits = text.strip_prefix(prefix)?;
    let lower = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let mut bytes = [0u8; N];
    (lower && hex::decode_to_slice(digits, &mut bytes).is_ok()).then_some(bytes)
}

/// A key as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    pub id: ApiKeyId,
    pub name: String,
    /// The linked wallet, whose app balance the key may spend.
    pub wallet: Option<Address>,
    pub limits: KeyLimits,
    /// The key may use `debug-force-refund`.
    pub may_force_refund: bool,
    pub created_at: Timestamp,
    /// When it last got another text.
    pub rotated_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

/// The longest name of a key.
pub const MAX_NAME: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to {MAX_NAME} characters and no control characters")]
pub struct NotAName;

/// A name people can read in a list.
pub fn check_name(name: &str) -> Result<(), NotAName> {
    let count = name.chars().count();
    let fits = (1..=MAX_NAME).contains(&count) && name.trim() == name && !name.chars().any(char::is_control);
    if fits { Ok(()) } else { Err(NotAName) }
}

/// Routes that share one allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    Quotes,
    /// The older listings.
    Requests,
    RequestsV3,
    TransactionStatus,
    Others,
}

impl Family {
    pub const ALL: [Self; 5] = [Self::Quotes, Self::Requests, Self::RequestsV3, Self::TransactionStatus, Self::Others];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quotes => "quotes",
            Self::Requests => "requests",
            Self::RequestsV3 => "requests-v3",
            Self::TransactionStatus => "transaction-status",
            Self::Others => "others",
        }
    }

    /// The rate of a key that has none of its own.
    pub const fn default_rate(self, elevated: bool) -> Rate {
        match (self, elevated) {
            (Self::Quotes, false) => Rate::per_minute(50),
            (Self::Quotes | Self::Requests | Self::TransactionStatus, true) => Rate::per_second(10),
            (Self::RequestsV3, true) => Rate::per_second(20),
            (Self::Requests | Self::RequestsV3 | Self::TransactionStatus, false) | (Self::Others, _) => {
                Rate::per_minute(200)
            }
        }
    }
}

/// So many calls in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub count: NonZeroU32,
    pub window: Window,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    Second,
    Minute,
}

impl Window {
    pub const fn duration(self) -> Duration {
        match self {
            Self::Second => Duration::from_secs(1),
            Self::Minute => Duration::from_secs(60),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a count per second or minute such as 10/s or 200/min")]
pub struct NotARate;

impl Rate {
    pub const fn new(count: NonZeroU32, window: Window) -> Self {
        Self { count, window }
    }

    const fn per_minute(count: u32) -> Self {
        Self::new(NonZeroU32::new(count).expect("the defaults are not zero"), Window::Minute)
    }

    const fn per_second(count: u32) -> Self {
        Self::new(NonZeroU32::new(count).expect("the defaults are not zero"), Window::Second)
    }

    /// The part of it that one of several instances grants. None grants nothing at all.
    pub fn share(self, instances: NonZeroU32) -> Self {
        let count = NonZeroU32::new(self.count.get() / instances).unwrap_or(NonZeroU32::MIN);
        Self { count, ..self }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = match self.window {
            Window::Second => "s",
            Window::Minute => "min",
        };
        write!(f, "{}/{window}", self.count)
    }
}

impl FromStr for Rate {
    type Err = NotARate;

    fn from_str(text: &str) -> Result<Self, NotARate> {
        let (count, window) = text.split_once('/').ok_or(NotARate)?;
        let window = match window {
            "s" => Window::Second,
            "min" => Window::Minute,
            _ => return Err(NotARate),
        };
        let digits = count.bytes().all(|byte| byte.is_ascii_digit());
        let count = count.parse().ok().filter(|_| digits).ok_or(NotARate)?;
        Ok(Self { count, window })
    }
}

/// How often a key may call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyLimits {
    pub elevated: bool,
    /// In the order of [`Family::ALL`].
    own: [Option<Rate>; 5],
}

impl KeyLimits {
    pub fn new(elevated: bool) -> Self {
        Self { elevated, ..Self::default() }
    }

    pub fn own(&self, family: Family) -> Option<Rate> {
        self.own[family as usize]
    }

    #[must_use]
    pub fn with(mut self, family: Family, rate: Option<Rate>) -> Self {
        self.own[family as usize] = rate;
        self
    }

    pub fn rate(&self, family: Family) -> Rate {
        self.own(family).unwrap_or(family.default_rate(self.elevated))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_and_its_id_have_one_form() {
        let text = KeyText::new([0xab; 32]);
        assert_eq!(text.expose().parse::<KeyText>(), Ok(text.clone()));
        let upper = text.expose().to_uppercase().replace("CWK_", "cwk_");
        for bad in ["", "cwk_", &text.expose()[4..], &text.expose()[..67], &upper] {
            assert_eq!(bad.parse::<KeyText>(), Err(NotAKey), "{bad}");
        }
        let id = ApiKeyId::new([7; 10]);
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in ["", "key_", "key_0707", "0707070707070707070707", "key_07070707070707070707ff"] {
            assert_eq!(bad.parse::<ApiKeyId>(), Err(NotAKeyId), "{bad}");
        }
    }

    #[test]
    fn a_key_does_not_print_itself() {
        let text = KeyText::new([0xab; 32]);
        assert!(!format!("{text:?}").contains("abab"));
    }

    #[test]
    fn rates_are_read_strictly() {
        assert_eq!("10/s".parse(), Ok(Rate::per_second(10)));
        assert_eq!("200/min".parse(), Ok(Rate::per_minute(200)));
        assert_eq!(Rate::per_second(10).to_string(), "10/s");
        for bad in ["", "10", "0/s", "-1/s", "+1/s", "10/h", "10 /s", "99999999999/s"] {
            assert_eq!(bad.parse::<Rate>(), Err(NotARate), "{bad}");
        }
    }

    #[test]
    fn a_key_has_the_published_rates_unless_it_has_its_own() {
        let table = [
            (Family::Quotes, "50/min", "10/s"),
            (Family::Requests, "200/min", "10/s"),
            (Family::RequestsV3, "200/min", "20/s"),
            (Family::TransactionStatus, "200/min", "10/s"),
            (Family::Others, "200/min", "200/min"),
        ];
        let elevated = KeyLimits::new(true);
        for (index, (family, plain, more)) in table.into_iter().enumerate() {
            assert_eq!(KeyLimits::default().rate(family).to_string(), plain);
            assert_eq!(elevated.rate(family).to_string(), more);
            assert_eq!(family as usize, index);
            assert_eq!(Family::ALL[index], family);
            let own = elevated.with(family, Some(Rate::per_minute(3)));
            assert_eq!(own.rate(family).to_string(), "3/min");
        }
    }

    #[test]
    fn several_instances_share_a_rate_and_none_is_left_without() {
        let rate = Rate::per_minute(50);
        for (instances, share) in [(1, 50), (3, 16), (50, 1), (80, 1)] {
            assert_eq!(rate.share(NonZeroU32::new(instances).unwrap()).count.get(), share);
        }
    }

    #[test]
    fn names_can_be_read_in_a_list() {
        for good in ["app", "My app, staging", "ä"] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["", " app", "a\nb", "\u{1b}[31m", &"x".repeat(65)] {
            assert_eq!(check_name(bad), Err(NotAName), "{bad}");
        }
    }
}
