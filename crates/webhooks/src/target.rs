//! The target of an endpoint: a checked URL and the owner's headers, kept sealed in the database.

use std::fmt;
use std::str::FromStr;

use domain::api_key::ApiKeyId;
use domain::webhook::EndpointName;
use reqwest::header::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use store::sealing::{MasterKey, SealError};
use url::{Host, Url};

use crate::address::Policy;

pub const MAX_URL: usize = 2_048;
pub const MAX_HEADERS: usize = 10;
const MAX_HEADER_NAME: usize = 64;
const MAX_HEADER_VALUE: usize = 1_024;

/// Headers that are ours or the connection's. Names that begin with [`OUR_PREFIXES`] are ours as well.
const RESERVED: [&str; 17] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
];
const OUR_PREFIXES: [&str; 4] = ["x-signature-", "x-webhook-", "proxy-", "x-forwarded-"];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct TargetError {
    pub field: &'static str,
    pub problem: String,
}

fn bad(field: &'static str, problem: impl Into<String>) -> TargetError {
    TargetError { field, problem: problem.into() }
}

/// The URL and the custom headers of an endpoint. Both may carry secrets, so it does not print itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    url: Url,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Target")
    }
}

/// The sealed form.
#[derive(Serialize, Deserialize)]
struct Sealed {
    url: String,
    headers: Vec<(String, String)>,
}

impl Target {
    pub fn new(url: &str, headers: &[(String, String)], policy: Policy) -> Result<Self, TargetError> {
        if headers.len() > MAX_HEADERS {
            return Err(bad("headers", format!("at most {MAX_HEADERS}")));
        }
        let url = parse_url(url, policy)?;
        let mut checked: Vec<(HeaderName, HeaderValue)> = Vec::with_capacity(headers.len());
        for (name, value) in headers {
            let (name, value) = parse_header(name, value)?;
            if checked.iter().any(|(known, _)| *known == name) {
                return Err(bad("headers", format!("{name} is there twice")));
            }
            checked.push((name, value));
        }
        Ok(Self { url, headers: checked })
    }

    pub fn url(&self) -> &Url {
        &self.url
    }

