//! Tokens that the service can recognise without storing them: nonces to sign, and tokens in forms.

use std::time::Duration;

use alloy_primitives::{B256, hex};
use domain::time::Timestamp;
use ring::hmac;

/// The time for which a nonce can be signed.
pub(crate) const NONCE_LIFETIME: Duration = Duration::from_secs(600);

const RANDOM_DIGITS: usize = 16;
const TIME_DIGITS: usize = 16;

/// Makes and checks tokens, with a secret that all processes of a deployment share.
#[derive(Debug)]
pub(crate) struct Seal(hmac::Key);

impl Seal {
    pub(crate) fn new(secret: B256) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret.as_slice()))
    }

    fn tag(&self, purpose: &str, text: &str) -> String {
        hex::encode(hmac::sign(&self.0, format!("{purpose}:{text}").as_bytes()))
    }

    fn is_tag(&self, purpose: &str, text: &str, given: &str) -> bool {
        let Ok(given) = hex::decode(given) else { return false };
        hmac::verify(&self.0, format!("{purpose}:{text}").as_bytes(), &given).is_ok()
    }

    /// The token of a session's forms. It is the session's own: another session's form does nothing here.
    pub(crate) fn form_token(&self, session: B256) -> String {
        self.tag("form", &session.to_string())
    }

    pub(crate) fn is_form_token(&self, session: B256, given: &str) -> bool {
        self.is_tag("form", &session.to_string(), given)
    }

    /// A nonce for one browser to sign: letters and digits, good until a time that it names itself.
    pub(crate) fn nonce(&self, browser: &str, random: [u8; 8], now: Timestamp) -> String {
        let until = now.plus(NONCE_LIFETIME).millis();
        let begin = format!("{}{until:016x}", hex::encode(random));
        let tag = self.tag("nonce", &format!("{browser}:{begin}"));
        format!("{begin}{tag}")
    }

    /// True for a nonce of ours, for this browser, that has not expired.
    pub(crate) fn is_nonce(&self, browser: &str, nonce: &str, now: Timestamp) -> bool {
        let Some((begin, tag)) = nonce.split_at_checked(RANDOM_DIGITS + TIME_DIGITS) else { return false };
        let until = begin.get(RANDOM_DIGITS..).and_then(|digits| i64::from_str_radix(digits, 16).ok());
        until.is_some_and(|until| now.millis() < until) && self.is_tag("nonce", &format!("{browser}:{begin}"), tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_790_000_000);

    fn seal() -> Seal {
        Seal::new(B256::repeat_byte(7))
    }

    #[test]
    fn a_nonce_is_good_for_its_browser_and_its_time() {
        let nonce = seal().nonce("browser", [1; 8], NOW);
        assert!(nonce.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert!(seal().is_nonce("browser", &nonce, NOW));
        assert!(seal().is_nonce("browser", &nonce, NOW.plus(NONCE_LIFETIME - Duration::from_millis(1))));
        assert!(!seal().is_nonce("browser", &nonce, NOW.plus(NONCE_LIFETIME)));
        assert!(!seal().is_nonce("another", &nonce, NOW));
        assert!(!Seal::new(B256::ZERO).is_nonce("browser", &nonce, NOW));
        for changed in ["", "00", &nonce[1..], &nonce.replacen(&nonce[20..24], "ffff", 1), &format!("{nonce}00")] {
            assert!(!seal().is_nonce("browser", changed, NOW), "{changed}");
        }
        assert!(!seal().is_nonce("browser", "ééééééééééééééééééééé", NOW));
    }

    #[test]
    fn a_form_token_is_good_for_its_session() {
        let (one, other) = (B256::repeat_byte(1), B256::repeat_byte(2));
        let token = seal().form_token(one);
        assert!(seal().is_form_token(one, &token));
        assert!(!seal().is_form_token(other, &token));
        assert!(!seal().is_form_token(one, ""));
        assert!(!seal().is_form_token(one, &token[..62]));
        // A nonce's tag is no form's.
        assert!(!seal().is_form_token(one, &seal().nonce("browser", [1; 8], NOW)[32..]));
    }
}
