// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {DevnetToken} from "./DevnetToken.sol";

/// @notice A token that follows ERC-20 to the letter.
abstract contract PlainToken is DevnetToken {
    function transfer(address to, uint256 value) external returns (bool) {
        _transfer(msg.sender, to, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        _spendAllowance(from, msg.sender, value);
        _transfer(from, to, value);
        return true;
    }

    function approve(address spender, uint256 value) external returns (bool) {
        _approve(msg.sender, spender, value);
        return true;
    }
}
