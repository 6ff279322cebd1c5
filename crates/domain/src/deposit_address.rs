//! Deposit addresses: where anyone can pay without a wallet that knows us.
//!
//! An address is derived from what it is for, before anything of it is on a chain: a strict one from its order and
//! depositor, an open one from its route. The contracts derive the same (`contracts/src/DepositAddressFactory.sol`).
//! Nothing in here may change without losing sight of addresses already given out.

use alloy_primitives::{Address, B256, U256, keccak256};

use crate::account::Account;
use crate::ids::OrderId;

/// The code of an EIP-1167 clone, around the address of its implementation.
const CLONE_HEAD: [u8; 20] = [
    0x3d, 0x60, 0x2d, 0x80, 0x60, 0x0a, 0x3d, 0x39, 0x81, 0xf3, 0x36, 0x3d, 0x3d, 0x37, 0x3d, 0x3d, 0x3d, 0x36, 0x3d,
    0x73,
];
const CLONE_TAIL: [u8; 15] = [0x5a, 0xf4, 0x3d, 0x82, 0x80, 0x3e, 0x90, 0x3d, 0x91, 0x60, 0x2b, 0x57, 0xfd, 0x5b, 0xf3];

/// The use of an address, as its quote asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// For one order and its exact amount.
    Strict,
    /// For one route: every deposit is an order of its own.
    Open,
}

impl Kind {
    pub const ALL: [Self; 2] = [Self::Strict, Self::Open];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Open => "open",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// The caller's wish to be paid at an address instead of by a wallet's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressAsk {
    pub kind: Kind,
    /// The integrator's account that deposits name where nobody else can be named. It is refunded to by hand alone.
    pub recovery: Option<Address>,
}

/// The contract's side of an address: what its salt is made of, and who may sweep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derivation {
    /// Anyone may sweep it: order and depositor are in its salt.
    Strict { order: OrderId, depositor: Address },
    /// Operators sweep it, and name order and depositor as they do.
    Open(RouteKey),
}

/// The name of an open address: a hash of its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteKey(pub B256);

/// The route that an open address is for: where its deposits go, and where they go back to.
#[derive(Clone, Copy, Debug)]
pub struct Route<'a> {
    /// The name of the destination chain.
    pub destination: &'a str,
    pub currency: &'a Account,
    pub recipient: &'a Account,
    /// Nobody is not the zero address, which stands for whoever has paid.
    pub refund_to: Option<Address>,
    /// The integrator's public id, or nothing.
    pub integrator: &'a str,
    /// One more for each further address of the same route.
    pub counter: u64,
}

impl Route<'_> {
    /// Each member is hashed by itself: no two routes run together into the same bytes.
    pub fn key(&self) -> RouteKey {
        let refund_to = self.refund_to.as_ref().map_or(&[][..], |address| address.as_slice());
        let members = [
            self.destination.as_bytes(),
            self.currency.bytes(),
            self.recipient.bytes(),
            refund_to,
            self.integrator.as_bytes(),
        ];
        let mut words = members.map(keccak256).to_vec();
        words.push(B256::from(U256::from(self.counter)));
        RouteKey(keccak256(words.iter().flat_map(|word| word.0).collect::<Vec<u8>>()))
    }
}

/// The factory of a chain, and the contract that its clones run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factory {
    pub address: Address,
    pub implementation: Address,
}

impl Factory {
    /// A factory creates its implementation first, at its nonce 1: the address follows from its own.
    pub fn new(address: Address) -> Self {
        // The RLP of the list of the address and 1.
        let hash = keccak256([&[0xd6, 0x94][..], address.as_slice(), &[1]].concat());
        Self { address, implementation: Address::from_word(hash) }
    }

    /// The address of one order, paid for or refunded to this depositor.
    pub fn strict(&self, order: OrderId, depositor: Address) -> Address {
        self.clone_at(strict_salt(order, depositor))
    }

    /// The address of a route, used for one order after the other.
    pub fn open(&self, route: RouteKey) -> Address {
        self.clone_at(keccak256([b"open".as_slice(), route.0.as_slice()].concat()))
    }

