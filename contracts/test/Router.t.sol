// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC1155Receiver} from "@openzeppelin/contracts/token/ERC1155/IERC1155Receiver.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IERC721Receiver} from "@openzeppelin/contracts/token/ERC721/IERC721Receiver.sol";
import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";
import {Vm} from "forge-std/Vm.sol";
import {Test} from "forge-std/Test.sol";
import {Depository} from "../src/Depository.sol";
import {Router} from "../src/Router.sol";
import {Usdt} from "../src/devnet/Usdt.sol";
import {Call3Value, CallResult, IRouter} from "../src/interfaces/IRouter.sol";
import {Calls, Intruder, TestExchange, TestMultiToken, TestNft} from "./utils/Actors.sol";
import {TestToken} from "./utils/HostileTokens.sol";

contract RouterTest is Test {
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

    function test_selectors_and_topics_are_public() public pure {
        assertEq(IRouter.multicall.selector, bytes4(0xcd6e13f7));
        assertEq(IRouter.cleanupErc20s.selector, bytes4(0x9bb43718));
        assertEq(IRouter.cleanupErc20sViaCall.selector, bytes4(0x73b7bb2f));
        assertEq(IRouter.cleanupNative.selector, bytes4(0xa6bd8c96));
        assertEq(IRouter.cleanupNativeViaCall.selector, bytes4(0x5d1fe6a2));
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

    // ---- guard ----

    function intrusions() internal returns (bytes[] memory list) {
        address thief = makeAddr("thief");
        list = new bytes[](5);
        list[0] = abi.encodeCall(IRouter.multicall, (new Call3Value[](0), thief, address(0), ""));
        list[1] = Calls.cleanup(address(token), thief, 0);
        list[2] = abi.encodeCall(
            IRouter.cleanupErc20sViaCall,
            (Calls.list(address(token)), Calls.list(thief), Calls.list(""), Calls.list(uint256(0)))
        );
        list[3] = abi.encodeCall(IRouter.cleanupNative, (0, thief, ""));
        list[4] = abi.encodeCall(IRouter.cleanupNativeViaCall, (0, thief, ""));
    }

    function test_nobody_enters_during_a_multicall() public {
        bytes[] memory list = intrusions();
        for (uint256 i = 0; i < list.length; ++i) {
            Intruder intruder = new Intruder();
            intruder.arm(address(router), list[i]);
            vm.prank(user);
            router.multicall{value: 1 ether}(
                Calls.one(address(intruder), 0, abi.encodeCall(Intruder.poke, ())), user, address(0), ""
            );
            assertTrue(intruder.tried());
            assertFalse(intruder.entered());
            assertEq(intruder.answer(), abi.encodePacked(IRouter.Reentrancy.selector));
        }
    }

    function intrudeAfter(bytes memory nested, bytes memory intrusion) internal {
        Intruder intruder = new Intruder();
        intruder.arm(address(router), intrusion);
        token.mint(address(router), 5);
        Call3Value[] memory calls = Calls.one(address(router), 0, nested);
        calls = calls.then(address(intruder), 0, abi.encodeCall(Intruder.poke, ()));
        calls = calls.then(address(router), 0, Calls.cleanup(address(token), user, 0));
        vm.prank(user);
        router.multicall{value: 1 ether}(calls, user, address(0), "");
        assertTrue(intruder.tried());
        assertEq(intruder.answer(), abi.encodePacked(IRouter.Reentrancy.selector));
    }

    /// @dev A guard that is cleared rather than restored lets the intruder in after the first cleanup.
    function test_a_nested_cleanup_does_not_open_the_router() public {
        bytes[] memory list = intrusions();
        bytes[4] memory nested = [
            cleanupNative(1, user),
            Calls.cleanup(address(token), user, 0),
            abi.encodeCall(IRouter.cleanupNativeViaCall, (1, user, "")),
            abi.encodeCall(IRouter.multicall, (new Call3Value[](0), address(0), address(0), ""))
        ];
        for (uint256 n = 0; n < nested.length; ++n) {
            for (uint256 i = 0; i < list.length; ++i) {
                intrudeAfter(nested[n], list[i]);
            }
        }
        assertEq(makeAddr("thief").balance, 0);
        assertEq(token.balanceOf(makeAddr("thief")), 0);
    }

    function test_a_failed_nested_call_does_not_open_the_router() public {
        Intruder intruder = new Intruder();
        intruder.arm(address(router), cleanupNative(0, makeAddr("thief")));
        Call3Value[] memory calls = Calls.one(address(router), 0, cleanupNative(100 ether, user))
            .then(address(intruder), 0, abi.encodeCall(Intruder.poke, ()));
        calls[0].allowFailure = true;
        vm.prank(user);
        router.multicall{value: 1 ether}(calls, user, address(0), "");
        assertEq(intruder.answer(), abi.encodePacked(IRouter.Reentrancy.selector));
    }

    function test_the_recipient_of_a_cleanup_or_refund_cannot_enter() public {
        Intruder intruder = new Intruder();
        intruder.arm(address(router), cleanupNative(0, makeAddr("thief")));
        vm.deal(address(router), 2 ether);
        router.cleanupNative(1 ether, address(intruder), "");
        assertEq(intruder.answer(), abi.encodePacked(IRouter.Reentrancy.selector));

        intruder = new Intruder();
        intruder.arm(address(router), cleanupNative(0, makeAddr("thief")));
        router.multicall(new Call3Value[](0), address(intruder), address(0), "");
        assertEq(intruder.answer(), abi.encodePacked(IRouter.Reentrancy.selector));
    }

    function test_the_router_is_free_again_afterwards() public {
        router.multicall(Calls.one(address(router), 0, cleanupNative(0, user)), user, address(0), "");
        router.multicall(new Call3Value[](0), user, address(0), "");
        vm.prank(user);
        router.cleanupNative(0, user, "");
    }

    // ---- NFTs ----

    function test_nfts_go_to_their_recipient_during_a_multicall() public {
        TestNft nft = new TestNft();
        TestMultiToken multi = new TestMultiToken();
        uint256[] memory ids = new uint256[](2);
        (ids[0], ids[1]) = (1, 2);
        router.multicall(
            Calls.one(address(nft), 0, abi.encodeCall(TestNft.safeMint, (address(router), 1)))
                .then(address(multi), 0, abi.encodeCall(TestMultiToken.mint, (address(router), 1, 5)))
                .then(
                    address(multi), 0, abi.encodeCall(TestMultiToken.mintBatch, (address(router), ids, ids))
                ),
            user,
            user,
            ""
        );
        assertEq(nft.ownerOf(1), user);
        assertEq(multi.balanceOf(user, 1), 6);
        assertEq(multi.balanceOf(user, 2), 2);
    }

    function test_nfts_without_a_recipient_are_refused() public {
        TestNft nft = new TestNft();
        TestMultiToken multi = new TestMultiToken();
        vm.expectRevert(IRouter.NoNftRecipient.selector);
        nft.safeMint(address(router), 1);
        vm.expectRevert(IRouter.NoNftRecipient.selector);
        multi.mint(address(router), 1, 1);
        vm.expectRevert(IRouter.NoNftRecipient.selector);
        multi.mintBatch(address(router), Calls.list(uint256(1)), Calls.list(uint256(1)));
        vm.expectRevert(IRouter.NoNftRecipient.selector);
        router.multicall(
            Calls.one(address(nft), 0, abi.encodeCall(TestNft.safeMint, (address(router), 1))),
            user,
            address(0),
            ""
        );
    }

    function test_the_nft_recipient_is_restored_after_a_nested_multicall_and_forgotten_at_the_end() public {
        TestNft nft = new TestNft();
        address inner = makeAddr("inner");
        bytes memory nested = abi.encodeCall(
            IRouter.multicall,
            (
                Calls.one(address(nft), 0, abi.encodeCall(TestNft.safeMint, (address(router), 1))),
                address(0),
                inner,
                ""
            )
        );
        router.multicall(
            Calls.one(address(router), 0, nested)
                .then(address(nft), 0, abi.encodeCall(TestNft.safeMint, (address(router), 2))),
            user,
            user,
            ""
        );
        assertEq(nft.ownerOf(1), inner);
        assertEq(nft.ownerOf(2), user);
        vm.expectRevert(IRouter.NoNftRecipient.selector);
        nft.safeMint(address(router), 3);
    }

    function test_supported_interfaces() public view {
        assertTrue(router.supportsInterface(type(IERC165).interfaceId));
        assertTrue(router.supportsInterface(type(IERC721Receiver).interfaceId));
        assertTrue(router.supportsInterface(type(IERC1155Receiver).interfaceId));
        assertFalse(router.supportsInterface(0xffffffff));
    }
}
