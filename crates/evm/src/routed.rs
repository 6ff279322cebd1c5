//! Lists of calls for our router, and the three ways to have them run: with native value, with a user's tokens
//! through the approval proxy, with a treasury's tokens through the spend limiter.
//!
//! The router reads an amount of zero as its whole balance. Here the whole balance is [`Part::All`] and an amount of
//! zero is no call, so that a fee or a top-up of nothing cannot empty the router.

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::sol_types::SolCall;

use crate::contracts::{ApprovalProxy, Call3Value, RelayerWitness, Router, SpendLimiter};

/// A message that a wallet sends, a user's or ours, or a call that the router is to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub to: Address,
    pub value: U256,
    pub data: Bytes,
}

impl Message {
    /// The same message, ending with an id that the called contract does not see.
    pub fn naming(self, id: B256) -> Self {
        Self { data: [self.data.as_ref(), id.as_slice()].concat().into(), ..self }
    }
}

/// A part of the router's balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    All,
    Exactly(U256),
}

impl Part {
    /// The amount as the router reads it; none for no call.
    fn amount(self) -> Option<U256> {
        match self {
            Self::All => Some(U256::ZERO),
            Self::Exactly(amount) => (!amount.is_zero()).then_some(amount),
        }
    }
}

/// The recipients at the end of a list of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Receives the native value that is left.
    pub refund_to: Address,
    pub nft_recipient: Address,
}

/// Calls the router makes as itself, in order. Each must succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calls {
    router: Address,
    list: Vec<Call3Value>,
}

impl Calls {
    pub fn of(router: Address) -> Self {
        Self { router, list: Vec::new() }
    }

    pub fn router(&self) -> Address {
        self.router
    }

    pub fn list(&self) -> &[Call3Value] {
        &self.list
    }

    pub fn call(&mut self, target: Address, value: U256, data: impl Into<Bytes>) {
        self.list.push(Call3Value { target, allowFailure: false, value, callData: data.into() });
    }

    /// The recipient must not be the router, which would refuse.
    pub fn pay_token(&mut self, token: Address, recipient: Address, part: Part) {
        let Some(amount) = part.amount() else { return };
        self.of_itself(&Router::cleanupErc20sCall {
            tokens: vec![token],
            recipients: vec![recipient],
            amounts: vec![amount],
            metadata: Bytes::new(),
        });
    }

    /// The router logs this payment, which makes it the only native one that can be proven.
    pub fn pay_native(&mut self, recipient: Address, part: Part) {
        let Some(amount) = part.amount() else { return };
        self.of_itself(&Router::cleanupNativeCall { amount, recipient, metadata: Bytes::new() });
    }

    /// Calls a contract that may spend this part of a token, and nothing more once the call is over.
    pub fn spend_token(&mut self, token: Address, spender: Address, data: Bytes, part: Part) {
        let Some(amount) = part.amount() else { return };
        self.of_itself(&Router::cleanupErc20sViaCallCall {
            tokens: vec![token],
            tos: vec![spender],
            datas: vec![data],
            amounts: vec![amount],
        });
    }

    /// Goes on only if the router holds this much of a token.
    pub fn require_token(&mut self, token: Address, amount: U256) {
        self.of_itself(&Router::requireBalanceCall { token, amount });
    }

    /// Calls a contract with all native value.
    pub fn spend_native(&mut self, to: Address, data: Bytes) {
        self.of_itself(&Router::cleanupNativeViaCallCall { amount: U256::ZERO, to, data });
    }

    fn of_itself(&mut self, call: &impl SolCall) {
        self.call(self.router, U256::ZERO, call.abi_encode());
    }

    /// Runs the calls with native value alone.
    pub fn with_native(self, value: U256, ends: Ends, metadata: Bytes) -> Message {
        let Ends { refund_to, nft_recipient } = ends;
        let call =
            Router::multicallCall { calls: self.list, refundTo: refund_to, nftRecipient: nft_recipient, metadata };
        Message { to: self.router, value, data: call.abi_encode().into() }
    }

    /// Runs the calls with tokens of the sender, who has approved the proxy.
    pub fn with_tokens(self, proxy: Address, token: Address, amount: U256, ends: Ends, metadata: Bytes) -> Message {
        let call = ApprovalProxy::transferAndMulticallCall {
            tokens: vec![token],
            amounts: vec![amount],
            calls: self.list,
            refundTo: ends.refund_to,
            nftRecipient: ends.nft_recipient,
            metadata,
        };
        Message { to: proxy, value: U256::ZERO, data: call.abi_encode().into() }
    }

    /// Runs the calls with tokens of a treasury that lets the sender spend them, and native value of the sender.
    pub fn with_spend_limiter(
        self,
        spend_limiter: &FromSpendLimiter,
        value: U256,
        ends: Ends,
        metadata: Bytes,
    ) -> Message {
        let call = SpendLimiter::spendCall {
            treasury: spend_limiter.treasury,
            token: spend_limiter.token,
            amount: spend_limiter.amount,
            calls: self.list,
            refundTo: ends.refund_to,
            nftRecipient: ends.nft_recipient,
            metadata,
        };
        Message { to: spend_limiter.spend_limiter, value, data: call.abi_encode().into() }
    }
}

/// Calls with a user's tokens, before it is said how these come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenCalls {
    pub calls: Calls,
    pub token: Address,
    pub amount: U256,
    pub ends: Ends,
    pub metadata: Bytes,
}

impl TokenCalls {
    /// The user sends them, and has approved the proxy.
    pub fn by_sender(self, proxy: Address) -> Message {
        self.calls.with_tokens(proxy, self.token, self.amount, self.ends, self.metadata)
    }

    /// The user signs for them, and this relayer sends them.
    pub fn by_relayer(self, relayer: Address) -> RelayerWitness {
        RelayerWitness {
            relayer,
            refundTo: self.ends.refund_to,
            nftRecipient: self.ends.nft_recipient,
            metadata: self.metadata,
            call3Values: self.calls.list,
        }
    }
}

/// Tokens of a treasury, and the contract through which a filler spends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromSpendLimiter {
    pub spend_limiter: Address,
    pub treasury: Address,
    pub token: Address,
    pub amount: U256,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTER: Address = Address::repeat_byte(1);
    const TOKEN: Address = Address::repeat_byte(2);
    const SOMEONE: Address = Address::repeat_byte(3);

    #[test]
    fn paying_nothing_is_no_call() {
        let nothing = Part::Exactly(U256::ZERO);
        let mut calls = Calls::of(ROUTER);
        calls.pay_token(TOKEN, SOMEONE, nothing);
        calls.pay_native(SOMEONE, nothing);
        calls.spend_token(TOKEN, SOMEONE, Bytes::new(), nothing);
        assert_eq!(calls.list(), []);
    }

    #[test]
    fn paying_all_is_the_routers_zero() {
        let mut calls = Calls::of(ROUTER);
        calls.pay_native(SOMEONE, Part::All);
        calls.pay_native(SOMEONE, Part::Exactly(U256::from(7)));
        let amounts = calls.list().iter().map(|call| {
            assert_eq!((call.target, call.value, call.allowFailure), (ROUTER, U256::ZERO, false));
            Router::cleanupNativeCall::abi_decode(&call.callData).unwrap().amount
        });
        assert_eq!(amounts.collect::<Vec<_>>(), [U256::ZERO, U256::from(7)]);
    }
}
