// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IOwned} from "./IOwned.sol";

/// @title Depository
/// @notice Holds the deposits of one chain. It knows no orders, checks no fills and keeps no balances per user:
/// money comes in by the three deposit functions, and leaves only by a request that the allocator signed.
///
/// @dev The deposit and execution logs keep a public layout whose event names are not ours to declare, so they
/// are written with constant topics and do not appear in the ABI. Each has one topic and unindexed arguments:
///
/// - native deposit `0x8032066556caf3967d8fec4ad22a2d9e1e9576556b2903a0fcd5b1fd201e3477`:
///   `(address from, uint256 amount, bytes32 id)`
/// - ERC-20 deposit `0x49fed1d0b752ce30eee63c7a81133f3363b532fec5d4d7dd1ccfd005de4555e1`:
///   `(address from, address token, uint256 amount, bytes32 id)`
/// - call executed `0x4be109453ef7e895dc7215c929fff9b76b51483d56a4d04548b4866e9aa7c5ea`:
///   `(bytes32 id, (address to, bytes data, uint256 value, bool allowFailure) call)`
interface IDepository is IOwned {
    /// @notice One outgoing call.
    struct Call {
        address to;
        bytes data;
        uint256 value;
        bool allowFailure;
    }

    /// @notice The request the allocator signs: calls to run in order, once, until `expiration` inclusive.
    struct CallRequest {
        Call[] calls;
        uint256 nonce;
        uint256 expiration;
    }

    /// @notice The outcome of one call.
    struct CallResult {
        bool success;
        bytes returnData;
    }

    /// @notice The allocator was replaced; every outstanding signature of the old one is void.
    event AllocatorSet(address indexed allocator);

    /// @notice The guardian was replaced; zero means there is none.
    event GuardianSet(address indexed guardian);

    /// @notice `execute` was stopped.
    event ExecutionPaused(address indexed by);

    /// @notice `execute` was allowed again.
    event ExecutionUnpaused();

    /// @notice The outflow cap of a token was set, or removed when `window` is zero.
    event OutflowCapSet(address indexed token, uint256 amount, uint256 window);

    /// @notice `execute` is stopped by the guardian.
    error ExecutionIsPaused();

    /// @notice The block is later than the request's expiration.
    error CallRequestExpired();

    /// @notice The signature is not the allocator's over this request, or has a malleable form.
    error InvalidSignature();

    /// @notice This request was executed before.
    error CallRequestAlreadyUsed();

    /// @notice Another request with the same nonce was executed before.
    error NonceAlreadyUsed(uint256 nonce);

    /// @notice A call that must succeed failed; carries its return data.
    error CallFailed(bytes returnData);

    /// @notice The call at `index` may fail, and failed with more than half of the gas: perhaps the submitter
    /// gave too little. Submit the request with more.
    error CallStarved(uint256 index);

    /// @notice A call to the depository itself, or a token transfer to it, which would forge a deposit.
    error SelfCall();

    /// @notice With a cap in force the call at `index` is neither a native payment nor a token transfer that
    /// must succeed.
    error CallNotAllowed(uint256 index);

    /// @notice The payment exceeds the amount the token's outflow cap leaves at this moment.
    error OutflowCapExceeded(address token, uint256 amount, uint256 available);

    /// @notice A cap needs a window, and removing one needs a zero amount.
    error InvalidOutflowCap();

    /// @notice The token transfer brought nothing in.
    error NothingReceived();

    /// @notice A token called back into a deposit or an execution while its own deposit was being measured.
    error DepositInProgress();

    /// @notice The only authority for outgoing calls: an account with a key, or an ERC-1271 contract.
    function allocator() external view returns (address);

    /// @notice The account that may stop `execute`, or zero.
    function guardian() external view returns (address);

    /// @notice True while `execute` is stopped.
    function executionPaused() external view returns (bool);

