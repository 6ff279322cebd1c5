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

/// @notice Refuses to change an allowance from one non-zero value to another.
contract StubbornToken is TestToken {
    error AllowanceMustBeZeroFirst();

    function approve(address spender, uint256 value) public override returns (bool) {
        if (value != 0 && allowance(msg.sender, spender) != 0) revert AllowanceMustBeZeroFirst();
        return super.approve(spender, value);
    }
}

/// @notice A hook token with authorizations, which it believes unsigned. Its hook is for transfers.
contract HookToken3009 is HookToken {
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256,
        uint256,
        bytes32,
        uint8,
        bytes32,
        bytes32
    ) external {
        address hook = target;
        target = address(0);
        _transfer(from, to, value);
        target = hook;
    }
}

/// @notice Keeps a tenth of every transfer, and takes unsigned authorizations without a fee.
contract FeeToken3009 is FeeToken {
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256,
        uint256,
        bytes32,
        uint8,
        bytes32,
        bytes32
    ) external {
        _burn(from, value);
        _mint(to, value);
    }
}

/// @notice Keeps a tenth of every authorization, which it believes unsigned, and nothing of a transfer.
contract ShortToken3009 is TestToken {
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256,
        uint256,
        bytes32,
        uint8,
        bytes32,
        bytes32
    ) external {
        _burn(from, value);
        _mint(to, value - value / 10);
    }
}

/// @notice A token behind several calls, each of which passes a failure on, and whose transfers take much gas.
contract DeepToken is TestToken {
    uint256 private written;

    function transfer(address to, uint256 value) public override returns (bool) {
        return this.deeper(msg.sender, to, value, 4);
    }

    function deeper(address from, address to, uint256 value, uint256 depth) external returns (bool) {
        require(msg.sender == address(this));
        if (depth != 0) return this.deeper(from, to, value, depth - 1);
        for (uint256 i = 0; i < 300; ++i) {
            written = i;
        }
        _transfer(from, to, value);
        return true;
    }
}

/// @notice Uses all gas of every transfer.
contract GreedyToken is TestToken {
    function transfer(address, uint256) public pure override returns (bool) {
        assembly {
            invalid()
        }
    }
}

/// @notice Accepts every call and does nothing, like a wrapped native token with its fallback.
contract Swallower is TestToken {
    fallback() external payable {}
    receive() external payable {}
}
