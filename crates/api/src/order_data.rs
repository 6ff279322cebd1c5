//! `orderData`: an order as JSON, in both directions.
//!
//! Reading is strict. Nothing is coerced: an order that is not exactly of this form has no id.

use std::borrow::Cow;

use alloy_primitives::{Address, U256, hex};
use domain::account::{Account, Vm};
use domain::digits::Digits;
use domain::ids::OrderId;
use domain::money::Amount;
use domain::order::{self, Fee, Input, Order, Output, Payment, Refund};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OrderData<'a> {
    pub version: Cow<'a, str>,
    /// The name of the chain of the solver's identity.
    pub solver_chain_id: Cow<'a, str>,
    pub solver: Cow<'a, str>,
    pub salt: Cow<'a, str>,
    pub inputs: Vec<InputData<'a>>,
    pub output: OutputData<'a>,
    pub fees: Vec<FeeData<'a>>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputData<'a> {
    pub payment: InputPaymentData<'a>,
    pub refunds: Vec<RefundData<'a>>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputPaymentData<'a> {
    pub chain_id: Cow<'a, str>,
    pub currency: Cow<'a, str>,
    pub amount: Cow<'a, str>,
    pub weight: Cow<'a, str>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RefundData<'a> {
    pub chain_id: Cow<'a, str>,
    pub recipient: Cow<'a, str>,
    pub currency: Cow<'a, str>,
    pub minimum_amount: Cow<'a, str>,
    pub deadline: u32,
    pub extra_data: Cow<'a, str>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputData<'a> {
    pub chain_id: Cow<'a, str>,
    pub payments: Vec<OutputPaymentData<'a>>,
    pub calls: Vec<Cow<'a, str>>,
    pub deadline: u32,
    pub extra_data: Cow<'a, str>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputPaymentData<'a> {
    pub recipient: Cow<'a, str>,
    pub currency: Cow<'a, str>,
    pub minimum_amount: Cow<'a, str>,
    pub expected_amount: Cow<'a, str>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FeeData<'a> {
    pub recipient_chain_id: Cow<'a, str>,
    pub recipient: Cow<'a, str>,
    pub currency_chain_id: Cow<'a, str>,
    pub currency: Cow<'a, str>,
    pub amount: Cow<'a, str>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {problem}")]
pub struct BadOrder {
    at: String,
    problem: String,
}

/// Reads the order and names it. `vm` knows the machine behind each chain name.
pub fn order_id(json: &str, vm: &dyn Fn(&str) -> Option<Vm>) -> Result<OrderId, BadOrder> {
    let data: OrderData<'_> = serde_json::from_str(json)
        .map_err(|error| BadOrder { at: "orderData".to_owned(), problem: error.to_string() })?;
    Ok(data.to_order(vm)?.id())
}

fn bad(at: impl Into<String>, problem: impl ToString) -> BadOrder {
    BadOrder { at: at.into(), problem: problem.to_string() }
}

/// The chain whose entries are read.
struct Place<'a> {
    at: String,
    vm: Vm,
    name: &'a str,
}

impl<'a> Place<'a> {
    fn of(at: String, name: &'a str, vm: &dyn Fn(&str) -> Option<Vm>) -> Result<Self, BadOrder> {
        let vm = vm(name).ok_or_else(|| bad(&at, format!("{name} is not a known chain name")))?;
        Ok(Self { at, vm, name })
    }

    fn account(&self, member: &str, text: &str) -> Result<Account, BadOrder> {
        Account::parse(self.vm, text).map_err(|error| bad(format!("{}.{member}", self.at), error))
    }

    fn amount(&self, member: &str, text: &str) -> Result<Amount, BadOrder> {
        text.parse().map_err(|error| bad(format!("{}.{member}", self.at), error))
    }

    fn bytes(&self, member: &str, text: &str) -> Result<Vec<u8>, BadOrder> {
        bytes(text).ok_or_else(|| bad(format!("{}.{member}", self.at), "must be 0x and an even number of hex digits"))
    }
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    hex::decode(text.strip_prefix("0x").filter(|digits| digits.is_ascii())?).ok()
}

/// An integer, not bytes: an odd number of digits and leading zeros do not matter.
fn integer(text: &str) -> Option<U256> {
    let digits = text.strip_prefix("0x").filter(|digits| !digits.is_empty())?;
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() { Some(U256::ZERO) } else { U256::from_str_radix(significant, 16).ok() }
}

impl OrderData<'_> {
    pub fn to_order(&self, vm: &dyn Fn(&str) -> Option<Vm>) -> Result<Order, BadOrder> {
        if self.version != order::VERSION {
            return Err(bad("version", format!("must be {}", order::VERSION)));
        }
        Place::of("solverChainId".to_owned(), &self.solver_chain_id, vm)?;
        let solver = Account::parse(Vm::Evm, &self.solver).map_err(|error| bad("solver", error))?;
        let inputs = self.inputs.iter().enumerate().map(|(n, input)| input.read(&format!("inputs.{n}"), vm));
        let fees = self.fees.iter().enumerate().map(|(n, fee)| fee.read(&format!("fees.{n}"), vm));
        Ok(Order {
            solver_chain: self.solver_chain_id.clone().into_owned(),
            solver: solver.evm().unwrap_or(Address::ZERO),
            salt: integer(&self.salt)
                .ok_or_else(|| bad("salt", "must be 0x and an integer of at most 256 bits in hex"))?,
            inputs: inputs.collect::<Result<_, _>>()?,
            output: self.output.read(vm)?,
            fees: fees.collect::<Result<_, _>>()?,
        })
    }
}

impl InputData<'_> {
    fn read(&self, at: &str, vm: &dyn Fn(&str) -> Option<Vm>) -> Result<Input, BadOrder> {
        let place = Place::of(format!("{at}.payment"), &self.payment.chain_id, vm)?;
        let refunds = self.refunds.iter().enumerate().map(|(n, refund)| refund.read(format!("{at}.refunds.{n}"), vm));
        Ok(Input {
            chain: place.name.to_owned(),
            currency: place.account("currency", &self.payment.currency)?,
            amount: place.amount("amount", &self.payment.amount)?,
            weight: place.amount("weight", &self.payment.weight)?.units(),
            refunds: refunds.collect::<Result<_, _>>()?,
        })
    }
}

impl RefundData<'_> {
    fn read(&self, at: String, vm: &dyn Fn(&str) -> Option<Vm>) -> Result<Refund, BadOrder> {
        let place = Place::of(at, &self.chain_id, vm)?;
        Ok(Refund {
            chain: place.name.to_owned(),
            recipient: place.account("recipient", &self.recipient)?,
            currency: place.account("currency", &self.currency)?,
            minimum: place.amount("minimumAmount", &self.minimum_amount)?,
            deadline: self.deadline,
            extra_data: place.bytes("extraData", &self.extra_data)?,
        })
    }
}

impl OutputData<'_> {
    fn read(&self, vm: &dyn Fn(&str) -> Option<Vm>) -> Result<Output, BadOrder> {
        let place = Place::of("output".to_owned(), &self.chain_id, vm)?;
        let payment = |payment: &OutputPaymentData<'_>| {
            Ok(Payment {
                recipient: place.account("recipient", &payment.recipient)?,
                currency: place.account("currency", &payment.currency)?,
                minimum: place.amount("minimumAmount", &payment.minimum_amount)?,
                expected: place.amount("expectedAmount", &payment.expected_amount)?,
            })
        };
        Ok(Output {
            chain: place.name.to_owned(),
            payments: self.payments.iter().map(payment).collect::<Result<_, _>>()?,
            calls: self.calls.iter().map(|call| place.bytes("calls", call)).collect::<Result<_, _>>()?,
            deadline: self.deadline,
            extra_data: place.bytes("extraData", &self.extra_data)?,
        })
    }
}

