// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IOwned} from "./IOwned.sol";

/// @title Factory of deposit addresses
/// @notice Gives out addresses that need no key and no transaction before they are paid, and brings their
/// balances into the depository. There are two kinds:
///
/// - A strict address belongs to one order and one depositor, by which it is derived. Anyone may sweep it:
///   nothing about the deposit is left to choose.
/// - An open address belongs to a route. The order is known only once the money is there, so an operator names
///   it when it sweeps, with the amount: what came after the operator looked waits for an order of its own.
///
/// @dev Addresses are those of standard EIP-1167 clones of `IMPLEMENTATION`, which follows from the factory's
/// own address: where the factory has the same address, deposit addresses are the same. Deploy it by a
/// deterministic deployer, so that an equal address proves equal arguments, the depository among them.
interface IDepositAddressFactory is IOwned {
    /// @notice `operator` may sweep open addresses from now on, or no longer.
    event OperatorSet(address indexed operator, bool allowed);

    /// @notice Money of a deposit address went into the depository, whose log of it comes just before.
    /// @dev Anyone can have this logged under any order by paying an address derived with a depositor of their
    /// own. It speaks for an order only if `depositAddress` is the one given out for it.
    event Swept(
        address indexed depositAddress, bytes32 indexed orderId, address indexed token, address depositor
    );

    /// @notice The depository has no code: deposits would be stuck in their addresses.
    error DepositoryHasNoCode(address depository);

    /// @notice A sweep of an open address that names no amount.
    error AmountCannotBeZero();

    /// @notice An open address holds less than the amount to be swept. It has the form of the router's error.
    error BalanceTooLow(address token, uint256 amount, uint256 balance);

    /// @notice The depository, fixed at construction.
    function DEPOSITORY() external view returns (address);

    /// @notice The code of all deposit addresses: the first contract that the factory creates.
    function IMPLEMENTATION() external view returns (address);

    /// @notice True if `account` may sweep open addresses.
    function operators(address account) external view returns (bool);

    /// @notice The strict address of an order and a depositor, derived with the salt
    /// `keccak256(orderId ‖ depositor)` of 52 bytes.
    function computeDepositAddress(bytes32 orderId, address depositor) external view returns (address);

    /// @notice The open address of a route, derived with the salt `keccak256("open" ‖ routeKey)` of 36 bytes.
    function computeOpenDepositAddress(bytes32 routeKey) external view returns (address);

    /// @notice Deposits the balances of a strict address under its order. Anyone may call it, at any time, again
    /// and again; a balance of zero is skipped.
    /// @dev One token that fails stops the others of the list, so sweep tokens one by one where one may fail.
    /// Whoever comes second finds nothing and does not fail.
    /// @param orderId The order.
    /// @param depositor The account that the deposits name. Zero is the address itself, by the rule of the
    /// depository; what is refunded to it can be swept again.
    /// @param tokens The tokens, zero for native.
    function sweep(bytes32 orderId, address depositor, address[] calldata tokens) external;

    /// @notice Deposits exactly `amount` of an open address under the order given here, or fails. What is beyond
    /// stays for the next sweep. Operators only.
    /// @dev An operator decides on money that it has read and screened; money that came afterwards must not
    /// travel under the same order. If the token keeps a fee, `amount` leaves the address and the depository
    /// logs the remainder. An amount is not a payment: of two sweeps that are sent for the same money, the second
    /// fails only if nothing else has come.
    /// @param routeKey The route.
    /// @param orderId The order.
    /// @param depositor The account that the deposit names.
    /// @param token The token, zero for native.
    /// @param amount The amount, which is not zero.
    function sweepOpen(bytes32 routeKey, bytes32 orderId, address depositor, address token, uint256 amount)
        external;

    /// @notice Lets `operator` sweep open addresses, or forbids it. Owner only.
    function setOperator(address operator, bool allowed) external;
}
