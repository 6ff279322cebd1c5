// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {Vm} from "forge-std/Vm.sol";
import {DepositoryFixture} from "./DepositoryFixture.sol";
import {TestToken} from "./HostileTokens.sol";

/// @notice A depository whose user holds native currency and an approved token.
abstract contract FundedDepository is DepositoryFixture {
    TestToken internal token;

    function setUp() public virtual override {
        super.setUp();
        token = new TestToken();
        vm.deal(user, 1000 ether);
        token.mint(user, 1000 ether);
        vm.prank(user);
        token.approve(address(depository), type(uint256).max);
    }

    function expectLog(bytes32 topic, bytes memory data) internal {
        Vm.Log[] memory logs = vm.getRecordedLogs();
        bool found;
        for (uint256 i = 0; i < logs.length; ++i) {
            if (logs[i].emitter != address(depository) || logs[i].topics[0] != topic) continue;
            assertEq(logs[i].topics.length, 1, "topics");
            assertEq(logs[i].data, data, "log data");
            found = true;
        }
        assertTrue(found, "log missing");
    }
}
