//! Contracts of the adversary and of its victims, small enough to be written by hand.

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::sol_types::SolCall;
use evm::contracts::Erc20;
use evm::topics::TRANSFER;

const STOP: u8 = 0x00;
const MSTORE: u8 = 0x52;
const PUSH0: u8 = 0x5f;
const PUSH1: u8 = 0x60;
const PUSH2: u8 = 0x61;
const PUSH32: u8 = 0x7f;

fn push(code: &mut Vec<u8>, word: B256) {
    code.push(PUSH32);
    code.extend_from_slice(word.as_slice());
}

/// A wallet that pays this amount to the depository, whoever calls it and with whatever data: the call that its owner
/// has signed, reduced to its effect.
pub(super) fn pays(token: Address, depository: Address, amount: U256) -> Bytes {
    let call = Erc20::transferCall { to: depository, amount }.abi_encode();
    let mut code = Vec::new();
    for (place, word) in call.chunks(32).enumerate() {
        push(&mut code, B256::right_padding_from(word));
        code.extend([PUSH1, u8::try_from(place * 32).expect("three words"), MSTORE]);
    }
    // call(gas, token, 0, 0, length, 0, 0)
    code.extend([PUSH0, PUSH0, PUSH1, u8::try_from(call.len()).expect("a short call"), PUSH0, PUSH0]);
    push(&mut code, token.into_word());
    code.extend([0x5a, 0xf1, STOP]);
    code.into()
}

/// Emits this many logs that look like token transfers to somebody.
pub(super) fn emits(logs: u16, from: Address, to: Address) -> Bytes {
    const JUMPDEST: u8 = 0x5b;
    let mut code = vec![PUSH2];
    code.extend(logs.to_be_bytes());
    let start = u8::try_from(code.len()).expect("a short program");
    // The counter is the amount.
    code.extend([JUMPDEST, 0x80, PUSH0, MSTORE]);
    push(&mut code, to.into_word());
    push(&mut code, from.into_word());
    push(&mut code, TRANSFER);
    // log3(0, 32, …), then count down and begin again.
    code.extend([PUSH1, 32, PUSH0, 0xa3, PUSH1, 1, 0x90, 0x03, 0x80, PUSH1, start, 0x57, STOP]);
    code.into()
}

/// Refuses every call at once, or after it has burnt all of its gas.
pub(super) fn refuses(burns: bool) -> Bytes {
    if burns { Bytes::from_static(&[0xfe]) } else { Bytes::from_static(&[PUSH0, PUSH0, 0xfd]) }
}
