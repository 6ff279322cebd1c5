//! The caller's side of a stored quote.

use std::borrow::Cow;

use alloy_primitives::{Address, Bytes};
use domain::api_key::ApiKeyId;
use domain::deposit_address;
use domain::fees;
use domain::fixed_rate::FixedRate;
use domain::ids::ChainId;
use domain::money::{Amount, UsdMicros};
use domain::quote as rules;
use serde::{Deserialize, Serialize};

use super::super::text::{AccountText, Text};
use super::sponsor::SponsorAsk;

#[derive(Debug, Serialize, Deserialize)]
pub struct Ask<'a> {
    user: AccountText<'a>,
    recipient: AccountText<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refund_to: Option<AccountText<'a>>,
    origin: Place<'a>,
    destination: Place<'a>,
    #[serde(with = "Trade")]
    trade: rules::Trade,
    amount: Text<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slippage_bps: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    referrer: Option<Cow<'a, str>>,
    explicit_deposit: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_secs: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Text<ApiKeyId>>,
    /// The options, by the name they had when rows began to hold them. Most quotes have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wishes: Option<Options>,
}

impl<'a> From<&'a rules::Ask> for Ask<'a> {
    fn from(ask: &'a rules::Ask) -> Self {
        let rules::Ask {
            user,
            recipient,
            refund_to,
            origin,
            destination,
            trade,
            amount,
            slippage_bps,
            referrer,
            explicit_deposit,
            ttl_secs,
            key,
            options,
        } = ask;
        Self {
            user: user.into(),
            recipient: recipient.into(),
            refund_to: refund_to.as_ref().map(Into::into),
            origin: origin.into(),
            destination: destination.into(),
            trade: *trade,
            amount: Text(*amount),
            slippage_bps: *slippage_bps,
            referrer: referrer.as_deref().map(Cow::Borrowed),
            explicit_deposit: *explicit_deposit,
            ttl_secs: *ttl_secs,
            key: key.map(Text),
            wishes: (*options != rules::QuoteOptions::default()).then(|| options.into()),
        }
    }
}

impl From<Ask<'_>> for rules::Ask {
    fn from(ask: Ask<'_>) -> Self {
        Self {
            user: ask.user.into(),
            recipient: ask.recipient.into(),
            refund_to: ask.refund_to.map(Into::into),
            origin: ask.origin.into(),
            destination: ask.destination.into(),
            trade: ask.trade,
            amount: ask.amount.0,
            slippage_bps: ask.slippage_bps,
            referrer: ask.referrer.map(Cow::into_owned),
            explicit_deposit: ask.explicit_deposit,
            ttl_secs: ask.ttl_secs,
            key: ask.key.map(|Text(key)| key),
            options: ask.wishes.map(Into::into).unwrap_or_default(),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "rules::Trade")]
enum Trade {
    ExactInput,
    ExactOutput,
    ExpectedOutput,
}

/// A currency by its place, written as a list.
#[derive(Debug, Deserialize)]
pub struct Place<'a> {
    chain: u64,
    address: AccountText<'a>,
}

as_list!(Place<'_> { chain, address });

impl<'a> From<&'a rules::CurrencyKey> for Place<'a> {
    fn from(rules::CurrencyKey { chain, address }: &'a rules::CurrencyKey) -> Self {
        Self { chain: chain.0, address: address.into() }
    }
}

impl From<Place<'_>> for rules::CurrencyKey {
    fn from(Place { chain, address }: Place<'_>) -> Self {
        Self { chain: ChainId(chain), address: address.into() }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Options {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    app_fees: Vec<AppFee>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_up: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Call>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls_gas: Option<u64>,
    #[serde(skip_serializing_if = "is_false")]
    true_exact_output: bool,
    #[serde(skip_serializing_if = "is_false")]
    no_origin_swap: bool,
    #[serde(skip_serializing_if = "is_false")]
    any_impact: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    sponsor: Option<SponsorAsk>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fixed_rate: Option<Text<FixedRate>>,
    #[serde(skip_serializing_if = "is_false")]
    force_refund: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    deposit_address: Option<DepositAddress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permit: Option<Permit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relayed_gas: Option<u64>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl From<&rules::QuoteOptions> for Options {
    fn from(options: &rules::QuoteOptions) -> Self {
        let rules::QuoteOptions {
            app_fees,
            top_up,
            calls,
            tried_gas,
            true_exact_output,
            no_origin_swap,
            any_impact,
            sponsor,
            fixed_rate,
            force_refund,
            deposit_address,
            permit,
            relayed_gas,
        } = options;
        let app_fee = |fees::AppFee { recipient, bps }: &_| AppFee { recipient: *recipient, bps: *bps };
        let call =
            |rules::Call { to, value, data }: &_| Call { to: *to, value: Text(*value), data: Bytes::clone(data) };
        Self {
            app_fees: app_fees.iter().map(app_fee).collect(),
            top_up: top_up.map(|usd| usd.0),
            calls: calls.iter().map(call).collect(),
            calls_gas: *tried_gas,
            true_exact_output: *true_exact_output,
            no_origin_swap: *no_origin_swap,
            any_impact: *any_impact,
            sponsor: sponsor.as_ref().map(Into::into),
            fixed_rate: fixed_rate.map(Text),
            force_refund: *force_refund,
            deposit_address: deposit_address.map(|ask| DepositAddress {
                strict: ask.kind == deposit_address::Kind::Strict,
                recovery: ask.recovery,
            }),
            permit: permit.map(|ask| Permit { valid_secs: ask.valid_secs, relayer: ask.relayer }),
            relayed_gas: *relayed_gas,
        }
    }
}

impl From<Options> for rules::QuoteOptions {
    fn from(options: Options) -> Self {
        let app_fee = |AppFee { recipient, bps }| fees::AppFee { recipient, bps };
        let call = |Call { to, value, data }| rules::Call { to, value: value.0, data };
        Self {
            app_fees: options.app_fees.into_iter().map(app_fee).collect(),
            top_up: options.top_up.map(UsdMicros),
            calls: options.calls.into_iter().map(call).collect(),
            tried_gas: options.calls_gas,
            true_exact_output: options.true_exact_output,
            no_origin_swap: options.no_origin_swap,
            any_impact: options.any_impact,
            sponsor: options.sponsor.map(Into::into),
            fixed_rate: options.fixed_rate.map(|Text(rate)| rate),
            force_refund: options.force_refund,
            deposit_address: options.deposit_address.map(|DepositAddress { strict, recovery }| {
                let kind = if strict { deposit_address::Kind::Strict } else { deposit_address::Kind::Open };
                deposit_address::AddressAsk { kind, recovery }
            }),
            permit: options.permit.map(|Permit { valid_secs, relayer }| rules::PermitAsk { valid_secs, relayer }),
            relayed_gas: options.relayed_gas,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct DepositAddress {
    strict: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recovery: Option<Address>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Permit {
    valid_secs: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    relayer: Option<Address>,
}

#[derive(Debug, Serialize, Deserialize)]
struct AppFee {
    recipient: Address,
    bps: u16,
}

#[derive(Debug, Serialize, Deserialize)]
struct Call {
    to: Address,
    value: Text<Amount>,
    data: Bytes,
}
