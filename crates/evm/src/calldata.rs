//! The calldata of deposits and fills.
//!
//! Fills, refunds and plain transfers carry their id as the last 32 bytes of the calldata, where decoders ignore it
//! and anyone can read it. One transaction therefore proves one order.

use alloy::primitives::{Address, B256, Bytes, U256, eip191_hash_message};
use alloy::sol_types::SolCall;
use domain::deposit_address::RouteKey;
use domain::ids::{ClaimId, OrderId};

use crate::account_tag::tag;
use crate::contracts::{DepositAddressFactory, Depository, Erc20, Multicall3, Router};

pub fn deposit_native(depositor: Address, order_id: OrderId) -> Bytes {
    Depository::depositNativeCall { depositor, id: order_id.0 }.abi_encode().into()
}

pub fn deposit_erc20(depositor: Address, token: Address, amount: U256, order_id: OrderId) -> Bytes {
    Depository::depositErc20_0Call { depositor, token, amount, id: order_id.0 }.abi_encode().into()
}

/// Deposits as much as the caller has approved at that moment: for a router that deposits the output of a swap.
pub fn deposit_erc20_allowance(depositor: Address, token: Address, order_id: OrderId) -> Bytes {
    Depository::depositErc20_1Call { depositor, token, id: order_id.0 }.abi_encode().into()
}

pub fn approve(spender: Address, amount: U256) -> Bytes {
    Erc20::approveCall { spender, amount }.abi_encode().into()
}

/// A plain token transfer.
pub fn transfer(to: Address, amount: U256) -> Bytes {
    Erc20::transferCall { to, amount }.abi_encode().into()
}

/// A plain token transfer to the depository that names its order: one transaction instead of two.
pub fn implicit_deposit(depository: Address, amount: U256, order_id: OrderId) -> Bytes {
    with_id(Erc20::transferCall { to: depository, amount }.abi_encode(), order_id.0)
}

/// Brings what a strict deposit address holds of one currency, zero for the native one, into the depository. One
/// currency to a call: a token that fails then holds up no other.
///
/// The call ends with an id of its own, as every payment does. That is never the order's: a sweep pays nobody.
pub fn sweep(order_id: OrderId, depositor: Address, currency: Address, id: B256) -> Bytes {
    let call = DepositAddressFactory::sweepCall { orderId: order_id.0, depositor, tokens: vec![currency] };
    with_id(call.abi_encode(), id)
}

/// The same for exactly so much at an open deposit address, whose order is named here.
pub fn sweep_open(
    route: RouteKey,
    order_id: OrderId,
    depositor: Address,
    (currency, amount): (Address, U256),
    id: B256,
) -> Bytes {
    let (route_key, order_id, token) = (route.0, order_id.0, currency);
    let call =
        DepositAddressFactory::sweepOpenCall { routeKey: route_key, orderId: order_id, depositor, token, amount };
    with_id(call.abi_encode(), id)
}

/// The data of a native payment to a wallet is the id and nothing else.
pub fn native_fill(id: B256) -> Bytes {
    Bytes::copy_from_slice(id.as_slice())
}

/// A native payment to a contract goes through the router: a contract that only has `receive` refuses any data. The
/// amount, not zero, is sent along.
pub fn native_fill_through_router(recipient: Address, amount: U256, id: B256) -> Bytes {
    with_id(Router::cleanupNativeCall { amount, recipient, metadata: Bytes::new() }.abi_encode(), id)
}

pub fn erc20_fill(recipient: Address, amount: U256, id: B256) -> Bytes {
    with_id(Erc20::transferCall { to: recipient, amount }.abi_encode(), id)
}

/// One treasury holds the tokens and several wallets spend them, so that fills go out with parallel nonces.
pub fn erc20_fill_from_treasury(treasury: Address, recipient: Address, amount: U256, id: B256) -> Bytes {
    with_id(Erc20::transferFromCall { from: treasury, to: recipient, amount }.abi_encode(), id)
}

/// The payout of an app balance. It names the account by the tag that funding uses too (`account_tag.rs`), so that the
/// chain alone says whose it was, and ends with the claim's id.
pub fn claim(treasury: Address, recipient: Address, amount: U256, account: Address, id: ClaimId) -> Bytes {
    let transfer = Erc20::transferFromCall { from: treasury, to: recipient, amount }.abi_encode();
    with_id([transfer.as_slice(), tag(account).as_slice()].concat(), id.0)
}

/// The contents of a claim's calldata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    pub account: Address,
    pub recipient: Address,
    pub amount: U256,
    pub id: ClaimId,
}

/// Reads a claim back. Nothing else that we send has this form.
pub fn claimed(calldata: &[u8]) -> Option<Claimed> {
    let (rest, id) = calldata.split_last_chunk::<32>()?;
    let (transfer, mark) = rest.split_last_chunk::<32>()?;
    let (account, id) = (Address::from_slice(&mark[6..26]), ClaimId(id.into()));
    let call = Erc20::transferFromCall::abi_decode(transfer).ok()?;
    let exact = *claim(call.from, call.to, call.amount, account, id) == *calldata;
    exact.then_some(Claimed { account, recipient: call.to, amount: call.amount, id })
}

/// Several reads at one block; a failing one does not spoil the others.
pub fn aggregate(calls: &[(Address, Bytes)]) -> Bytes {
    let calls = calls
        .iter()
        .map(|(target, data)| Multicall3::Call3 { target: *target, allowFailure: true, callData: data.clone() })
        .collect();
    Multicall3::aggregate3Call { calls }.abi_encode().into()
}

