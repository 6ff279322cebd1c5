//! How often a caller may call: by its key, or by its address without one.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, Request};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use domain::api_key::{ApiKey, ApiKeyId, Family, Rate, Window};

use crate::App;
use crate::buckets::{Buckets, Empty, Taken};
use crate::caller::{Caller, Client, identify};
use crate::error::ApiError;
use crate::idempotency;
use crate::in_process::Acting;
use crate::network::{self, Network};
use crate::retirement::{self, Retirement};

/// The limits of callers without a key, and the proxies that may speak for a caller.
#[derive(Clone, Debug)]
pub struct Allowance {
    pub quotes_per_minute: NonZeroU32,
    pub others_per_minute: NonZeroU32,
    /// Keys that are none, from one address.
    pub wrong_keys_per_minute: NonZeroU32,
    pub trusted_proxies: Vec<Network>,
}

#[derive(Debug)]
pub struct Limits {
    allowance: Allowance,
    buckets: Buckets<(Who, What)>,
    instances: Arc<AtomicU32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Who {
    Key(ApiKeyId),
    Address(IpAddr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Calls(Family),
    WrongKeys,
}

/// Which routes share an allowance.
fn family(path: &str) -> Family {
    match path {
        "/requests" | "/requests/v2" => Family::Requests,
        "/requests/v3" | "/requests/v3.csv" | "/requests/v3/stream" => Family::RequestsV3,
        "/transactions/status" => Family::TransactionStatus,
        "/price" => Family::Quotes,
        path if path == "/quote" || path.starts_with("/quote/") => Family::Quotes,
        _ => Family::Others,
    }
}

impl Limits {
    /// `instances` is how many share the limits with this one, itself included.
    pub fn new(allowance: Allowance, instances: Arc<AtomicU32>) -> Self {
        Self { allowance, buckets: Buckets::new(Instant::now()), instances }
    }

    /// Each of several instances grants its share: none asks another before it answers.
    fn share(&self, rate: Rate) -> Rate {
        rate.share(NonZeroU32::new(self.instances.load(Ordering::Relaxed)).unwrap_or(NonZeroU32::MIN))
    }

    /// `v2` is the present limit of the listing that retires: what a key has, and an address half of it.
    fn rate(&self, key: Option<&ApiKey>, family: Family, v2: NonZeroU32) -> Rate {
        let per_minute = |count| Rate::new(count, Window::Minute);
        let rate = match (key, family) {
            (Some(key), family) => key.limits.rate(family),
            (None, Family::Quotes) => per_minute(self.allowance.quotes_per_minute),
            (None, Family::Requests | Family::RequestsV3 | Family::TransactionStatus | Family::Others) => {
                per_minute(self.allowance.others_per_minute)
            }
        };
        if family != Family::Requests {
            return rate;
        }
        let step = v2.get() / if key.is_some() { 1 } else { 2 };
        let step = per_minute(NonZeroU32::new(step).unwrap_or(NonZeroU32::MIN));
        let in_a_minute = |rate: Rate| u64::from(rate.count.get()) * 60 / rate.window.duration().as_secs();
        if in_a_minute(rate) < in_a_minute(step) { rate } else { step }
    }

    fn wrong_keys(&self) -> Rate {
        self.share(Rate::new(self.allowance.wrong_keys_per_minute, Window::Minute))
    }

    /// Checks that an address may show one more key that is not known.
    pub fn check_wrong_keys(&self, client: IpAddr, now: Instant) -> Result<(), ApiError> {
        let bucket = (Who::Address(client), What::WrongKeys);
        let peeked = self.buckets.peek(bucket, self.wrong_keys(), now);
        peeked.map(drop).map_err(|empty| ApiError::TooManyWrongKeys { retry_after_secs: whole_secs(empty.wait).max(1) })
    }

    pub fn count_wrong_key(&self, client: IpAddr, now: Instant) {
        // The bucket may have been emptied meanwhile, which is as good.
        let _ = self.buckets.take((Who::Address(client), What::WrongKeys), self.wrong_keys(), now);
    }

    /// A refusal of whoever shows a wrong key, with what is left to it: it is the allowance of wrong keys that counts.
    fn refused(&self, error: ApiError, client: IpAddr, family: Family, now: Instant) -> Response {
        let rate = self.wrong_keys();
        let left = match self.buckets.peek((Who::Address(client), What::WrongKeys), rate, now) {
            // Looking says how many would be left after one more.
            Ok(taken) => Taken { left: taken.left.saturating_add(1), full_in: taken.full_in },
            Err(empty) => Taken { left: 0, full_in: empty.full_in },
        };
        with_headers(error.into_response(), family, rate, left)
    }
}

fn whole_secs(duration: Duration) -> u64 {
    duration.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX)
}

/// Finds out who calls, counts the call, and turns it away where there were too many.
pub(crate) async fn admit(app: &App, mut request: Request, next: Next) -> Response {
    let now = app.now();
    if retirement::is_about(request.uri().path()) && app.retirement.is_over(now) {
        return ApiError::Retired { to: app.retirement.successor() }.into_response();
    }
    if let Some(acting) = request.extensions().get::<Acting>() {
        let caller = Caller::from(acting);
        request.extensions_mut().insert(caller);
        return idempotency::once(app, request, next).await;
    }
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    let proxies = app.limits.as_deref().map_or(&[][..], |limits| &limits.allowance.trusted_proxies);
    let client = peer.map(|peer| network::client(peer, request.headers(), proxies));
    if let Some(client) = client {
        request.extensions_mut().insert(Client(client));
    }
    let caller = match identify(app, request.headers(), client).await {
        Ok(caller) => caller,
        Err(error) => {
            let family = family(request.uri().path());
            let error = match error {
                ApiError::TooManyWrongKeys { .. } if family == Family::Requests => {
                    too_many_of_v2("too many calls with keys that are not valid", &app.retirement)
                }
                error => error,
            };
            return match app.limits.as_deref().zip(client) {
                Some((limits, client)) => limits.refused(error, client, family, Instant::now()),
                None => error.into_response(),
            };
        }
    };
    let who = caller.key().map(|key| Who::Key(key.id)).or(client.map(Who::Address));
    let (Some(limits), Some(who)) = (app.limits.as_deref(), who) else {
        if let Some(key) = caller.key() {
            app.usage.count(key.id, family(request.uri().path()), false);
        }
        request.extensions_mut().insert(caller);
        return idempotency::once(app, request, next).await;
    };
    let family = family(request.uri().path());
    let rate = limits.share(limits.rate(caller.key(), family, app.retirement.per_minute(now)));
    request.extensions_mut().insert::<Caller>(caller);
    let taken = limits.buckets.take((who, What::Calls(family)), rate, Instant::now());
    if let Who::Key(key) = who {
        app.usage.count(key, family, taken.is_err());
    }
    match taken {
        Ok(taken) => with_headers(idempotency::once(app, request, next).await, family, rate, taken),
        Err(empty) => turned_away(&app.retirement, family, rate, empty),
    }
}

fn too_many_of_v2(problem: &'static str, retirement: &Retirement) -> ApiError {
    ApiError::TooManyOfV2 { problem, to: retirement.successor() }
}

fn turned_away(retirement: &Retirement, family: Family, rate: Rate, empty: Empty) -> Response {
    let retry_after_secs = whole_secs(empty.wait).max(1);
    let error = match family {
        Family::Requests => too_many_of_v2("too many requests", retirement),
        Family::Quotes | Family::RequestsV3 | Family::TransactionStatus | Family::Others => {
            ApiError::TooMany { retry_after_secs }
        }
    };
    with_headers(error.into_response(), family, rate, Taken { left: 0, full_in: empty.full_in })
}

fn with_headers(mut response: Response, family: Family, rate: Rate, taken: Taken) -> Response {
    if family == Family::Requests {
        return response;
    }
    let headers = response.headers_mut();
    headers.insert("ratelimit-limit", HeaderValue::from(rate.count.get()));
    headers.insert("ratelimit-remaining", HeaderValue::from(taken.left));
    headers.insert("ratelimit-reset", HeaderValue::from(whole_secs(taken.full_in)));
    response
}

#[cfg(test)]
mod tests {
    use domain::api_key::KeyLimits;
    use domain::time::Timestamp;

