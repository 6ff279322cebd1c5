// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";

/// @notice Mints to any caller, so that tests need no owner.
contract TestToken is ERC20 {
    constructor() ERC20("Test", "TEST") {}

    function mint(address to, uint256 value) external {
        _mint(to, value);
    }
}

/// @notice Keeps a tenth of every transfer.
contract FeeToken is TestToken {
    function _update(address from, address to, uint256 value) internal override {
        if (from == address(0) || to == address(0)) return super._update(from, to, value);
        uint256 fee = value / 10;
        super._update(from, address(0xFEE), fee);
        super._update(from, to, value - fee);
    }
}

/// @notice Answers false and moves nothing.
contract FalseToken is TestToken {
    function transfer(address, uint256) public pure override returns (bool) {
        return false;
    }

    function transferFrom(address, address, uint256) public pure override returns (bool) {
        return false;
    }
}

/// @notice Answers true and moves nothing.
contract IdleToken is TestToken {
    function transfer(address, uint256) public pure override returns (bool) {
        return true;
    }

    function transferFrom(address, address, uint256) public pure override returns (bool) {
        return true;
    }
}

/// @notice Calls out once during the next transfer, before or after the balance changes.
contract HookToken is TestToken {
    address public target;
    bytes public data;
    bool public afterMove;
    bool public lastSuccess;
    bytes public lastReturn;

    function arm(address target_, bytes calldata data_, bool afterMove_) external {
        (target, data, afterMove) = (target_, data_, afterMove_);
    }

    function _update(address from, address to, uint256 value) internal override {
        address hook = target;
        bool late = afterMove;
        if (hook != address(0) && from != address(0)) {
            target = address(0);
            if (!late) (lastSuccess, lastReturn) = hook.call(data);
            super._update(from, to, value);
            if (late) (lastSuccess, lastReturn) = hook.call(data);
        } else {
            super._update(from, to, value);
        }
    }
}

/// @notice Accepts every call and does nothing, like a wrapped native token with its fallback.
contract Swallower is TestToken {
    fallback() external payable {}
    receive() external payable {}
}
