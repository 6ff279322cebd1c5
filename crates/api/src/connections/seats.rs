//! How many connections there are, in all and from each address. One address never has all of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use metrics::gauge;

use super::ConnectionLimits;
use crate::network;

#[derive(Clone, Debug)]
pub(super) struct Seats(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: ConnectionLimits,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Addresses with a connection, and no others.
    by_address: HashMap<IpAddr, usize>,
}

/// One connection's place. Dropped, it is free.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Seats,
    address: IpAddr,
}

impl Seats {
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        Self(Arc::new(Inner { limits, taken: Mutex::default() }))
    }

    /// None where there are too many.
    pub(super) fn take(&self, peer: IpAddr) -> Option<Seat> {
        let address = network::client_of(peer);
        let ConnectionLimits { most, most_per_address, trusted_proxies, .. } = &self.0.limits;
        let proxy = trusted_proxies.iter().any(|network| network.contains(network::unmapped(peer)));
        let mut taken = self.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let here = taken.by_address.get(&address).copied().unwrap_or_default();
        if taken.all >= *most || (!proxy && here >= *most_per_address) {
            return None;
        }
        taken.all += 1;
        taken.by_address.insert(address, here + 1);
        gauge!("causeway_connections").increment(1);
        Some(Seat { seats: self.clone(), address })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all = taken.all.saturating_sub(1);
        let left = taken.by_address.get_mut(&self.address).map(|count| {
            *count = count.saturating_sub(1);
            *count
        });
        if left == Some(0) {
            taken.by_address.remove(&self.address);
        }
        gauge!("causeway_connections").decrement(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(most: usize, most_per_address: usize, proxy: &str) -> Seats {
        let (trusted_proxies, header_timeout) = (vec![proxy.parse().unwrap()], std::time::Duration::from_secs(1));
        let (idle_timeout, write_timeout) = (header_timeout, header_timeout);
        Seats::new(ConnectionLimits {
            most,
            most_per_address,
            trusted_proxies,
            header_timeout,
            idle_timeout,
            write_timeout,
        })
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_address_leaves_room_for_others() {
        let seats = seats(4, 2, "10.0.0.0/8");
        let first: Vec<Seat> = (0..2).map(|_| seats.take(ip("1.2.3.4")).unwrap()).collect();
        assert!(seats.take(ip("1.2.3.4")).is_none() && seats.take(ip("::ffff:1.2.3.4")).is_none());
        let other = seats.take(ip("1.2.3.5")).unwrap();
        drop(first);
        assert!(seats.take(ip("1.2.3.4")).is_some());
        drop(other);
        assert!(seats.0.taken.lock().unwrap().by_address.is_empty(), "nothing is kept of who has gone");
    }

    #[test]
    fn a_network_of_one_holder_counts_as_one() {
        let seats = seats(4, 1, "10.0.0.0/8");
        let _first = seats.take(ip("2001:db8:1:2::1")).unwrap();
        assert!(seats.take(ip("2001:db8:1:2:ffff::9")).is_none());
        assert!(seats.take(ip("2001:db8:1:3::1")).is_some());
    }

    #[test]
    fn a_proxy_has_more_than_one_address_and_not_more_than_all() {
        let seats = seats(3, 1, "10.0.0.0/8");
        let all: Vec<Seat> = (0..3).map(|_| seats.take(ip("10.1.1.1")).unwrap()).collect();
        assert!(seats.take(ip("10.1.1.1")).is_none() && seats.take(ip("1.2.3.4")).is_none());
        drop(all);
        assert!(seats.take(ip("1.2.3.4")).is_some());
    }
}
