//! The interfaces of the contracts we call, written out here so that no generated file has to be trusted.
//!
//! Only shapes: the calldata we build from them is in `calldata`, the topics of their logs in `topics`.

use alloy::primitives::{Address, B256, Bytes, U256, address};
use alloy::sol;
use alloy::sol_types::{Eip712Domain, SolCall, SolStruct};

/// The address of Multicall3 on nearly every chain.
pub const MULTICALL3: Address = address!("cA11bde05977b3631167028862bE2a173976CA11");

sol! {
    #![sol(all_derives)]

    struct Call {
        address to;
        bytes data;
        uint256 value;
        bool allowFailure;
    }

    struct CallRequest {
        Call[] calls;
        uint256 nonce;
        uint256 expiration;
    }

    struct CallResult {
        bool success;
        bytes returnData;
    }

    interface Depository {
        function depositNative(address depositor, bytes32 id) external payable;
        function depositErc20(address depositor, address token, uint256 amount, bytes32 id) external;
        function depositErc20(address depositor, address token, bytes32 id) external;
        function execute(CallRequest request, bytes signature) external returns (CallResult[] results);
        function setAllocator(address allocator) external;
        function allocator() external view returns (address);
        function callRequests(bytes32 id) external view returns (bool);
        function usedNonces(uint256 nonce) external view returns (bool);
        function owner() external view returns (address);

        error AddressCannotBeZero();
        error CallRequestExpired();
        error InvalidSignature();
        error CallRequestAlreadyUsed();
        error CallFailed(bytes returnData);
        error Unauthorized();
    }

    interface Erc20 {
        function transfer(address to, uint256 amount) external returns (bool);
        function transferFrom(address from, address to, uint256 amount) external returns (bool);
        function approve(address spender, uint256 amount) external returns (bool);
        function allowance(address owner, address spender) external view returns (uint256);
        function balanceOf(address owner) external view returns (uint256);
        function decimals() external view returns (uint8);
        function symbol() external view returns (string);
        function name() external view returns (string);
    }

    interface Multicall3 {
        struct Call3 {
            address target;
            bool allowFailure;
            bytes callData;
        }

        struct Result {
            bool success;
            bytes returnData;
        }

        function aggregate3(Call3[] calls) external payable returns (Result[] returnData);
        function getEthBalance(address owner) external view returns (uint256 balance);
    }

    struct Call3Value {
        address target;
        bool allowFailure;
        uint256 value;
        bytes callData;
    }

    interface Router {
        function multicall(Call3Value[] calls, address refundTo, address nftRecipient, bytes metadata)
            external payable returns (CallResult[] results);
        function cleanupErc20s(address[] tokens, address[] recipients, uint256[] amounts, bytes metadata) external;
        function cleanupErc20sViaCall(address[] tokens, address[] tos, bytes[] datas, uint256[] amounts) external;
        function cleanupNative(uint256 amount, address recipient, bytes metadata) external payable;
        function cleanupNativeViaCall(uint256 amount, address to, bytes data) external;
        function requireBalance(address token, uint256 amount) external view;

        error BalanceTooLow(address token, uint256 amount, uint256 balance);
    }

    /// Signed with every permit: who submits it, and everything that runs.
    struct RelayerWitness {
        address relayer;
        address refundTo;
        address nftRecipient;
        bytes metadata;
        Call3Value[] call3Values;
    }

    struct TokenPermissions {
        address token;
        uint256 amount;
    }

    /// The typed data of Permit2, with the witness as its last member.
    struct PermitBatchWitnessTransferFrom {
        TokenPermissions[] permitted;
        address spender;
        uint256 nonce;
        uint256 deadline;
        RelayerWitness witness;
    }

    /// The same in a call, where the spender is the caller.
    struct PermitBatchTransferFrom {
        TokenPermissions[] permitted;
        uint256 nonce;
        uint256 deadline;
    }

    /// The typed data of EIP-3009.
    struct ReceiveWithAuthorization {
        address from;
        address to;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
    }

    /// The same in a call, where the payee is the approval proxy and the nonce is the hash of the witness.
    struct Permit3009 {
        address from;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        uint8 v;
        bytes32 r;
        bytes32 s;
    }

    interface ApprovalProxy {
        function transferAndMulticall(
            address[] tokens,
            uint256[] amounts,
            Call3Value[] calls,
            address refundTo,
            address nftRecipient,
            bytes metadata
        ) external payable returns (CallResult[] results);
        function permit2TransferAndMulticall(
            address user,
            PermitBatchTransferFrom permit,
            Call3Value[] calls,
            address refundTo,
            address nftRecipient,
            bytes metadata,
            bytes permitSignature
        ) external payable returns (CallResult[] results);
        function permit3009TransferAndMulticall(
            Permit3009[] permits,
            address[] tokens,
            Call3Value[] calls,
            address refundTo,
            address nftRecipient,
            bytes metadata
        ) external payable returns (CallResult[] results);
    }

    /// Our own contract: a filler spends a treasury's tokens through the router, up to a limit.
    interface SpendLimiter {
        function spend(
            address treasury,
            address token,
            uint256 amount,
            Call3Value[] calls,
            address refundTo,
            address nftRecipient,
            bytes metadata
        ) external payable returns (CallResult[] results);
        function setLimit(address filler, address token, uint256 amount) external;
        function limit(address treasury, address filler, address token) external view returns (uint256 remaining);

        error RouterCannotSpend();
        error RefundToCannotBeZero();
        error LimitExceeded(address token, uint256 amount, uint256 remaining);
        error NotArrived(address token, uint256 expected, uint256 balance);
    }

    /// Our own contract: derives deposit addresses and brings their balances into the depository.
    interface DepositAddressFactory {
        event Swept(
            address indexed depositAddress,
            bytes32 indexed orderId,
            address indexed token,
            address depositor
        );

        function computeDepositAddress(bytes32 orderId, address depositor) external view returns (address);
        function computeOpenDepositAddress(bytes32 routeKey) external view returns (address);
        function sweep(bytes32 orderId, address depositor, address[] tokens) external;
        function sweepOpen(bytes32 routeKey, bytes32 orderId, address depositor, address token, uint256 amount) external;
        function setOperator(address operator, bool allowed) external;
        function operators(address account) external view returns (bool);
        function DEPOSITORY() external view returns (address);
        function IMPLEMENTATION() external view returns (address);
    }

    /// The fee that a rollup of the OP family charges for putting a transaction's data on its parent chain.
    interface GasPriceOracle {
        function getL1Fee(bytes transaction) external view returns (uint256);
    }

    interface PriceFeed {
        function decimals() external view returns (uint8);
        function latestRoundData()
            external
            view
            returns (uint80 roundId, int256 answer, uint256 startedAt, uint256 updatedAt, uint80 answeredInRound);
        function getRoundData(uint80 id)
            external
            view
            returns (uint80 roundId, int256 answer, uint256 startedAt, uint256 updatedAt, uint80 answeredInRound);
    }
}

