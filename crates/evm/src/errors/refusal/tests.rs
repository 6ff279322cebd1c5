use super::Refusal::*;
use super::*;

static WORDED: [(i64, &str, Refusal); 65] = [
    // geth and its derivatives
    (-32000, "already known", AlreadyKnown),
    (-32000, "nonce too low: next nonce 5, tx nonce 3", NonceTooLow),
    (-32000, "nonce too high: address 0xab, tx: 9 state: 3", NonceTooHigh),
    (-32000, "replacement transaction underpriced", ReplacementUnderpriced),
    (-32000, "future transaction tries to replace pending", ReplacementUnderpriced),
    (-32000, "transaction underpriced: tip needed 1000000000, tip permitted 1", FeeTooLow),
    (-32000, "max fee per gas less than block base fee: address 0x1, maxFeePerGas: 1, baseFee: 7", FeeTooLow),
    (-32000, "tx fee (1.20 ether) exceeds the configured cap (1.00 ether)", FeeTooHigh),
    (-32000, "insufficient funds for gas * price + value: balance 0, tx cost 5, overshot 5", InsufficientFunds),
    (-32000, "intrinsic gas too low: gas 21000, minimum needed 22280", GasTooLow),
    (-32000, "insufficient gas for floor data gas cost: gas 21000, minimum needed 22280", GasTooLow),
    (-32000, "exceeds block gas limit", GasTooHigh),
    (-32000, "transaction gas limit too high (cap: 16777216, tx: 30000000)", GasTooHigh),
    (-32000, "txpool is full", PoolFull),
    (-32000, "in-flight transaction limit reached for delegated accounts", PoolFull),
    (-32000, "authority already reserved", Authorizations),
    (-32000, "set code tx must have at least one authorization tuple", Authorizations),
    (-32000, "transaction type not supported: type 4 rejected, pool not yet in Prague", Authorizations),
    (-32003, "EIP-7702 authorization lists are not supported before the Prague hardfork", Authorizations),
    (-32000, "invalid chain id for signer: have 1 want 2", BadSignature),
    (-32000, "header not found", UnknownBlock),
    (-32000, "unknown block", UnknownBlock),
    (-32000, "missing trie node 0xabc (path )", UnknownBlock),
    (3, "execution reverted: ERC20: transfer amount exceeds balance", Reverted(Bytes::new())),
    (-32000, "out of gas", OutOfGas),
    (-32000, "gas required exceeds allowance (30000)", OutOfGas),
    (-32601, "the method eth_foo does not exist/is not available", NotSupported),
    // anvil
    (-32003, "transaction already imported", AlreadyKnown),
    (-32003, "Out of gas: gas required exceeds allowance: 30000", OutOfGas),
    (-32603, "EVM error OutOfGas", OutOfGas),
    (-32003, "nonce too low", NonceTooLow),
    (-32003, "Insufficient funds for gas * price + value", InsufficientFunds),
    (-32003, "intrinsic gas too low", GasTooLow),
    (-32003, "max fee per gas less than block base fee", FeeTooLow),
    (-32003, "replacement transaction underpriced", ReplacementUnderpriced),
    (-32602, "BlockOutOfRangeError: block height is 3 but requested was 9", UnknownBlock),
    (-32001, "Resource not found", UnknownBlock),
    // erigon
    (-32000, "existing tx with same hash", AlreadyKnown),
    (-32000, "ALREADY_EXISTS: already known", AlreadyKnown),
    (-32000, "could not replace existing tx", ReplacementUnderpriced),
    (-32000, "INTERNAL_ERROR: nonce too low", NonceTooLow),
    (-32000, "fee too low", FeeTooLow),
    // nethermind
    (-32010, "AlreadyKnown", AlreadyKnown),
    (-32010, "OldNonce, Current nonce: 5, nonce of rejected tx: 3", NonceTooLow),
    (-32010, "OwnNonceAlreadyUsed", NonceTooLow),
    (-32010, "NonceGap, Future nonce. Expected nonce: 3", NonceTooHigh),
    (-32010, "ReplacementNotAllowed", ReplacementUnderpriced),
    (-32010, "FeeTooLowToCompete", ReplacementUnderpriced),
    (-32010, "FeeTooLow, MaxFeePerGas too low", FeeTooLow),
    (-32010, "InsufficientFunds, Account balance: 0", InsufficientFunds),
    (-32010, "GasLimitExceeded, Gas limit: 5", GasTooHigh),
    (-32001, "Header for hash not found", UnknownBlock),
    // besu
    (-32000, "Known transaction", AlreadyKnown),
    (-32001, "Transaction nonce is below sender account nonce", NonceTooLow),
    (-32004, "Upfront cost exceeds account balance", InsufficientFunds),
    (-32003, "Intrinsic gas exceeds gas limit", GasTooLow),
    (-32009, "Gas price below configured minimum gas price", FeeTooLow),
    // older nodes
    (-32010, "Transaction with the same hash was already imported.", AlreadyKnown),
    (-32010, "Transaction nonce is too low. Try incrementing the nonce.", NonceTooLow),
    (
        -32010,
        "There is another transaction with same nonce in the queue. Try increasing the fee",
        ReplacementUnderpriced,
    ),
    // providers
    (-32005, "daily request count exceeded, request rate limited", RateLimited),
    (429, "Your app has exceeded its compute units per second capacity", RateLimited),
    (-32005, "query returned more than 10000 results", TooMuch),
    (-32602, "Log response size exceeded", TooMuch),
    (-32600, "Too Many Requests", RateLimited),
];

#[test]
fn nodes_are_understood_whatever_their_wording() {
    for (code, message, meaning) in &WORDED {
        assert_eq!(&understand(*code, message, None), meaning, "{message}");
    }
}

#[test]
fn a_revert_keeps_its_data() {
    let data = Bytes::from_static(&[0x49, 0x48, 0x2b, 0x28]);
    assert_eq!(understand(3, "execution reverted", Some(&data)), Refusal::Reverted(data));
}

#[test]
fn unknown_prose_is_shortened_and_loses_links() {
    assert_eq!(understand(-32603, "internal error", None), Other("internal error".to_owned()));
    let said = format!("upgrade at https://rpc.example.com/KEY now {}", "x".repeat(500));
    let Refusal::Other(text) = understand(-32000, &said, None) else { panic!("understood nonsense") };
    assert!(text.starts_with("upgrade at (link) now x") && text.len() == 200);
}
