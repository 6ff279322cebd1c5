use std::time::{SystemTime, UNIX_EPOCH};

use ring::hmac;

/// `header` looks up a header by its lower-case name. `body` is the raw body, before any JSON parser. `keys` is your
/// API key and, while you rotate it, the one before.
pub fn verify<'a>(header: impl Fn(&str) -> Option<&'a str>, body: &[u8], keys: &[&str]) -> bool {
    let Some(timestamp) = header("x-signature-timestamp") else { return false };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    // Older than five minutes: somebody may have recorded it.
    if timestamp.parse::<u128>().map_or(true, |sent| now.abs_diff(sent) > 300_000) {
        return false;
    }
    let message = [timestamp.as_bytes(), b".", body].concat();
    let names = ["x-signature-sha256", "x-signature-sha256-other"];
    let given: Vec<Vec<u8>> = names.iter().filter_map(|name| header(name)).filter_map(decode).collect();
    keys.iter().any(|key| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
        // Compares in constant time.
        given.iter().any(|signature| hmac::verify(&key, &message, signature).is_ok())
    })
}

fn decode(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
