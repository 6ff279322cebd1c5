// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {Clones} from "@openzeppelin/contracts/proxy/Clones.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {DepositAddress} from "./DepositAddress.sol";
import {Owned} from "./Owned.sol";
import {IDepositAddress} from "./interfaces/IDepositAddress.sol";
import {IDepositAddressFactory} from "./interfaces/IDepositAddressFactory.sol";

/// @notice See `IDepositAddressFactory`.
contract DepositAddressFactory is IDepositAddressFactory, Owned, ReentrancyGuardTransient {
    /// @inheritdoc IDepositAddressFactory
    address public immutable DEPOSITORY;

    /// @inheritdoc IDepositAddressFactory
    address public immutable IMPLEMENTATION;

    /// @inheritdoc IDepositAddressFactory
    mapping(address account => bool) public operators;

    constructor(address initialOwner, address depository) Owned(initialOwner) {
        if (depository.code.length == 0) revert DepositoryHasNoCode(depository);
        DEPOSITORY = depository;
        IMPLEMENTATION = address(new DepositAddress(depository));
    }

    /// @inheritdoc IDepositAddressFactory
    function sweep(bytes32 orderId, address depositor, address[] calldata tokens) external nonReentrant {
        bytes32 salt = _strictSalt(orderId, depositor);
        address depositAddress = Clones.predictDeterministicAddress(IMPLEMENTATION, salt);
        for (uint256 i = 0; i < tokens.length; ++i) {
            address token = tokens[i];
            if (_balance(token, depositAddress) == 0) continue;
            _createOnce(depositAddress, salt);
            IDepositAddress(depositAddress).sweep(token, depositor, orderId);
            emit Swept(depositAddress, orderId, token, depositor);
        }
    }

    /// @inheritdoc IDepositAddressFactory
    function sweepOpen(bytes32 routeKey, bytes32 orderId, address depositor, address token, uint256 amount)
        external
        nonReentrant
    {
        if (!operators[msg.sender]) revert Unauthorized();
        if (amount == 0) revert AmountCannotBeZero();
        bytes32 salt = _openSalt(routeKey);
        address depositAddress = Clones.predictDeterministicAddress(IMPLEMENTATION, salt);
        uint256 balance = _balance(token, depositAddress);
        if (balance < amount) revert BalanceTooLow(token, amount, balance);
        _createOnce(depositAddress, salt);
        IDepositAddress(depositAddress).sweepAmount(token, depositor, orderId, amount);
        emit Swept(depositAddress, orderId, token, depositor);
    }

    /// @inheritdoc IDepositAddressFactory
    function setOperator(address operator, bool allowed) external onlyOwner {
        operators[operator] = allowed;
        emit OperatorSet(operator, allowed);
    }

    /// @inheritdoc IDepositAddressFactory
    function computeDepositAddress(bytes32 orderId, address depositor) external view returns (address) {
        return Clones.predictDeterministicAddress(IMPLEMENTATION, _strictSalt(orderId, depositor));
    }

    /// @inheritdoc IDepositAddressFactory
    function computeOpenDepositAddress(bytes32 routeKey) external view returns (address) {
        return Clones.predictDeterministicAddress(IMPLEMENTATION, _openSalt(routeKey));
    }

    /// @dev An address gets its code only when there is something to sweep: from then on native currency that
    /// is sent with the least gas is refused, and nobody should be able to cause that for nothing.
    function _createOnce(address depositAddress, bytes32 salt) private {
        if (depositAddress.code.length == 0) Clones.cloneDeterministic(IMPLEMENTATION, salt);
    }

    function _balance(address token, address account) private view returns (uint256) {
        return token == address(0) ? account.balance : IERC20(token).balanceOf(account);
    }

    /// @dev The two preimages differ in length, so no order and depositor make the salt of a route.
    function _strictSalt(bytes32 orderId, address depositor) private pure returns (bytes32) {
        return keccak256(abi.encodePacked(orderId, depositor));
    }

    function _openSalt(bytes32 routeKey) private pure returns (bytes32) {
        return keccak256(abi.encodePacked("open", routeKey));
    }
}