/// The EIP-712 domain that the depository's allocator signs under.
pub fn depository_domain(chain_id: u64, depository: Address) -> Eip712Domain {
    Eip712Domain::new(Some("Depository".into()), Some("1".into()), Some(U256::from(chain_id)), Some(depository), None)
}

impl CallRequest {
    /// A payout of native currency (address zero) or of a token. These are the two shapes there are: one call to a
    /// request, and never a failure that passes.
    pub fn payout(currency: Address, recipient: Address, amount: U256, nonce: B256, expiration: u64) -> Self {
        let call = if currency.is_zero() {
            Call { to: recipient, data: Bytes::new(), value: amount, allowFailure: false }
        } else {
            let transfer = Erc20::transferCall { to: recipient, amount }.abi_encode();
            Call { to: currency, data: transfer.into(), value: U256::ZERO, allowFailure: false }
        };
        Self { calls: vec![call], nonce: U256::from_be_bytes(nonce.0), expiration: U256::from(expiration) }
    }

    /// The depository's replay key, and the id in its executed event.
    pub fn struct_hash(&self) -> B256 {
        self.eip712_hash_struct()
    }

    /// The digest that the allocator signs.
    pub fn digest(&self, chain_id: u64, depository: Address) -> B256 {
        self.eip712_signing_hash(&depository_domain(chain_id, depository))
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{b256, bytes, hex};
    use alloy::sol_types::{SolError, SolValue};

    use super::*;

    #[test]
    fn selectors_are_the_public_ones() {
        let table: [([u8; 4], [u8; 4]); 29] = [
            (Depository::depositNativeCall::SELECTOR, hex!("49290c1c")),
            (Depository::depositErc20_0Call::SELECTOR, hex!("e8017952")),
            (Depository::depositErc20_1Call::SELECTOR, hex!("5a1ee3ac")),
            (Depository::executeCall::SELECTOR, hex!("2d9fb478")),
            (Depository::setAllocatorCall::SELECTOR, hex!("bf83f2a2")),
            (Depository::allocatorCall::SELECTOR, hex!("aa5dcecc")),
            (Depository::callRequestsCall::SELECTOR, hex!("d52bfcc8")),
            (Depository::ownerCall::SELECTOR, hex!("8da5cb5b")),
            (Depository::CallRequestAlreadyUsed::SELECTOR, hex!("49482b28")),
            (Depository::CallFailed::SELECTOR, hex!("a5fa8d2b")),
            (Erc20::transferCall::SELECTOR, hex!("a9059cbb")),
            (Erc20::transferFromCall::SELECTOR, hex!("23b872dd")),
            (Router::multicallCall::SELECTOR, hex!("cd6e13f7")),
            (Router::cleanupErc20sCall::SELECTOR, hex!("9bb43718")),
            (Router::cleanupErc20sViaCallCall::SELECTOR, hex!("73b7bb2f")),
            (Router::cleanupNativeCall::SELECTOR, hex!("a6bd8c96")),
            (Router::cleanupNativeViaCallCall::SELECTOR, hex!("5d1fe6a2")),
            (ApprovalProxy::transferAndMulticallCall::SELECTOR, hex!("f9e4bab4")),
            (ApprovalProxy::permit2TransferAndMulticallCall::SELECTOR, hex!("0a2b8f36")),
            (ApprovalProxy::permit3009TransferAndMulticallCall::SELECTOR, hex!("f80f00fb")),
            (DepositAddressFactory::computeDepositAddressCall::SELECTOR, hex!("0767bc1e")),
            (DepositAddressFactory::sweepCall::SELECTOR, hex!("d80c6c1b")),
            // Not public: the same as in the contracts' own tests.
            (Router::requireBalanceCall::SELECTOR, hex!("37e0e9e6")),
            (SpendLimiter::spendCall::SELECTOR, hex!("6bfad608")),
            (SpendLimiter::setLimitCall::SELECTOR, hex!("21d4e316")),
            (SpendLimiter::limitCall::SELECTOR, hex!("5b6cbc5d")),
            (Multicall3::aggregate3Call::SELECTOR, hex!("82ad56cb")),
            (PriceFeed::latestRoundDataCall::SELECTOR, hex!("feaf968c")),
            (PriceFeed::getRoundDataCall::SELECTOR, hex!("9a6fc8f5")),
        ];
        for (ours, public) in table {
            assert_eq!(hex::encode(ours), hex::encode(public));
        }
    }

    #[test]
    fn a_call_request_hashes_and_encodes_as_published() {
        let request = CallRequest {
            calls: vec![
                Call {
                    to: address!("9099eb14ed3f3723cd8e6904d75cb644b19d4d98"),
                    data: bytes!(
                        "a9059cbb0000000000000000000000004a84e43a54cc2f8abb42afa12dd825212abd36d1000000000000000000000000000000000000000000000000000000000ee6b280"
                    ),
                    value: U256::ZERO,
                    allowFailure: false,
                },
                Call {
                    to: address!("afde0c87685f1e800457b929986cd944e9d4a98c"),
                    data: bytes!(""),
                    value: U256::from(100_000_000_000_000_000u64),
                    allowFailure: true,
                },
            ],
            nonce: b256!("560953c847d02900e04a7896957e57f28a5432dbbfd26b12a1304bbf94826924").into(),
            expiration: U256::from(1_893_456_000u64),
        };
        assert_eq!(
            request.nonce.to_string(),
            "38915384846242836741402117988096754280966544408304891356156207388522298108196"
        );
        assert_eq!(request.struct_hash(), b256!("78a517784f7a546b99c3468ad49a441ccf31b1df227295ffebe0befc35069995"));
        assert_eq!(
            request.digest(8453, address!("cff3ea62bc5a19158f9690603bfa25a02b2dce5a")),
            b256!("fa29463e947d31735e37fb2d797a0dd6ed2862ed8c37709814abbf30a241fe4d")
        );
        assert_eq!(
            request.abi_encode(),
            hex!(
                "0000000000000000000000000000000000000000000000000000000000000020"
                "0000000000000000000000000000000000000000000000000000000000000060"
                "560953c847d02900e04a7896957e57f28a5432dbbfd26b12a1304bbf94826924"
                "0000000000000000000000000000000000000000000000000000000070dbd880"
                "0000000000000000000000000000000000000000000000000000000000000002"
                "0000000000000000000000000000000000000000000000000000000000000040"
                "0000000000000000000000000000000000000000000000000000000000000140"
                "0000000000000000000000009099eb14ed3f3723cd8e6904d75cb644b19d4d98"
                "0000000000000000000000000000000000000000000000000000000000000080"
                "0000000000000000000000000000000000000000000000000000000000000000"
                "0000000000000000000000000000000000000000000000000000000000000000"
                "0000000000000000000000000000000000000000000000000000000000000044"
                "a9059cbb0000000000000000000000004a84e43a54cc2f8abb42afa12dd82521"
                "2abd36d100000000000000000000000000000000000000000000000000000000"
                "0ee6b28000000000000000000000000000000000000000000000000000000000"
                "000000000000000000000000afde0c87685f1e800457b929986cd944e9d4a98c"
                "0000000000000000000000000000000000000000000000000000000000000080"
                "000000000000000000000000000000000000000000000000016345785d8a0000"
                "0000000000000000000000000000000000000000000000000000000000000001"
                "0000000000000000000000000000000000000000000000000000000000000000"
            )
        );
    }
}
