// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {ERC1155} from "@openzeppelin/contracts/token/ERC1155/ERC1155.sol";
import {ERC721} from "@openzeppelin/contracts/token/ERC721/ERC721.sol";
import {Call3Value, IRouter} from "../../src/interfaces/IRouter.sol";
import {TestToken} from "./HostileTokens.sol";

/// @notice Swaps one for one between any token and native, out of its own balance.
contract TestExchange {
    error TooLittle();

    function swap(TestToken from, TestToken to, uint256 amount, uint256 minimum) external {
        from.transferFrom(msg.sender, address(this), amount);
        if (amount < minimum) revert TooLittle();
        to.transfer(msg.sender, amount);
    }

    function sell(TestToken from, uint256 amount) external {
        from.transferFrom(msg.sender, address(this), amount);
        (bool success,) = msg.sender.call{value: amount}("");
        require(success);
    }

    function spend(TestToken from, uint256 amount) external {
        from.transferFrom(msg.sender, address(this), amount);
    }

    receive() external payable {}
}

/// @notice Refuses native value.
contract NoNative {}

/// @notice Takes tokens of others by allowances that were left to it.
contract Taker {
    function take(IERC20 token, address from, uint256 amount) external {
        token.transferFrom(from, address(this), amount);
    }
}

/// @notice Tries to use a router when it receives money or a call, and records the result.
contract Intruder {
    address private target;
    bytes private data;
    bool public tried;
    bool public entered;
    bytes public answer;

    function arm(address target_, bytes calldata data_) external {
        (target, data) = (target_, data_);
    }

    function poke() external payable {
        attack();
    }

    receive() external payable {
        attack();
    }

    function attack() private {
        tried = true;
        (entered, answer) = target.call(data);
    }
}

contract TestNft is ERC721 {
    constructor() ERC721("Nft", "NFT") {}

    function safeMint(address to, uint256 tokenId) external {
        _safeMint(to, tokenId);
    }
}

contract TestMultiToken is ERC1155 {
    constructor() ERC1155("") {}

    function mint(address to, uint256 tokenId, uint256 value) external {
        _mint(to, tokenId, value, "");
    }

    function mintBatch(address to, uint256[] calldata ids, uint256[] calldata values) external {
        _mintBatch(to, ids, values, "");
    }
}

/// @notice Helpers for building calls.
library Calls {
    function one(address target, uint256 value, bytes memory data)
        internal
        pure
        returns (Call3Value[] memory calls)
    {
        calls = new Call3Value[](1);
        calls[0] = Call3Value({target: target, allowFailure: false, value: value, callData: data});
    }

    function then(Call3Value[] memory calls, address target, uint256 value, bytes memory data)
        internal
        pure
        returns (Call3Value[] memory longer)
    {
        longer = new Call3Value[](calls.length + 1);
        for (uint256 i = 0; i < calls.length; ++i) {
            longer[i] = calls[i];
        }
        longer[calls.length] = Call3Value({target: target, allowFailure: false, value: value, callData: data});
    }

    function cleanup(address token, address recipient, uint256 amount) internal pure returns (bytes memory) {
        return abi.encodeCall(IRouter.cleanupErc20s, (list(token), list(recipient), list(amount), ""));
    }

    function spend(address token, address to, bytes memory data, uint256 amount)
        internal
        pure
        returns (bytes memory)
    {
        return abi.encodeCall(IRouter.cleanupErc20sViaCall, (list(token), list(to), list(data), list(amount)));
    }

    function list(address item) internal pure returns (address[] memory items) {
        items = new address[](1);
        items[0] = item;
    }

    function list(uint256 item) internal pure returns (uint256[] memory items) {
        items = new uint256[](1);
        items[0] = item;
    }

    function list(bytes memory item) internal pure returns (bytes[] memory items) {
        items = new bytes[](1);
        items[0] = item;
    }
}
