// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

/// @title Deposit address
/// @notice An address that takes native currency and tokens from anyone and can do one thing with them: deposit
/// them in the depository. It is a minimal proxy of the code here, exists from its first sweep on, and can be
/// paid before that.
interface IDepositAddress {
    /// @notice The caller is not the factory.
    error Unauthorized();

    /// @notice Native currency was sent to the code that deposit addresses share, which nobody could sweep.
    error NotADepositAddress();

    /// @notice The factory that made this address, and the only account that may sweep it.
    function FACTORY() external view returns (address);

    /// @notice The only place that money of this address goes to.
    function DEPOSITORY() external view returns (address);

    /// @notice Deposits the whole balance of `token`, or of native currency when zero. Factory only.
    /// @param token The token.
    /// @param depositor The account that the deposit names.
    /// @param orderId The order that the deposit pays for.
    function sweep(address token, address depositor, bytes32 orderId) external;

    /// @notice Deposits `amount` of `token`, or of native currency when zero, and leaves the rest. It fails if
    /// there is less. Factory only.
    /// @param token The token.
    /// @param depositor The account that the deposit names.
    /// @param orderId The order that the deposit pays for.
    /// @param amount The amount.
    function sweepAmount(address token, address depositor, bytes32 orderId, uint256 amount) external;
}
