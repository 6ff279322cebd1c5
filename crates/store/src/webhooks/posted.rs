//! The public view of a request at the time of an event, as the event row keeps it.
//!
//! It is taken in the commit of the event: by the time of the delivery the request may have gone on, and what was said
//! once must read the same in every attempt.

use alloy_primitives::{Address, B256};
use domain::deposit_address::Kind;
use domain::ids::ChainId;
use domain::request::State;
use domain::webhook::Status;
use serde::{Deserialize, Serialize};

use crate::columns::unknown;
use crate::requests::{self, Request};
use crate::{Row, StoreError, Tx, deposit_addresses, venue_txs};

const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    pub status: Status,
    pub in_txs: Vec<String>,
    pub out_txs: Vec<String>,
    pub origin: ChainId,
    pub destination: ChainId,
    pub referrer: Option<String>,
    pub details: Option<String>,
    pub fail_reason: Option<String>,
    pub refund_fail_reason: Option<String>,
    pub deposit_address: Option<PostedAddress>,
}

/// The deposit address of a request in an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostedAddress {
    pub address: Address,
    pub strict: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depositor: Option<Address>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx: Option<B256>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PostedRow {
    v: u32,
    status: String,
    in_txs: Vec<String>,
    out_txs: Vec<String>,
    origin: u64,
    destination: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    referrer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    details: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fail_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refund_fail_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deposit_address: Option<PostedAddress>,
}

impl Posted {
    /// The view of a request that the unit has locked and moved, with the details that its row has now.
    pub(super) fn of(tx: &mut Tx<'_>, request: &Request, details: Option<&str>) -> Result<Self, StoreError> {
        let hashes = match request.state {
            // Nothing is paid yet: the fill is decided later in this unit.
            State::Waiting | State::Depositing | State::Pending | State::Refunding => {
                requests::Hashes { deposits: requests::deposit_hashes(tx, request)?, payments: Vec::new() }
            }
            State::Submitted | State::Success | State::Refunded | State::Failed => requests::hashes(tx, request)?,
        };
        let status = Status::from(request.state);
        let ask = &request.quote.ask;
        let deposit_address = deposit_addresses::shown(tx, request)?.map(|shown| PostedAddress {
            address: shown.address,
            strict: shown.kind == Kind::Strict,
            depositor: shown.depositor,
            tx: shown.deposit_tx,
        });
        Ok(Self {
            deposit_address,
            status,
            in_txs: venue_txs::texts(tx, request, &hashes.deposits)?,
            out_txs: venue_txs::texts(tx, request, &hashes.payments)?,
            origin: ask.origin.chain,
            destination: ask.destination.chain,
            referrer: ask.referrer.clone(),
            details: details.filter(|_| status != Status::Success).map(str::to_owned),
            fail_reason: request.fail_reason.map(|reason| reason.as_str().to_owned()),
            refund_fail_reason: request.refund_fail_reason.map(|reason| reason.as_str().to_owned()),
        })
    }

    pub(super) fn text(&self) -> String {
        let stored = PostedRow {
            v: VERSION,
            status: self.status.as_str().to_owned(),
            in_txs: self.in_txs.clone(),
            out_txs: self.out_txs.clone(),
            origin: self.origin.0,
            destination: self.destination.0,
            referrer: self.referrer.clone(),
            details: self.details.clone(),
            fail_reason: self.fail_reason.clone(),
            refund_fail_reason: self.refund_fail_reason.clone(),
            deposit_address: self.deposit_address.clone(),
        };
        serde_json::to_string(&stored).expect("a view has no map")
    }

    pub(super) fn from_column(row: &Row, index: usize) -> Result<Option<Self>, StoreError> {
        let Some(text) = row.opt_text(index)? else { return Ok(None) };
        let stored: PostedRow = serde_json::from_str(text).map_err(|_| unknown(index, "a posted view"))?;
        if stored.v > VERSION {
            return Err(StoreError::FormatNewer { found: stored.v, known: VERSION });
        }
        Ok(Some(Self {
            status: stored.status.parse().map_err(|_| unknown(index, "a status"))?,
            in_txs: stored.in_txs,
            out_txs: stored.out_txs,
            origin: ChainId(stored.origin),
            destination: ChainId(stored.destination),
            referrer: stored.referrer,
            details: stored.details,
            fail_reason: stored.fail_reason,
            refund_fail_reason: stored.refund_fail_reason,
            deposit_address: stored.deposit_address,
        }))
    }
}
