//! The party that made a payment fail: the recipient, a call that the caller asked for, or neither.
//!
//! A trace tells which of the router's calls was not survived. The text of a revert decides nothing: anyone may have
//! written it.

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::sol_types::SolCall;
use futures::FutureExt;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde::Deserialize;
use serde_json::json;

use crate::agreement::second;
use crate::contracts::{Erc20, Router};
use crate::errors::{ChainError, Refusal};
use crate::node::TRACE;
use crate::nodes::{At, Nodes};
use crate::quorum::NoQuorum;
use crate::replay::Replayed;
use crate::routed::Message;
use crate::rpc::Receipt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// A pool, our own funds, or a leftover that a stranger put into the router.
    Nobody,
    /// The recipient refused native currency, or the token refused the recipient.
    Recipient,
    /// One of the caller's own calls failed, or left too little gas.
    Call(usize),
}

/// The parties to a payment that are not ours.
#[derive(Clone, Debug)]
pub struct Suspects {
    pub router: Address,
    pub recipient: Address,
    /// The caller's own calls, which the router makes.
    pub calls: Vec<Message>,
}

/// A call of a transaction, with those that it made.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame {
    from: Address,
    #[serde(default)]
    to: Option<Address>,
    #[serde(default)]
    value: Option<U256>,
    #[serde(default)]
    gas: U256,
    #[serde(default)]
    gas_used: U256,
    #[serde(default)]
    input: Bytes,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    calls: Vec<Frame>,
}

impl Nodes {
    /// The party to blame by the transaction's trace, as two nodes show it, or the only one that offers traces: where
    /// the traces differ, it is nobody. None where no node offers any. Where too few have answered it is an error: they
    /// might say otherwise.
    pub fn blame<'a>(&'a self, hash: B256, suspects: &'a Suspects) -> BoxFuture<'a, Result<Option<Blame>, ChainError>> {
        async move {
            let wish = &json!({ "tracer": "callTracer" });
            let mut asked: FuturesUnordered<_> =
                self.nodes().iter().map(|node| node.ask::<Frame>(TRACE, (hash, wish))).collect();
            let (mut shown, mut failed) = (Vec::new(), None);
            while let Some(trace) = asked.next().await {
                match trace {
                    Ok(frame) => shown.push(suspects.blame(&frame)),
                    Err(ChainError::Refused { refusal: Refusal::NotSupported, .. }) => {}
                    Err(error) => failed = Some(error),
                }
                if shown.windows(2).any(|pair| pair[0] != pair[1]) {
                    return Ok(Some(Blame::Nobody));
                }
                // One that is slow or down is not waited for.
                if shown.len() >= second(self.len()) {
                    return Ok(shown.first().copied());
                }
            }
            match failed {
                Some(error) => Err(error),
                None => Ok(shown.first().copied()),
            }
        }
        .boxed()
    }

