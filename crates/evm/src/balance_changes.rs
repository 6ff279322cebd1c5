//! The balances that a transaction changed, as far as its receipt tells: the value it was sent with, transfers of
//! tokens, and native currency that our router or the wrapping token moved. Native currency that other contracts pass
//! on among themselves leaves no log, and is not shown.

use alloy::primitives::{Address, B256, U256, keccak256};
use alloy::rpc::types::Log;
use domain::balance_change::{BalanceChange, BalanceChanges};
use domain::money::{Amount, OutOfRange, Signed};

use crate::rpc::Receipt;
use crate::topics::{CALL_MADE, NATIVE_PAID, TRANSFER};

/// The contracts of a chain whose logs tell of native currency.
#[derive(Clone, Copy, Debug)]
pub struct NativeMovers {
    pub router: Address,
    pub wrapped: Option<Address>,
}

/// The transaction of a receipt.
#[derive(Clone, Copy, Debug)]
pub struct SentValue {
    pub from: Address,
    pub to: Option<Address>,
    pub value: U256,
}

/// Fees of inclusion are left out: they are told by themselves. A transaction that failed moved nothing.
pub fn balance_changes(receipt: &Receipt, sent: SentValue, movers: NativeMovers) -> Vec<BalanceChange> {
    if !receipt.success() {
        return Vec::new();
    }
    let mut changes = BalanceChanges::default();
    let mut read = || -> Result<(), OutOfRange> {
        if let Some(to) = sent.to.filter(|_| !sent.value.is_zero()) {
            changes.moved(Address::ZERO, sent.from, to, Amount::new(sent.value))?;
        }
        receipt.logs.iter().try_for_each(|log| add(&mut changes, log, movers))
    };
    // A token may log any number. One that no balance can hold says that none of them is to be believed.
    match read() {
        Ok(()) => changes.ended(),
        Err(OutOfRange) => Vec::new(),
    }
}

fn add(changes: &mut BalanceChanges, log: &Log, movers: NativeMovers) -> Result<(), OutOfRange> {
    let (topics, data) = (log.topics(), log.data().data.as_ref());
    let wraps = movers.wrapped == Some(log.address());
    match topics {
        [TRANSFER, from, to] => match word(data, 0).filter(|_| data.len() == 32) {
            Some(amount) => changes.moved(log.address(), holder(from), holder(to), amount),
            None => Ok(()),
        },
        [NATIVE_PAID] if log.address() == movers.router => native(changes, movers.router, data, 1),
        // The data of the call is between the two: address, place of the data, amount.
        [CALL_MADE] if log.address() == movers.router => native(changes, movers.router, data, 2),
        [topic, whose] if wraps && (*topic == wrapped() || *topic == unwrapped()) => {
            let Some(amount) = word(data, 0) else { return Ok(()) };
            let (token, whose) = (log.address(), holder(whose));
            if *topic == wrapped() {
                changes.moved(Address::ZERO, whose, token, amount)?;
                changes.add(token, whose, Signed::cost(amount))
            } else {
                changes.moved(Address::ZERO, token, whose, amount)?;
                changes.add(token, whose, Signed::reward(amount))
            }
        }
        _ => Ok(()),
    }
}

/// Native currency that the router paid: the recipient is the first word.
fn native(changes: &mut BalanceChanges, router: Address, data: &[u8], amount_at: usize) -> Result<(), OutOfRange> {
    let Some((to, amount)) = data.get(..32).map(B256::from_slice).zip(word(data, amount_at)) else { return Ok(()) };
    if amount.is_zero() {
        return Ok(());
    }
    changes.moved(Address::ZERO, router, holder(&to), amount)
}

fn holder(topic: &B256) -> Address {
    Address::from_word(*topic)
}

fn word(data: &[u8], at: usize) -> Option<Amount> {
    let start = at.checked_mul(32)?;
    let bytes = data.get(start..start.checked_add(32)?)?;
    Some(Amount::new(U256::from_be_slice(bytes)))
}

