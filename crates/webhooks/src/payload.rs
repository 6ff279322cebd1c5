//! The body of a delivery: compact JSON, the same bytes in every attempt.

use alloy_primitives::B256;
use domain::ids::RequestId;
use domain::time::Timestamp;
use domain::webhook::Status;
use serde::Serialize;
use store::webhooks::Posted;

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
    /// Null: there are no deposit addresses here.
    deposit_address: Option<()>,
    request_id: String,
    referrer: Option<&'a str>,
    details: Option<&'a str>,
    fail_reason: &'a str,
    refund_fail_reason: &'a str,
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
            deposit_address: None,
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
        }
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
