//! How often an account may call: its pages take nothing from the limits of its keys, so they have one of their own.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use alloy_primitives::Address;

/// An account may be this far ahead: 240 pages at once, and as many in every minute.
const ALLOWANCE: Duration = Duration::from_secs(60);
const PAGE_COST: Duration = Duration::from_millis(250);
/// Forms weigh more than pages: some quote or write.
const FORM_WEIGHT: u32 = 5;
/// Accounts that are remembered. Beyond them, those with a full allowance are forgotten, and else no new one is served.
const MAX_ACCOUNTS: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<HashMap<Address, Used>>);

/// The moment at which the allowance of an account is full again.
#[derive(Clone, Copy, Debug)]
struct Used {
    full_at: Instant,
}

impl Rates {
    /// Takes a call of an account, if it has one left.
    pub(crate) fn admit(&self, account: Address, is_form: bool, now: Instant) -> bool {
        let cost = if is_form { PAGE_COST * FORM_WEIGHT } else { PAGE_COST };
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() >= MAX_ACCOUNTS && !used.contains_key(&account) {
            used.retain(|_, it| it.full_at > now);
            if used.len() >= MAX_ACCOUNTS {
                return false;
            }
        }
        let entry = used.entry(account).or_insert(Used { full_at: now });
        let full_at = entry.full_at.max(now) + cost;
        if full_at > now + ALLOWANCE {
            return false;
        }
        entry.full_at = full_at;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_so_many_calls_and_gets_them_back() {
        let (rates, now) = (Rates::default(), Instant::now());
        let (one, other) = (Address::repeat_byte(1), Address::repeat_byte(2));
        assert_eq!((0..300).filter(|_| rates.admit(one, false, now)).count(), 240);
        assert!(!rates.admit(one, true, now) && rates.admit(other, true, now));
        assert!(!rates.admit(one, false, now + Duration::from_millis(249)));
        assert!(rates.admit(one, false, now + Duration::from_millis(250)));
        assert_eq!((0..300).filter(|_| rates.admit(one, true, now + Duration::from_secs(3_600))).count(), 48);
    }
}