    use super::*;
    use crate::retirement::Schedule;

    fn limits(instances: u32) -> Limits {
        let count = |n| NonZeroU32::new(n).unwrap();
        let allowance = Allowance {
            quotes_per_minute: count(25),
            others_per_minute: count(100),
            wrong_keys_per_minute: count(10),
            trusted_proxies: Vec::new(),
        };
        Limits::new(allowance, Arc::new(AtomicU32::new(instances)))
    }

    fn key(limits: KeyLimits) -> ApiKey {
        let at = Timestamp::from_millis(0);
        let (id, name) = (ApiKeyId::new([1; 10]), "app".to_owned());
        ApiKey {
            id,
            name,
            wallet: None,
            limits,
            may_force_refund: false,
            created_at: at,
            rotated_at: None,
            revoked_at: None,
        }
    }

    #[test]
    fn routes_fall_into_families() {
        for (path, expected) in [
            ("/quote/v2", Family::Quotes),
            ("/quote", Family::Quotes),
            ("/quotes", Family::Others),
            ("/price", Family::Quotes),
            ("/requests/v2", Family::Requests),
            ("/requests/v3", Family::RequestsV3),
            ("/requests/v3.csv", Family::RequestsV3),
            ("/requests/v3/stream", Family::RequestsV3),
            ("/requests/0x12/signature", Family::Others),
            ("/transactions/status", Family::TransactionStatus),
            ("/transactions/index", Family::Others),
            ("/fast-fill", Family::Others),
            ("/nowhere", Family::Others),
        ] {
            assert_eq!(family(path), expected, "{path}");
        }
    }