    pub fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.headers
    }

    /// The headers as text, to be kept when only the URL changes.
    pub fn header_texts(&self) -> Vec<(String, String)> {
        let text = |(name, value): &(HeaderName, HeaderValue)| {
            (name.as_str().to_owned(), value.to_str().unwrap_or_default().to_owned())
        };
        self.headers.iter().map(text).collect()
    }

    /// The encrypted form. `nonce` must be fresh randomness.
    pub fn seal(
        &self,
        key: ApiKeyId,
        name: &EndpointName,
        master: &MasterKey,
        nonce: [u8; 12],
    ) -> Result<Vec<u8>, SealError> {
        let sealed = Sealed { url: self.url.to_string(), headers: self.header_texts() };
        let text = serde_json::to_string(&sealed).map_err(|_| SealError::Seal)?;
        master.seal(&owner(key, name), &text, nonce)
    }

    /// Opens a sealed target, and checks it again: the policy may have changed since it was stored.
    pub fn open(
        sealed: &[u8],
        key: ApiKeyId,
        name: &EndpointName,
        master: &MasterKey,
        policy: Policy,
    ) -> Result<Self, OpenError> {
        let text = master.open(&owner(key, name), sealed)?;
        let sealed: Sealed = serde_json::from_str(&text).map_err(|_| SealError::Open)?;
        Ok(Self::new(&sealed.url, &sealed.headers, policy)?)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// The owner is authenticated with the secret: a target moved to another endpoint does not open.
fn owner(key: ApiKeyId, name: &EndpointName) -> String {
    format!("webhook:{key}:{name}")
}

fn parse_url(text: &str, policy: Policy) -> Result<Url, TargetError> {
    let bad = |problem: &str| bad("url", problem);
    if text.len() > MAX_URL {
        return Err(bad("too long"));
    }
    let url = Url::parse(text).map_err(|_| bad("not a URL"))?;
    let scheme_fits = url.scheme() == "https" || (policy.allow_local && url.scheme() == "http");
    if !scheme_fits {
        return Err(bad("must begin with https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("must not carry a user or a password: use a header"));
    }
    if url.fragment().is_some() {
        return Err(bad("must not have a fragment"));
    }
    if url.port() == Some(0) {
        return Err(bad("port 0 is no port"));
    }
    match url.host() {
        // The parser has read addresses in all their spellings by now.
        Some(Host::Ipv4(address)) => check_literal(address.into(), policy)?,
        Some(Host::Ipv6(address)) => check_literal(address.into(), policy)?,
        Some(Host::Domain(name)) => check_name(name, policy)?,
        None => return Err(bad("has no host")),
    }
    Ok(url)
}

/// A connection to a literal address asks no resolver, so addresses are refused here, but for loopback where that is
/// allowed.
fn check_literal(address: std::net::IpAddr, policy: Policy) -> Result<(), TargetError> {
    let local = policy.allow_local && Policy::default().check(address).is_err() && policy.check(address).is_ok();
    if local { Ok(()) } else { Err(bad("url", "the host must be a name, not an address")) }
}

/// Names that cannot be public are refused early; every other name is judged by its addresses, at each connection.
fn check_name(name: &str, policy: Policy) -> Result<(), TargetError> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_localhost = name == "localhost" || name.ends_with(".localhost");
    if is_localhost && policy.allow_local {
        return Ok(());
    }
    let private = [".local", ".internal", ".localdomain", ".home.arpa"].iter().any(|end| name.ends_with(end));
    if is_localhost || private || !name.contains('.') {
        return Err(bad("url", "the host is not a public name"));
    }
    Ok(())
}

fn parse_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), TargetError> {
    let bad = |problem: &str| {
        let shown: String = name.chars().take(MAX_HEADER_NAME).filter(|letter| !letter.is_control()).collect();
        bad("headers", format!("{shown}: {problem}"))
    };
    let parsed = HeaderName::from_str(name).ok().filter(|_| name.len() <= MAX_HEADER_NAME);
    let parsed = parsed.ok_or_else(|| bad("not the name of a header"))?;
    let lower = parsed.as_str();
    if RESERVED.contains(&lower) || OUR_PREFIXES.iter().any(|prefix| lower.starts_with(prefix)) {
        return Err(bad("is set by the service"));
    }
    let plain = value.len() <= MAX_HEADER_VALUE && value.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    let mut value = HeaderValue::from_str(value)
        .ok()
        .filter(|_| plain)
        .ok_or_else(|| bad(&format!("its value must be at most {MAX_HEADER_VALUE} visible ASCII characters")))?;
    value.set_sensitive(true);
    Ok((parsed, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: Policy = Policy { allow_local: true };

    fn problem(url: &str, policy: Policy) -> Option<String> {
        Target::new(url, &[], policy).err().map(|error| error.to_string())
    }

    #[test]
    fn a_url_is_https_to_a_public_name() {
        for good in [
            "https://example.com",
            "https://hooks.example.com:8443/a/b?token=c",
            "https://xn--bcher-kva.example/",
            "https://bücher.example/",
            "https://example.com./",
        ] {
            assert_eq!(problem(good, Policy::default()), None, "{good}");
        }
        for (hostile, reason) in [
            ("", "not a URL"),
            ("example.com", "not a URL"),
            ("http://example.com/", "must begin with https"),
            ("ftp://example.com/", "must begin with https"),
            ("file:///etc/passwd", "must begin with https"),
            ("javascript:alert(1)", "must begin with https"),
            ("https://", "not a URL"),
            ("https://localhost/", "not a public name"),
            ("https://LOCALHOST:8443/", "not a public name"),
            ("https://localhost./", "not a public name"),
            ("https://a.localhost/", "not a public name"),
            ("https://metadata.google.internal/", "not a public name"),
            ("https://printer.local/", "not a public name"),
            ("https://intranet/", "not a public name"),
            ("https://host.docker.internal./", "not a public name"),
            ("https://router.home.arpa/", "not a public name"),
            ("https://ⓛocalhost/", "not a public name"),
            ("https://user@example.com/", "must not carry a user"),
            ("https://user:pass@example.com/", "must not carry a user"),
            ("https://example.com@127.0.0.1/", "must not carry a user"),
            ("https://example.com/#a", "fragment"),
            ("https://example.com:0/", "port 0"),
            ("https://127.0.0.1/", "a name, not an address"),
            ("https://127.1/", "a name, not an address"),
            ("https://2130706433/", "a name, not an address"),
            ("https://0x7f000001/", "a name, not an address"),
            ("https://0x7f.1/", "a name, not an address"),
            ("https://017700000001/", "a name, not an address"),
            ("https://0177.0.0.1/", "a name, not an address"),
            ("https://127.0.0.1./", "a name, not an address"),
            ("https://①②⑦.⓪.⓪.①/", "a name, not an address"),
            ("https://0/", "a name, not an address"),
            ("https://%31%32%37.0.0.1/", "a name, not an address"),
            ("https://127。0。0。1/", "a name, not an address"),
            ("https:127.0.0.1", "a name, not an address"),
            ("https:\\\\127.0.0.1\\a", "a name, not an address"),
            (" https://127.0.0.1/", "a name, not an address"),
            ("https://127.0.0.1:443/", "a name, not an address"),
            ("https://2852039166/", "a name, not an address"),
            ("https://0xa9fea9fe/", "a name, not an address"),
            ("https://0251.0376.0251.0376/", "a name, not an address"),
            ("https://169.254.43518/", "a name, not an address"),
            ("https://256.256.256.256/", "not a URL"),
            ("https://1.2.3.4.5/", "not a URL"),
            ("https://169.254.169.254/latest/meta-data/", "a name, not an address"),
            ("https://8.8.8.8/", "a name, not an address"),
            ("https://[::1]/", "a name, not an address"),
            ("https://[::ffff:127.0.0.1]/", "a name, not an address"),
            ("https://[::ffff:7f00:1]/", "a name, not an address"),
            ("https://[fe80::1]/", "a name, not an address"),
            ("https://[::]/", "a name, not an address"),
            ("https://[::127.0.0.1]/", "a name, not an address"),
            ("https://[0:0:0:0:0:ffff:a9fe:a9fe]/", "a name, not an address"),
            ("https://[64:ff9b::7f00:1]/", "a name, not an address"),
            ("https://[2002:7f00:1::]/", "a name, not an address"),
            ("https://[fd00:ec2::254]/", "a name, not an address"),
            ("https://[fe80::1%25eth0]/", "not a URL"),
            ("https://[2606:4700:4700::1111]/", "a name, not an address"),
            ("https://exa mple.com/", "not a URL"),
            ("https://example.com:99999/", "not a URL"),
        ] {
            let found = problem(hostile, Policy::default());
            assert!(found.as_ref().is_some_and(|found| found.contains(reason)), "{hostile}: {found:?}");
        }
        assert!(problem(&format!("https://example.com/{}", "a".repeat(MAX_URL)), Policy::default()).is_some());
    }

    #[test]
    fn the_switch_allows_plain_http_and_loopback() {
        for good in
            ["http://127.0.0.1:4000/", "http://localhost:4000/hook", "http://[::1]:4000/", "https://example.com/"]
        {
            assert_eq!(problem(good, LOCAL), None, "{good}");
        }
        for bad in
            ["http://10.0.0.1/", "https://169.254.169.254/", "http://0.0.0.0/", "http://8.8.8.8/", "http://[::]/"]
        {
            assert!(problem(bad, LOCAL).is_some(), "{bad}");
        }
    }

    #[test]
    fn headers_may_not_take_the_place_of_ours() {
        let with = |name: &str, value: &str| {
            Target::new("https://example.com", &[(name.to_owned(), value.to_owned())], Policy::default())
        };
        for good in [("Authorization", "Bearer x"), ("X-Api-Key", ""), ("x-tenant", "a b~")] {
            assert!(with(good.0, good.1).is_ok(), "{good:?}");
        }
        for (name, value) in [
            ("Content-Type", "text/plain"),
            ("HOST", "a"),
            ("content-length", "1"),
            ("Transfer-Encoding", "chunked"),
            ("X-Signature-SHA256", "a"),
            ("x-signature-timestamp", "1"),
            ("X-Webhook-Id", "1"),
            ("Connection", "close"),
            ("Proxy-Authorization", "a"),
            ("", "a"),
            ("a b", "a"),
            ("a\r\nb", "a"),
            ("x-a", "b\r\nx-c: d"),
            ("x-a", "b\0"),
            ("x-a", "ü"),
            (&"a".repeat(65), "b"),
            ("x-a", &"b".repeat(1_025)),
        ] {
            assert!(with(name, value).is_err(), "{name:?}: {value:?}");
        }
        let twice = [("x-a".to_owned(), "1".to_owned()), ("X-A".to_owned(), "2".to_owned())];
        assert!(Target::new("https://example.com", &twice, Policy::default()).is_err());
        let many: Vec<_> = (0..11).map(|n| (format!("x-{n}"), String::new())).collect();
        assert!(Target::new("https://example.com", &many, Policy::default()).is_err());
    }

    #[test]
    fn a_sealed_target_opens_for_its_endpoint_and_under_the_policy_of_today() {
        let (master, key) = (MasterKey::new(&[7; 32]).unwrap(), ApiKeyId::new([1; 10]));
        let (name, other): (EndpointName, EndpointName) = ("default".parse().unwrap(), "other".parse().unwrap());
        let headers = [("authorization".to_owned(), "Bearer hunter2".to_owned())];
        let target = Target::new("http://127.0.0.1:1/a?b=c", &headers, LOCAL).unwrap();
        let sealed = target.seal(key, &name, &master, [3; 12]).unwrap();
        assert!(!sealed.windows(7).any(|window| window == b"hunter2" || window == b"127.0.0"));
        assert_eq!(Target::open(&sealed, key, &name, &master, LOCAL).unwrap(), target);
        assert!(Target::open(&sealed, key, &other, &master, LOCAL).is_err());
        assert!(Target::open(&sealed, ApiKeyId::new([2; 10]), &name, &master, LOCAL).is_err());
        assert!(matches!(
            Target::open(&sealed, key, &name, &master, Policy::default()),
            Err(OpenError::Target(TargetError { field: "url", .. }))
        ));
        assert_eq!(format!("{target:?}"), "Target");
    }
}
