// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {DevnetToken} from "./DevnetToken.sol";

/// @notice A stablecoin of 6 decimals for the local network with the two quirks that break naive callers: its
/// functions return nothing, and it refuses to change an allowance from one non-zero value to another.
contract Usdt is DevnetToken {
    error AllowanceMustBeZeroFirst();

    constructor(address initialOwner) DevnetToken(initialOwner, "Tether USD", "USDT", 6) {}

    function transfer(address to, uint256 value) external {
        _transfer(msg.sender, to, value);
    }

    function transferFrom(address from, address to, uint256 value) external {
        _spendAllowance(from, msg.sender, value);
        _transfer(from, to, value);
    }

    function approve(address spender, uint256 value) external {
        if (value != 0 && allowance[msg.sender][spender] != 0) revert AllowanceMustBeZeroFirst();
        _approve(msg.sender, spender, value);
    }
}