impl FeeData<'_> {
    fn read(&self, at: &str, vm: &dyn Fn(&str) -> Option<Vm>) -> Result<Fee, BadOrder> {
        let to = Place::of(at.to_owned(), &self.recipient_chain_id, vm)?;
        let of = Place::of(at.to_owned(), &self.currency_chain_id, vm)?;
        Ok(Fee {
            recipient_chain: to.name.to_owned(),
            recipient: to.account("recipient", &self.recipient)?,
            currency_chain: of.name.to_owned(),
            currency: of.account("currency", &self.currency)?,
            amount: of.amount("amount", &self.amount)?,
        })
    }
}

fn hex_text(bytes: &[u8]) -> Cow<'static, str> {
    hex::encode_prefixed(bytes).into()
}

fn number(amount: Amount) -> Cow<'static, str> {
    Digits::of(amount.units()).as_str().to_owned().into()
}

impl<'a> From<&'a Order> for OrderData<'a> {
    fn from(order: &'a Order) -> Self {
        Self {
            version: order::VERSION.into(),
            solver_chain_id: (&order.solver_chain).into(),
            solver: hex_text(order.solver.as_slice()),
            salt: hex_text(&order.salt.to_be_bytes::<32>()),
            inputs: order.inputs.iter().map(InputData::from).collect(),
            output: OutputData::from(&order.output),
            fees: order.fees.iter().map(FeeData::from).collect(),
        }
    }
}

