//! Addresses that a webhook is never posted to: everything that is not a public host of the internet.
//!
//! An address is judged by what it reaches: an IPv4 address inside an IPv6 one is judged as the IPv4 address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The reason why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the address is a loopback address")]
    Loopback,
    #[error("the address is in a private network")]
    Private,
    #[error("the address is link-local or a metadata service")]
    LinkLocal,
    #[error("the address is not a public host")]
    Reserved,
}

/// The addresses that may be posted to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Loopback is allowed. Nothing else that is refused ever is.
    pub allow_local: bool,
}

impl Policy {
    pub fn check(self, address: IpAddr) -> Result<(), Refusal> {
        match judge(address) {
            Some(Refusal::Loopback) if self.allow_local => Ok(()),
            Some(refusal) => Err(refusal),
            None => Ok(()),
        }
    }
}

/// IPv4 ranges that are no public hosts: first address, length of the prefix, reason.
const IPV4: [(Ipv4Addr, u32, Refusal); 17] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, Refusal::Reserved),
    (Ipv4Addr::new(10, 0, 0, 0), 8, Refusal::Private),
    // Shared by carriers; a metadata service of one cloud is in it.
    (Ipv4Addr::new(100, 64, 0, 0), 10, Refusal::Private),
    (Ipv4Addr::new(127, 0, 0, 0), 8, Refusal::Loopback),
    // The host side of every virtual machine of one cloud, at a public address.
    (Ipv4Addr::new(168, 63, 129, 16), 32, Refusal::LinkLocal),
    (Ipv4Addr::new(169, 254, 0, 0), 16, Refusal::LinkLocal),
    (Ipv4Addr::new(172, 16, 0, 0), 12, Refusal::Private),
    (Ipv4Addr::new(192, 0, 0, 0), 24, Refusal::Reserved),
    (Ipv4Addr::new(192, 0, 2, 0), 24, Refusal::Reserved),
    (Ipv4Addr::new(192, 31, 196, 0), 24, Refusal::Reserved),
    (Ipv4Addr::new(192, 88, 99, 0), 24, Refusal::Reserved),
    (Ipv4Addr::new(192, 168, 0, 0), 16, Refusal::Private),
    (Ipv4Addr::new(198, 18, 0, 0), 15, Refusal::Private),
    (Ipv4Addr::new(198, 51, 100, 0), 24, Refusal::Reserved),
    (Ipv4Addr::new(203, 0, 113, 0), 24, Refusal::Reserved),
    (Ipv4Addr::new(224, 0, 0, 0), 4, Refusal::Reserved),
    (Ipv4Addr::new(240, 0, 0, 0), 4, Refusal::Reserved),
];

/// IPv6 ranges inside the public one that are no public hosts.
const IPV6: [(Ipv6Addr, u32); 4] = [
    // Protocol assignments, tunnels among them.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

fn judge(address: IpAddr) -> Option<Refusal> {
    match address {
        IpAddr::V4(address) => judge_v4(address),
        IpAddr::V6(address) => judge_v6(address),
    }
}

fn judge_v4(address: Ipv4Addr) -> Option<Refusal> {
    let within = |(first, length, _): &&(Ipv4Addr, u32, Refusal)| {
        let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        address.to_bits() & mask == first.to_bits()
    };
    IPV4.iter().find(within).map(|(.., refusal)| *refusal)
}

fn judge_v6(address: Ipv6Addr) -> Option<Refusal> {
    if address.is_loopback() {
        return Some(Refusal::Loopback);
    }
    if let Some(inner) = embedded(address) {
        return judge_v4(inner).or(Some(Refusal::Reserved).filter(|_| !is_reached_as_itself(address)));
    }
    let segments = address.segments();
    match segments[0] {
        first if first & 0xfe00 == 0xfc00 => return Some(Refusal::Private),
        // Link-local, and site-local as it once was.
        first if first & 0xff80 == 0xfe80 => return Some(Refusal::LinkLocal),
        // Only an eighth of all addresses is given to public hosts.
        first if first & 0xe000 != 0x2000 => return Some(Refusal::Reserved),
        _ => {}
    }
    let within = |(first, length): &(Ipv6Addr, u32)| {
        let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
        address.to_bits() & mask == first.to_bits()
    };
    IPV6.iter().any(within).then_some(Refusal::Reserved)
}

/// The IPv4 address that an IPv6 address stands for: mapped, compatible, translated, NAT64 and 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let last = || Ipv4Addr::from_bits(u32::from(segments[6]) << 16 | u32::from(segments[7]));
    match segments {
        [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0, 0, 0, 0, 0, 0, ..] => Some(last()),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(last()),
        [0x2002, high, low, ..] => Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))),
        _ => None,
    }
}

