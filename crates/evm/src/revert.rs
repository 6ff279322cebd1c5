//! Revert data, decoded: sentences, panics, and errors by name.

use alloy::primitives::{I256, U256, hex, keccak256};
use alloy::sol_types::{Panic, Revert as Sentence, SolError};
use domain::revert::Revert;

use crate::contracts::Depository;

/// Errors whose names and arguments we can show: ours first, then those that tokens and exchanges are built from.
const NAMED: &[&str] = &[
    // Spend limiter, router, approval proxy.
    "LimitExceeded(address,uint256,uint256)",
    "NotArrived(address,uint256,uint256)",
    "RouterCannotSpend()",
    "RefundToCannotBeZero()",
    "AddressCannotBeZero()",
    "Unauthorized()",
    "Reentrancy()",
    "InvalidRecipient()",
    "LengthMismatch()",
    "NativeTransferFailed(address,uint256)",
    "NativeTransferFailed()",
    "NoNftRecipient()",
    "NotPermitOwner(address)",
    "PermitFailed(address)",
    "NothingReceived(address)",
    // Depository.
    "NothingReceived()",
    "DepositInProgress()",
    "ExecutionIsPaused()",
    "CallRequestExpired()",
    "InvalidSignature()",
    "CallRequestAlreadyUsed()",
    "NonceAlreadyUsed(uint256)",
    "SelfCall()",
    "CallNotAllowed(uint256)",
    "OutflowCapExceeded(address,uint256,uint256)",
    // Tokens.
    "ERC20InsufficientBalance(address,uint256,uint256)",
    "ERC20InsufficientAllowance(address,uint256,uint256)",
    "ERC20InvalidSender(address)",
    "ERC20InvalidReceiver(address)",
    "ERC20InvalidApprover(address)",
    "ERC20InvalidSpender(address)",
    "ERC721InvalidReceiver(address)",
    "ERC1155InvalidReceiver(address)",
    "ERC1155InsufficientBalance(address,uint256,uint256,uint256)",
    "ERC2612ExpiredSignature(uint256)",
    "ERC2612InvalidSigner(address,address)",
    "InvalidAccountNonce(address,uint256)",
    "SafeERC20FailedOperation(address)",
    "InsufficientBalance(address,uint256,uint256)",
    "InsufficientAllowance(address,uint256,uint256)",
    "InsufficientBalance(uint256,uint256)",
    "InsufficientBalance()",
    "InsufficientAllowance()",
    "InvalidReceiver()",
    "TransferFailed()",
    "TransferFromFailed()",
    "ETHTransferFailed()",
    "EnforcedPause()",
    "ReentrancyGuardReentrantCall()",
    "OwnableUnauthorizedAccount(address)",
    "FailedCall()",
    "FailedInnerCall()",
    "AddressEmptyCode(address)",
    // Exchanges and permits.
    "V3TooLittleReceived()",
    "V3TooMuchRequested()",
    "V2TooLittleReceived()",
    "V2TooMuchRequested()",
    "V4TooLittleReceived(uint256,uint256)",
    "V4TooMuchRequested(uint256,uint256)",
    "TransactionDeadlinePassed()",
    "InsufficientETH()",
    "InsufficientToken()",
    "SignatureExpired(uint256)",
    "SignatureExpired()",
    "InvalidNonce()",
    "InvalidSigner()",
    "AllowanceExpired(uint256)",
    "InsufficientAllowance(uint256)",
    // Markets and mints.
    "InexactFraction()",
    "OrderAlreadyFilled(bytes32)",
    "OrderIsCancelled(bytes32)",
    "InvalidTime(uint256,uint256)",
    "InsufficientNativeTokensSupplied()",
    "IncorrectPayment(uint256,uint256)",
    "MintQuantityExceedsMaxMintedPerWallet(uint256,uint256)",
    "MintQuantityExceedsMaxSupply(uint256,uint256)",
];

/// The number of nested wrappers that are opened.
const MAX_NESTED_WRAPPERS: usize = 4;

