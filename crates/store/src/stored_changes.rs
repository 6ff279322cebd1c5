//! The format of the balances that a transaction changed: a JSON list of address, currency and signed amount.

use alloy_primitives::Address;
use domain::balance_change::BalanceChange;
use domain::money::{Amount, Signed};

use crate::columns::unknown;
use crate::{Row, StoreError};

pub(crate) fn write(changes: &[BalanceChange]) -> String {
    let rows = changes.iter().map(|it| (it.holder, it.currency, it.change.digits().to_string()));
    serde_json::to_string(&rows.collect::<Vec<_>>()).expect("lists of text are JSON")
}

/// The changes in a column; none where it is null.
pub(crate) fn of(row: &Row, index: usize) -> Result<Vec<BalanceChange>, StoreError> {
    row.opt_text(index)?.map_or(Some(Vec::new()), read).ok_or(unknown(index, "balance changes"))
}

fn read(text: &str) -> Option<Vec<BalanceChange>> {
    let rows: Vec<(Address, Address, String)> = serde_json::from_str(text).ok()?;
    let change = |text: &str| match text.strip_prefix('-') {
        Some(size) => size.parse::<Amount>().ok().map(Signed::reward),
        None => text.parse::<Amount>().ok().map(Signed::cost),
    };
    rows.into_iter()
        .map(|(holder, currency, text)| Some(BalanceChange { holder, currency, change: change(&text)? }))
        .collect()
}

#[cfg(test)]
mod tests {
    use alloy_primitives::U256;

    use super::*;

    #[test]
    fn changes_read_back_with_their_sign() {
        let size = Amount::new(U256::MAX);
        let change =
            |change| BalanceChange { holder: Address::repeat_byte(1), currency: Address::repeat_byte(2), change };
        let changes = [change(Signed::cost(size)), change(Signed::reward(size)), change(Signed::ZERO)];
        assert_eq!(read(&write(&changes)).unwrap(), changes);
        assert_eq!(read("[]").unwrap(), []);
        for bad in ["", "{}", r#"[["0x1","0x2","3"]]"#, r#"[[1,2,3]]"#] {
            assert!(read(bad).is_none(), "{bad}");
        }
    }
}
