//! Relays: the gas that they burnt, beside what was charged for it.

use std::collections::BTreeMap;

use domain::ids::{ChainId, RequestId};
use domain::money::{Amount, UsdMicros};
use store::audit::{self, Relay};
use store::{deposits, requests};

use super::{Audit, Check};
use crate::error::SolverError;

const PAGE: i64 = 500;

/// The relays of a chain together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    count: u64,
    /// In the chain's native currency, and in dollars at the quoted prices.
    burnt: Amount,
    burnt_usd: i64,
    /// To app balances, in units of the ledger.
    charged: i64,
    /// In the quotes of deposits that came, with the gas of their fills.
    quoted: i64,
    /// Burnt by those that nobody has paid for.
    unpaid: i64,
}

impl Audit<'_, '_> {
    /// Checks that what was set aside for the gas of a relay was charged or freed when it ended, and notes how charges
    /// and gas compare: quotes are estimates, so that they differ is no fault.
    pub(super) fn relays(&mut self) -> Result<(), SolverError> {
        let mut check = Check::new("", "the gas of relays is charged as it was set aside");
        let mut sums: BTreeMap<ChainId, Sums> = BTreeMap::new();
        let (mut after, mut entries) = (RequestId([0; 32].into()), 0u64);
        loop {
            let page = audit::relays(self.tx, after, PAGE)?;
            let Some(last) = page.last().map(|relay| relay.request) else { break };
            for relay in page {
                check.compared += 1;
                entries += u64::from(relay.hold.as_ref().is_some_and(|hold| hold.charged.is_some()));
                for how in wrong(&relay) {
                    check.differs(format!("relay of request {}: {how}", relay.request));
                }
                self.add(sums.entry(relay.chain).or_default(), &relay)?;
            }
            after = last;
        }
        let written = audit::entries_of_relays(self.tx)?;
        if written != entries {
            check.differs(format!("{written} entries are of relays, and the relays give {entries}"));
        }
        for (chain, sums) in sums {
            let name = self.handle(chain).map_or_else(|| chain.to_string(), |handle| handle.chain.name.clone());
            check.notes.push(said(&name, &sums));
        }
        self.checks.push(check);
        Ok(())
    }

    fn add(&mut self, sums: &mut Sums, relay: &Relay) -> Result<(), SolverError> {
        sums.count += 1;
        let (Some(request), Some(handle)) = (requests::find(self.tx, relay.request)?, self.handle(relay.chain)) else {
            return Ok(());
        };
        let quote = &request.quote;
        let burnt = relay.payment.as_ref().and_then(|payment| payment.fee).unwrap_or(Amount::ZERO);
        let UsdMicros(burnt_usd) = quote.figures.prices.origin_native.usd_ceil(burnt, handle.chain.native.decimals)?;
        sums.burnt = sums.burnt.checked_add(burnt)?;
        sums.burnt_usd = sums.burnt_usd.saturating_add(burnt_usd);
        let charged = relay.hold.as_ref().map(|hold| hold.charged.map_or(0, |charged| charged.0));
        let quoted = match (charged, &quote.terms) {
            (None, Some(terms)) if deposits::is_paid_for(self.tx, request.order_id)? => {
                let currency = terms.deposit.address.packed().unwrap_or_default();
                Some(quote.deposit_worth(&handle.chain, currency, quote.figures.fees.fill_gas).0)
            }
            _ => None,
        };
        sums.charged = sums.charged.saturating_add(charged.unwrap_or(0));
        sums.quoted = sums.quoted.saturating_add(quoted.unwrap_or(0));
        if charged.is_none() && quoted.is_none() {
            sums.unpaid = sums.unpaid.saturating_add(burnt_usd);
        }
        Ok(())
    }
}

fn said(chain: &str, sums: &Sums) -> String {
    let dollars = |micros: i64| UsdMicros(micros).to_string();
    format!(
        "{chain}: {} relays burnt {} wei, {} dollars as quoted; {} dollars are charged to app balances, {} are in quotes with \
         the gas of fills, and {} nobody has paid for",
        sums.count,
        sums.burnt,
        dollars(sums.burnt_usd),
        dollars(sums.charged),
        dollars(sums.quoted),
        dollars(sums.unpaid)
    )
}

/// The ways in which the rows of a relay contradict each other.
fn wrong(relay: &Relay) -> Vec<String> {
    let mut wrong = Vec::new();
    let ended = relay.payment.as_ref().is_some_and(|payment| payment.ended);
    if relay.live && ended {
        wrong.push("it has ended, and counts as on its way".to_owned());
    }
    if relay.live && relay.payment.is_none() && !relay.due {
        wrong.push("it is on its way, and neither due nor a payment".to_owned());
    }
    let Some(hold) = &relay.hold else { return wrong };
    let over = ended || (relay.payment.is_none() && !relay.due);
    match (hold.state.as_str(), hold.charged) {
        ("open", None) if over => wrong.push(format!("it has ended, and its hold {} is open", hold.id)),
        ("open", None) | ("voided", None) => {}
        ("posted", Some(charged)) if charged <= hold.amount => {}
        (state, charged) => {
            let charged = charged.map_or("nothing".to_owned(), |charged| charged.0.to_string());
            wrong.push(format!("its hold {} of {} is {state}, and {charged} is charged", hold.id, hold.amount.0));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use domain::ledger::UsdcMicros;
    use store::audit::{RelayHold, RelayPayment};

    use super::*;

    fn relay(live: bool, ended: Option<bool>, hold: Option<(&str, Option<i64>)>) -> Relay {
        Relay {
            request: RequestId([1; 32].into()),
            chain: ChainId(1),
            live,
            due: false,
            payment: ended.map(|ended| RelayPayment { ended, fee: None }),
            hold: hold.map(|(state, charged)| RelayHold {
                id: "relay:1".to_owned(),
                state: state.to_owned(),
                amount: UsdcMicros(100),
                charged: charged.map(UsdcMicros),
            }),
        }
    }

    #[test]
    fn a_hold_ends_with_its_relay_and_is_spent_once() {
        for (name, relay, right) in [
            ("on its way", relay(true, Some(false), Some(("open", None))), true),
            ("in a block", relay(false, Some(false), Some(("open", None))), true),
            ("ended and charged", relay(false, Some(true), Some(("posted", Some(100)))), true),
            ("ended at no cost", relay(false, Some(true), Some(("voided", None))), true),
            ("never sent", relay(false, None, Some(("voided", None))), true),
            ("by its quote", relay(false, Some(true), None), true),
            ("ended, and still held", relay(false, Some(true), Some(("open", None))), false),
            ("never sent, and still held", relay(false, None, Some(("open", None))), false),
            ("spent on nothing", relay(false, Some(true), Some(("posted", None))), false),
            ("charged more than was held", relay(false, Some(true), Some(("posted", Some(101)))), false),
            ("charged and freed", relay(false, Some(true), Some(("voided", Some(1)))), false),
            ("ended, and on its way", relay(true, Some(true), None), false),
            ("nowhere", relay(true, None, None), false),
        ] {
            assert_eq!(wrong(&relay).is_empty(), right, "{name}: {:?}", wrong(&relay));
        }
    }
}
