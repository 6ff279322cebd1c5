//! The sponsor of a stored quote or outcome, and what it pays.

use alloy_primitives::Address;
use domain::money::{Amount, UsdMicros};
use domain::sponsorship as rules;
use serde::{Deserialize, Serialize};

use super::super::text::{Hex, SignedText, Text};

#[derive(Debug, Serialize, Deserialize)]
pub struct SponsorAsk {
    /// Rows from before balances name nobody, and nobody pays for them.
    #[serde(default)]
    wallet: Hex<Address>,
    /// None for [`USUAL`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    selected: Option<Vec<Component>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cap: Option<i64>,
}

/// The components of a row that names none. They were the default when rows began to leave it out, and stay what they
/// are should the default change: they say who pays for quotes already given.
const USUAL: [rules::Component; 4] =
    [rules::Component::Execution, rules::Component::Swap, rules::Component::Relay, rules::Component::App];

impl From<&rules::SponsorAsk> for SponsorAsk {
    fn from(ask: &rules::SponsorAsk) -> Self {
        let selected = ask.selected();
        Self {
            wallet: Hex(ask.wallet),
            selected: (selected != USUAL).then(|| selected.iter().copied().map(Component).collect()),
            cap: ask.cap.map(|usd| usd.0),
        }
    }
}

impl From<SponsorAsk> for rules::SponsorAsk {
    fn from(SponsorAsk { wallet, selected, cap }: SponsorAsk) -> Self {
        let named = |selected: Vec<_>| selected.into_iter().map(|Component(component)| component).collect();
        Self::new(wallet.0, selected.map_or_else(|| USUAL.to_vec(), named), cap.map(UsdMicros))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Component(#[serde(with = "ComponentName")] rules::Component);

#[derive(Serialize, Deserialize)]
#[serde(remote = "rules::Component")]
enum ComponentName {
    Execution,
    Swap,
    Relay,
    App,
    Rent,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sponsorship {
    ask: SponsorAsk,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<NotSponsored>,
    cap_hit: bool,
    buckets: [Bucket; 5],
}

#[derive(Debug, Serialize, Deserialize)]
struct NotSponsored(#[serde(with = "NotSponsoredName")] rules::NotSponsored);

#[derive(Serialize, Deserialize)]
#[serde(remote = "rules::NotSponsored")]
enum NotSponsoredName {
    SameChain,
    BalanceTooLow,
    NothingSelected,
    CapTooLow,
    NothingCharged,
}

/// Most buckets are nothing most of the time, and a row says so by leaving the figures out.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Bucket {
    #[serde(skip_serializing_if = "SignedText::is_zero")]
    total: SignedText,
    #[serde(skip_serializing_if = "Text::<Amount>::is_zero")]
    sponsored: Text<Amount>,
}

impl From<&rules::Sponsorship> for Sponsorship {
    fn from(rules::Sponsorship { ask, refused, cap_hit, buckets }: &rules::Sponsorship) -> Self {
        Self {
            ask: ask.into(),
            refused: refused.map(NotSponsored),
            cap_hit: *cap_hit,
            buckets: buckets.map(Into::into),
        }
    }
}

impl From<Sponsorship> for rules::Sponsorship {
    fn from(Sponsorship { ask, refused, cap_hit, buckets }: Sponsorship) -> Self {
        Self {
            ask: ask.into(),
            refused: refused.map(|NotSponsored(refused)| refused),
            cap_hit,
            buckets: buckets.map(Into::into),
        }
    }
}

impl From<rules::Bucket> for Bucket {
    fn from(rules::Bucket { total, sponsored }: rules::Bucket) -> Self {
        Self { total: SignedText(total), sponsored: Text(sponsored) }
    }
}

impl From<Bucket> for rules::Bucket {
    fn from(Bucket { total, sponsored }: Bucket) -> Self {
        Self { total: total.0, sponsored: sponsored.0 }
    }
}