/// Of the wrapping token: `Deposit(address indexed whose, uint256 amount)`.
fn wrapped() -> B256 {
    keccak256("Deposit(address,uint256)")
}

/// Of the wrapping token: `Withdrawal(address indexed whose, uint256 amount)`.
fn unwrapped() -> B256 {
    keccak256("Withdrawal(address,uint256)")
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Bytes, LogData};
    use serde_json::json;

    use super::*;

    const USER: Address = Address::repeat_byte(1);
    const ROUTER: Address = Address::repeat_byte(2);
    const WRAPPED: Address = Address::repeat_byte(3);
    const TOKEN: Address = Address::repeat_byte(4);
    const SHOP: Address = Address::repeat_byte(5);

    fn log(address: Address, topics: &[B256], words: &[U256]) -> Log {
        let data: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes::<32>()).collect();
        let inner =
            alloy::primitives::Log { address, data: LogData::new_unchecked(topics.to_vec(), Bytes::from(data)) };
        Log { inner, ..Log::default() }
    }

    fn receipt(status: u8, logs: Vec<Log>) -> Receipt {
        let mut receipt: Receipt = serde_json::from_value(json!({
            "transactionHash": B256::ZERO, "blockHash": B256::ZERO, "blockNumber": "0x1", "transactionIndex": "0x0",
            "status": format!("{status:#x}"), "gasUsed": "0x5208", "effectiveGasPrice": "0x1", "logs": [],
        }))
        .unwrap();
        receipt.logs = logs;
        receipt
    }

    fn units(n: u64) -> U256 {
        U256::from(n)
    }

    fn of(status: u8, value: u64, logs: Vec<Log>) -> Vec<(Address, Address, String)> {
        let sent = SentValue { from: USER, to: Some(ROUTER), value: units(value) };
        let movers = NativeMovers { router: ROUTER, wrapped: Some(WRAPPED) };
        let changes = balance_changes(&receipt(status, logs), sent, movers);
        changes.into_iter().map(|it| (it.holder, it.currency, it.change.digits().to_string())).collect()
    }

    fn word(address: Address) -> U256 {
        U256::from_be_bytes(address.into_word().0)
    }

    #[test]
    fn native_currency_through_the_router_is_followed() {
        let logs = vec![
            log(WRAPPED, &[wrapped(), ROUTER.into_word()], &[units(60)]),
            log(WRAPPED, &[TRANSFER, ROUTER.into_word(), SHOP.into_word()], &[units(60)]),
            log(ROUTER, &[NATIVE_PAID], &[word(SHOP), units(30)]),
            log(ROUTER, &[CALL_MADE], &[word(TOKEN), units(96), units(10), units(0)]),
        ];
        let native = Address::ZERO;
        let change = |who, what, amount: &str| (who, what, amount.to_owned());
        assert_eq!(
            of(1, 100, logs),
            [
                change(USER, native, "-100"),
                change(WRAPPED, native, "60"),
                change(SHOP, WRAPPED, "60"),
                change(SHOP, native, "30"),
                change(TOKEN, native, "10"),
            ]
        );
    }

    #[test]
    fn logs_of_strangers_move_nothing() {
        let logs = vec![
            log(SHOP, &[NATIVE_PAID], &[word(SHOP), units(30)]),
            log(SHOP, &[wrapped(), SHOP.into_word()], &[units(60)]),
            // A collectible's transfer has its number among the topics.
            log(SHOP, &[TRANSFER, USER.into_word(), SHOP.into_word(), B256::ZERO], &[]),
        ];
        assert_eq!(of(1, 0, logs), []);
    }

    #[test]
    fn a_failed_transaction_changes_nothing() {
        assert_eq!(of(0, 100, Vec::new()), []);
    }

    #[test]
    fn impossible_amounts_are_not_believed() {
        let transfer = || log(TOKEN, &[TRANSFER, USER.into_word(), SHOP.into_word()], &[U256::MAX]);
        assert_eq!(of(1, 0, vec![transfer(), transfer()]), []);
    }
}
