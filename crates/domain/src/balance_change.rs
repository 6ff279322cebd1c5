//! The balances that a transaction changed, added up by holder and currency.

use alloy_primitives::Address;

use crate::money::{Amount, OutOfRange, Signed};

/// One holder's balance of one currency. Above zero it has grown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceChange {
    pub holder: Address,
    /// Zero for the native currency.
    pub currency: Address,
    pub change: Signed,
}

/// Movements of money within one transaction, summed as they come.
#[derive(Clone, Debug, Default)]
pub struct BalanceChanges(Vec<BalanceChange>);

/// Anybody may write a token that logs a thousand transfers: no more balances than this are kept.
pub const MAX_BALANCE_CHANGES: usize = 64;

impl BalanceChanges {
    /// Money of one currency from one holder to another.
    pub fn moved(&mut self, currency: Address, from: Address, to: Address, amount: Amount) -> Result<(), OutOfRange> {
        self.add(currency, from, Signed::reward(amount))?;
        self.add(currency, to, Signed::cost(amount))
    }

    pub fn add(&mut self, currency: Address, holder: Address, change: Signed) -> Result<(), OutOfRange> {
        let known = self.0.iter_mut().find(|it| it.holder == holder && it.currency == currency);
        if let Some(known) = known {
            known.change = known.change.checked_add(change)?;
        } else if self.0.len() < MAX_BALANCE_CHANGES {
            self.0.push(BalanceChange { holder, currency, change });
        }
        Ok(())
    }

    /// The balances that are other than before, in the order of their first movement. Nobody holds what was minted or
    /// burnt.
    pub fn ended(self) -> Vec<BalanceChange> {
        let counts = |it: &BalanceChange| it.change != Signed::ZERO && (!it.holder.is_zero() || it.currency.is_zero());
        self.0.into_iter().filter(counts).collect()
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::U256;

    use super::*;

    const TOKEN: Address = Address::repeat_byte(9);

    fn who(n: u8) -> Address {
        Address::repeat_byte(n)
    }

    fn units(n: u64) -> Amount {
        Amount::new(U256::from(n))
    }

    #[test]
    fn what_passes_through_changes_nothing() {
        let mut changes = BalanceChanges::default();
        changes.moved(TOKEN, who(1), who(2), units(100)).unwrap();
        changes.moved(TOKEN, who(2), who(3), units(100)).unwrap();
        changes.moved(Address::ZERO, who(1), who(3), units(7)).unwrap();
        changes.moved(TOKEN, Address::ZERO, who(4), units(5)).unwrap();
        let change = |holder, currency, change| BalanceChange { holder, currency, change };
        assert_eq!(
            changes.ended(),
            [
                change(who(1), TOKEN, Signed::reward(units(100))),
                change(who(3), TOKEN, Signed::cost(units(100))),
                change(who(1), Address::ZERO, Signed::reward(units(7))),
                change(who(3), Address::ZERO, Signed::cost(units(7))),
                change(who(4), TOKEN, Signed::cost(units(5))),
            ]
        );
    }

    #[test]
    fn a_flood_of_transfers_is_bounded() {
        let mut changes = BalanceChanges::default();
        for n in 0..1_000u64 {
            let mut holder = [0; 20];
            holder[12..].copy_from_slice(&(n + 1).to_be_bytes());
            changes.moved(TOKEN, who(1), Address::from(holder), units(1)).unwrap();
        }
        assert_eq!(changes.ended().len(), MAX_BALANCE_CHANGES);
    }
}
