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
/// @notice Runs calls as itself, for anyone. It owns nothing between transactions: whatever a flow leaves here
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

    /// @notice An NFT arrived with nobody named to receive it.
    error NoNftRecipient();

    /// @notice Runs `calls` in order, then sends all native value that is left to `refundTo`.
    /// @dev Tokens that are left are not returned by themselves: end the calls with `cleanupErc20s`. Bytes after
    /// the arguments are ignored, so an order id may follow.
    /// @param calls The calls; the revert data of a failing one that must succeed is passed on.
    /// @param refundTo Who receives left native value; zero means the caller.
    /// @param nftRecipient Who receives NFTs that arrive meanwhile; zero refuses them.
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
    /// @param recipients Who receives each.
    /// @param amounts How much of each; zero means the whole balance, which may be nothing.
    /// @param metadata Passed to the movement events.
    function cleanupErc20s(
        address[] calldata tokens,
        address[] calldata recipients,
        uint256[] calldata amounts,
        bytes calldata metadata
    ) external;

    /// @notice Approves each of `tos` for exactly an amount of a token, calls it, and takes back what is left of
    /// the approval.
    /// @param tokens The tokens.
    /// @param tos The contracts to approve and call.
    /// @param datas What to call them with.
    /// @param amounts How much to approve; zero means the whole balance.
    function cleanupErc20sViaCall(
        address[] calldata tokens,
        address[] calldata tos,
        bytes[] calldata datas,
        uint256[] calldata amounts
    ) external;

    /// @notice Sends native value out of the router and records it as payment evidence.
    /// @param amount How much; zero means everything, which may be nothing.
    /// @param recipient Who receives it.
    /// @param metadata Passed to the movement event.
    function cleanupNative(uint256 amount, address recipient, bytes calldata metadata) external;

    /// @notice Calls a contract with native value of the router.
    /// @param amount How much; zero means everything.
    /// @param to The contract.
    /// @param data What to call it with.
    function cleanupNativeViaCall(uint256 amount, address to, bytes calldata data) external;
}
