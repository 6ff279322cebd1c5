//! The transactions a user sends to trade: before a deposit, or as a same-chain swap.
//!
//! Each names its request, as metadata of the router or as the last 32 bytes, so that a same-chain request, which has
//! no deposit, can be found on its chain.

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall;
use domain::ids::{OrderId, RequestId};

use crate::calldata;
use crate::contracts::{ApprovalProxy, Erc20, Router};
use crate::routed::{Calls, Ends, Message, Part, TokenCalls};
use crate::swap::{Trade, Wrapped};

/// The contracts through which a user's transactions enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub router: Address,
    /// The contract that a user approves instead of the router.
    pub approval_proxy: Address,
    pub wrapped: Address,
}

/// A fee, taken from the input before the trade and in addition to the trade's own input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fee {
    pub amount: U256,
    pub recipient: Address,
}

/// A user's calls: with native currency they are a message already, with tokens it is still to be said how these come
/// in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entering {
    Message(Message),
    Tokens(TokenCalls),
}

impl Entering {
    /// The message that the user sends.
    pub fn by_sender(self, proxy: Address) -> Message {
        match self {
            Self::Message(message) => message,
            Self::Tokens(calls) => calls.by_sender(proxy),
        }
    }

    /// The calls, if tokens come in.
    pub fn tokens(self) -> Option<TokenCalls> {
        match self {
            Self::Message(_) => None,
            Self::Tokens(calls) => Some(calls),
        }
    }
}

impl Entry {
    /// Deposits tokens through the router, which is how a relayer can bring them in.
    pub fn deposit(
        &self,
        depository: Address,
        token: Address,
        amount: U256,
        user: Address,
        order: OrderId,
        request: RequestId,
    ) -> TokenCalls {
        let mut calls = Calls::of(self.router);
        // The router approves this amount, and the depository takes exactly what it was approved.
        calls.spend_token(
            token,
            depository,
            calldata::deposit_erc20(user, token, amount, order),
            Part::Exactly(amount),
        );
        let ends = Ends { refund_to: user, nft_recipient: user };
        TokenCalls { calls, token, amount, ends, metadata: Bytes::copy_from_slice(request.as_slice()) }
    }

    /// Trades, then deposits the whole output. Tokens need an approval of `most_input` to the proxy first.
    pub fn origin_swap(
        &self,
        depository: Address,
        trade: &Trade<'_>,
        user: Address,
        order: OrderId,
        request: RequestId,
    ) -> Entering {
        let mut calls = Calls::of(self.router);
        trade.add_to(&mut calls, self.router, user);
        match trade.token_out() {
            Some(token) => {
                let deposit = calldata::deposit_erc20_allowance(user, token, order);
                calls.spend_token(token, depository, deposit, Part::All);
            }
            None => calls.spend_native(depository, calldata::deposit_native(user, order)),
        }
        self.enter(calls, trade, U256::ZERO, user, request)
    }

    /// Trades for the recipient. Tokens need an approval of `most_input` and the fee to the proxy first, unless they
    /// are only unwrapped for the user without a fee (`to` is then the wrapped token), which needs none.
    pub fn same_chain_swap(
        &self,
        trade: &Trade<'_>,
        fee: Option<Fee>,
        user: Address,
        recipient: Address,
        request: RequestId,
    ) -> Entering {
        let fee = fee.filter(|fee| !fee.amount.is_zero());
        if trade.path.is_wrapping() && fee.is_none() && recipient == user {
            return Entering::Message(self.wrap_or_unwrap(trade, request));
        }
        self.routed_swap(trade, fee, user, recipient, request)
    }

    /// The same through the router in every case: a relayer cannot unwrap for anybody but itself.
    pub fn routed_swap(
        &self,
        trade: &Trade<'_>,
        fee: Option<Fee>,
        user: Address,
        recipient: Address,
        request: RequestId,
    ) -> Entering {
        let fee = fee.filter(|fee| !fee.amount.is_zero());
        let mut calls = Calls::of(self.router);
        if let Some(Fee { amount, recipient }) = fee {
            match trade.token_in() {
                Some(token) => calls.pay_token(token, recipient, Part::Exactly(amount)),
                None => calls.pay_native(recipient, Part::Exactly(amount)),
            }
        }
        trade.add_to(&mut calls, recipient, user);
        self.enter(calls, trade, fee.map_or(U256::ZERO, |fee| fee.amount), user, request)
    }

    /// The wrapped token itself wraps and unwraps, for the sender and for nobody else.
    fn wrap_or_unwrap(&self, trade: &Trade<'_>, request: RequestId) -> Message {
        let amount = trade.wrapped_amount();
        let (value, data) = if trade.native_in {
            (amount, Wrapped::depositCall {}.abi_encode())
        } else {
            (U256::ZERO, Wrapped::withdrawCall { amount }.abi_encode())
        };
        Message { to: self.wrapped, value, data: data.into() }.naming(request.0)
    }

    fn enter(&self, calls: Calls, trade: &Trade<'_>, fee: U256, user: Address, request: RequestId) -> Entering {
        let amount = trade.most_input().saturating_add(fee);
        let ends = Ends { refund_to: user, nft_recipient: user };
        let metadata = Bytes::copy_from_slice(request.as_slice());
        match trade.token_in() {
            Some(token) => Entering::Tokens(TokenCalls { calls, token, amount, ends, metadata }),
            None => Entering::Message(calls.with_native(amount, ends, metadata)),
        }
    }

