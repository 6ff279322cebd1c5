// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {Owned} from "../Owned.sol";

/// @notice Balances, allowances and minting for the tokens of the local network. Each token defines its own
/// return values of a transfer, because that is where real tokens differ.
abstract contract DevnetToken is Owned {
    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    error InsufficientBalance(address account, uint256 balance, uint256 value);
    error InsufficientAllowance(address spender, uint256 allowance, uint256 value);
    error InvalidReceiver();

    string public name;
    string public symbol;
    uint8 public immutable decimals;

    uint256 public totalSupply;
    mapping(address account => uint256) public balanceOf;
    mapping(address account => mapping(address spender => uint256)) public allowance;

    constructor(address initialOwner, string memory name_, string memory symbol_, uint8 decimals_)
        Owned(initialOwner)
    {
        name = name_;
        symbol = symbol_;
        decimals = decimals_;
    }

    /// @notice Creates `value` for `to`. Owner only.
    function mint(address to, uint256 value) external onlyOwner {
        if (to == address(0)) revert InvalidReceiver();
        totalSupply += value;
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    function _transfer(address from, address to, uint256 value) internal {
        if (to == address(0)) revert InvalidReceiver();
        uint256 balance = balanceOf[from];
        if (balance < value) revert InsufficientBalance(from, balance, value);
        balanceOf[from] = balance - value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }

    function _approve(address account, address spender, uint256 value) internal {
        allowance[account][spender] = value;
        emit Approval(account, spender, value);
    }

    /// @dev An unlimited allowance stays unlimited, as in most deployed tokens.
    function _spendAllowance(address account, address spender, uint256 value) internal {
        uint256 allowed = allowance[account][spender];
        if (allowed == type(uint256).max) return;
        if (allowed < value) revert InsufficientAllowance(spender, allowed, value);
        allowance[account][spender] = allowed - value;
    }
}
