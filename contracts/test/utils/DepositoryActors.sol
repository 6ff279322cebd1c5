// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {Depository} from "../../src/Depository.sol";
import {HookToken} from "./HostileTokens.sol";

contract Depositor {
    Depository private immutable depository;
    HookToken private immutable token;

    constructor(Depository depository_, HookToken token_) {
        (depository, token) = (depository_, token_);
        token_.approve(address(depository_), type(uint256).max);
    }

    function deposit(uint256 amount) external {
        depository.depositErc20(address(this), address(token), amount, "inner");
    }

    function send(uint256 amount) external {
        token.transfer(address(depository), amount);
    }
}

contract Reenterer {
    Depository private immutable depository;
    bytes private data;
    uint256 private value;
    bytes public lastReturn;

    constructor(Depository depository_) {
        depository = depository_;
    }

    function arm(bytes calldata data_) external {
        data = data_;
    }

    function sendBack(uint256 value_) external {
        value = value_;
    }

    receive() external payable {
        (, lastReturn) = address(depository).call{value: value}(data);
    }
}

contract ContractSigner {
    mapping(bytes32 digest => bool) private allowed;

    function allow(bytes32 digest) external {
        allowed[digest] = true;
    }

    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4) {
        bool valid = allowed[digest] && keccak256(signature) == keccak256("yes");
        return valid ? bytes4(0x1626ba7e) : bytes4(0xffffffff);
    }
}
