//! The transactions of a request.

use domain::money::OutOfRange;
use serde::Serialize;
use serde_json::Value;
use store::listing::Listed;
use store::records::{Direction, Record};
use utoipa::ToSchema;

use crate::listing::figures::Figures;
use crate::wire::Dollars;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TransactionV3)]
pub struct TxBody {
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
    #[schema(value_type = Vec<Object>)]
    state_changes: Vec<Value>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CallData)]
pub struct CallData {
    from: String,
    to: Option<String>,
    data: String,
    value: String,
}

impl From<&Record> for CallData {
    fn from(record: &Record) -> Self {
        Self {
            from: format!("{:#x}", record.sender),
            to: record.target.map(|target| format!("{target:#x}")),
            data: record.data.to_string(),
            value: record.value.to_string(),
        }
    }
}

/// The user's, and ours.
pub fn both(listed: &Listed, figures: &Figures<'_>) -> Result<(Vec<TxBody>, Vec<TxBody>), OutOfRange> {
    let of = |direction| {
        let records = listed.records.iter().filter(move |record| record.direction == direction);
        records.map(|record| body(record, figures)).collect::<Result<Vec<_>, OutOfRange>>()
    };
    Ok((of(Direction::In)?, of(Direction::Out)?))
}

fn body(record: &Record, figures: &Figures<'_>) -> Result<TxBody, OutOfRange> {
    let fee = record.fee.unwrap_or_default();
    let fee_usd = figures.native(record.chain).map_or(Ok(Default::default()), |native| native.usd(fee))?;
    let stands = record.succeeded && !record.gone;
    Ok(TxBody {
        tx_hash: record.tx.to_string(),
        fee: fee.to_string(),
        fee_usd: Dollars(fee_usd),
        block: record.block_number,
        kind: "onchain",
        chain_id: record.chain.0,
        timestamp: record.block_time.secs(),
        status: if stands { "success" } else { "failure" },
        data: CallData::from(record),
        state_changes: Vec::new(),
    })
}
