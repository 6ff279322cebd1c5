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
        if (token == address(0)) {
            IDepository(DEPOSITORY).depositNative{value: address(this).balance}(depositor, orderId);
        } else {
            uint256 balance = IERC20(token).balanceOf(address(this));
            // Exactly the amount that is pulled: the approval does not outlive the call.
            IERC20(token).forceApprove(DEPOSITORY, balance);
            IDepository(DEPOSITORY).depositErc20(depositor, token, balance, orderId);
        }
    }
}
