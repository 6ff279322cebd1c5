//! The transactions of a request, as v2 shows them.

use domain::fail::FailReason;
use domain::request::State;
use serde::Serialize;
use store::listing::Listed;
use store::records::{Direction, Record};
use utoipa::ToSchema;

use crate::listing::members::txs::{self, CallData, StateChange, Tx};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TransactionV2)]
pub(crate) struct TxV2 {
    /// Wei.
    fee: String,
    data: CallData,
    /// The balances it changed; empty until its receipt has been read.
    state_changes: Vec<StateChange>,
    hash: String,
    block: u64,
    #[serde(rename = "type")]
    kind: &'static str,
    chain_id: u64,
    /// Unix seconds.
    timestamp: i64,
    /// `success` or `failure`.
    status: &'static str,
    /// Present where there is something to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<TxMetadata>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TransactionMetadataV2)]
pub(crate) struct TxMetadata {
    reorg: Reorg,
}

/// A deposit that fell out of the chain.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ReorgV2)]
pub(crate) struct Reorg {
    /// Unix milliseconds; absent where it was not the deposit itself that was missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    detected_at: Option<i64>,
    source: &'static str,
    reason: &'static str,
    fail_reason: &'static str,
    /// `fill` or `refund`: the payment that had been made for it. Absent where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'static str>,
    /// The block that is gone.
    block_number: u64,
    block_hash: String,
    /// Of the transaction in it: `success` or `reverted`.
    receipt_status: &'static str,
}

/// The user's, and ours.
pub(super) fn both(listed: &Listed) -> (Vec<TxV2>, Vec<TxV2>) {
    let [user, ours] = txs::both(listed).map(|all| all.into_iter().map(|tx| body(tx, listed)).collect());
    (user, ours)
}

fn body((record, changes): &Tx, listed: &Listed) -> TxV2 {
    let lost = record.gone && record.direction == Direction::In;
    TxV2 {
        fee: record.fee.unwrap_or_default().to_string(),
        data: CallData::from(record),
        state_changes: changes.iter().map(StateChange::from).collect(),
        hash: listed.tx_text(record.tx),
        block: record.block_number,
        kind: "onchain",
        chain_id: record.chain.0,
        timestamp: record.block_time.secs(),
        status: txs::status(record),
        metadata: lost.then(|| TxMetadata { reorg: reorg(record, listed) }),
    }
}

fn reorg(record: &Record, listed: &Listed) -> Reorg {
    let missed = listed.missed.iter().find(|missed| missed.chain == record.chain && missed.tx == record.tx);
    Reorg {
        detected_at: missed.map(|missed| missed.at.millis()),
        source: "chain",
        reason: "BLOCK_REPLACED",
        fail_reason: FailReason::DepositReorged.as_str(),
        action: match listed.request.state {
            State::Submitted | State::Success => Some("fill"),
            State::Refunding | State::Refunded => Some("refund"),
            State::Waiting | State::Depositing | State::Pending | State::Failed => None,
        },
        block_number: record.block_number,
        block_hash: record.block_hash.to_string(),
        receipt_status: if record.succeeded { "success" } else { "reverted" },
    }
}
