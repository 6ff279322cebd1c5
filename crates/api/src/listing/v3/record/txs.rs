//! The transactions of a request.

use alloy_primitives::Address;
use domain::account::{Account, Vm};
use domain::balance_change::BalanceChange;
use domain::money::OutOfRange;
use serde::Serialize;
use store::listing::Listed;
use store::records::{Direction, Record};
use utoipa::ToSchema;

use crate::listing::figures::Figures;
use crate::wire::Dollars;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TransactionV3)]
pub(super) struct TxBody {
    tx_hash: String,
    /// Wei.
    fee: String,
    #[schema(value_type = String)]
    fee_usd: Dollars,
    block: u64,
    #[serde(rename = "type")]
    kind: &'static str,
    chain_id: u64,
    /// Unix seconds.
    timestamp: i64,
    /// `success` or `failure`.
    status: &'static str,
    data: CallData,
    /// The balances it changed; empty until its receipt has been read.
    state_changes: Vec<StateChange>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StateChange)]
pub(super) struct StateChange {
    /// Whose balance.
    address: String,
    change: TokenChange,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TokenChange)]
pub(super) struct TokenChange {
    kind: &'static str,
    data: TokenName,
    /// Smallest units, with a sign.
    balance_diff: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TokenName)]
pub(super) struct TokenName {
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
pub(super) struct CallData {
    from: String,
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

/// The user's, and ours. On one chain the user's own are both.
pub(super) fn both(listed: &Listed, figures: &Figures<'_>) -> Result<(Vec<TxBody>, Vec<TxBody>), OutOfRange> {
    let of = |direction| {
        let txs = listed.txs.iter().filter(move |(record, _)| record.direction == direction);
        txs.map(|(record, changes)| body(listed, record, changes, figures)).collect::<Result<Vec<_>, OutOfRange>>()
    };
    let ours = if listed.request.quote.terms.is_none() { Direction::In } else { Direction::Out };
    Ok((of(Direction::In)?, of(ours)?))
}

fn body(
    listed: &Listed,
    record: &Record,
    changes: &[BalanceChange],
    figures: &Figures<'_>,
) -> Result<TxBody, OutOfRange> {
    let fee = record.fee.unwrap_or_default();
    let fee_usd = figures.native(record.chain).map_or(Ok(Default::default()), |native| native.usd(fee))?;
    let stands = record.succeeded && !record.gone;
    Ok(TxBody {
        tx_hash: listed.tx_text(record.tx),
        fee: fee.to_string(),
        fee_usd: Dollars(fee_usd),
        block: record.block_number,
        kind: "onchain",
        chain_id: record.chain.0,
        timestamp: record.block_time.secs(),
        status: if stands { "success" } else { "failure" },
        data: CallData::from(record),
        state_changes: changes.iter().map(StateChange::from).collect(),
    })
}
