// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {ISpendLimiter} from "./interfaces/ISpendLimiter.sol";
import {Call3Value, CallResult, IRouter} from "./interfaces/IRouter.sol";

/// @notice See `ISpendLimiter`.
contract SpendLimiter is ISpendLimiter, ReentrancyGuardTransient {
    using SafeERC20 for IERC20;

    /// @inheritdoc ISpendLimiter
    address public immutable ROUTER;

    /// @inheritdoc ISpendLimiter
    mapping(address treasury => mapping(address filler => mapping(address token => uint256 remaining))) public
        limit;

    constructor(address router) {
        if (router == address(0)) revert AddressCannotBeZero();
        ROUTER = router;
    }

    /// @inheritdoc ISpendLimiter
    function setLimit(address filler, address token, uint256 amount) external {
        if (filler == ROUTER) revert RouterCannotSpend();
        limit[msg.sender][filler][token] = amount;
        emit LimitSet(msg.sender, filler, token, amount);
    }

    /// @inheritdoc ISpendLimiter
    function spend(
        address treasury,
        address token,
        uint256 amount,
        Call3Value[] calldata calls,
        address refundTo,
        address nftRecipient,
        bytes calldata metadata
    ) external payable nonReentrant returns (CallResult[] memory) {
        if (refundTo == address(0)) revert RefundToCannotBeZero();
        if (amount != 0) {
            _takeFromLimit(treasury, token, amount);
            _moveToRouter(treasury, token, amount);
        }
        return IRouter(ROUTER).multicall{value: msg.value}(calls, refundTo, nftRecipient, metadata);
    }

    function _takeFromLimit(address treasury, address token, uint256 amount) private {
        mapping(address token => uint256 remaining) storage limits = limit[treasury][msg.sender];
        uint256 remaining = limits[token];
        if (amount > remaining) revert LimitExceeded(token, amount, remaining);
        limits[token] = remaining - amount;
    }

    /// @dev A token may call out while it is moved, and the callee could use the router, which is not in use
    /// yet, to take the tokens that have arrived. The same check refuses a token that keeps a fee.
    function _moveToRouter(address treasury, address token, uint256 amount) private {
        uint256 expected = IERC20(token).balanceOf(ROUTER) + amount;
        IERC20(token).safeTransferFrom(treasury, ROUTER, amount);
        uint256 balance = IERC20(token).balanceOf(ROUTER);
        if (balance != expected) revert NotArrived(token, expected, balance);
    }
}
