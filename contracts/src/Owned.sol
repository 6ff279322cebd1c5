// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IOwned} from "./interfaces/IOwned.sol";

/// @notice Two-step ownership, shared by the contracts that have an owner.
abstract contract Owned is IOwned {
    /// @inheritdoc IOwned
    address public owner;

    /// @inheritdoc IOwned
    address public pendingOwner;

    constructor(address initialOwner) {
        if (initialOwner == address(0)) revert AddressCannotBeZero();
        owner = initialOwner;
        emit OwnershipTransferred(address(0), initialOwner);
    }

    modifier onlyOwner() {
        if (msg.sender != owner) revert Unauthorized();
        _;
    }

    /// @inheritdoc IOwned
    function transferOwnership(address newOwner) external onlyOwner {
        pendingOwner = newOwner;
        emit OwnershipTransferStarted(msg.sender, newOwner);
    }

    /// @inheritdoc IOwned
    function acceptOwnership() external {
        if (msg.sender != pendingOwner) revert Unauthorized();
        emit OwnershipTransferred(owner, msg.sender);
        owner = msg.sender;
        delete pendingOwner;
    }
}