/// The last 32 bytes, where fills and refunds carry their id. The caller looks up whether they are one.
pub fn trailing_id(calldata: &[u8]) -> Option<B256> {
    calldata.last_chunk::<32>().map(B256::from)
}

/// The digest that the solver signs to take on an order: the 32 raw bytes of its id as a personal message.
pub fn order_digest(order_id: OrderId) -> B256 {
    eip191_hash_message(order_id.0)
}

fn with_id(mut calldata: Vec<u8>, id: B256) -> Bytes {
    calldata.extend_from_slice(id.as_slice());
    calldata.into()
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{address, b256, hex};

    use super::*;

    const DEPOSITORY: Address = address!("cff3ea62bc5a19158f9690603bfa25a02b2dce5a");
    const DEPOSITOR: Address = address!("4a84e43a54cc2f8abb42afa12dd825212abd36d1");
    const TOKEN: Address = address!("9099eb14ed3f3723cd8e6904d75cb644b19d4d98");
    const ORDER: OrderId = OrderId(b256!("7f3117abfbad865d612ada25300c7379160a97f0f1950f0836cc325d36f9b8cb"));

    #[test]
    fn deposits_encode_as_published() {
        let amount = U256::from(250_000_000u64);
        let table = [
            (
                deposit_native(DEPOSITOR, ORDER),
                "49290c1c0000000000000000000000004a84e43a54cc2f8abb42afa12dd825212abd36d17f3117abfbad865d612ada25300c7379160a97f0f1950f0836cc325d36f9b8cb",
            ),
            (
                deposit_erc20(DEPOSITOR, TOKEN, amount, ORDER),
                "e80179520000000000000000000000004a84e43a54cc2f8abb42afa12dd825212abd36d10000000000000000000000009099eb14ed3f3723cd8e6904d75cb644b19d4d98000000000000000000000000000000000000000000000000000000000ee6b2807f3117abfbad865d612ada25300c7379160a97f0f1950f0836cc325d36f9b8cb",
            ),
            (
                deposit_erc20_allowance(DEPOSITOR, TOKEN, ORDER),
                "5a1ee3ac0000000000000000000000004a84e43a54cc2f8abb42afa12dd825212abd36d10000000000000000000000009099eb14ed3f3723cd8e6904d75cb644b19d4d987f3117abfbad865d612ada25300c7379160a97f0f1950f0836cc325d36f9b8cb",
            ),
            (
                implicit_deposit(DEPOSITORY, amount, ORDER),
                "a9059cbb000000000000000000000000cff3ea62bc5a19158f9690603bfa25a02b2dce5a000000000000000000000000000000000000000000000000000000000ee6b2807f3117abfbad865d612ada25300c7379160a97f0f1950f0836cc325d36f9b8cb",
            ),
        ];
        for (ours, published) in table {
            assert_eq!(hex::encode(&ours), published);
            assert_eq!(trailing_id(&ours), Some(ORDER.0));
        }
    }

    #[test]
    fn every_fill_ends_with_its_id() {
        let amount = U256::from(7u64);
        assert_eq!(native_fill(ORDER.0).len(), 32);
        for data in [
            native_fill(ORDER.0),
            native_fill_through_router(DEPOSITOR, amount, ORDER.0),
            erc20_fill(DEPOSITOR, amount, ORDER.0),
            erc20_fill_from_treasury(DEPOSITORY, DEPOSITOR, amount, ORDER.0),
        ] {
            assert_eq!(trailing_id(&data), Some(ORDER.0));
        }
        let routed = native_fill_through_router(DEPOSITOR, amount, ORDER.0);
        let call = Router::cleanupNativeCall::abi_decode(&routed).unwrap();
        assert_eq!((call.amount, call.recipient, call.metadata.len()), (amount, DEPOSITOR, 0));
        let treasury = erc20_fill_from_treasury(DEPOSITORY, DEPOSITOR, amount, ORDER.0);
        let call = Erc20::transferFromCall::abi_decode(&treasury).unwrap();
        assert_eq!((call.from, call.to, call.amount), (DEPOSITORY, DEPOSITOR, amount));
    }

    #[test]
    fn a_claim_says_whose_it_is_and_nothing_else_looks_like_one() {
        let (treasury, amount) = (DEPOSITORY, U256::from(7u64));
        let data = claim(treasury, TOKEN, amount, DEPOSITOR, ClaimId(ORDER.0));
        assert_eq!(trailing_id(&data), Some(ORDER.0));
        let expected = Claimed { account: DEPOSITOR, recipient: TOKEN, amount, id: ClaimId(ORDER.0) };
        assert_eq!(claimed(&data), Some(expected));
        let call = Erc20::transferFromCall::abi_decode(&data).unwrap();
        assert_eq!((call.from, call.to, call.amount), (treasury, TOKEN, amount));
        let mut marred = data.to_vec();
        marred[100] ^= 1;
        let fill = erc20_fill_from_treasury(treasury, TOKEN, amount, ORDER.0);
        for other in [&fill[..], &marred, &data[..163], &[data.as_ref(), &[0]].concat(), &[], &[0; 164]] {
            assert_eq!(claimed(other), None);
        }
    }

    #[test]
    fn less_than_32_bytes_carry_no_id() {
        assert_eq!(trailing_id(&[0xff; 31]), None);
        assert_eq!(trailing_id(&[]), None);
    }

    #[test]
    fn the_order_digest_is_the_published_one() {
        assert_eq!(order_digest(ORDER), b256!("99dd63208dde7863d92ffcfbcb2780a5a041529c1c508fea18bb9151755d562e"));
    }
}