/// A mapped address is how a socket shows an IPv4 address. The other forms pass through a gateway that is nobody's to
/// trust.
fn is_reached_as_itself(address: Ipv6Addr) -> bool {
    address.to_ipv4_mapped().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_hosts_are_posted_to() {
        use Refusal::*;
        for (text, expected) in [
            ("8.8.8.8", None),
            ("1.1.1.1", None),
            ("100.63.255.255", None),
            ("100.128.0.1", None),
            ("172.15.255.255", None),
            ("172.32.0.1", None),
            ("192.167.255.255", None),
            ("192.169.0.1", None),
            ("223.255.255.255", None),
            ("2606:4700:4700::1111", None),
            ("2a00:1450:4001:80b::200e", None),
            ("::ffff:8.8.8.8", None),
            ("0.0.0.0", Some(Reserved)),
            ("0.1.2.3", Some(Reserved)),
            ("10.0.0.1", Some(Private)),
            ("100.64.0.1", Some(Private)),
            ("100.100.100.200", Some(Private)),
            ("127.0.0.1", Some(Loopback)),
            ("127.255.255.254", Some(Loopback)),
            ("168.63.129.16", Some(LinkLocal)),
            ("168.63.129.17", None),
            ("169.254.169.254", Some(LinkLocal)),
            ("172.16.0.1", Some(Private)),
            ("172.31.255.255", Some(Private)),
            ("192.0.0.192", Some(Reserved)),
            ("192.0.2.1", Some(Reserved)),
            ("192.88.99.1", Some(Reserved)),
            ("192.168.1.1", Some(Private)),
            ("198.19.255.255", Some(Private)),
            ("198.51.100.7", Some(Reserved)),
            ("203.0.113.7", Some(Reserved)),
            ("224.0.0.1", Some(Reserved)),
            ("239.255.255.255", Some(Reserved)),
            ("240.0.0.1", Some(Reserved)),
            ("255.255.255.255", Some(Reserved)),
            ("::", Some(Reserved)),
            ("::1", Some(Loopback)),
            ("::127.0.0.1", Some(Loopback)),
            ("::8.8.8.8", Some(Reserved)),
            ("::ffff:127.0.0.1", Some(Loopback)),
            ("::ffff:7f00:1", Some(Loopback)),
            ("::ffff:10.0.0.1", Some(Private)),
            ("::ffff:169.254.169.254", Some(LinkLocal)),
            ("::ffff:0:127.0.0.1", Some(Loopback)),
            ("64:ff9b::127.0.0.1", Some(Loopback)),
            ("64:ff9b::10.0.0.1", Some(Private)),
            ("64:ff9b::8.8.8.8", Some(Reserved)),
            ("64:ff9b:1::1", Some(Reserved)),
            ("2002:7f00:1::", Some(Loopback)),
            ("2002:a00:1::1", Some(Private)),
            ("2002:808:808::1", Some(Reserved)),
            ("2001::1", Some(Reserved)),
            ("2001:db8::1", Some(Reserved)),
            ("3fff::1", Some(Reserved)),
            ("100::1", Some(Reserved)),
            ("5f00::1", Some(Reserved)),
            ("fc00::1", Some(Private)),
            ("fd00:ec2::254", Some(Private)),
            ("fe80::1", Some(LinkLocal)),
            ("fea9::1", Some(LinkLocal)),
            ("fec0::1", Some(LinkLocal)),
            ("ff02::1", Some(Reserved)),
            ("4000::1", Some(Reserved)),
        ] {
            assert_eq!(judge(text.parse().unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn the_switch_opens_loopback_and_nothing_else() {
        let local = Policy { allow_local: true };
        for open in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(local.check(open.parse().unwrap()), Ok(()), "{open}");
            assert_eq!(Policy::default().check(open.parse().unwrap()), Err(Refusal::Loopback), "{open}");
        }
        for closed in ["10.0.0.1", "169.254.169.254", "fe80::1", "0.0.0.0", "::", "192.168.0.1", "fd00:ec2::254"] {
            assert!(local.check(closed.parse().unwrap()).is_err(), "{closed}");
        }
    }
}
