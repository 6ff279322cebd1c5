//! Where a call comes from: the address behind trusted proxies, as far as an address tells clients apart.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::HeaderMap;

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

/// The client behind a connection. Only a proxy of ours may speak for somebody else, and the last address it did not add
/// itself is the one it saw.
pub(crate) fn client(peer: IpAddr, headers: &HeaderMap, trusted_proxies: &[Network]) -> IpAddr {
    let trusted = |address: IpAddr| trusted_proxies.iter().any(|network| network.contains(address));
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

/// The client at the other end of a connection, as far as an address tells clients apart.
pub(crate) fn client_of(peer: IpAddr) -> IpAddr {
    bucketed(unmapped(peer))
}

/// A listener for both families sees IPv4 clients in IPv6 clothes.
pub(crate) fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
    }
}

/// The holder of a /64 holds all of its addresses.
fn bucketed(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6) >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn proxies(texts: &[&str]) -> Vec<Network> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
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
        for (trusted, peer, header, expected) in [
            (vec![], "1.2.3.4", &header, "1.2.3.4"),
            (vec!["1.2.3.0/24"], "1.2.3.4", &header, "9.9.9.9"),
            (vec!["1.2.3.0/24", "9.9.9.9"], "1.2.3.4", &header, "6.6.6.6"),
            (vec!["1.2.3.0/24"], "::ffff:1.2.3.4", &header, "9.9.9.9"),
            (vec!["1.2.3.4"], "1.2.3.4", &forwarded("not an address"), "1.2.3.4"),
        ] {
            assert_eq!(client(ip(peer), header, &proxies(&trusted)), ip(expected), "{peer} with {trusted:?}");
        }
    }

    #[test]
    fn an_ipv6_client_is_its_prefix() {
        assert_eq!(client(ip("2001:db8:1:2:aaaa::1"), &HeaderMap::new(), &[]), ip("2001:db8:1:2::"));
        assert_eq!(client(ip("::ffff:1.2.3.4"), &HeaderMap::new(), &[]), ip("1.2.3.4"));
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
