//! The body of a delivery: compact JSON, the same bytes in every attempt.

use alloy_primitives::B256;
use domain::ids::RequestId;
use domain::time::Timestamp;
use domain::webhook::Status;
use serde::Serialize;
use store::webhooks::{Posted, PostedAddress};

const EVENT: &str = "request.status.updated";

#[derive(Debug, Serialize)]
struct Payload<'a> {
    event: &'static str,
    timestamp: i64,
    data: Data<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    status: &'static str,
    in_tx_hashes: &'a [String],
    tx_hashes: &'a [String],
    updated_at: i64,
    origin_chain_id: u64,
    destination_chain_id: u64,
    deposit_address: Option<DepositAddress>,
    request_id: String,
    referrer: Option<&'a str>,
    details: Option<&'a str>,
    fail_reason: &'a str,
    refund_fail_reason: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DepositAddress {
    address: String,
    deposit_address_type: &'static str,
    depositor: Option<String>,
    deposit_tx_hash: Option<B256>,
}

impl From<&PostedAddress> for DepositAddress {
    fn from(posted: &PostedAddress) -> Self {
        Self {
            address: format!("{:#x}", posted.address),
            deposit_address_type: if posted.strict { "strict" } else { "open" },
            depositor: posted.depositor.map(|who| format!("{who:#x}")),
            deposit_tx_hash: posted.tx,
        }
    }
}

/// The bytes of an event.
pub fn body(request: RequestId, posted: &Posted, at: Timestamp) -> Vec<u8> {
    let fail_reason = match (posted.status.has_reason(), &posted.fail_reason) {
        (false, _) => "N/A",
        (true, Some(reason)) => reason,
        (true, None) => "UNKNOWN",
    };
    let payload = Payload {
        event: EVENT,
        timestamp: at.millis(),
        data: Data {
            status: posted.status.as_str(),
            in_tx_hashes: &posted.in_txs,
            tx_hashes: &posted.out_txs,
            updated_at: at.millis(),
            origin_chain_id: posted.origin.0,
            destination_chain_id: posted.destination.0,
            deposit_address: posted.deposit_address.as_ref().map(Into::into),
            request_id: request.to_string(),
            referrer: posted.referrer.as_deref(),
            details: posted.details.as_deref(),
            fail_reason,
            refund_fail_reason: posted.refund_fail_reason.as_deref().unwrap_or("N/A"),
        },
    };
    serde_json::to_vec(&payload).expect("a payload is plain data")
}

/// The bytes of a test: an event of a request that does not exist, whose id is zero.
pub fn test_body(at: Timestamp) -> Vec<u8> {
    let posted = Posted {
        status: Status::Success,
        in_txs: Vec::new(),
        out_txs: Vec::new(),
        origin: domain::ids::ChainId(0),
        destination: domain::ids::ChainId(0),
        referrer: None,
        details: None,
        fail_reason: None,
        refund_fail_reason: None,
        deposit_address: None,
    };
    body(RequestId(B256::ZERO), &posted, at)
}

#[cfg(test)]
mod tests {
    use domain::ids::ChainId;

    use super::*;

    fn posted(status: Status) -> Posted {
        Posted {
            status,
            in_txs: vec![B256::repeat_byte(1).to_string()],
            out_txs: vec![],
            origin: ChainId(8453),
            destination: ChainId(10),
            referrer: None,
            details: None,
            fail_reason: None,
            refund_fail_reason: None,
            deposit_address: None,
        }
    }

    #[test]
    fn a_deposit_address_is_told_with_the_transfer_into_it() {
        let (address, tx) = (alloy_primitives::Address::repeat_byte(0xda), B256::repeat_byte(2));
        let waiting = PostedAddress { address, strict: true, depositor: None, tx: None };
        let paid = PostedAddress { strict: false, depositor: Some(address), tx: Some(tx), ..waiting.clone() };
        let of = |at: &PostedAddress| text(&Posted { deposit_address: Some(at.clone()), ..posted(Status::Pending) });
        let (hex, hash) = ("da".repeat(20), "02".repeat(32));
        let nothing = r#""depositAddressType":"strict","depositor":null,"depositTxHash":null}"#;
        assert!(of(&waiting).contains(&format!(r#""depositAddress":{{"address":"0x{hex}",{nothing}"#)));
        let sender = format!(r#""depositAddressType":"open","depositor":"0x{hex}","depositTxHash":"0x{hash}"}}"#);
        assert!(of(&paid).contains(&sender), "{}", of(&paid));
    }

    fn text(posted: &Posted) -> String {
        String::from_utf8(body(RequestId(B256::repeat_byte(7)), posted, Timestamp::from_millis(5))).unwrap()
    }

    #[test]
    fn the_body_is_compact_with_every_member_in_order() {
        let hash = "01".repeat(32);
        let expected = format!(
            r#"{{"event":"request.status.updated","timestamp":5,"data":{{"status":"pending","inTxHashes":["0x{hash}"],"txHashes":[],"updatedAt":5,"originChainId":8453,"destinationChainId":10,"depositAddress":null,"requestId":"0x{id}","referrer":null,"details":null,"failReason":"N/A","refundFailReason":"N/A"}}}}"#,
            id = "07".repeat(32)
        );
        assert_eq!(text(&posted(Status::Pending)), expected);
    }

    #[test]
    fn a_reason_is_told_only_with_a_failure_or_a_refund() {
        let reason = Some("SLIPPAGE".to_owned());
        for status in Status::ALL {
            let with = text(&Posted { fail_reason: reason.clone(), ..posted(status) });
            let without = text(&posted(status));
            let has = matches!(status, Status::Failure | Status::Refund);
            assert_eq!(with.contains(r#""failReason":"SLIPPAGE""#), has, "{with}");
            assert_eq!(without.contains(r#""failReason":"UNKNOWN""#), has, "{without}");
            assert_eq!(without.contains(r#""failReason":"N/A""#), !has, "{without}");
        }
        let kept =
            Posted { refund_fail_reason: Some("AMOUNT_TOO_LOW_TO_REFUND".to_owned()), ..posted(Status::Failure) };
        assert!(text(&kept).contains(r#""refundFailReason":"AMOUNT_TOO_LOW_TO_REFUND""#));
    }

    #[test]
    fn texts_of_callers_stay_inside_their_strings() {
        let hostile = "\"},\u{2028}\u{7f}\n\t\u{1}ü\\";
        let text = text(&Posted { referrer: Some(hostile.to_owned()), ..posted(Status::Success) });
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["data"]["referrer"], hostile);
        assert!(!text.contains('\n'));
    }
}
