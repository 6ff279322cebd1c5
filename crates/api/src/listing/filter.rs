//! One filter of a listing: a name and a value, as a condition on requests.

use std::collections::HashMap;
use std::sync::Arc;

use alloy_primitives::{Address, B256};
use domain::account::{Account, Vm};
use domain::api_key::ApiKey;
use domain::catalog::{Catalog, Chain};
use domain::facts::RequestType;
use domain::fail::{FailReason, RefundFailReason};
use domain::ids::{OrderId, RequestId};
use domain::request::State;
use domain::venue;
use store::Value;
use store::listing::{Column, Condition, TxRole};

use crate::error::ApiError;

/// A filter that takes one value, at the top level or in a group of `filters`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    Id,
    OrderId,
    User,
    Recipient,
    DepositAddress,
    DepositTx,
    FillTx,
    RefundTx,
    OriginChain,
    DestinationChain,
    Chain,
    Status,
    FailReason,
    RefundFailReason,
    ApiKey,
    Referrer,
    RequestType,
    CurrencyInChain,
    CurrencyOutChain,
    CurrencyInAddress,
    CurrencyOutAddress,
    CurrencyInSymbol,
    CurrencyOutSymbol,
}

impl Filter {
    pub(super) const ALL: [(Self, &'static str); 23] = [
        (Self::Id, "id"),
        (Self::OrderId, "orderId"),
        (Self::User, "user"),
        (Self::Recipient, "recipient"),
        (Self::DepositAddress, "depositAddress"),
        (Self::DepositTx, "depositTxHash"),
        (Self::FillTx, "fillTxHash"),
        (Self::RefundTx, "refundTxHash"),
        (Self::OriginChain, "originChainId"),
        (Self::DestinationChain, "destinationChainId"),
        (Self::Chain, "chainId"),
        (Self::Status, "status"),
        (Self::FailReason, "failReason"),
        (Self::RefundFailReason, "refundFailReason"),
        (Self::ApiKey, "apiKey"),
        (Self::Referrer, "referrer"),
        (Self::RequestType, "requestType"),
        (Self::CurrencyInChain, "currencyInChainId"),
        (Self::CurrencyOutChain, "currencyOutChainId"),
        (Self::CurrencyInAddress, "currencyInAddress"),
        (Self::CurrencyOutAddress, "currencyOutAddress"),
        (Self::CurrencyInSymbol, "currencyInSymbol"),
        (Self::CurrencyOutSymbol, "currencyOutSymbol"),
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| *known == name).map(|(filter, _)| filter)
    }

    pub(super) fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(filter, _)| *filter == self).map_or("", |(_, name)| name)
    }

    /// Where the field is empty.
    pub(super) fn empty(self) -> Condition {
        match self {
            Self::Id => Condition::Empty(Column::Id),
            Self::OrderId => Condition::Empty(Column::OrderId),
            Self::User => Condition::Empty(Column::Account),
            Self::Recipient => Condition::Empty(Column::Recipient),
            Self::OriginChain | Self::CurrencyInChain => Condition::Empty(Column::OriginChain),
            Self::DestinationChain | Self::CurrencyOutChain => Condition::Empty(Column::DestinationChain),
            Self::Status => Condition::Empty(Column::State),
            Self::FailReason => ended_badly().negated(),
            Self::RefundFailReason => Condition::Empty(Column::RefundFailReason),
            Self::ApiKey => Condition::Empty(Column::Key),
            Self::Referrer => Condition::Empty(Column::Referrer),
            Self::RequestType => Condition::Empty(Column::RequestType),
            Self::CurrencyInAddress => Condition::Empty(Column::CurrencyIn),
            Self::CurrencyOutAddress => Condition::Empty(Column::CurrencyOut),
            Self::DepositTx => Condition::HasTx(TxRole::Deposit).negated(),
            Self::FillTx => Condition::HasTx(TxRole::Fill).negated(),
            Self::RefundTx => Condition::HasTx(TxRole::Refund).negated(),
            Self::DepositAddress => Condition::Empty(Column::DepositAddress),
            // Every request has them.
            Self::Chain | Self::CurrencyInSymbol | Self::CurrencyOutSymbol => Condition::NEVER,
        }
    }
}

pub(super) fn bad(field: &'static str, problem: impl Into<String>) -> ApiError {
    ApiError::Parameter { field, problem: problem.into() }
}

