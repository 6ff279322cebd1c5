//! The amount that a mined payment of ours really paid.
//!
//! A successful receipt is not enough: a token may answer `false` instead of reverting, and then nothing moved.

use alloy::primitives::{Address, B256, U256};
use alloy::rpc::types::Log;

use crate::calldata::trailing_id;
use crate::topics::{NATIVE_PAID, TRANSFER};
use crate::watcher::SentTx;

impl SentTx {
    /// The id that this transaction carries; with `success` it is proof of one order, refund or batch.
    pub fn id(&self) -> Option<B256> {
        trailing_id(&self.input)
    }

    /// The amount of the currency (zero is native) that reached the recipient, directly or through the router.
    pub fn paid(&self, currency: Address, recipient: Address, router: Address) -> U256 {
        if !self.success {
            return U256::ZERO;
        }
        if !currency.is_zero() {
            return sum(self.logs.iter().filter_map(|log| token_paid(log, currency, recipient)));
        }
        if self.to == Some(recipient) && (self.input.is_empty() || self.input.len() == 32) {
            return self.value;
        }
        sum(self.logs.iter().filter_map(|log| native_paid(log, router, recipient)))
    }
}

fn token_paid(log: &Log, token: Address, recipient: Address) -> Option<U256> {
    let [TRANSFER, _, to] = log.topics() else { return None };
    let amount: [u8; 32] = log.data().data.as_ref().try_into().ok()?;
    (log.address() == token && *to == recipient.into_word()).then(|| U256::from_be_bytes(amount))
}

fn native_paid(log: &Log, router: Address, recipient: Address) -> Option<U256> {
    let [NATIVE_PAID] = log.topics() else { return None };
    let (to, amount) = log.data().data.split_first_chunk::<32>()?;
    let amount: [u8; 32] = amount.try_into().ok()?;
    (log.address() == router && B256::from(to) == recipient.into_word()).then(|| U256::from_be_bytes(amount))
}

/// A token may log any number; a sum past the end of the type saturates.
fn sum(amounts: impl Iterator<Item = U256>) -> U256 {
    amounts.fold(U256::ZERO, U256::saturating_add)
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Bytes, LogData};

    use super::*;

    const TOKEN: Address = Address::repeat_byte(1);
    const RECIPIENT: Address = Address::repeat_byte(2);
    const ROUTER: Address = Address::repeat_byte(3);

    fn log(address: Address, topics: Vec<B256>, words: &[B256]) -> Log {
        let data = words.iter().flat_map(|word| word.0).collect::<Vec<u8>>().into();
        let inner = alloy::primitives::Log { address, data: LogData::new_unchecked(topics, data) };
        Log { inner, ..Log::default() }
    }

    fn tx(to: Address, input: Bytes, logs: Vec<Log>) -> SentTx {
        SentTx {
            from: Address::repeat_byte(9),
            nonce: 0,
            hash: B256::ZERO,
            index: 0,
            to: Some(to),
            value: U256::from(5),
            input,
            success: true,
            gas_used: 0,
            effective_gas_price: 0,
            fee: U256::ZERO,
            logs,
        }
    }

    #[test]
    fn a_native_payment_is_its_value_or_the_routers_word() {
        let id = B256::repeat_byte(7);
        let direct = tx(RECIPIENT, id.into(), Vec::new());
        assert_eq!((direct.paid(Address::ZERO, RECIPIENT, ROUTER), direct.id()), (U256::from(5), Some(id)));
        assert_eq!(direct.paid(Address::ZERO, TOKEN, ROUTER), U256::ZERO);

        let words = [RECIPIENT.into_word(), U256::from(4).into()];
        let routed = tx(ROUTER, vec![0; 68].into(), vec![log(ROUTER, vec![NATIVE_PAID], &words)]);
        assert_eq!(routed.paid(Address::ZERO, RECIPIENT, ROUTER), U256::from(4));
        let forged = tx(ROUTER, vec![0; 68].into(), vec![log(TOKEN, vec![NATIVE_PAID], &words)]);
        assert_eq!(forged.paid(Address::ZERO, RECIPIENT, ROUTER), U256::ZERO);
    }

    #[test]
    fn a_token_payment_is_the_sum_of_its_transfers() {
        let topics = vec![TRANSFER, ROUTER.into_word(), RECIPIENT.into_word()];
        let transfer = |token| log(token, topics.clone(), &[U256::from(3).into()]);
        let two = tx(TOKEN, vec![0; 132].into(), vec![transfer(TOKEN), transfer(TOKEN), transfer(ROUTER)]);
        assert_eq!(two.paid(TOKEN, RECIPIENT, ROUTER), U256::from(6));
        let silent = tx(TOKEN, vec![0; 132].into(), Vec::new());
        assert_eq!(silent.paid(TOKEN, RECIPIENT, ROUTER), U256::ZERO);
        let reverted = SentTx { success: false, ..two };
        assert_eq!(reverted.paid(TOKEN, RECIPIENT, ROUTER), U256::ZERO);
    }
}
