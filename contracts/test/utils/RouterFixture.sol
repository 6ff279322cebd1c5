// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {Test} from "forge-std/Test.sol";
import {Depository} from "../../src/Depository.sol";
import {Router} from "../../src/Router.sol";
import {Call3Value, IRouter} from "../../src/interfaces/IRouter.sol";
import {Calls, TestExchange} from "./Actors.sol";
import {TestToken} from "./HostileTokens.sol";

/// @notice A router, an exchange with funds and a user.
abstract contract RouterFixture is Test {
    using Calls for Call3Value[];

    Router internal router = new Router();
    TestToken internal token = new TestToken();
    TestToken internal other = new TestToken();
    TestExchange internal exchange = new TestExchange();
    Depository internal depository = new Depository(address(1), address(2));
    address internal user = makeAddr("user");
    bytes32 internal id = keccak256("order");

    function setUp() public {
        vm.deal(user, 100 ether);
        vm.deal(address(exchange), 100 ether);
        other.mint(address(exchange), 100 ether);
    }

    function cleanupNative(uint256 amount, address to) internal pure returns (bytes memory) {
        return abi.encodeCall(IRouter.cleanupNative, (amount, to, ""));
    }
}
