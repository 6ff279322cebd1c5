//! The transactions of a request, as v3 shows them.

use domain::money::OutOfRange;
use serde::Serialize;
use store::listing::Listed;
use utoipa::ToSchema;

use crate::listing::figures::Figures;
use crate::listing::members::txs::{self, CallData, StateChange, Tx};
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

/// The user's, and ours.
pub(super) fn both(listed: &Listed, figures: &Figures<'_>) -> Result<(Vec<TxBody>, Vec<TxBody>), OutOfRange> {
    let bodies =
        |all: Vec<&Tx>| all.into_iter().map(|tx| body(tx, listed, figures)).collect::<Result<Vec<_>, OutOfRange>>();
    let [user, ours] = txs::both(listed).map(bodies);
    Ok((user?, ours?))
}

fn body((record, changes): &Tx, listed: &Listed, figures: &Figures<'_>) -> Result<TxBody, OutOfRange> {
    let fee = record.fee.unwrap_or_default();
    let fee_usd = figures.native(record.chain).map_or(Ok(Default::default()), |native| native.usd(fee))?;
    Ok(TxBody {
        tx_hash: listed.tx_text(record.tx),
        fee: fee.to_string(),
        fee_usd: Dollars(fee_usd),
        block: record.block_number,
        kind: "onchain",
        chain_id: record.chain.0,
        timestamp: record.block_time.secs(),
        status: txs::status(record),
        data: CallData::from(record),
        state_changes: changes.iter().map(StateChange::from).collect(),
    })
}
