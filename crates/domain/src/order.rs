//! The order, and the hash that names it.
//!
//! An order id is the EIP-712 struct hash of the order, without domain or prefix: anyone can derive it from the
//! order's data. Nothing in here may change without breaking every id already given out.

use std::cell::RefCell;

use alloy_primitives::{Address, B256, KECCAK256_EMPTY, Keccak256, U256, keccak256};

use crate::account::Account;
use crate::ids::OrderId;
use crate::memo::Memo;
use crate::money::Amount;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The name of the chain of the solver's identity.
    pub solver_chain: String,
    pub solver: Address,
    pub salt: U256,
    pub inputs: Vec<Input>,
    pub output: Output,
    pub fees: Vec<Fee>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    pub chain: String,
    pub currency: Account,
    pub amount: Amount,
    /// Relative value per smallest unit, where inputs of several currencies are added up.
    pub weight: U256,
    pub refunds: Vec<Refund>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refund {
    pub chain: String,
    pub recipient: Account,
    pub currency: Account,
    pub minimum: Amount,
    /// Unix seconds; the refund's block must not be later.
    pub deadline: u32,
    pub extra_data: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub chain: String,
    pub payments: Vec<Payment>,
    pub calls: Vec<Vec<u8>>,
    /// Unix seconds; the fill's block must not be later.
    pub deadline: u32,
    pub extra_data: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    pub recipient: Account,
    pub currency: Account,
    pub minimum: Amount,
    pub expected: Amount,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fee {
    pub recipient_chain: String,
    pub recipient: Account,
    pub currency_chain: String,
    pub currency: Account,
    pub amount: Amount,
}

/// The only version there is.
pub const VERSION: &str = "v1";

/// The hashes of the types' descriptions, which a test derives: hashing them anew was about a quarter of an order's
/// permutations (13 of 47).
mod type_hash {
    use alloy_primitives::{B256, b256};

    pub(crate) const INPUT_PAYMENT: B256 = b256!("66edc7ab4e5f0ad0adad21638ffff360dbf956d89a28f9ec6cdd3e7a123bb4eb");
    pub(crate) const INPUT_REFUND: B256 = b256!("9f8e11410c9bfb023e54a2bfcc41ef4f8db1fe4bb5db7873169ff3aead2bf0e2");
    pub(crate) const INPUT: B256 = b256!("c5b0643c7427e4816be79fd8064fc108fc7c5aefbe7016b1eeeb150228f93745");
    pub(crate) const OUTPUT_PAYMENT: B256 = b256!("96c6557b6ec114bb9ff5291394bf5f35c3685043c1a46f43146634a70dca0cdc");
    pub(crate) const OUTPUT: B256 = b256!("ec5bd83409077be71a3fbc2c8578ea7dd1aa0ce0a7be97571a0a89e61e2c2269");
    pub(crate) const FEE: B256 = b256!("5e1420e6482d4138dbc016fa378f064eb120b8b82c866fbb1da0b68c92f8abae");
    pub(crate) const ORDER: B256 = b256!("ee05e73da8f2fce11d34a78a39998b4dd8a56c6298aa9ad2870c3f9a2821dc8e");
}

/// Longer than the bytes of any account and the usual name of a chain.
const MAX_NAME_LEN: usize = 42;
const MAX_PAYMENT_LEN: usize = 5 * 32;

thread_local! {
    /// The names of chains, currencies and contracts are the same in every order, and hashing them was half of an
    /// order's permutations.
    static HASHES: RefCell<Memo<B256, MAX_NAME_LEN>> = RefCell::new(Memo::new());
    /// A client that shows a price asks for the same amount every few seconds, and many ask for a round one.
    static PAYMENTS: RefCell<Memo<B256, MAX_PAYMENT_LEN>> = RefCell::new(Memo::new());
}

fn hash(bytes: &[u8]) -> B256 {
    HASHES.with_borrow_mut(|hashes| hashes.value_of(bytes, || keccak256(bytes)))
}

/// The widest type has seven members, and its hash stands before them.
const MAX_WORDS: usize = 8;

/// Words gathered for one hash.
struct Words {
    bytes: [u8; MAX_WORDS * 32],
    length: usize,
}

impl Words {
    fn of(type_hash: B256) -> Self {
        let mut words = Self { bytes: [0; MAX_WORDS * 32], length: 0 };
        words.word(type_hash);
        words
    }

    // In place: moving the words along would copy them for each.
    fn word(&mut self, word: B256) -> &mut Self {
        self.bytes[self.length..self.length + 32].copy_from_slice(word.as_slice());
        self.length += 32;
        self
    }

    fn number(&mut self, number: U256) -> &mut Self {
        self.word(B256::from(number))
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.word(hash(bytes))
    }

    fn list(&mut self, items: impl Iterator<Item = B256>) -> &mut Self {
        let mut items = items.peekable();
        if items.peek().is_none() {
            return self.word(KECCAK256_EMPTY);
        }
        let mut hasher = Keccak256::new();
        items.for_each(|item| hasher.update(item));
        self.word(hasher.finalize())
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn hash(&self) -> B256 {
        keccak256(self.as_slice())
    }

    fn kept_hash(&self) -> B256 {
        PAYMENTS.with_borrow_mut(|payments| payments.value_of(self.as_slice(), || self.hash()))
    }
}

impl Order {
    pub fn id(&self) -> OrderId {
        let hash = Words::of(type_hash::ORDER)
            .bytes(VERSION.as_bytes())
            .bytes(self.solver_chain.as_bytes())
            .word(self.solver.into_word())
            .number(self.salt)
            .list(self.inputs.iter().map(Input::hash))
            .word(self.output.hash())
            .list(self.fees.iter().map(Fee::hash))
            .hash();
        OrderId(hash)
    }
}

impl Input {
    fn hash(&self) -> B256 {
        let payment = Words::of(type_hash::INPUT_PAYMENT)
            .bytes(self.chain.as_bytes())
            .bytes(self.currency.bytes())
            .number(self.amount.units())
            .number(self.weight)
            .kept_hash();
        Words::of(type_hash::INPUT).word(payment).list(self.refunds.iter().map(Refund::hash)).hash()
    }
}

impl Refund {
    fn hash(&self) -> B256 {
        Words::of(type_hash::INPUT_REFUND)
            .bytes(self.chain.as_bytes())
            .bytes(self.recipient.bytes())
            .bytes(self.currency.bytes())
            .number(self.minimum.units())
            .number(U256::from(self.deadline))
            .bytes(&self.extra_data)
            .hash()
    }
}

impl Output {
    fn hash(&self) -> B256 {
        Words::of(type_hash::OUTPUT)
            .bytes(self.chain.as_bytes())
            .list(self.payments.iter().map(Payment::hash))
            .number(U256::from(self.deadline))
            .list(self.calls.iter().map(keccak256))
            .bytes(&self.extra_data)
            .hash()
    }
}

impl Payment {
    fn hash(&self) -> B256 {
        Words::of(type_hash::OUTPUT_PAYMENT)
            .bytes(self.recipient.bytes())
            .bytes(self.currency.bytes())
            .number(self.minimum.units())
            .number(self.expected.units())
            .hash()
    }
}

impl Fee {
    fn hash(&self) -> B256 {
        Words::of(type_hash::FEE)
            .bytes(self.recipient_chain.as_bytes())
            .bytes(self.recipient.bytes())
            .bytes(self.currency_chain.as_bytes())
            .bytes(self.currency.bytes())
            .number(self.amount.units())
            .hash()
    }
}

/// `extraData` of an entry: on an EVM chain the contract whose events count as evidence. The venue has no contracts,
/// and its entries have none: zero here.
pub fn fill_contract_data(contract: Address) -> Vec<u8> {
    if contract.is_zero() { Vec::new() } else { contract.into_word().to_vec() }
}

/// A call as an entry of `output.calls`: the ABI encoding of three one-member tuples, `(to)`, `(data)`, `(value)`. The
/// second is dynamic, which puts one more offset in front of the data than a flat encoding has.
pub fn call_data(to: Address, data: &[u8], value: Amount) -> Vec<u8> {
    let word = |n: usize| U256::from(n).to_be_bytes::<32>();
    let padding = data.len().next_multiple_of(32) - data.len();
    let mut encoded = Vec::with_capacity(32 * 5 + data.len() + padding);
    encoded.extend_from_slice(to.into_word().as_slice());
    encoded.extend_from_slice(&word(0x60));
    encoded.extend_from_slice(&value.units().to_be_bytes::<32>());
    encoded.extend_from_slice(&word(0x20));
    encoded.extend_from_slice(&word(data.len()));
    encoded.extend_from_slice(data);
    encoded.resize(encoded.len() + padding, 0);
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_hash_is_the_hash() {
        for round in 0..3 {
            for n in 0..2_000u32 {
                let text = n.to_be_bytes().repeat(usize::try_from(n).unwrap() % 10);
                assert_eq!(hash(&text), keccak256(&text), "{round} {n}");
            }
        }
        assert_eq!(hash(b""), keccak256(b""));
        // The same letters in another length are another text.
        assert_ne!(hash(&[0; 4]), hash(&[0; 5]));
        for _ in 0..3 {
            for n in 0..2_000 {
                let mut payment = Words::of(type_hash::INPUT_PAYMENT);
                for _ in 0..n % 5 {
                    payment.number(U256::from(n));
                }
                assert_eq!(payment.kept_hash(), payment.hash(), "{n}");
            }
        }
    }

    #[test]
    fn a_call_is_encoded_as_published() {
        use alloy_primitives::{address, hex};
        let to = address!("638518724ce26489a25f81bb2441d693f98bb89d");
        let encoded = call_data(to, &hex!("d0e30db0"), "100000000000000000".parse().unwrap());
        let published = hex!(
            "000000000000000000000000638518724ce26489a25f81bb2441d693f98bb89d"
            "0000000000000000000000000000000000000000000000000000000000000060"
            "000000000000000000000000000000000000000000000000016345785d8a0000"
            "0000000000000000000000000000000000000000000000000000000000000020"
            "0000000000000000000000000000000000000000000000000000000000000004"
            "d0e30db000000000000000000000000000000000000000000000000000000000"
        );
        assert_eq!(hex::encode(encoded), hex::encode(published));
        assert_eq!(call_data(to, &[], Amount::ZERO).len(), 160);
    }

    const INPUT_PAYMENT: &str = "InputPayment(string chainId,bytes currency,uint256 amount,uint256 weight)";
    const INPUT_REFUND: &str = "InputRefund(string chainId,bytes recipient,bytes currency,uint256 minimumAmount,\
                                uint32 deadline,bytes extraData)";
    const INPUT: &str = "Input(InputPayment payment,InputRefund[] refunds)";
    const OUTPUT_PAYMENT: &str =
        "OutputPayment(bytes recipient,bytes currency,uint256 minimumAmount,uint256 expectedAmount)";
    // The deadline stands before the calls here, and after them in the JSON.
    const OUTPUT: &str =
        "Output(string chainId,OutputPayment[] payments,uint32 deadline,bytes[] calls,bytes extraData)";
    const FEE: &str =
        "Fee(string recipientChainId,bytes recipient,string currencyChainId,bytes currency,uint256 amount)";
    const ORDER: &str = "Order(string version,string solverChainId,address solver,uint256 salt,Input[] inputs,\
                         Output output,Fee[] fees)";

    #[test]
    fn type_hashes_are_those_of_the_published_descriptions() {
        let all: [(&[&str], B256); 7] = [
            (&[INPUT_PAYMENT], type_hash::INPUT_PAYMENT),
            (&[INPUT_REFUND], type_hash::INPUT_REFUND),
            (&[INPUT, INPUT_PAYMENT, INPUT_REFUND], type_hash::INPUT),
            (&[OUTPUT_PAYMENT], type_hash::OUTPUT_PAYMENT),
            (&[OUTPUT, OUTPUT_PAYMENT], type_hash::OUTPUT),
            (&[FEE], type_hash::FEE),
            (&[ORDER, FEE, INPUT, INPUT_PAYMENT, INPUT_REFUND, OUTPUT, OUTPUT_PAYMENT], type_hash::ORDER),
        ];
        for (types, hash) in all {
            assert_eq!(keccak256(types.concat()), hash, "{types:?}");
        }
    }
}