    /// True if a token refused this recipient: the same transfer to somebody else goes through where this one fails, as
    /// two nodes show it.
    pub fn token_refuses<'a>(&'a self, tx: &'a Replayed) -> BoxFuture<'a, Result<bool, ChainError>> {
        async move {
            let place = self.agree(second(self.len()), "a receipt", |node| async move {
                let receipt: Option<Receipt> = node.ask("eth_getTransactionReceipt", (tx.hash,)).await?;
                Ok(receipt.map(|receipt| (receipt.block_number, receipt.block_hash)))
            });
            let (Some(token), Some(Some((number, block)))) = (tx.to, unless_unanswered(place.await)?) else {
                return Ok(false);
            };
            let Some(elsewhere) = to_somebody_else(&tx.data) else { return Ok(false) };
            for at in [At::Number(number.saturating_sub(1)), At::Hash(block)] {
                if self.pays(tx, token, &tx.data, at).await? == Some(false)
                    && self.pays(tx, token, &elsewhere, at).await? == Some(true)
                {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        .boxed()
    }

    /// True if a token pays when it is called like this; none if the nodes differ.
    async fn pays(&self, tx: &Replayed, token: Address, data: &Bytes, at: At) -> Result<Option<bool>, ChainError> {
        let call = &json!({ "from": tx.from, "to": token, "value": tx.value, "input": data });
        let paid = self.agree(second(self.len()), "a transfer", |node| async move {
            match node.ask::<Bytes>("eth_call", (call, at.param())).await {
                Ok(output) => Ok(output.is_empty() || output.iter().any(|&byte| byte != 0)),
                Err(ChainError::Refused { refusal: Refusal::Reverted(_) | Refusal::OutOfGas, .. }) => Ok(false),
                Err(error) => Err(error),
            }
        });
        unless_unanswered(paid.await)
    }
}

/// None where nodes differ; where too few answered, it is tried again.
fn unless_unanswered<T>(answer: Result<T, NoQuorum>) -> Result<Option<T>, ChainError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(NoQuorum { failed: Some(error), .. }) => Err(*error),
        Err(NoQuorum { failed: None, .. }) => Ok(None),
    }
}

/// The same transfer, to an address that nobody has heard of.
fn to_somebody_else(data: &[u8]) -> Option<Bytes> {
    let (arguments, rest) = data.strip_prefix(&Erc20::transferFromCall::SELECTOR)?.split_at_checked(96)?;
    let call = Erc20::transferFromCall::abi_decode_raw(arguments).ok()?;
    let to = Address::from_word(alloy::primitives::keccak256(call.to));
    Some([Erc20::transferFromCall { to, ..call }.abi_encode().as_slice(), rest].concat().into())
}

impl Suspects {
    fn blame(&self, top: &Frame) -> Blame {
        let starved = top.gas_used >= top.gas.saturating_sub(top.gas / U256::from(16));
        match (self.culprit(top, None), self.made(top)) {
            (Blame::Nobody, Some(call)) if top.error.is_some() && starved => Blame::Call(call),
            (blame, _) => blame,
        }
    }

    /// Follows the calls that were not survived. The last of those that failed is the one that its caller gave up for.
    fn culprit(&self, frame: &Frame, parent: Option<&Frame>) -> Blame {
        if frame.error.is_none() {
            return Blame::Nobody;
        }
        if let Some(call) = self.call(frame) {
            return Blame::Call(call);
        }
        if self.is_delivery(frame, parent) {
            return Blame::Recipient;
        }
        let inner = frame.calls.iter().rev().find(|call| call.error.is_some());
        inner.map_or(Blame::Nobody, |inner| self.culprit(inner, Some(frame)))
    }

    /// Native currency that was promised to the recipient, or a token. A sweep of the router's leftovers is neither:
    /// anyone can leave something there.
    fn is_delivery(&self, frame: &Frame, parent: Option<&Frame>) -> bool {
        let pays = |parent: &Frame| {
            parent.to == Some(self.router) && parent.input.starts_with(&Router::cleanupNativeCall::SELECTOR)
        };
        let native =
            frame.to == Some(self.recipient) && parent.is_none_or(|parent| frame.from == self.router && pays(parent));
        let token = frame.input.strip_prefix(&Erc20::transferCall::SELECTOR).and_then(|rest| rest.get(12..32));
        native || token == Some(self.recipient.as_slice())
    }

    /// The caller's call that this is.
    fn call(&self, frame: &Frame) -> Option<usize> {
        let is = |call: &Message| {
            let value = frame.value.unwrap_or_default();
            (Some(call.to), call.value, &call.data) == (frame.to, value, &frame.input)
        };
        if frame.from == self.router { self.calls.iter().position(is) } else { None }
    }

