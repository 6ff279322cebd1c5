// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Vm} from "forge-std/Vm.sol";
import {Usdt} from "../src/devnet/Usdt.sol";
import {Call3Value, CallResult, IRouter} from "../src/interfaces/IRouter.sol";
import {Calls, TestExchange} from "./utils/Actors.sol";
import {TestToken} from "./utils/HostileTokens.sol";
import {RouterFixture} from "./utils/RouterFixture.sol";

contract RouterTest is RouterFixture {
    using Calls for Call3Value[];

    function test_selectors_and_topics_are_public() public pure {
        assertEq(IRouter.multicall.selector, bytes4(0xcd6e13f7));
        assertEq(IRouter.cleanupErc20s.selector, bytes4(0x9bb43718));
        assertEq(IRouter.cleanupErc20sViaCall.selector, bytes4(0x73b7bb2f));
        assertEq(IRouter.cleanupNative.selector, bytes4(0xa6bd8c96));
        assertEq(IRouter.cleanupNativeViaCall.selector, bytes4(0x5d1fe6a2));
        // Ours alone.
        assertEq(IRouter.requireBalance.selector, bytes4(0x37e0e9e6));
        assertEq(
            IRouter.SolverNativeTransfer.selector,
            0xd35467972d1fda5b63c735f59d3974fa51785a41a92aa3ed1b70832836f8dba6
        );
        assertEq(
            IRouter.SolverCallExecuted.selector,
            0x93485dcd31a905e3ffd7b012abe3438fa8fa77f98ddc9f50e879d3fa7ccdc324
        );
    }

    // ---- multicall ----

    function testFuzz_multicall_pays_native_and_returns_the_rest(
        uint96 value,
        uint96 amount,
        bytes32 metadata
    ) public {
        value = uint96(bound(value, 1, type(uint96).max));
        amount = uint96(bound(amount, 1, value));
        address to = makeAddr("recipient");
        vm.deal(user, value);
        bytes memory data = abi.encodeCall(IRouter.cleanupNative, (amount, to, abi.encode(metadata)));

        vm.expectEmit(address(router));
        emit IRouter.SolverNativeTransfer(address(router), value);
        vm.expectEmit(address(router));
        emit IRouter.FundsMovement(user, address(router), address(0), value, abi.encode(metadata));
        vm.expectEmit(address(router));
        emit IRouter.SolverNativeTransfer(to, amount);
        vm.expectEmit(address(router));
        emit IRouter.FundsMovement(address(router), to, address(0), amount, abi.encode(metadata));
        vm.expectEmit(address(router));
        emit IRouter.SolverCallExecuted(address(router), data, 0);
        if (value != amount) {
            vm.expectEmit(address(router));
            emit IRouter.FundsMovement(
                address(router), user, address(0), value - amount, abi.encode(metadata)
            );
        }
        vm.prank(user);
        router.multicall{value: value}(
            Calls.one(address(router), 0, data), address(0), address(0), abi.encode(metadata)
        );
        assertEq(to.balance, amount);
        assertEq(user.balance, value - amount);
        assertEq(address(router).balance, 0);
    }

    function test_an_order_id_may_follow_the_calldata() public {
        address to = makeAddr("recipient");
        bytes memory data =
            abi.encodeCall(IRouter.multicall, (Calls.one(to, 1 ether, ""), user, address(0), ""));
        vm.prank(user);
        (bool success,) = address(router).call{value: 1 ether}(abi.encodePacked(data, id));
        assertTrue(success);
        assertEq(to.balance, 1 ether);
    }

    function test_a_required_failure_passes_its_reason_on() public {
        token.mint(address(this), 1);
        vm.expectRevert(TestExchange.TooLittle.selector);
        router.multicall(
            Calls.one(address(token), 0, abi.encodeCall(IERC20.approve, (address(exchange), 5)))
                .then(address(token), 0, abi.encodeCall(TestToken.mint, (address(router), 5)))
                .then(address(exchange), 0, abi.encodeCall(TestExchange.swap, (token, other, 5, 6))),
            user,
            address(0),
            ""
        );
    }

    function test_an_allowed_failure_leaves_no_evidence() public {
        Call3Value[] memory calls =
            Calls.one(address(exchange), 0, abi.encodeCall(TestExchange.spend, (token, 1))).then(user, 0, "");
        calls[0].allowFailure = true;
        vm.recordLogs();
        CallResult[] memory results = router.multicall(calls, user, address(0), "");
        assertFalse(results[0].success);
        assertTrue(results[1].success);
        Vm.Log[] memory logs = vm.getRecordedLogs();
        assertEq(logs.length, 1);
        assertEq(logs[0].data, abi.encode(user, bytes(""), 0));
    }

    function test_leftovers_never_go_to_the_router_itself() public {
        vm.expectRevert(IRouter.InvalidRecipient.selector);
        router.multicall(new Call3Value[](0), address(router), address(0), "");
        vm.expectRevert(IRouter.InvalidRecipient.selector);
        router.multicall(new Call3Value[](0), user, address(router), "");
    }

    function test_a_multicall_inside_a_multicall_leaves_the_rest_to_the_outer_one() public {
        address to = makeAddr("recipient");
        bytes memory inner =
            abi.encodeCall(IRouter.multicall, (Calls.one(to, 1 ether, ""), address(0), address(0), ""));
        vm.recordLogs();
        vm.prank(user);
        router.multicall{value: 3 ether}(
            Calls.one(address(router), 2 ether, inner), makeAddr("refund"), address(0), ""
        );
        assertEq(to.balance, 1 ether);
        assertEq(makeAddr("refund").balance, 2 ether);
        uint256 evidence;
        Vm.Log[] memory logs = vm.getRecordedLogs();
        for (uint256 i = 0; i < logs.length; ++i) {
            if (logs[i].topics[0] == IRouter.SolverNativeTransfer.selector) ++evidence;
        }
        assertEq(evidence, 1, "value moved within the router is not received twice");
    }

    function test_paying_itself_is_no_evidence() public {
        vm.recordLogs();
        vm.prank(user);
        router.multicall{value: 1 ether}(Calls.one(address(router), 1 ether, ""), user, address(0), "");
        Vm.Log[] memory logs = vm.getRecordedLogs();
        uint256 evidence;
        for (uint256 i = 0; i < logs.length; ++i) {
            if (logs[i].topics[0] == IRouter.SolverNativeTransfer.selector) ++evidence;
        }
        assertEq(evidence, 1);
    }

    function test_a_refund_that_is_refused_reverts_all() public {
        vm.prank(user);
        vm.expectRevert(abi.encodeWithSelector(IRouter.NativeTransferFailed.selector, address(token), 1));
        router.multicall{value: 1}(new Call3Value[](0), address(token), address(0), "");
    }

    function test_a_bare_receipt_is_recorded() public {
        vm.expectEmit(address(router));
        emit IRouter.SolverNativeTransfer(address(router), 7);
        vm.prank(user);
        (bool success,) = address(router).call{value: 7}("");
        assertTrue(success);
    }

    // ---- cleanups ----

    function testFuzz_cleanupErc20s(uint128 held, uint128 amount, bool whole) public {
        amount = uint128(bound(amount, 0, held));
        token.mint(address(router), held);
        uint256 expected = whole || amount == 0 ? held : amount;
        router.cleanupErc20s(
            Calls.list(address(token)), Calls.list(user), Calls.list(whole ? 0 : uint256(amount)), ""
        );
        assertEq(token.balanceOf(user), expected);
    }

    function test_cleanupErc20s_of_nothing_does_nothing() public {
        vm.recordLogs();
        router.cleanupErc20s(Calls.list(address(token)), Calls.list(user), Calls.list(uint256(0)), "");
        assertEq(vm.getRecordedLogs().length, 0);
    }

    function test_cleanups_refuse_lost_recipients_and_uneven_lists() public {
        address[2] memory lost = [address(0), address(router)];
        for (uint256 i = 0; i < 2; ++i) {
            vm.expectRevert(IRouter.InvalidRecipient.selector);
            router.cleanupErc20s(Calls.list(address(token)), Calls.list(lost[i]), Calls.list(uint256(0)), "");
            vm.expectRevert(IRouter.InvalidRecipient.selector);
            router.cleanupNative(0, lost[i], "");
        }
        vm.expectRevert(IRouter.LengthMismatch.selector);
        router.cleanupErc20s(Calls.list(address(token)), Calls.list(user), new uint256[](0), "");
        vm.expectRevert(IRouter.LengthMismatch.selector);
        router.cleanupErc20s(Calls.list(address(token)), new address[](0), Calls.list(uint256(0)), "");
        vm.expectRevert(IRouter.LengthMismatch.selector);
        router.cleanupErc20sViaCall(
            Calls.list(address(token)), Calls.list(user), new bytes[](0), Calls.list(uint256(0))
        );
        vm.expectRevert(IRouter.LengthMismatch.selector);
        router.cleanupErc20sViaCall(
            Calls.list(address(token)), new address[](0), Calls.list(""), Calls.list(uint256(0))
        );
        vm.expectRevert(IRouter.LengthMismatch.selector);
        router.cleanupErc20sViaCall(
            Calls.list(address(token)), Calls.list(user), Calls.list(""), new uint256[](0)
        );
    }

    function testFuzz_cleanupErc20sViaCall_deposits_exactly_what_is_held(uint128 held) public {
        held = uint128(bound(held, 1, type(uint128).max));
        token.mint(address(router), held);
        bytes memory data =
            abi.encodeWithSignature("depositErc20(address,address,bytes32)", user, address(token), id);
        vm.expectEmit(address(router));
        emit IRouter.SolverCallExecuted(address(depository), data, 0);
        router.cleanupErc20sViaCall(
            Calls.list(address(token)),
            Calls.list(address(depository)),
            Calls.list(data),
            Calls.list(uint256(0))
        );
        assertEq(token.balanceOf(address(depository)), held);
        assertEq(token.allowance(address(router), address(depository)), 0);
    }

    function test_an_unused_approval_is_taken_back() public {
        Usdt usdt = new Usdt(address(this));
        usdt.mint(address(router), 10);
        router.cleanupErc20sViaCall(
            Calls.list(address(usdt)), Calls.list(user), Calls.list(""), Calls.list(uint256(10))
        );
        assertEq(usdt.allowance(address(router), user), 0);
        // A token that refuses to change an allowance needs a zero in between.
        vm.prank(address(router));
        usdt.approve(user, 3);
        router.cleanupErc20sViaCall(
            Calls.list(address(usdt)), Calls.list(user), Calls.list(""), Calls.list(uint256(10))
        );
        assertEq(usdt.allowance(address(router), user), 0);
    }

    function testFuzz_cleanupNative(uint96 held, uint96 amount) public {
        amount = uint96(bound(amount, 0, held));
        vm.deal(address(router), held);
        address to = makeAddr("recipient");
        router.cleanupNative(amount, to, "");
        assertEq(to.balance, amount == 0 ? held : amount);
    }

    function test_cleanupNative_beyond_the_balance_is_refused() public {
        vm.expectRevert(abi.encodeWithSelector(IRouter.NativeTransferFailed.selector, user, 1));
        router.cleanupNative(1, user, "");
    }

    function testFuzz_cleanupNativeViaCall(uint96 held, uint96 amount) public {
        amount = uint96(bound(amount, 0, held));
        vm.deal(address(router), held);
        uint256 expected = amount == 0 ? held : amount;
        bytes memory data = abi.encodeCall(depository.depositNative, (user, id));
        vm.expectEmit(address(router));
        emit IRouter.SolverCallExecuted(address(depository), data, expected);
        router.cleanupNativeViaCall(amount, address(depository), data);
        assertEq(address(depository).balance, expected);
    }

    function test_a_failing_cleanup_call_passes_its_reason_on() public {
        vm.expectRevert(TestExchange.TooLittle.selector);
        router.cleanupErc20sViaCall(
            Calls.list(address(token)),
            Calls.list(address(exchange)),
            Calls.list(abi.encodeCall(TestExchange.swap, (token, other, 0, 1))),
            Calls.list(uint256(0))
        );
    }

    function test_swap_native_into_a_deposit() public {
        token.mint(address(router), 5 ether);
        router.multicall(
            Calls.one(address(token), 0, abi.encodeCall(IERC20.approve, (address(exchange), 5 ether)))
                .then(address(exchange), 0, abi.encodeCall(TestExchange.sell, (token, 5 ether)))
                .then(
                    address(router),
                    0,
                    abi.encodeCall(
                        IRouter.cleanupNativeViaCall,
                        (0, address(depository), abi.encodeCall(depository.depositNative, (user, id)))
                    )
                ),
            user,
            address(0),
            ""
        );
        assertEq(address(depository).balance, 5 ether);
        assertEq(address(router).balance, 0);
    }
}