impl<'a> From<&'a Input> for InputData<'a> {
    fn from(input: &'a Input) -> Self {
        let refund = |refund: &'a Refund| RefundData {
            chain_id: (&refund.chain).into(),
            recipient: refund.recipient.text().into(),
            currency: refund.currency.text().into(),
            minimum_amount: number(refund.minimum),
            deadline: refund.deadline,
            extra_data: hex_text(&refund.extra_data),
        };
        Self {
            payment: InputPaymentData {
                chain_id: (&input.chain).into(),
                currency: input.currency.text().into(),
                amount: number(input.amount),
                weight: number(Amount::new(input.weight)),
            },
            refunds: input.refunds.iter().map(refund).collect(),
        }
    }
}

impl<'a> From<&'a Output> for OutputData<'a> {
    fn from(output: &'a Output) -> Self {
        let payment = |payment: &'a Payment| OutputPaymentData {
            recipient: payment.recipient.text().into(),
            currency: payment.currency.text().into(),
            minimum_amount: number(payment.minimum),
            expected_amount: number(payment.expected),
        };
        Self {
            chain_id: (&output.chain).into(),
            payments: output.payments.iter().map(payment).collect(),
            calls: output.calls.iter().map(|call| hex_text(call)).collect(),
            deadline: output.deadline,
            extra_data: hex_text(&output.extra_data),
        }
    }
}

impl<'a> From<&'a Fee> for FeeData<'a> {
    fn from(fee: &'a Fee) -> Self {
        Self {
            recipient_chain_id: (&fee.recipient_chain).into(),
            recipient: fee.recipient.text().into(),
            currency_chain_id: (&fee.currency_chain).into(),
            currency: fee.currency.text().into(),
            amount: number(fee.amount),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Orders and their ids, made by an independent implementation.
    fn vectors() -> Value {
        serde_json::from_str(include_str!("../tests/order-vectors.json")).unwrap()
    }

    fn id_of(vectors: &Value, order: &Value) -> Result<String, BadOrder> {
        let vm = |name: &str| match vectors["chains"][name].as_str()? {
            "evm" => Some(Vm::Evm),
            "venue" => Some(Vm::Venue),
            "svm" => Some(Vm::Svm),
            _ => None,
        };
        order_id(&order.to_string(), &vm).map(|id| id.to_string())
    }

    #[test]
    fn every_vector_has_its_id_and_survives_the_way_there_and_back() {
        let vectors = vectors();
        let orders = vectors["orders"].as_array().unwrap();
        assert_eq!(orders.len(), 10);
        for vector in orders {
            let id = vector["orderId"].as_str().unwrap();
            assert_eq!(id_of(&vectors, &vector["order"]).as_deref(), Ok(id), "{}", vector["name"]);
            let vm = |name: &str| match vectors["chains"][name].as_str()? {
                "venue" => Some(Vm::Venue),
                "svm" => Some(Vm::Svm),
                _ => Some(Vm::Evm),
            };
            let data: OrderData<'_> = serde_json::from_value(vector["order"].clone()).unwrap();
            let order = data.to_order(&vm).unwrap();
            let back = OrderData::from(&order);
            assert_eq!(id_of(&vectors, &serde_json::to_value(back).unwrap()).as_deref(), Ok(id));
        }
    }

    #[test]
    fn a_salt_is_the_integer_that_its_digits_say() {
        let vectors = vectors();
        let id = |salt: &str| {
            let mut order = vectors["orders"][0]["order"].clone();
            order["salt"] = salt.into();
            id_of(&vectors, &order)
        };
        let whole = |digits: &str| id(&format!("0x{digits:0>64}"));
        for (salt, digits) in [
            ("0x0", "0"),
            ("0x00", "0"),
            ("0x000", "0"),
            ("0x1", "1"),
            ("0x01", "1"),
            ("0x2a", "2a"),
            ("0x02A", "2a"),
            ("0xabc", "abc"),
            (&format!("0x{:0>80}", "abc"), "abc"),
            (&format!("0x{}", "f".repeat(63)), &"f".repeat(63)),
            (&format!("0x{}", "f".repeat(64)), &"f".repeat(64)),
        ] {
            assert!(whole(digits).is_ok());
            assert_eq!(id(salt), whole(digits), "{salt}");
        }
        let too_long = format!("0x1{}", "0".repeat(64));
        for bad in ["", "0", "1", "0x", "0X1", "0x_1", "0x1_0", "0x-1", "0x+1", "0x 1", "0xg", "0xé", &too_long] {
            assert!(id(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_must_be_rejected_is() {
        let vectors = vectors();
        let base = &vectors["orders"][0]["order"];
        let cases = vectors["mustReject"].as_array().unwrap();
        assert_eq!(cases.len(), 9);
        for case in cases {
            let mut order = base.clone();
            let path = format!("/{}", case["path"].as_str().unwrap().replace('.', "/"));
            *order.pointer_mut(&path).unwrap() = case["value"].clone();
            assert!(id_of(&vectors, &order).is_err(), "{}", case["name"]);
        }
    }
}
