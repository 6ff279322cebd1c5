//! Who calls: nobody in particular, or the holder of an API key.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use alloy_primitives::{B256, keccak256};
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use domain::api_key::{ApiKey, KeyText};
use metrics::counter;

use crate::App;
use crate::error::ApiError;
use crate::in_process::Acting;
use crate::keys::Memory;

/// Found once per call, before anything else is done with it.
#[derive(Clone, Debug)]
pub struct Caller(Option<Arc<ApiKey>>);

impl From<&Acting> for Caller {
    fn from(acting: &Acting) -> Self {
        match acting {
            Acting::Key(key) => Self(Some(key.clone())),
            Acting::Nobody | Acting::Operator => Self(None),
        }
    }
}

impl Caller {
    pub fn key(&self) -> Option<&ApiKey> {
        self.0.as_deref()
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        // Nobody is taken for a caller without a key because it was not looked at.
        parts.extensions.get::<Self>().cloned().ok_or(ApiError::Internal)
    }
}

/// The network address of a caller, as far as it tells callers apart. Absent for calls within the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client(pub(crate) IpAddr);

/// One name for a caller, for rules that count by caller: the key or, without one, the network address. A hash, because
/// addresses of people are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallerName(pub(crate) B256);

impl<S: Sync> FromRequestParts<S> for CallerName {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let name = match (caller.key(), parts.extensions.get::<Client>()) {
            (Some(key), _) => format!("key {}", key.id),
            (None, Some(Client(address))) => format!("address {address}"),
            (None, None) => "nobody".to_owned(),
        };
        Ok(Self(keccak256(name)))
    }
}

/// The holder of a key, on routes that need one.
#[derive(Clone, Debug)]
pub struct Keyed(pub Arc<ApiKey>);

impl<S: Sync> FromRequestParts<S> for Keyed {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Caller::from_request_parts(parts, state).await?.0.map(Self).ok_or(ApiError::NoKey)
    }
}

/// The key that a call shows: `x-api-key` before `Authorization: Bearer`.
fn shown(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = || {
        let value = headers.get(AUTHORIZATION)?.as_bytes();
        let end = value.iter().position(u8::is_ascii_whitespace).unwrap_or(value.len());
        let (scheme, token) = value.split_at(end);
        scheme.eq_ignore_ascii_case(b"bearer").then(|| token.trim_ascii())
    };
    headers.get("x-api-key").map(|value| value.as_bytes().trim_ascii()).or_else(bearer)
}

/// A key that is shown and not good is refused on every route: whoever shows one believes to act under it. An address
/// that shows too many of those is not looked up for a while, and keys in use go on from there all the same.
pub(crate) async fn identify(app: &App, headers: &HeaderMap, client: Option<IpAddr>) -> Result<Caller, ApiError> {
    let Some(shown) = shown(headers) else { return Ok(Caller(None)) };
    if !headers.contains_key("x-api-key") && app.operator.is_some_and(|token| token.is(shown)) {
        return Ok(Caller(None));
    }
    let text = std::str::from_utf8(shown).ok().and_then(|text| text.parse::<KeyText>().ok());
    let memory = text.as_ref().map_or(Memory::NoKey, |text| app.keys.remembered(text));
    if let Memory::Key(key) = memory {
        return Ok(Caller(Some(key)));
    }
    let limits = app.limits.as_deref().zip(client);
    if let Some((limits, client)) = limits {
        limits.check_wrong_keys(client, Instant::now())?;
    }
    if let (Memory::Nothing, Some(text)) = (memory, &text)
        && let Some(key) = app.keys.read(text).await?
    {
        return Ok(Caller(Some(key)));
    }
    counter!("causeway_wrong_keys_total").increment(1);
    if let Some((limits, client)) = limits {
        limits.count_wrong_key(client, Instant::now());
    }
    Err(ApiError::WrongKey)
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn a_key_is_read_from_its_header_before_the_bearer_token() {
        let (own, bearer) = ("x-api-key", "authorization");
        for (headers, expected) in [
            (vec![], None),
            (vec![(own, "a")], Some("a")),
            (vec![(own, "")], Some("")),
            (vec![(bearer, "Bearer b")], Some("b")),
            (vec![(bearer, "bearer b")], Some("b")),
            (vec![(bearer, "Bearer ")], Some("")),
            (vec![(bearer, "Bearer")], Some("")),
            (vec![(bearer, "Bearers b")], None),
            (vec![(bearer, "Basic b")], None),
            (vec![(bearer, "Bearer b"), (own, "a")], Some("a")),
            (vec![(bearer, "Bearer b"), (own, "")], Some("")),
        ] {
            let pair = |(name, value): &(&'static str, &'static str)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            };
            let map = HeaderMap::from_iter(headers.iter().map(pair));
            assert_eq!(shown(&map), expected.map(str::as_bytes), "{headers:?}");
        }
    }
}
