// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {Call3Value, CallResult} from "./IRouter.sol";

/// @title Spend limiter
/// @notice Lets a filler spend tokens of a treasury through the router, up to a limit, in one transaction. The
/// treasury approves this contract, which moves tokens to the router and nowhere else, and sets a limit for
/// each filler and token. So a leaked filler key takes at most its limits, and the calls of a fill, which run
/// as the router, reach neither the treasury nor this contract.
/// @dev It has no owner and stores nothing but limits; any number of treasuries may use it. Funds sent here by
/// mistake stay here.
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

    /// @notice The router does not hold exactly the amount moved to it: the token kept a fee, or another call
    /// used the router before the calls began.
    error NotArrived(address token, uint256 expected, uint256 balance);

    /// @notice The router, fixed at construction.
    function ROUTER() external view returns (address);

    /// @notice The amount `filler` may still spend of the treasury's token.
    function limit(address treasury, address filler, address token) external view returns (uint256 remaining);

    /// @notice Sets the limit of `filler` for the caller's token, replacing the remaining one; zero revokes it.
    /// @dev Every spend counts, also against the largest amount: no limit is infinite. A filler that sees the
    /// change coming can spend the old limit before it and the new one after it.
    /// @param filler The account that may spend.
    /// @param token The token.
    /// @param amount The total amount.
    function setLimit(address filler, address token, uint256 amount) external;

    /// @notice Moves tokens from the treasury to the router and runs `calls` there, forwarding the native value
    /// sent along.
    /// @dev Remaining native value goes to `refundTo`. Remaining tokens stay in the router, for anyone to take:
    /// the calls must deliver everything, as with `cleanupErc20s`. Bytes after the arguments are ignored, so an
    /// order id may follow.
    /// @param treasury The owner of the tokens; it has set a limit for the caller and approved this contract.
    /// @param token The token.
    /// @param amount The amount; zero moves nothing and needs no limit, which is a multicall on the router.
    /// @param calls The calls; the revert data of a failing call that must succeed is passed on.
    /// @param refundTo The recipient of leftover native value; not zero.
    /// @param nftRecipient The recipient of NFTs that arrive meanwhile; zero refuses them.
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
