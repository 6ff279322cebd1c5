// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {Test} from "forge-std/Test.sol";
import {PriceFeed} from "../../src/devnet/PriceFeed.sol";
import {IOwned} from "../../src/interfaces/IOwned.sol";

contract PriceFeedTest is Test {
    PriceFeed internal feed = new PriceFeed(address(this), 8, "ETH / USD", 3000e8);

    function test_the_answer_follows_the_block() public {
        vm.warp(5000);
        (uint80 roundId, int256 answer, uint256 startedAt, uint256 updatedAt, uint80 answeredInRound) =
            feed.latestRoundData();
        assertEq(roundId, 1);
        assertEq(answer, 3000e8);
        assertEq(startedAt, 5000);
        assertEq(updatedAt, 5000);
        assertEq(answeredInRound, 1);
        assertEq(feed.decimals(), 8);
        assertEq(feed.description(), "ETH / USD");
    }

    function testFuzz_the_owner_sets_the_answer(int256 answer) public {
        feed.setAnswer(answer);
        (uint80 roundId, int256 current,,,) = feed.latestRoundData();
        assertEq(current, answer);
        assertEq(roundId, 2);
        vm.prank(address(1));
        vm.expectRevert(IOwned.Unauthorized.selector);
        feed.setAnswer(answer);
    }

    function test_rounds_are_kept_with_their_times() public {
        vm.warp(5000);
        feed.setAnswer(2900e8);
        vm.warp(6000);
        feed.setAnswer(3100e8);
        vm.warp(7000);
        (uint80 roundId, int256 answer, uint256 startedAt, uint256 updatedAt, uint80 answeredInRound) =
            feed.getRoundData(2);
        assertEq(roundId, 2);
        assertEq(answer, 2900e8);
        assertEq(startedAt, 5000);
        assertEq(updatedAt, 5000);
        assertEq(answeredInRound, 2);
        (, answer,, updatedAt,) = feed.getRoundData(3);
        assertEq(answer, 3100e8);
        assertEq(updatedAt, 6000);
        (, answer,, updatedAt,) = feed.getRoundData(4);
        assertEq(answer, 0);
        assertEq(updatedAt, 0);
    }

    function test_a_frozen_feed_goes_stale() public {
        vm.warp(5000);
        feed.setFrozenAt(4000);
        vm.warp(9000);
        (,,, uint256 updatedAt,) = feed.latestRoundData();
        assertEq(updatedAt, 4000);
        feed.setFrozenAt(0);
        assertEq(feed.latestTimestamp(), 9000);
        vm.prank(address(1));
        vm.expectRevert(IOwned.Unauthorized.selector);
        feed.setFrozenAt(1);
    }
}