    /// The last of the caller's calls that was made at all.
    fn made(&self, frame: &Frame) -> Option<usize> {
        let mut calls = frame.calls.iter().rev();
        calls.find_map(|inner| self.call(inner).or_else(|| self.made(inner)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const ROUTER: Address = Address::repeat_byte(0xd5);
    const RECIPIENT: Address = Address::repeat_byte(0x22);
    const FILLER: Address = Address::repeat_byte(0xf1);
    const SHOP: Address = Address::repeat_byte(0x50);
    const DEX: Address = Address::repeat_byte(0xde);

    fn frame(from: Address, to: Address, input: &[u8], error: Option<&str>, calls: Vec<Value>) -> Value {
        json!({
            "type": "CALL", "from": from, "to": to, "value": "0x0", "gas": "0xf4240", "gasUsed": "0x2710",
            "input": Bytes::copy_from_slice(input), "error": error, "calls": calls,
        })
    }

    fn multicall(calls: Vec<Value>) -> Value {
        frame(FILLER, ROUTER, &Router::multicallCall::SELECTOR, Some("execution reverted"), calls)
    }

    fn blame(trace: Value) -> Blame {
        let calls = vec![Message { to: SHOP, value: U256::ZERO, data: Bytes::from_static(b"buy") }];
        let suspects = Suspects { router: ROUTER, recipient: RECIPIENT, calls };
        suspects.blame(&serde_json::from_value(trace).unwrap())
    }

    const REVERTED: Option<&str> = Some("execution reverted");

    #[test]
    fn a_recipient_is_blamed_for_what_was_promised_to_it_and_for_nothing_else() {
        let refusal = || frame(ROUTER, RECIPIENT, &[], REVERTED, vec![]);
        let pays = |inner| frame(ROUTER, ROUTER, &Router::cleanupNativeCall::SELECTOR, REVERTED, vec![inner]);
        let direct = |inner| frame(FILLER, ROUTER, &Router::cleanupNativeCall::SELECTOR, REVERTED, vec![inner]);
        let transfer = Erc20::transferCall { to: RECIPIENT, amount: U256::from(1) }.abi_encode();
        let other = Erc20::transferCall { to: SHOP, amount: U256::from(1) }.abi_encode();
        let table = [
            ("a plain payment", frame(FILLER, RECIPIENT, &[7; 32], REVERTED, vec![]), Blame::Recipient),
            ("through the router", multicall(vec![pays(refusal())]), Blame::Recipient),
            ("by the router alone", direct(refusal()), Blame::Recipient),
            ("the router's leftovers", multicall(vec![refusal()]), Blame::Nobody),
            ("a token", multicall(vec![frame(ROUTER, DEX, &transfer, REVERTED, vec![])]), Blame::Recipient),
            (
                "a token of somebody else's",
                multicall(vec![frame(ROUTER, DEX, &other, REVERTED, vec![])]),
                Blame::Nobody,
            ),
            ("a pool", multicall(vec![frame(ROUTER, DEX, b"swap", REVERTED, vec![])]), Blame::Nobody),
            ("nobody", multicall(vec![]), Blame::Nobody),
        ];
        for (name, trace, expected) in table {
            assert_eq!(blame(trace), expected, "{name}");
        }
    }

    #[test]
    fn a_callers_own_call_is_blamed_where_it_failed() {
        let buys = |error| frame(ROUTER, SHOP, b"buy", error, vec![]);
        let pool = |error| frame(ROUTER, DEX, b"swap", error, vec![]);
        assert_eq!(blame(multicall(vec![pool(None), buys(REVERTED)])), Blame::Call(0));
        assert_eq!(blame(multicall(vec![pool(REVERTED)])), Blame::Nobody);
        assert_eq!(blame(multicall(vec![buys(None), pool(REVERTED)])), Blame::Nobody);
        assert_eq!(blame(multicall(vec![frame(SHOP, SHOP, b"buy", REVERTED, vec![])])), Blame::Nobody, "not ours");
        let mut starved = multicall(vec![buys(None)]);
        starved["gasUsed"] = json!("0xf4240");
        assert_eq!(blame(starved), Blame::Call(0), "it left too little gas");
        let mut starved = multicall(vec![pool(REVERTED)]);
        starved["gasUsed"] = json!("0xf4240");
        assert_eq!(blame(starved), Blame::Nobody, "the pool took it all");
    }

    #[test]
    fn a_transfer_is_tried_with_another_recipient_and_nothing_else_changed() {
        let (from, amount) = (Address::repeat_byte(1), U256::from(7));
        let data = |to| [Erc20::transferFromCall { from, to, amount }.abi_encode(), vec![9; 32]].concat();
        let other = to_somebody_else(&data(RECIPIENT)).unwrap();
        let call = Erc20::transferFromCall::abi_decode(&other[..100]).unwrap();
        assert_eq!((call.from, call.amount, &other[100..]), (from, amount, &[9; 32][..]));
        assert_ne!(call.to, RECIPIENT);
        assert_eq!(to_somebody_else(&[1, 2, 3]), None);
    }
}
