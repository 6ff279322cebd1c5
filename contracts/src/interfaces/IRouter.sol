// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

/// @notice One call of a multicall.
/// @dev The order of the members is part of the function selectors and of the typed data users sign.
struct Call3Value {
    address target;
    bool allowFailure;
    uint256 value;
    bytes callData;
}

/// @notice The outcome of one call of a multicall.
struct CallResult {
    bool success;
    bytes returnData;
}

/// @title Router
/// @notice Runs calls as itself, for anyone. It owns nothing between transactions: anything a flow leaves here
/// belongs to the next caller. Nobody may ever approve it; approvals go to the approval proxy.
interface IRouter {
    /// @notice Native value reached `to`: paid out of the router, or into it when `to` is the router.
    event SolverNativeTransfer(address to, uint256 amount);

    /// @notice The router made a call that succeeded.
    event SolverCallExecuted(address to, bytes data, uint256 amount);

    /// @notice Money moved; a zero `currency` is native.
    event FundsMovement(address from, address to, address currency, uint256 amount, bytes metadata);

    /// @notice The router is in use, and the caller is not the router itself.
    error Reentrancy();

    /// @notice The recipient is zero or the router, where the money would be lost.
    error InvalidRecipient();

    /// @notice The arrays do not have the same length.
    error LengthMismatch();

    /// @notice A native payment was refused by its recipient.
    error NativeTransferFailed(address to, uint256 amount);

    /// @notice More value was sent along than is paid: `left` would belong to the next caller.
    error ValueLeftOver(uint256 left);

    /// @notice The router holds `balance` of a token (zero for native), and `amount` was required.
    error BalanceTooLow(address token, uint256 amount, uint256 balance);

    /// @notice An NFT arrived and no recipient for NFTs is set.
    error NoNftRecipient();

    /// @notice Runs `calls` in order, then sends to `refundTo` the native value that is left of the value sent
    /// along and of the value the calls brought in.
    /// @dev Native value that was here before is left alone. Remaining tokens are not returned automatically:
    /// end the calls with `cleanupErc20s`. A failing `approve` is tried again from an allowance of zero, because
    /// a stranger may have left one. Bytes after the arguments are ignored, so an order id may follow.
    /// @param calls The calls; the revert data of a failing call that must succeed is passed on.
    /// @param refundTo The recipient of leftover native value; zero means the caller.
    /// @param nftRecipient The recipient of NFTs that arrive meanwhile; zero refuses them.
    /// @param metadata Passed to the movement events.
    /// @return results The outcome of every call.
    function multicall(
        Call3Value[] calldata calls,
        address refundTo,
        address nftRecipient,
        bytes calldata metadata
    ) external payable returns (CallResult[] memory results);

    /// @notice Sends tokens out of the router.
    /// @param tokens The tokens.
    /// @param recipients The recipient of each.
    /// @param amounts The amount of each; zero means the whole balance, which may be nothing.
    /// @param metadata Passed to the movement events.
    function cleanupErc20s(
        address[] calldata tokens,
        address[] calldata recipients,
        uint256[] calldata amounts,
        bytes calldata metadata
    ) external;

    /// @notice Approves each of `tos` for an exact amount of a token, calls it, and revokes the rest of the
    /// approval.
    /// @param tokens The tokens.
    /// @param tos The contracts to approve and call.
    /// @param datas The calldata for each.
    /// @param amounts The amounts to approve; zero means the whole balance.
    function cleanupErc20sViaCall(
        address[] calldata tokens,
        address[] calldata tos,
        bytes[] calldata datas,
        uint256[] calldata amounts
    ) external;

    /// @notice Sends native value out of the router and records it as payment evidence.
    /// @dev Called directly with the amount as value it is the cheapest payment to a contract. Bytes after the
    /// arguments are ignored, so an order id may follow.
    /// @param amount The amount, no less than the value sent along; zero means the whole balance, which may be
    /// nothing.
    /// @param recipient The recipient.
    /// @param metadata Passed to the movement event.
    function cleanupNative(uint256 amount, address recipient, bytes calldata metadata) external payable;

    /// @notice Calls a contract with native value of the router.
    /// @param amount The amount; zero means the whole balance.
    /// @param to The contract.
    /// @param data The calldata.
    function cleanupNativeViaCall(uint256 amount, address to, bytes calldata data) external;

    /// @notice Reverts unless the router holds at least `amount` of `token`, or of native value when zero.
    /// @dev The step between a swap and the use of its output. An exchange checks the amount it sends; a token
    /// with hooks may call someone who takes it from here by an allowance left earlier.
    function requireBalance(address token, uint256 amount) external view;
}