    pub fn address_of(&self, derivation: Derivation) -> Address {
        match derivation {
            Derivation::Strict { order, depositor } => self.strict(order, depositor),
            Derivation::Open(route) => self.open(route),
        }
    }

    fn clone_at(&self, salt: B256) -> Address {
        self.address.create2(salt, self.init_code_hash())
    }

    fn init_code_hash(&self) -> B256 {
        keccak256([CLONE_HEAD.as_slice(), self.implementation.as_slice(), &CLONE_TAIL].concat())
    }
}

fn strict_salt(order: OrderId, depositor: Address) -> B256 {
    keccak256([order.as_slice(), depositor.as_slice()].concat())
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{address, b256};
    use proptest::prelude::*;

    use super::*;
    use crate::account::Vm;

    const ORDER: OrderId = OrderId(b256!("7f3117abfbad865d612ada25300c7379160a97f0f1950f0836cc325d36f9b8cb"));
    const DEPOSITOR: Address = address!("cd8475f2565435680a562f812ef5946576b00ad7");

    #[test]
    fn the_published_strict_address() {
        let factory = Factory {
            address: address!("4839d59c938039415a5feb01667f304585cab2e9"),
            implementation: address!("a647af846de690ef23cfa936545d68d34ca81f2a"),
        };
        assert_eq!(
            strict_salt(ORDER, DEPOSITOR),
            b256!("9f8ede1cf5529413ebb716a80d4429963a83deb4ace86de9e6884f780163c47e")
        );
        assert_eq!(factory.init_code_hash(), b256!("2aae0754ea6a7407f9f2a4cd9bd9f2ddd6f508040e3e6d303345a315dae58314"));
        assert_eq!(factory.strict(ORDER, DEPOSITOR), address!("5fa97d759682c0fb78639b324534ca0bea5544ea"));
    }

    /// A public example of an address created at nonce 1.
    #[test]
    fn the_implementation_is_the_first_contract_of_its_factory() {
        let creator = address!("6ac7ea33f8831ea9dcc53393aaa88b25a785dbf0");
        assert_eq!(Factory::new(creator).implementation, address!("343c43a37d37dff08ae8c4a11544c718abb4fcf8"));
    }

    fn evm(byte: u8) -> Account {
        Account::parse(Vm::Evm, &Address::repeat_byte(byte).to_string()).unwrap()
    }

    #[test]
    fn every_member_of_a_route_changes_its_key() {
        let (first, second) = (evm(1), evm(2));
        let route = Route {
            destination: "base",
            currency: &first,
            recipient: &first,
            refund_to: None,
            integrator: "",
            counter: 0,
        };
        let others = [
            Route { destination: "optimism", ..route },
            Route { currency: &second, ..route },
            Route { recipient: &second, ..route },
            Route { refund_to: Some(Address::ZERO), ..route },
            Route { refund_to: Some(Address::repeat_byte(1)), ..route },
            Route { integrator: "key", ..route },
            Route { counter: 1, ..route },
            // The same letters, elsewhere.
            Route { destination: "", integrator: "base", ..route },
            Route { destination: "bas", integrator: "e", ..route },
        ];
        let mut keys: Vec<RouteKey> = others.iter().chain([&route]).map(Route::key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), others.len() + 1);
        assert_eq!(
            route.key(),
            RouteKey(b256!("1ad2df252545308a1b6688e1111e578686621cee7246b3afbb386992a7a038c6")),
            "addresses that were given out lead here"
        );
    }

    proptest! {
        #[test]
        fn other_parameters_are_another_address(order: [u8; 32], other: [u8; 32], depositor: [u8; 20]) {
            let factory = Factory::new(Address::repeat_byte(7));
            let (order, other, depositor) = (OrderId(order.into()), OrderId(other.into()), depositor.into());
            let strict = factory.strict(order, depositor);
            prop_assert_eq!(strict == factory.strict(other, depositor), order == other);
            prop_assert_ne!(strict, factory.strict(order, Address::repeat_byte(9)));
            prop_assert_ne!(strict, factory.open(RouteKey(order.0)));
            prop_assert_ne!(strict, factory.open(RouteKey(strict_salt(order, depositor))));
            prop_assert_ne!(strict, Factory::new(Address::repeat_byte(8)).strict(order, depositor));
        }
    }
}
