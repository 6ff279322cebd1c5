//! The two cookies: the session, and a mark that ties a nonce to the browser that asked for it.

use axum::http::{HeaderMap, HeaderValue, header};

/// Names and attributes, which depend on whether the service is reached over TLS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cookies {
    secure: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cookie {
    Session,
    Browser,
}

/// The most of a cookie header that is read.
const MAX_HEADER: usize = 8 * 1024;

impl Cookies {
    pub(crate) fn new(secure: bool) -> Self {
        Self { secure }
    }

    /// The prefix makes browsers refuse the cookie from another host or without TLS. They refuse it on plain HTTP too,
    /// which is how a local network is reached.
    fn name(self, cookie: Cookie) -> &'static str {
        match (cookie, self.secure) {
            (Cookie::Session, true) => "__Host-causeway_session",
            (Cookie::Session, false) => "causeway_session",
            (Cookie::Browser, true) => "__Host-causeway_browser",
            (Cookie::Browser, false) => "causeway_browser",
        }
    }

    pub(crate) fn read(self, headers: &HeaderMap, cookie: Cookie) -> Option<String> {
        let name = self.name(cookie);
        let pairs = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = pairs.filter(|text| text.len() <= MAX_HEADER).flat_map(|text| text.split(';'));
        pairs.find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
    }

    /// The header that sets a cookie. Scripts do not see it, and other sites' forms do not send it.
    pub(crate) fn set(self, cookie: Cookie, value: &str, max_age_secs: u64) -> Option<HeaderValue> {
        let secure = if self.secure { "; Secure" } else { "" };
        let name = self.name(cookie);
        let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={max_age_secs}{secure}");
        HeaderValue::from_str(&text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_read_by_its_whole_name() {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_static("xcauseway_session=0; causeway_session=abc; a=b"));
        let plain = Cookies::new(false);
        assert_eq!(plain.read(&headers, Cookie::Session).as_deref(), Some("abc"));
        assert_eq!(plain.read(&headers, Cookie::Browser), None);
        // Over TLS only the cookie that no other host can set counts.
        assert_eq!(Cookies::new(true).read(&headers, Cookie::Session), None);
    }

    #[test]
    fn a_cookie_over_tls_is_secure() {
        let text = |secure| Cookies::new(secure).set(Cookie::Session, "abc", 60).unwrap();
        let secure = text(true);
        let secure = secure.to_str().unwrap();
        assert!(secure.starts_with("__Host-") && secure.ends_with("; Secure") && secure.contains("HttpOnly"));
        assert!(!text(false).to_str().unwrap().contains("Secure"));
        assert!(Cookies::new(true).set(Cookie::Session, "a\nb", 60).is_none());
    }
}