    /// @notice The number of tokens with an outflow cap. While it is above zero `execute` accepts payments
    /// only.
    function cappedTokens() external view returns (uint256);

    /// @notice True if the request with this struct hash was executed.
    function callRequests(bytes32 structHash) external view returns (bool);

    /// @notice True if a request with this nonce was executed.
    function usedNonces(uint256 nonce) external view returns (bool);

    /// @notice The outflow cap of `token` (zero for native): at most `amount` at once, released evenly over
    /// `window` seconds. `available` is the amount that may leave now; without a cap it is the largest integer.
    function outflowCap(address token)
        external
        view
        returns (uint256 amount, uint256 window, uint256 available);

    /// @notice The struct hash of a request, which is its replay key, and the EIP-712 digest to sign.
    function hashCallRequest(CallRequest calldata request)
        external
        view
        returns (bytes32 structHash, bytes32 digest);

    /// @notice The EIP-712 domain, as ERC-5267 describes it.
    function eip712Domain()
        external
        view
        returns (
            bytes1 fields,
            string memory name,
            string memory version,
            uint256 chainId,
            address verifyingContract,
            bytes32 salt,
            uint256[] memory extensions
        );

    /// @notice Deposits the native value sent along.
    /// @param depositor The account to report; zero means the caller. A hint for refunds, never proof of payment.
    /// @param id The order this pays for.
    function depositNative(address depositor, bytes32 id) external payable;

    /// @notice Deposits `amount` of `token` from the caller and reports the amount received, which a fee may
    /// reduce.
    /// @param depositor The account to report; zero means the caller.
    /// @param token The token to pull; the caller must have approved the depository.
    /// @param amount The amount to pull.
    /// @param id The order this pays for.
    function depositErc20(address depositor, address token, uint256 amount, bytes32 id) external;

    /// @notice As above, with the caller's whole allowance as the amount, so that a router can deposit exactly
    /// the output of a swap.
    function depositErc20(address depositor, address token, bytes32 id) external;

    /// @notice Runs the calls of a request that the allocator signed. Anyone holding the signature may submit it.
    /// @dev A request is refused when its struct hash or its nonce was used, so signing a payout again with a
    /// later expiration cannot pay twice. A token transfer counts as failed when the token has no code or does
    /// not answer with true or nothing; a failed required call leaves hash and nonce unused. A call that may fail must
    /// leave half of the gas when it does, so that no submitter makes it fail by giving too little.
    /// @param request The calls, nonce and expiration.
    /// @param signature 65 bytes `r ‖ s ‖ v`, 64 bytes in compact form, or any form an ERC-1271 allocator
    /// takes.
    /// @return results The outcome of every call.
    function execute(CallRequest calldata request, bytes calldata signature)
        external
        returns (CallResult[] memory results);

    /// @notice Replaces the allocator, voiding all outstanding signatures. Owner only.
    function setAllocator(address newAllocator) external;

    /// @notice Replaces the guardian; zero removes it. Owner only.
    function setGuardian(address newGuardian) external;

    /// @notice Caps the outflow of `token` (zero for native). Owner only.
    /// @dev A cap bounds a leaked allocator key: within any time `t` at most `amount + amount * t / window`
    /// leaves. It holds only because, while any token is capped, `execute` accepts nothing but native payments
    /// and token transfers: an approval would let money leave unmeasured. Approvals signed before the first cap
    /// was set are not undone, so set caps before the first deposit. The amount used so far is kept when a cap
    /// changes.
    /// @param token The token, or zero for native.
    /// @param amount The most that may leave at once; zero with a window freezes the token.
    /// @param window The seconds over which a used amount is released; zero with a zero amount removes the cap.
    function setOutflowCap(address token, uint128 amount, uint64 window) external;

    /// @notice Stops `execute`. Guardian or owner.
    function pauseExecution() external;

    /// @notice Allows `execute` again. Owner only.
    function unpauseExecution() external;
}