/// The statuses by which requests are found, and their states. A fill that is on its way has no status of its own to be
/// found by, so `pending` finds it.
const STATUSES: [(&str, &[State]); 5] = [
    ("success", &[State::Success]),
    ("failure", &[State::Failed]),
    ("refund", &[State::Refunded]),
    ("pending", &[State::Pending, State::Submitted, State::Refunding]),
    ("depositing", &[State::Depositing]),
];

pub(crate) fn status_names() -> [&'static str; 5] {
    STATUSES.map(|(name, _)| name)
}

/// The knowledge that reading a filter takes.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub catalog: &'a Catalog,
    /// The keys that filters name, by their text or their id. A key that nobody has is none.
    pub keys: &'a HashMap<String, Option<Arc<ApiKey>>>,
    /// The caller's own key.
    pub caller: Option<&'a ApiKey>,
}

impl Reader<'_> {
    pub(super) fn condition(&self, filter: Filter, text: &str) -> Result<Condition, ApiError> {
        let field = filter.name();
        let not_one = |problem: &dyn ToString| bad(field, problem.to_string());
        Ok(match filter {
            Filter::Id => Condition::is(Column::Id, text.parse::<RequestId>().map_err(|error| not_one(&error))?),
            Filter::OrderId => {
                Condition::is(Column::OrderId, text.parse::<OrderId>().map_err(|error| not_one(&error))?)
            }
            Filter::User => Condition::is(Column::Account, account(field, text)?),
            Filter::Recipient => Condition::is(Column::Recipient, account(field, text)?),
            Filter::DepositAddress => at_address(&account(field, text)?).unwrap_or(Condition::NEVER),
            Filter::DepositTx => Condition::Tx(TxRole::Deposit, tx_hash(field, text)?),
            Filter::FillTx => Condition::Tx(TxRole::Fill, tx_hash(field, text)?),
            Filter::RefundTx => Condition::Tx(TxRole::Refund, tx_hash(field, text)?),
            Filter::OriginChain | Filter::CurrencyInChain => Condition::Is(Column::OriginChain, chain(field, text)?),
            Filter::DestinationChain | Filter::CurrencyOutChain => {
                Condition::Is(Column::DestinationChain, chain(field, text)?)
            }
            Filter::Chain => {
                let chain = chain(field, text)?;
                let either = [Column::OriginChain, Column::DestinationChain];
                Condition::Any(either.map(|column| Condition::Is(column, chain.clone())).into())
            }
            Filter::Status => status(field, text)?,
            Filter::FailReason if text == "N/A" => Filter::FailReason.empty(),
            Filter::FailReason => {
                let reason: FailReason = text.parse().map_err(|_| bad(field, "not a fail reason"))?;
                let given = Condition::is(Column::FailReason, reason.as_str());
                match reason {
                    // Shown also where none was given.
                    FailReason::Unknown => {
                        let shown = Condition::Any(vec![given, Condition::Empty(Column::FailReason)]);
                        Condition::All(vec![shown, ended_badly()])
                    }
                    // Turned round twice: Postgres would take reason and state for independent, expect nearly nothing,
                    // and sort all there is instead of reading the index in its order.
                    _ => Condition::All(vec![given, ended_badly().negated().negated()]),
                }
            }
            Filter::RefundFailReason => {
                let reason: RefundFailReason = text.parse().map_err(|_| bad(field, "not a refund fail reason"))?;
                Condition::is(Column::RefundFailReason, reason.as_str())
            }
            Filter::ApiKey => match self.keys.get(text) {
                Some(Some(key)) => Condition::is(Column::Key, key.id.to_string()),
                Some(None) | None => Condition::NEVER,
            },
            Filter::Referrer if text.is_empty() => return Err(bad(field, "must not be empty")),
            Filter::Referrer => Condition::is(Column::Referrer, text),
            Filter::RequestType => {
                let names = || RequestType::ALL.map(RequestType::as_str).join(", ");
                let kind = RequestType::parse(text).ok_or_else(|| bad(field, format!("must be of {}", names())))?;
                Condition::is(Column::RequestType, kind.as_str())
            }
            Filter::CurrencyInAddress => Condition::is(Column::CurrencyIn, account(field, text)?),
            Filter::CurrencyOutAddress => Condition::is(Column::CurrencyOut, account(field, text)?),
            Filter::CurrencyInSymbol => self.symbol(text, Column::OriginChain, Column::CurrencyIn)?,
            Filter::CurrencyOutSymbol => self.symbol(text, Column::DestinationChain, Column::CurrencyOut)?,
        })
    }

    /// The currencies of that symbol, on whichever chain.
    fn symbol(&self, text: &str, chain_column: Column, address_column: Column) -> Result<Condition, ApiError> {
        let mut found = Vec::new();
        for currency in self.catalog.chains().iter().flat_map(Chain::currencies) {
            if currency.symbol.eq_ignore_ascii_case(text) {
                found.push(Condition::All(vec![
                    Condition::Is(chain_column, Value::try_from(currency.chain.0)?),
                    Condition::is(address_column, currency.address.text().to_lowercase()),
                ]));
            }
        }
        Ok(Condition::Any(found))
    }

    /// Referrers are the integrator's own: all the keys beside one must be the caller's.
    pub(super) fn check_referrer(&self, keys: &[String]) -> Result<(), ApiError> {
        if keys.is_empty() {
            return Err(bad("referrer", "needs apiKey"));
        }
        let owned = |text: &String| {
            let key = self.keys.get(text).and_then(Option::as_ref);
            key.zip(self.caller).is_some_and(|(key, caller)| same_integrator(caller, key))
        };
        if keys.iter().all(owned) {
            Ok(())
        } else {
            Err(ApiError::Forbidden("referrer: only with API keys of your own"))
        }
    }
}

