//! The first topics of the logs we read.
//!
//! The depository emits its events under the topics already used publicly, so that existing indexers keep working;
//! their names cannot be derived from our source, which is why the topics are literals, here and nowhere else.

use alloy::primitives::{B256, b256};

/// `address from, uint256 amount, bytes32 id`, all in the data.
pub const NATIVE_DEPOSIT: B256 = b256!("8032066556caf3967d8fec4ad22a2d9e1e9576556b2903a0fcd5b1fd201e3477");

/// `address from, address token, uint256 amount, bytes32 id`, all in the data.
pub const ERC20_DEPOSIT: B256 = b256!("49fed1d0b752ce30eee63c7a81133f3363b532fec5d4d7dd1ccfd005de4555e1");

/// `bytes32 id, (address to, bytes data, uint256 value, bool allowFailure) call`.
pub const CALL_EXECUTED: B256 = b256!("4be109453ef7e895dc7215c929fff9b76b51483d56a4d04548b4866e9aa7c5ea");

/// The router's evidence of a native payment: `address to, uint256 amount`.
pub const NATIVE_PAID: B256 = b256!("d35467972d1fda5b63c735f59d3974fa51785a41a92aa3ed1b70832836f8dba6");

/// The router's evidence of a call made: `address to, bytes data, uint256 amount`.
pub const CALL_MADE: B256 = b256!("93485dcd31a905e3ffd7b012abe3438fa8fa77f98ddc9f50e879d3fa7ccdc324");

/// `Transfer(address indexed from, address indexed to, uint256 amount)` of any token.
pub const TRANSFER: B256 = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");

/// The depository's topics on one chain; a deployment with other event names replaces them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topics {
    pub native_deposit: B256,
    pub erc20_deposit: B256,
    pub call_executed: B256,
}

impl Default for Topics {
    fn default() -> Self {
        Self { native_deposit: NATIVE_DEPOSIT, erc20_deposit: ERC20_DEPOSIT, call_executed: CALL_EXECUTED }
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::keccak256;

    use super::*;

    #[test]
    fn public_topics_are_hashes_of_public_signatures() {
        assert_eq!(TRANSFER, keccak256("Transfer(address,address,uint256)"));
        assert_eq!(NATIVE_PAID, keccak256("SolverNativeTransfer(address,uint256)"));
        assert_eq!(CALL_MADE, keccak256("SolverCallExecuted(address,bytes,uint256)"));
    }

    #[test]
    fn neutral_names_would_give_other_topics() {
        let native = keccak256("NativeDeposit(address,uint256,bytes32)");
        let erc20 = keccak256("Erc20Deposit(address,address,uint256,bytes32)");
        assert_eq!(native, b256!("85c721e8ef0c5dcd3148d76089ab653259181fd472bbb24272819e0d1da87413"));
        assert_eq!(erc20, b256!("780ad3a4510beb6978629a743ba3376d9ffb3c773e40f6291b36b8f5aa51f473"));
        assert_ne!(Topics::default().native_deposit, native);
        assert_ne!(Topics::default().erc20_deposit, erc20);
    }
}
