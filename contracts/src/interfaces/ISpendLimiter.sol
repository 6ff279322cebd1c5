// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {Call3Value, CallResult} from "./IRouter.sol";

/// @title SpendLimiter
/// @notice Lets a filler spend tokens of a treasury through the router, up to a limit, in one transaction. The
/// treasury approves this contract, which moves tokens to the router and nowhere else, and sets what each filler may
/// spend of each token. So a leaked filler key takes at most its limits, and the calls of a fill, which run as the
/// router, reach neither the treasury nor this contract.
/// @dev It has no owner and keeps nothing but limits; any number of treasuries may use it. What is sent here by
/// mistake stays here.
interface ISpendLimiter {
    /// @notice `treasury` lets `filler` spend `amount` of `token` from now on.
    event LimitSet(address indexed treasury, address indexed filler, address indexed token, uint256 amount);

    /// @notice The router is zero.
    error AddressCannotBeZero();

    /// @notice The router was named as a filler: anyone may act as the router.
    error RouterCannotSpend();

    /// @notice `refundTo` is zero, which the router would read as this contract.
    error RefundToCannotBeZero();

    /// @notice The caller may spend only `remaining` of the treasury's token.
    error LimitExceeded(address token, uint256 amount, uint256 remaining);

    /// @notice The router does not hold exactly what was moved to it: the token kept a fee, or something used the
    /// router before the calls began.
    error NotArrived(address token, uint256 expected, uint256 balance);

    /// @notice The router, fixed at construction.
    function ROUTER() external view returns (address);

    /// @notice What `filler` may still spend of the treasury's token.
    function limit(address treasury, address filler, address token) external view returns (uint256 remaining);

    /// @notice Sets what `filler` may spend of the caller's token, in place of what it had left; zero ends it.
    /// @dev Every spend counts, also against the largest amount: there is no limit without end. A filler that sees
    /// the change coming can spend the old limit before it and the new one after it.
    /// @param filler Who may spend.
    /// @param token The token.
    /// @param amount How much, in all.
    function setLimit(address filler, address token, uint256 amount) external;

    /// @notice Moves tokens from the treasury to the router and runs `calls` there, forwarding the native value sent
    /// along.
    /// @dev Left native value goes to `refundTo`. Left tokens stay in the router, for anyone to take: the calls must
    /// deliver everything, as with `cleanupErc20s`. Bytes after the arguments are ignored, so an order id may follow.
    /// @param treasury Whose tokens; it has set a limit for the caller and approved this contract.
    /// @param token The token.
    /// @param amount How much; zero moves nothing and needs no limit, which is a multicall on the router.
    /// @param calls The calls; the revert data of a failing one that must succeed is passed on.
    /// @param refundTo Who receives left native value; not zero.
    /// @param nftRecipient Who receives NFTs that arrive meanwhile; zero refuses them.
    /// @param metadata Passed to the movement events of the router.
    /// @return results The outcome of every call.
    function spend(
        address treasury,
        address token,
        uint256 amount,
        Call3Value[] calldata calls,
        address refundTo,
        address nftRecipient,
        bytes calldata metadata
    ) external payable returns (CallResult[] memory results);
}
