//! The signature of a delivery: HMAC-SHA256 over `<timestamp>.<body>`, keyed with the text of the API key.

use alloy_primitives::hex;
use ring::hmac;

/// Unix milliseconds of the sending, in the signed message as it stands here.
pub const TIMESTAMP_HEADER: &str = "x-signature-timestamp";
/// Hexadecimal, in lower case, without a prefix.
pub const SIGNATURE_HEADER: &str = "x-signature-sha256";
/// The signature by the key's other text, while a rotation is under way.
pub const OTHER_SIGNATURE_HEADER: &str = "x-signature-sha256-other";
/// Id of the delivery, the same in every attempt and replay.
pub const DELIVERY_HEADER: &str = "x-webhook-id";
/// Number of the event within its request, from 1.
pub const SEQUENCE_HEADER: &str = "x-webhook-sequence";
/// There, and `true`, on a test that belongs to no request.
pub const TEST_HEADER: &str = "x-webhook-test";

fn context(key: &str, timestamp: &str, body: &[u8]) -> hmac::Context {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()));
    context.update(timestamp.as_bytes());
    context.update(b".");
    context.update(body);
    context
}

pub fn sign(key: &str, timestamp: &str, body: &[u8]) -> String {
    hex::encode(context(key, timestamp, body).sign())
}

/// Compares in constant time.
pub fn verify(key: &str, timestamp: &str, body: &[u8], signature: &str) -> bool {
    let lower = signature.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let Ok(given) = hex::decode(signature) else { return false };
    let message = [timestamp.as_bytes(), b".", body].concat();
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    lower && hmac::verify(&key, &message, &given).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_hex_of_the_hmac_over_timestamp_and_body() {
        // From `printf '1790000000000.{"a":1}' | openssl dgst -sha256 -hmac cwk_test`.
        let expected = "f72d7f2c53c3e4a1f04639cea9670d6c2ebeaa395e0e609ee8520c293ebb8040";
        assert_eq!(sign("cwk_test", "1790000000000", br#"{"a":1}"#), expected);
        assert!(verify("cwk_test", "1790000000000", br#"{"a":1}"#, expected));
    }

    #[test]
    fn another_key_time_body_or_form_does_not_verify() {
        let good = sign("k", "1", b"body");
        for (key, time, body, signature) in [
            ("l", "1", "body", good.clone()),
            ("k", "2", "body", good.clone()),
            ("k", "1", "body ", good.clone()),
            ("k", "1", "body", good.to_uppercase()),
            ("k", "1", "body", format!("0x{good}")),
            ("k", "1", "body", good[..62].to_owned()),
            ("k", "1", "body", format!("{good}00")),
            ("k", "1", "body", String::new()),
            ("k", "1", "body", "zz".repeat(32)),
        ] {
            assert!(!verify(key, time, body.as_bytes(), &signature), "{key} {time} {body} {signature}");
        }
        assert!(verify("k", "1", b"body", &good));
    }
}