    #[test]
    fn a_key_gives_more_than_none_and_the_older_listing_less_every_month() {
        let limits = limits(1);
        let (plain, elevated) = (key(KeyLimits::default()), key(KeyLimits::new(true)));
        let count = |count| NonZeroU32::new(count).unwrap();
        let rate = |key, family, v2| limits.rate(key, family, count(v2)).to_string();
        assert_eq!(rate(None, Family::Quotes, 1), "25/min");
        assert_eq!(rate(None, Family::Others, 1), "100/min");
        assert_eq!(rate(Some(&plain), Family::Quotes, 1), "50/min");
        assert_eq!(rate(Some(&elevated), Family::Quotes, 1), "10/s");
        for (step, with_key, without) in [
            (1_000, "200/min", "100/min"),
            (200, "200/min", "100/min"),
            (150, "150/min", "75/min"),
            (20, "20/min", "10/min"),
            (1, "1/min", "1/min"),
        ] {
            assert_eq!(rate(Some(&plain), Family::Requests, step), with_key, "{step}");
            assert_eq!(rate(None, Family::Requests, step), without, "{step}");
            assert_eq!(rate(Some(&plain), Family::RequestsV3, step), "200/min");
        }
        assert_eq!(rate(Some(&elevated), Family::Requests, 150), "150/min", "nobody is spared the cuts");
    }

    #[test]
    fn the_older_listing_turns_callers_away_in_words_of_its_own() {
        let retirement = Retirement::new(Schedule::default(), "https://api.example", None).unwrap();
        let empty = Empty { wait: Duration::from_secs(3), full_in: Duration::from_secs(60) };
        let rate = Rate::new(NonZeroU32::MIN, Window::Minute);
        for (family, speaks) in [(Family::Requests, false), (Family::RequestsV3, true)] {
            let answer = turned_away(&retirement, family, rate, empty);
            assert_eq!(answer.status(), 429);
            for header in ["retry-after", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"] {
                assert_eq!(answer.headers().contains_key(header), speaks, "{family:?} {header}");
            }
        }
    }

    #[test]
    fn an_address_may_show_few_wrong_keys() {
        let (limits, now) = (limits(2), Instant::now());
        let address = |last| IpAddr::from([10, 0, 0, last]);
        // Two instances share ten.
        for _ in 0..5 {
            limits.check_wrong_keys(address(1), now).unwrap();
            limits.count_wrong_key(address(1), now);
        }
        assert!(limits.check_wrong_keys(address(1), now).is_err());
        assert!(limits.check_wrong_keys(address(2), now).is_ok());
        for (last, left) in [(1, "0"), (2, "5")] {
            let answer = limits.refused(ApiError::WrongKey, address(last), Family::Quotes, now);
            assert_eq!(answer.status(), 401);
            assert_eq!(answer.headers()["ratelimit-limit"], "5");
            assert_eq!(answer.headers()["ratelimit-remaining"], left);
            assert!(answer.headers().contains_key("ratelimit-reset"));
        }
        let error = limits.check_wrong_keys(address(1), now).unwrap_err();
        let answer = limits.refused(error, address(1), Family::Quotes, now);
        assert_eq!((answer.status().as_u16(), &answer.headers()["ratelimit-remaining"]), (429, &"0".parse().unwrap()));
        assert!(answer.headers().contains_key("retry-after"));
        assert!(limits.check_wrong_keys(address(1), now + Duration::from_secs(12)).is_ok());
    }
}
