// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

/// @title Two-step ownership
/// @notice A new owner has to accept, so that a mistyped address cannot take a contract away for good.
interface IOwned {
    /// @notice The owner named a successor, who has not accepted yet; zero withdraws the offer.
    event OwnershipTransferStarted(address indexed owner, address indexed pendingOwner);

    /// @notice Ownership moved.
    event OwnershipTransferred(address indexed previousOwner, address indexed owner);

    /// @notice The caller does not hold the role required by this function.
    error Unauthorized();

    /// @notice An address that must be set was zero.
    error AddressCannotBeZero();

    /// @notice The account with the owner's rights.
    function owner() external view returns (address);

    /// @notice The account that may call `acceptOwnership`, or zero.
    function pendingOwner() external view returns (address);

    /// @notice Offers ownership to `newOwner`, replacing any earlier offer; zero withdraws it. Owner only.
    function transferOwnership(address newOwner) external;

    /// @notice Accepts the ownership that was offered to the caller.
    function acceptOwnership() external;
}