/// Where the reason of a failure is shown.
fn ended_badly() -> Condition {
    let states = [State::Refunded, State::Failed];
    Condition::Any(states.map(|state| Condition::is(Column::State, state.as_str())).into())
}

/// Requests of private chains are left out, unless their ids are given.
pub(super) fn hidden(catalog: &Catalog, shown: &[String]) -> Result<Vec<Condition>, ApiError> {
    let is_hidden = |chain: &&Chain| {
        chain.private_id.as_ref().is_some_and(|id| !shown.iter().any(|given| given.eq_ignore_ascii_case(id)))
    };
    let left_out = |chain: &Chain| {
        let id = Value::try_from(chain.id.0)?;
        let either = [Column::OriginChain, Column::DestinationChain];
        Ok(Condition::Any(either.map(|column| Condition::Is(column, id.clone())).into()).negated())
    };
    catalog.chains().iter().filter(is_hidden).map(left_out).collect()
}

/// Keys belong to one integrator when they are one key or have one wallet.
pub(super) fn same_integrator(one: &ApiKey, other: &ApiKey) -> bool {
    one.id == other.id || (one.wallet.is_some() && one.wallet == other.wallet)
}

fn status(field: &'static str, text: &str) -> Result<Condition, ApiError> {
    let known = STATUSES.iter().find(|(name, _)| *name == text);
    let names = || status_names().join(", ");
    let (_, states) = known.ok_or_else(|| bad(field, format!("must be of {}", names())))?;
    Ok(Condition::Any(states.iter().map(|state| Condition::is(Column::State, state.as_str())).collect()))
}

/// An address in the one form that is stored. Other machines than the EVM's have forms of their own.
pub(super) fn account(field: &'static str, text: &str) -> Result<String, ApiError> {
    let refused = |problem: &str| ApiError::Address { field, problem: problem.to_owned() };
    if text.starts_with("0x") {
        Account::read(Vm::Evm, text).map_err(|error| refused(&error.to_string()))?;
    }
    let fits = (1..=44).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if fits { Ok(text.to_lowercase()) } else { Err(refused("must be an address")) }
}

/// The requests of a deposit address. None for addresses of other machines than the EVM's: those are none of ours.
fn at_address(account: &str) -> Option<Condition> {
    account.parse::<Address>().ok().map(|address| Condition::is(Column::DepositAddress, address))
}

/// The requests that have anything to do with an address: as sender, as recipient, or paid at it.
pub(super) fn about(account: &str) -> Condition {
    let sides = [Column::Account, Column::Recipient].map(|column| Condition::is(column, account));
    Condition::Any(sides.into_iter().chain(at_address(account)).collect())
}

pub(super) fn hash(field: &'static str, text: &str) -> Result<B256, ApiError> {
    text.parse::<RequestId>().map(|RequestId(hash)| hash).map_err(|error| bad(field, error.to_string()))
}

/// The hash of a transaction, as rows know it: the venue's are longer than those of chains.
pub(super) fn tx_hash(field: &'static str, text: &str) -> Result<B256, ApiError> {
    venue::tx_key_of(text).map_or_else(|| hash(field, text), Ok)
}

fn chain(field: &'static str, text: &str) -> Result<Value, ApiError> {
    let id: u64 = text.parse().map_err(|_| bad(field, "must be a chain's number"))?;
    Value::try_from(id).map_err(|_| bad(field, "must be a chain's number"))
}