/// Decodes the data of a revert.
pub fn decode(data: &[u8]) -> Revert {
    let mut data = data.to_vec();
    for _ in 0..MAX_NESTED_WRAPPERS {
        let Ok(wrapped) = Depository::CallFailed::abi_decode(&data) else { break };
        data = wrapped.returnData.to_vec();
    }
    let Some((&selector, arguments)) = data.split_first_chunk::<4>() else { return Revert::Silent };
    if let Ok(sentence) = Sentence::abi_decode(&data) {
        return Revert::said(&sentence.reason);
    }
    if let Ok(panic) = Panic::abi_decode(&data) {
        return Revert::Panic(panic.code.saturating_to());
    }
    let named = NAMED.iter().find(|signature| keccak256(signature)[..4] == selector);
    let read = named.and_then(|signature| {
        let (name, types) = signature.strip_suffix(')')?.split_once('(')?;
        let types = types.split(',').filter(|it| !it.is_empty());
        let words = types.enumerate().map(|(index, kind)| shown(kind, arguments.get(index * 32..index * 32 + 32)?));
        Some(Revert::Named { name, arguments: words.collect::<Option<_>>()? })
    });
    read.unwrap_or(Revert::Unnamed(selector))
}

/// One argument, of a type that takes one word.
fn shown(kind: &str, word: &[u8]) -> Option<String> {
    Some(match kind {
        "address" => format!("0x{}", hex::encode(word.get(12..)?)),
        "bytes32" => format!("0x{}", hex::encode(word)),
        "bool" => (!U256::from_be_slice(word).is_zero()).to_string(),
        signed if signed.starts_with("int") => I256::from_raw(U256::from_be_slice(word)).to_string(),
        _ => U256::from_be_slice(word).to_string(),
    })
}

#[cfg(test)]
mod tests {
    use alloy::primitives::Bytes;
    use alloy::sol_types::SolError;
    use domain::fail::FailReason;
    use domain::revert::Deed;

    use super::*;
    use crate::contracts::SpendLimiter;

    #[test]
    fn sentences_panics_and_names_are_read() {
        let sentence = Sentence::from("Too little received").abi_encode();
        assert_eq!(decode(&sentence), Revert::Said("Too little received".to_owned()));
        assert_eq!(decode(&Panic::from(0x11).abi_encode()), Revert::Panic(0x11));
        let limit =
            SpendLimiter::LimitExceeded { token: Default::default(), amount: U256::from(7), remaining: U256::from(5) };
        let read = decode(&limit.abi_encode());
        assert_eq!(read.to_string(), "LimitExceeded(0x0000000000000000000000000000000000000000, 7, 5)");
        assert_eq!(read.reason(Deed::Calls), FailReason::SolverCapacityExceeded);
        assert_eq!(decode(&hex!("e450d38c")), Revert::Unnamed(hex!("e450d38c")), "its arguments are missing");
        assert_eq!(decode(&hex!("c0ffee01")), Revert::Unnamed(hex!("c0ffee01")));
        assert_eq!(decode(&[]), Revert::Silent);
        assert_eq!(decode(&[1, 2, 3]), Revert::Silent);
    }

    #[test]
    fn a_wrapped_revert_is_opened() {
        let mut data = Bytes::from(Sentence::from("STF").abi_encode());
        for _ in 0..MAX_NESTED_WRAPPERS {
            data = Depository::CallFailed { returnData: data }.abi_encode().into();
        }
        assert_eq!(decode(&data), Revert::Said("STF".to_owned()));
    }

    #[test]
    fn public_errors_have_their_public_selectors() {
        for (signature, public) in [
            ("ERC20InsufficientBalance(address,uint256,uint256)", hex!("e450d38c")),
            ("ERC20InsufficientAllowance(address,uint256,uint256)", hex!("fb8f41b2")),
            ("V3TooLittleReceived()", hex!("39d35496")),
            ("EnforcedPause()", hex!("d93c0665")),
        ] {
            assert!(NAMED.contains(&signature));
            assert_eq!(keccak256(signature)[..4], public, "{signature}");
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        use proptest::prelude::*;
        proptest!(|(data in proptest::collection::vec(any::<u8>(), 0..300))| { decode(&data); });
        // A known selector over any arguments.
        proptest!(|(at in 0..NAMED.len(), rest in proptest::collection::vec(any::<u8>(), 0..200))| {
            decode(&[&keccak256(NAMED[at])[..4], &rest].concat());
        });
    }
}
