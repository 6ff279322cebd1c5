//! A quote: what was asked, what it costs and what arrives, and the order that follows from it.
//!
//! How the figures come about is in `pricing`.

use alloy_primitives::{Address, B256, U256};
use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::ids::{ChainId, RequestId};
use crate::money::{Amount, OutOfRange, Price};
use crate::order::{self, Input, Order, Output, Payment, Refund};
use crate::time::Timestamp;

/// A currency by its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrencyKey {
    pub chain: ChainId,
    pub address: Account,
}

/// Which side of the transfer the caller fixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trade {
    /// The amount is paid in; what arrives follows.
    ExactInput,
    /// The amount arrives, or nothing does.
    ExactOutput,
    /// The amount should arrive, within the slippage.
    ExpectedOutput,
}

/// What the caller wants, checked for form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    pub user: Account,
    pub recipient: Account,
    pub refund_to: Option<Account>,
    pub origin: CurrencyKey,
    pub destination: CurrencyKey,
    pub trade: Trade,
    /// Of the side that is fixed.
    pub amount: Amount,
    pub slippage_bps: Option<u16>,
    pub referrer: Option<String>,
    pub explicit_deposit: bool,
    pub ttl_secs: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// The same asset on another chain.
    Bridge,
    Swap,
}

/// Taken out of the input, each in the input's smallest unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fees {
    /// Gas of the fill on the destination.
    pub fill_gas: Amount,
    pub flat: Amount,
    /// The service's share, by the class of the pair.
    pub relay: Amount,
}

impl Fees {
    pub fn total(&self) -> Result<Amount, OutOfRange> {
        self.fill_gas.checked_add(self.flat)?.checked_add(self.relay)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    pub operation: Operation,
    pub input: Amount,
    pub output: Amount,
    /// The least that may arrive.
    pub minimum: Amount,
    pub fees: Fees,
    /// What the user's own transactions will cost on the origin, in its native currency. Outside every other figure.
    pub origin_gas: Amount,
    pub slippage_bps: u16,
    pub origin_price: Price,
    pub origin_native_price: Price,
    pub destination_price: Price,
    pub time_estimate_secs: u32,
}

/// A priced promise, with all that is needed to rebuild its order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quote {
    pub id: RequestId,
    pub ask: Ask,
    pub figures: Figures,
    pub created_at: Timestamp,
    /// Unix seconds; the order's deadline.
    pub deadline: u32,
    pub salt: B256,
    pub solver: Address,
    pub solver_chain: String,
    pub origin_chain: String,
    pub destination_chain: String,
    /// The contracts whose events count as evidence, one on each chain.
    pub origin_router: Address,
    pub destination_router: Address,
}

impl Quote {
    pub fn refund_recipient(&self) -> &Account {
        self.ask.refund_to.as_ref().unwrap_or(&self.ask.user)
    }

    pub fn order(&self) -> Order {
        let refund = |chain: &str, currency: &Account, router| Refund {
            chain: chain.to_owned(),
            recipient: self.refund_recipient().clone(),
            currency: currency.clone(),
            // Gas is deducted from refunds, so no floor can be promised.
            minimum: Amount::ZERO,
            deadline: self.deadline,
            extra_data: order::fill_contract_data(router),
        };
        Order {
            solver_chain: self.solver_chain.clone(),
            solver: self.solver,
            salt: U256::from_be_bytes(self.salt.0),
            inputs: vec![Input {
                chain: self.origin_chain.clone(),
                currency: self.ask.origin.address.clone(),
                amount: self.figures.input,
                weight: U256::from(1u8),
                refunds: vec![
                    refund(&self.origin_chain, &self.ask.origin.address, self.origin_router),
                    refund(&self.destination_chain, &self.ask.destination.address, self.destination_router),
                ],
            }],
            output: Output {
                chain: self.destination_chain.clone(),
                payments: vec![Payment {
                    recipient: self.ask.recipient.clone(),
                    currency: self.ask.destination.address.clone(),
                    minimum: self.figures.minimum,
                    expected: self.figures.output,
                }],
                calls: Vec::new(),
                deadline: self.deadline,
                extra_data: order::fill_contract_data(self.destination_router),
            },
            fees: Vec::new(),
        }
    }
}
