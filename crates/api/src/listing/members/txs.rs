//! The transactions of a request: their calls, the balances they changed, and whose they are.

use alloy_primitives::Address;
use domain::account::{Account, Vm};
use domain::balance_change::BalanceChange;
use domain::request::State;
use serde::Serialize;
use store::listing::Listed;
use store::records::{Direction, Record};
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StateChange)]
pub(crate) struct StateChange {
    /// Whose balance.
    address: String,
    change: TokenChange,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TokenChange)]
pub(crate) struct TokenChange {
    kind: &'static str,
    data: TokenName,
    /// Smallest units, with a sign.
    balance_diff: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TokenName)]
pub(crate) struct TokenName {
    token_kind: &'static str,
    /// Zero for the native currency.
    token_address: String,
}

impl From<&BalanceChange> for StateChange {
    fn from(change: &BalanceChange) -> Self {
        Self {
            address: format!("{:#x}", change.holder),
            change: TokenChange {
                kind: "token",
                data: TokenName { token_kind: "ft", token_address: format!("{:#x}", change.currency) },
                balance_diff: change.change.digits().to_string(),
            },
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CallData)]
pub(crate) struct CallData {
    from: String,
    #[schema(required = true)]
    to: Option<String>,
    data: String,
    value: String,
}

impl From<&Record> for CallData {
    fn from(record: &Record) -> Self {
        let vm = if record.chain == domain::venue::CHAIN { Vm::Venue } else { Vm::Evm };
        let text = |who: Address| match Account::unpacked(vm, who) {
            Some(account) => account.text().to_owned(),
            None => format!("{who:#x}"),
        };
        Self {
            from: text(record.sender),
            to: record.target.map(text),
            data: record.data.to_string(),
            value: record.value.to_string(),
        }
    }
}

/// A transaction, and the balances it changed.
pub(crate) type Tx = (Record, Vec<BalanceChange>);

/// The user's, and ours. On the same chain the user's own are both.
///
/// Of a refunded request, the refund comes before fills that failed: published clients show the first one as the refund.
pub(crate) fn both(listed: &Listed) -> [Vec<&Tx>; 2] {
    let side = if listed.request.quote.terms.is_none() { Direction::In } else { Direction::Out };
    let of = |side| listed.txs.iter().filter(move |(record, _)| record.direction == side).collect::<Vec<&Tx>>();
    let mut ours = of(side);
    if listed.request.state == State::Refunded {
        ours.sort_by_key(|(record, _)| !stands(record));
    }
    [of(Direction::In), ours]
}

/// It did not fail, and its block is still there.
fn stands(record: &Record) -> bool {
    record.succeeded && !record.gone
}

pub(crate) fn status(record: &Record) -> &'static str {
    if stands(record) { "success" } else { "failure" }
}

/// The attempt that failed last.
pub(crate) fn failed(listed: &Listed) -> Option<&Record> {
    listed.records().rev().find(|record| !record.succeeded && !record.gone)
}
