//! Fills that are more than one transfer: with a trade on the destination, a gas top-up, or the user's own calls.
//!
//! A filler sends native funds to the router, or has tokens of the treasury spent through the spend limiter. All
//! calldata ends with the order id. Plain transfers are in `calldata`.

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall;
use domain::ids::OrderId;

use crate::contracts::Erc20;
use crate::routed::{Calls, Ends, FromSpendLimiter, Message, Part};
use crate::swap::Trade;

/// The funds that a fill is paid from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Funds {
    Native(U256),
    SpendLimiter(FromSpendLimiter),
}

#[derive(Clone, Copy, Debug)]
pub struct Fill<'a> {
    pub router: Address,
    /// With a trade its `most_input`, else the amount delivered.
    pub funds: Funds,
    /// From the currency of the funds to the one delivered; none where they are the same.
    pub trade: Option<Trade<'a>>,
    pub recipient: Address,
    /// Native value for the recipient in addition to the delivery, from the filler.
    pub top_up: U256,
    /// The user's calls on the delivered funds, which then stay at the router until the calls are done. The calls may
    /// spend native value only where native currency is delivered.
    pub calls: &'a [Message],
    /// Receives the input that the trade did not use: us.
    pub rest_to: Address,
}

impl Fill<'_> {
    /// The transaction that the filler sends.
    pub fn message(&self, order: OrderId) -> Message {
        // The leftovers of the user's calls are the user's; without calls, only our own native value can be left.
        let refund_to = if self.calls.is_empty() { self.rest_to } else { self.recipient };
        let ends = Ends { refund_to, nft_recipient: self.recipient };
        // Metadata names requests (`steps`), and a fill is not to be mistaken for one.
        let metadata = Bytes::new();
        let message = match &self.funds {
            Funds::Native(amount) => self.calls().with_native(amount.saturating_add(self.top_up), ends, metadata),
            Funds::SpendLimiter(spend_limiter) => {
                self.calls().with_spend_limiter(spend_limiter, self.top_up, ends, metadata)
            }
        };
        message.naming(order.0)
    }

    fn calls(&self) -> Calls {
        let mut calls = Calls::of(self.router);
        if let Some(trade) = &self.trade {
            let through_router = trade.native_out || !self.calls.is_empty();
            let output_to = if through_router { self.router } else { self.recipient };
            trade.add_to(&mut calls, output_to, self.rest_to);
            if trade.path.is_wrapping() && trade.native_in && output_to == self.router {
                // Wrapping logs no transfer, and only a transfer proves that the router was paid.
                let amount = trade.wrapped_amount();
                let proof = Erc20::transferCall { to: self.router, amount };
                calls.call(trade.wrapped, U256::ZERO, proof.abi_encode());
            }
        }
        // The top-up goes out before anything is paid by "all there is", and before the user's calls could spend it.
        calls.pay_native(self.recipient, Part::Exactly(self.top_up));
        if self.calls.is_empty() {
            self.deliver(&mut calls);
        } else {
            self.run(&mut calls);
        }
        calls
    }

    fn deliver(&self, calls: &mut Calls) {
        match (&self.trade, &self.funds) {
            (Some(trade), _) if trade.native_out => calls.pay_native(self.recipient, trade.output()),
            // The trade has paid the recipient.
            (Some(_), _) => (),
            (None, Funds::Native(amount)) => calls.pay_native(self.recipient, Part::Exactly(*amount)),
            (None, Funds::SpendLimiter(spend_limiter)) => {
                calls.pay_token(spend_limiter.token, self.recipient, Part::Exactly(spend_limiter.amount));
            }
        }
    }

    fn run(&self, calls: &mut Calls) {
        if self.trade.is_some_and(|trade| trade.native_in) {
            // The user's calls run as the router: our own funds must be out of it by then.
            calls.pay_native(self.rest_to, Part::All);
        }
        for call in self.calls {
            calls.call(call.to, call.value, call.data.clone());
        }
        if let Some(token) = self.delivered() {
            calls.pay_token(token, self.recipient, Part::All);
        }
    }

    /// None for the native currency.
    fn delivered(&self) -> Option<Address> {
        match (&self.trade, &self.funds) {
            (Some(trade), _) => trade.token_out(),
            (None, Funds::Native(_)) => None,
            (None, Funds::SpendLimiter(spend_limiter)) => Some(spend_limiter.token),
        }
    }
}
