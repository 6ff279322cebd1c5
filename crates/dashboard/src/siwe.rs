//! Messages to sign in with (EIP-4361): written by the service, and taken back only as it writes them.

use std::fmt;

use alloy_primitives::Address;
use domain::time::Timestamp;

use crate::times::{iso, parse_iso};

const STATEMENT: &str = "Sign in to the dashboard. This costs nothing and moves nothing.";

/// The service that a message names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service<'a> {
    /// The host, with its port where it is not the usual one.
    pub host: &'a str,
    pub uri: &'a str,
    pub chain_id: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub account: Address,
    pub nonce: String,
    pub issued_at: Timestamp,
    pub expires_at: Timestamp,
}

struct Written<'a>(&'a Message, Service<'a>);

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(message, service) = self;
        writeln!(f, "{} wants you to sign in with your Ethereum account:", service.host)?;
        writeln!(f, "{}\n\n{STATEMENT}\n", message.account)?;
        writeln!(f, "URI: {}\nVersion: 1\nChain ID: {}", service.uri, service.chain_id)?;
        writeln!(f, "Nonce: {}\nIssued At: {}", message.nonce, iso(message.issued_at))?;
        write!(f, "Expiration Time: {}", iso(message.expires_at))
    }
}

impl Message {
    pub(crate) fn text(&self, service: Service<'_>) -> String {
        Written(self, service).to_string()
    }

    /// Reads a message of this service. Anything else than the service itself would write is refused, so that nobody
    /// signs in with a message that was signed for another site, chain or purpose.
    pub(crate) fn parse(text: &str, service: Service<'_>) -> Option<Self> {
        let lines: Vec<&str> = text.split('\n').take(16).collect();
        let member = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name));
        let message = Self {
            account: Address::parse_checksummed(lines.get(1)?, None).ok()?,
            nonce: member("Nonce: ").filter(|nonce| nonce.bytes().all(|byte| byte.is_ascii_alphanumeric()))?.to_owned(),
            issued_at: parse_iso(member("Issued At: ")?)?,
            expires_at: parse_iso(member("Expiration Time: ")?)?,
        };
        (message.text(service) == text).then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: Service<'static> =
        Service { host: "causeway.example", uri: "https://causeway.example/dashboard", chain_id: 8453 };

    fn message() -> Message {
        Message {
            account: Address::repeat_byte(0xab),
            nonce: "a1b2c3d4e5f6".to_owned(),
            issued_at: Timestamp::from_secs(1_790_000_000),
            expires_at: Timestamp::from_secs(1_790_000_600),
        }
    }

    #[test]
    fn a_message_has_the_form_of_the_standard() {
        let expected = "causeway.example wants you to sign in with your Ethereum account:\n\
             {account}\n\n\
             Sign in to the dashboard. This costs nothing and moves nothing.\n\n\
             URI: https://causeway.example/dashboard\nVersion: 1\nChain ID: 8453\nNonce: a1b2c3d4e5f6\n\
             Issued At: 2026-09-21T14:13:20Z\nExpiration Time: 2026-09-21T14:23:20Z";
        assert_eq!(message().text(SERVICE), expected.replace("{account}", &message().account.to_string()));
    }

    #[test]
    fn a_message_is_read_back_and_any_other_is_refused() {
        let text = message().text(SERVICE);
        assert_eq!(Message::parse(&text, SERVICE), Some(message()));
        for (from, to) in [
            ("causeway.example wants", "evil.example wants"),
            ("https://causeway.example", "https://evil.example"),
            ("Chain ID: 8453", "Chain ID: 1"),
            ("Version: 1", "Version: 2"),
            ("moves nothing", "moves everything"),
            ("Nonce: ", "Nonce:  "),
            ("Issued At: 2026", "Issued At: 202"),
            ("Version: 1\n", "Version: 1\nNonce: other\n"),
        ] {
            assert!(text.contains(from), "{from}");
            assert_eq!(Message::parse(&text.replacen(from, to, 1), SERVICE), None, "{to}");
        }
        let account = message().account.to_string();
        assert_eq!(Message::parse(&text.replace(&account, &account.to_lowercase()), SERVICE), None);
        assert_eq!(Message::parse(&format!("{text}\n"), SERVICE), None);
        assert_eq!(Message::parse("", SERVICE), None);
    }
}
