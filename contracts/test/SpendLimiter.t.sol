// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SpendLimiter} from "../src/SpendLimiter.sol";
import {ISpendLimiter} from "../src/interfaces/ISpendLimiter.sol";
import {Call3Value, CallResult} from "../src/interfaces/IRouter.sol";
import {Calls, TestExchange} from "./utils/Actors.sol";
import {SpendLimiterFixture} from "./utils/SpendLimiterFixture.sol";

contract SpendLimiterTest is SpendLimiterFixture {
    using Calls for Call3Value[];

    /// @dev Selectors of our own: nobody else publishes this contract.
    function test_selectors_are_the_ones_the_services_use() public pure {
        assertEq(ISpendLimiter.spend.selector, bytes4(0x6bfad608));
        assertEq(ISpendLimiter.setLimit.selector, bytes4(0x21d4e316));
        assertEq(ISpendLimiter.limit.selector, bytes4(0x5b6cbc5d));
    }

    function test_construction_refuses_a_zero_router() public {
        vm.expectRevert(ISpendLimiter.AddressCannotBeZero.selector);
        new SpendLimiter(address(0));
        assertEq(spendLimiter.ROUTER(), address(router));
    }

    // ---- limits ----

    function testFuzz_setLimit_is_for_one_treasury_filler_and_token(
        address owner,
        address by,
        address currency,
        uint256 first,
        uint256 second,
        address else_
    ) public {
        vm.assume(by != address(router) && else_ != owner && else_ != by && else_ != currency);
        vm.startPrank(owner);
        vm.expectEmit(address(spendLimiter));
        emit ISpendLimiter.LimitSet(owner, by, currency, first);
        spendLimiter.setLimit(by, currency, first);
        assertEq(spendLimiter.limit(owner, by, currency), first);
        spendLimiter.setLimit(by, currency, second);
        vm.stopPrank();
        assertEq(spendLimiter.limit(owner, by, currency), second);
        assertEq(spendLimiter.limit(else_, by, currency), 0);
        assertEq(spendLimiter.limit(owner, else_, currency), 0);
        assertEq(spendLimiter.limit(owner, by, else_), 0);
    }

    function test_the_router_gets_no_limit() public {
        vm.prank(treasury);
        vm.expectRevert(ISpendLimiter.RouterCannotSpend.selector);
        spendLimiter.setLimit(address(router), address(token), 1);
    }

    function testFuzz_every_spend_counts_against_the_limit(uint128 granted, uint128 first, uint128 second)
        public
    {
        granted = uint128(bound(granted, 1, HELD));
        first = uint128(bound(first, 1, granted));
        second = uint128(bound(second, 1, HELD));
        setLimit(filler, address(token), granted);
        Call3Value[] memory calls = deliver(address(token), second);
        vm.startPrank(filler);
        spend(address(token), first);
        uint256 remaining = granted - first;
        assertEq(spendLimiter.limit(treasury, filler, address(token)), remaining);
        bool within = second <= remaining;
        if (!within) vm.expectRevert(limitExceeded(second, remaining));
        spendLimiter.spend(treasury, address(token), second, calls, filler, address(0), "");
        vm.stopPrank();
        assertEq(token.balanceOf(recipient), first + (within ? uint256(second) : 0));
        assertEq(
            spendLimiter.limit(treasury, filler, address(token)), within ? remaining - second : remaining
        );
        assertNothingStays();
    }

    function test_the_largest_limit_is_not_without_end() public {
        setLimit(filler, address(token), type(uint256).max);
        vm.prank(filler);
        spend(address(token), 5);
        assertEq(spendLimiter.limit(treasury, filler, address(token)), type(uint256).max - 5);
    }

    function test_a_limit_can_be_taken_back() public {
        setLimit(filler, address(token), 10);
        setLimit(filler, address(token), 0);
        vm.prank(filler);
        vm.expectRevert(limitExceeded(1, 0));
        spendLimiter.spend(treasury, address(token), 1, new Call3Value[](0), filler, address(0), "");
    }

    function test_a_spend_that_fails_leaves_the_limit() public {
        setLimit(filler, address(token), 10);
        Call3Value[] memory calls =
            Calls.one(address(exchange), 0, abi.encodeCall(TestExchange.swap, (token, other, 0, 1)));
        vm.prank(filler);
        vm.expectRevert(TestExchange.TooLittle.selector);
        spendLimiter.spend(treasury, address(token), 10, calls, filler, address(0), "");
        assertEq(spendLimiter.limit(treasury, filler, address(token)), 10);
        assertEq(token.balanceOf(treasury), HELD);
    }

    /// @dev The approval bounds all fillers together.
    function test_the_approval_bounds_what_the_limits_allow() public {
        vm.prank(treasury);
        token.approve(address(spendLimiter), 10);
        setLimit(filler, address(token), 10);
        setLimit(thief, address(token), 10);
        vm.prank(filler);
        spend(address(token), 6);
        Call3Value[] memory calls = steal(address(token));
        vm.prank(thief);
        vm.expectRevert();
        spendLimiter.spend(treasury, address(token), 5, calls, thief, thief, "");
        assertEq(token.balanceOf(treasury), HELD - 6);
    }

    // ---- who may use a limit ----

    function testFuzz_strangers_spend_nothing(address by, uint128 amount) public {
        vm.assume(by != filler && by != address(vm));
        amount = uint128(bound(amount, 1, HELD));
        setLimit(filler, address(token), type(uint256).max);
        bytes memory data = spendData(treasury, amount, steal(address(token)));
        vm.prank(by);
        vm.expectRevert(limitExceeded(amount, 0));
        (bool success,) = address(spendLimiter).call(data);
        assertTrue(success);
        assertEq(token.balanceOf(treasury), HELD);
    }

    /// @dev Both treasuries have approved the spend limiter; only one has set a limit for the filler.
    function testFuzz_a_limit_serves_one_treasury(uint128 amount) public {
        amount = uint128(bound(amount, 1, HELD));
        address second = makeAddr("second treasury");
        fund(second, token, HELD);
        setLimit(filler, address(token), amount);
        Call3Value[] memory calls = deliver(address(token), amount);
        vm.startPrank(filler);
        vm.expectRevert(limitExceeded(amount, 0));
        spendLimiter.spend(second, address(token), amount, calls, filler, address(0), "");
        spendLimiter.spend(treasury, address(token), amount, calls, filler, address(0), "");
        vm.stopPrank();
        assertEq(token.balanceOf(second), HELD);
        assertEq(token.balanceOf(treasury), HELD - amount);
    }

    function test_a_limit_serves_one_token() public {
        fund(treasury, other, HELD);
        setLimit(filler, address(other), 10);
        vm.prank(filler);
        vm.expectRevert(limitExceeded(1, 0));
        spendLimiter.spend(treasury, address(token), 1, new Call3Value[](0), filler, address(0), "");
    }

    /// @dev The treasury itself spends only up to a limit it has set for itself.
    function test_an_approval_alone_serves_nobody() public {
        vm.prank(treasury);
        vm.expectRevert(limitExceeded(1, 0));
        spendLimiter.spend(treasury, address(token), 1, new Call3Value[](0), treasury, address(0), "");
    }

    function test_calls_reach_neither_the_treasury_nor_the_spend_limiter() public {
        setLimit(filler, address(token), 10);
        bytes[4] memory attempts = [
            abi.encodeCall(IERC20.transferFrom, (treasury, thief, 1)),
            abi.encodeCall(IERC20.transferFrom, (address(spendLimiter), thief, 1)),
            spendData(treasury, 1, steal(address(token))),
            spendData(treasury, 0, new Call3Value[](0))
        ];
        for (uint256 i = 0; i < attempts.length; ++i) {
            address target = i < 2 ? address(token) : address(spendLimiter);
            Call3Value[] memory calls = Calls.one(target, 0, attempts[i]).then(recipient, 0, "");
            calls[0].allowFailure = true;
            vm.prank(filler);
            CallResult[] memory results =
                spendLimiter.spend(treasury, address(0), 0, calls, filler, address(0), "");
            assertFalse(results[0].success);
            assertTrue(results[1].success);
            vm.prank(thief);
            results = router.multicall(calls, thief, thief, "");
            assertFalse(results[0].success);
        }
        assertEq(token.balanceOf(treasury), HELD);
        assertEq(spendLimiter.limit(treasury, filler, address(token)), 10);
    }

    /// @dev Anyone may make the router a treasury. It has nothing to spend, and a transfer to itself brings
    /// nothing.
    function testFuzz_the_router_is_no_treasury(uint128 amount) public {
        amount = uint128(bound(amount, 1, HELD));
        token.mint(address(router), amount);
        vm.startPrank(thief);
        router.multicall(
            Calls.one(address(token), 0, abi.encodeCall(IERC20.approve, (address(spendLimiter), amount)))
                .then(
                    address(spendLimiter),
                    0,
                    abi.encodeCall(ISpendLimiter.setLimit, (thief, address(token), amount))
                ),
            thief,
            thief,
            ""
        );
        vm.expectRevert(notArrived(address(token), 2 * uint256(amount), amount));
        spendLimiter.spend(address(router), address(token), amount, new Call3Value[](0), thief, thief, "");
        vm.stopPrank();
    }
}
