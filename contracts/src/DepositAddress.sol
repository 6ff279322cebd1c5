// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {IDepositAddress} from "./interfaces/IDepositAddress.sol";
import {IDepository} from "./interfaces/IDepository.sol";

/// @notice See `IDepositAddress`. There is no storage, no owner and no second way out: order and depositor are
/// arguments of the factory, which derives the address from them.
contract DepositAddress is IDepositAddress {
    using SafeERC20 for IERC20;

    /// @inheritdoc IDepositAddress
    address public immutable FACTORY;

    /// @inheritdoc IDepositAddress
    address public immutable DEPOSITORY;

    /// @dev The address of this code itself, which is no deposit address.
    address private immutable SELF;

    constructor(address depository) {
        FACTORY = msg.sender;
        DEPOSITORY = depository;
        SELF = address(this);
    }

    receive() external payable {
        if (address(this) == SELF) revert NotADepositAddress();
    }

    /// @inheritdoc IDepositAddress
    function sweep(address token, address depositor, bytes32 orderId) external {
        if (msg.sender != FACTORY) revert Unauthorized();
        uint256 balance = token == address(0) ? address(this).balance : IERC20(token).balanceOf(address(this));
        _deposit(token, depositor, orderId, balance);
    }

    /// @inheritdoc IDepositAddress
    function sweepAmount(address token, address depositor, bytes32 orderId, uint256 amount) external {
        if (msg.sender != FACTORY) revert Unauthorized();
        _deposit(token, depositor, orderId, amount);
    }

    function _deposit(address token, address depositor, bytes32 orderId, uint256 amount) private {
        if (token == address(0)) {
            IDepository(DEPOSITORY).depositNative{value: amount}(depositor, orderId);
        } else {
            // Exactly the amount that is pulled: the approval does not outlive the call.
            IERC20(token).forceApprove(DEPOSITORY, amount);
            IDepository(DEPOSITORY).depositErc20(depositor, token, amount, orderId);
        }
    }
}
