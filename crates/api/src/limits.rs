//! How often an address may call: a token bucket per client and kind of route, burst one window.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};

use crate::App;
use crate::error::ApiError;

type Buckets = RateLimiter<IpAddr, DashMapStateStore<IpAddr>, DefaultClock, StateInformationMiddleware>;

/// Buckets of clients that have been quiet for a window are dropped when there are more than this.
const MOST_CLIENTS: usize = 100_000;

/// An address and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 32),
            IpAddr::V6(v6) => (u128::from(v6), 128),
        };
        let ((ours, width), (theirs, other)) = (bits(self.address), bits(address));
        width == other && (self.prefix == 0 || (ours ^ theirs) >> (128 - u32::from(self.prefix)) == 0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an IP address, or one with a prefix length such as 10.0.0.0/8")]
pub struct NotANetwork;

impl std::str::FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| NotANetwork)?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(width), str::parse).map_err(|_| NotANetwork)?;
        if prefix > width { Err(NotANetwork) } else { Ok(Self { address, prefix }) }
    }
}

#[derive(Debug)]
pub struct Limits {
    quotes: Bucket,
    others: Bucket,
    trusted_proxies: Vec<Network>,
}

#[derive(Debug)]
struct Bucket {
    per_minute: NonZeroU32,
    buckets: Buckets,
    swept: Mutex<Instant>,
}

impl Bucket {
    fn new(per_minute: NonZeroU32) -> Self {
        let buckets = RateLimiter::dashmap(Quota::per_minute(per_minute)).with_middleware();
        Self { per_minute, buckets, swept: Mutex::new(Instant::now()) }
    }

    /// Forgets quiet clients, at most once a second: the sweep looks at all of them.
    fn sweep(&self) {
        if self.buckets.len() <= MOST_CLIENTS {
            return;
        }
        let Ok(mut swept) = self.swept.try_lock() else { return };
        if swept.elapsed() > Duration::from_secs(1) {
            self.buckets.retain_recent();
            *swept = Instant::now();
        }
    }
}

impl Limits {
    pub fn new(quotes_per_minute: NonZeroU32, others_per_minute: NonZeroU32, trusted_proxies: Vec<Network>) -> Self {
        Self { quotes: Bucket::new(quotes_per_minute), others: Bucket::new(others_per_minute), trusted_proxies }
    }

    /// The client behind a connection. Only a proxy of ours may speak for somebody else, and the last address it did
    /// not add itself is the one it saw.
    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let trusted = |address: IpAddr| self.trusted_proxies.iter().any(|network| network.contains(address));
        let mut client = unmapped(peer);
        let forwarded = headers.get_all("x-forwarded-for");
        let mut hops: Vec<&str> =
            forwarded.iter().filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(',')).collect();
        while trusted(client) {
            let Some(hop) = hops.pop() else { break };
            let Ok(address) = hop.trim().parse() else { break };
            client = unmapped(address);
        }
        bucketed(client)
    }
}

/// A listener for both families sees IPv4 clients in IPv6 clothes.
fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
    }
}

/// Whoever holds a /64 holds all of its addresses.
fn bucketed(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6) >> 64 << 64)),
    }
}

/// Counts the call, and turns it away where there were too many.
pub async fn limit(State(app): State<App>, request: Request, next: Next) -> Response {
    let Some(limits) = &app.limits else { return next.run(request).await };
    let peer = request.extensions().get::<ConnectInfo<std::net::SocketAddr>>().map(|info| info.0.ip());
    let Some(peer) = peer else { return next.run(request).await };
    let client = limits.client(peer, request.headers());
    let path = request.uri().path();
    let is_quote = path.starts_with("/quote") || path == "/price";
    let bucket = if is_quote { &limits.quotes } else { &limits.others };
    bucket.sweep();
    let (mut response, left) = match bucket.buckets.check_key(&client) {
        Ok(snapshot) => (next.run(request).await, snapshot.remaining_burst_capacity()),
        Err(not_until) => {
            let wait = not_until.wait_time_from(DefaultClock::default().now());
            let retry_after_secs = wait.as_secs().saturating_add(1);
            (ApiError::TooMany { retry_after_secs }.into_response(), 0)
        }
    };
    let headers = response.headers_mut();
    headers.insert("ratelimit-limit", HeaderValue::from(bucket.per_minute.get()));
    headers.insert("ratelimit-remaining", HeaderValue::from(left));
    headers.insert("ratelimit-reset", HeaderValue::from(60));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(proxies: &[&str]) -> Limits {
        let proxies = proxies.iter().map(|text| text.parse().unwrap()).collect();
        Limits::new(NonZeroU32::MIN, NonZeroU32::MIN, proxies)
    }

    fn forwarded(text: &'static str) -> HeaderMap {
        HeaderMap::from_iter([("x-forwarded-for".parse().unwrap(), HeaderValue::from_static(text))])
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn only_a_trusted_proxy_speaks_for_somebody_else() {
        let header = forwarded("6.6.6.6, 9.9.9.9");
        assert_eq!(limits(&[]).client(ip("1.2.3.4"), &header), ip("1.2.3.4"));
        assert_eq!(limits(&["1.2.3.0/24"]).client(ip("1.2.3.4"), &header), ip("9.9.9.9"));
        assert_eq!(limits(&["1.2.3.0/24", "9.9.9.9"]).client(ip("1.2.3.4"), &header), ip("6.6.6.6"));
        assert_eq!(limits(&["1.2.3.0/24"]).client(ip("::ffff:1.2.3.4"), &header), ip("9.9.9.9"));
        assert_eq!(limits(&["1.2.3.4"]).client(ip("1.2.3.4"), &forwarded("not an address")), ip("1.2.3.4"));
    }

    #[test]
    fn an_ipv6_client_is_its_prefix() {
        let client = limits(&[]).client(ip("2001:db8:1:2:aaaa::1"), &HeaderMap::new());
        assert_eq!(client, ip("2001:db8:1:2::"));
        assert_eq!(limits(&[]).client(ip("::ffff:1.2.3.4"), &HeaderMap::new()), ip("1.2.3.4"));
    }

    #[test]
    fn networks_are_read_strictly() {
        for bad in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/x", "host"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
        assert!("0.0.0.0/0".parse::<Network>().unwrap().contains(ip("8.8.8.8")));
        assert!(!"0.0.0.0/0".parse::<Network>().unwrap().contains(ip("::1")));
    }
}