    /// The request that a transaction of these forms names. Fills and deposits look like sends and any metadata looks
    /// like an id, so the caller looks up whether the request exists and what the transaction did.
    pub fn request_in(&self, to: Address, input: &[u8]) -> Option<RequestId> {
        let id = if to == self.router {
            bytes_argument(input.strip_prefix(&Router::multicallCall::SELECTOR)?, 3)?
        } else if to == self.approval_proxy {
            bytes_argument(input.strip_prefix(&ApprovalProxy::transferAndMulticallCall::SELECTOR)?, 5)?
        } else {
            let (call, id) = input.split_last_chunk::<32>()?;
            let plain = match call.split_first_chunk::<4>() {
                None => call.is_empty(),
                Some((&Erc20::transferCall::SELECTOR, arguments)) => arguments.len() == 64,
                Some((&Wrapped::depositCall::SELECTOR, arguments)) => to == self.wrapped && arguments.is_empty(),
                Some((&Wrapped::withdrawCall::SELECTOR, arguments)) => to == self.wrapped && arguments.len() == 32,
                Some(_) => false,
            };
            plain.then_some(id)?
        };
        Some(RequestId(id.into()))
    }
}

/// Moves a currency (zero is native) as it is. Native currency may go to wallets only: a contract may refuse data.
pub fn send(currency: Address, recipient: Address, amount: U256, request: RequestId) -> Message {
    if currency.is_zero() {
        Message { to: recipient, value: amount, data: calldata::native_fill(request.0) }
    } else {
        Message { to: currency, value: U256::ZERO, data: calldata::erc20_fill(recipient, amount, request.0) }
    }
}

/// An argument of dynamic bytes that are exactly 32. It is read in place: anyone can send anything here, and the list
/// of calls before it, whose offsets may all point at the same long bytes, need not be decoded.
fn bytes_argument(arguments: &[u8], index: usize) -> Option<&[u8; 32]> {
    let number = |at: usize| {
        let word = arguments.get(at..)?.first_chunk::<32>()?;
        usize::try_from(U256::from_be_bytes(*word)).ok()
    };
    let at = number(index * 32)?;
    (number(at)? == 32).then(|| arguments.get(at.checked_add(32)?..)?.first_chunk())?
}

#[cfg(test)]
mod tests {
    use alloy::primitives::B256;

    use super::*;

    const ENTRY: Entry = Entry {
        router: Address::repeat_byte(1),
        approval_proxy: Address::repeat_byte(2),
        wrapped: Address::repeat_byte(3),
    };
    const ELSEWHERE: Address = Address::repeat_byte(4);
    const REQUEST: RequestId = RequestId(B256::repeat_byte(0xab));

    fn routed(metadata: &[u8]) -> Message {
        let ends = Ends { refund_to: ELSEWHERE, nft_recipient: ELSEWHERE };
        let mut calls = Calls::of(ENTRY.router);
        calls.pay_native(ELSEWHERE, Part::All);
        calls.with_native(U256::ZERO, ends, Bytes::copy_from_slice(metadata))
    }

    #[test]
    fn metadata_of_32_bytes_names_a_request() {
        let named = routed(REQUEST.as_slice());
        assert_eq!(ENTRY.request_in(named.to, &named.data), Some(REQUEST));
        let other = B256::repeat_byte(0xcd);
        assert_eq!(ENTRY.request_in(named.to, &named.clone().naming(other).data), Some(REQUEST));
        for elsewhere in [ENTRY.approval_proxy, ENTRY.wrapped, ELSEWHERE] {
            assert_eq!(ENTRY.request_in(elsewhere, &named.data), None);
        }
        for metadata in [&[][..], &[0xab; 31], &[0xab; 33]] {
            let message = routed(metadata).naming(other);
            assert_eq!(ENTRY.request_in(message.to, &message.data), None);
        }
    }

    #[test]
    fn calldata_cut_short_or_pointing_outside_names_nothing() {
        let data = routed(REQUEST.as_slice()).data;
        for end in 0..data.len() {
            assert_eq!(ENTRY.request_in(ENTRY.router, &data[..end]), None, "{end}");
        }
        let offset = 4 + 3 * 32;
        for byte in [0xff, 0x7f] {
            let mut data = data.to_vec();
            data[offset..offset + 32].fill(byte);
            assert_eq!(ENTRY.request_in(ENTRY.router, &data), None);
            // An offset that is a valid number here, and just not inside.
            data[offset..offset + 24].fill(0);
            assert_eq!(ENTRY.request_in(ENTRY.router, &data), None);
        }
    }

    #[test]
    fn only_whole_plain_calls_name_a_request_by_their_end() {
        let (id, wrapped) = (REQUEST.as_slice(), ENTRY.wrapped);
        let (deposit, withdraw, transfer) =
            (Wrapped::depositCall::SELECTOR, Wrapped::withdrawCall::SELECTOR, Erc20::transferCall::SELECTOR);
        let table: [(Address, &[u8], usize, bool); 12] = [
            (ELSEWHERE, &[], 0, true),
            (ELSEWHERE, &[], 1, false),
            (ELSEWHERE, &[], 32, false),
            (wrapped, &deposit, 0, true),
            (wrapped, &deposit, 32, false),
            (ELSEWHERE, &deposit, 0, false),
            (wrapped, &withdraw, 32, true),
            (wrapped, &withdraw, 0, false),
            (ELSEWHERE, &withdraw, 32, false),
            (wrapped, &transfer, 64, true),
            (ELSEWHERE, &transfer, 64, true),
            (ELSEWHERE, &transfer, 96, false),
        ];
        for (to, selector, arguments, named) in table {
            let input = [selector, &vec![0; arguments], id].concat();
            assert_eq!(ENTRY.request_in(to, &input), named.then_some(REQUEST), "{to} {selector:?} {arguments}");
        }
    }
}
