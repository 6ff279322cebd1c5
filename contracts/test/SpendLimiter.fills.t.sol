// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {Usdt} from "../src/devnet/Usdt.sol";
import {ISpendLimiter} from "../src/interfaces/ISpendLimiter.sol";
import {Call3Value, CallResult, IRouter} from "../src/interfaces/IRouter.sol";
import {Calls, Intruder, TestExchange, TestNft} from "./utils/Actors.sol";
import {FalseToken, FeeToken, HookToken, IdleToken, TestToken} from "./utils/HostileTokens.sol";
import {SpendLimiterFixture} from "./utils/SpendLimiterFixture.sol";

contract SpendLimiterFillsTest is SpendLimiterFixture {
    using Calls for Call3Value[];

    // ---- fills ----

    function testFuzz_spend_delivers(uint128 amount, uint128 stray, bytes32 metadata) public {
        amount = uint128(bound(amount, 1, HELD));
        token.mint(address(router), stray);
        setLimit(filler, address(token), amount);
        Call3Value[] memory calls = Calls.one(
            address(router),
            0,
            abi.encodeCall(
                IRouter.cleanupErc20s,
                (
                    Calls.list(address(token)),
                    Calls.list(recipient),
                    Calls.list(uint256(amount)),
                    abi.encode(metadata)
                )
            )
        );
        vm.expectEmit(address(token));
        emit IERC20.Transfer(treasury, address(router), amount);
        vm.expectEmit(address(router));
        emit IRouter.FundsMovement(address(router), recipient, address(token), amount, abi.encode(metadata));
        vm.expectEmit(address(token));
        emit IERC20.Transfer(address(router), recipient, amount);
        vm.expectEmit(address(router));
        emit IRouter.SolverCallExecuted(address(router), calls[0].callData, 0);
        vm.prank(filler);
        CallResult[] memory results = spendLimiter.spend(
            treasury, address(token), amount, calls, filler, address(0), abi.encode(metadata)
        );
        assertEq(results.length, 1);
        assertTrue(results[0].success);
        assertEq(token.balanceOf(recipient), amount);
        assertEq(token.balanceOf(treasury), HELD - amount);
        assertEq(token.balanceOf(address(router)), stray);
        assertEq(spendLimiter.limit(treasury, filler, address(token)), 0);
        assertEq(token.allowance(treasury, address(spendLimiter)), HELD - amount);
    }

    function testFuzz_spend_delivers_with_a_native_top_up(uint128 amount, uint96 value, uint96 topUp) public {
        amount = uint128(bound(amount, 1, HELD));
        value = uint96(bound(value, 1, type(uint96).max));
        topUp = uint96(bound(topUp, 1, value));
        vm.deal(filler, value);
        setLimit(filler, address(token), amount);
        Call3Value[] memory calls = deliver(address(token), amount)
            .then(address(router), 0, abi.encodeCall(IRouter.cleanupNative, (topUp, recipient, "")));
        address refundTo = makeAddr("refund");
        vm.expectEmit(address(router));
        emit IRouter.SolverNativeTransfer(recipient, topUp);
        vm.prank(filler);
        spendLimiter.spend{value: value}(treasury, address(token), amount, calls, refundTo, address(0), "");
        assertEq(token.balanceOf(recipient), amount);
        assertEq(recipient.balance, topUp);
        assertEq(refundTo.balance, value - topUp);
        assertEq(filler.balance, 0);
        assertNothingStays();
    }

    function testFuzz_spend_is_consumed_by_calls(uint128 amount, uint128 used) public {
        amount = uint128(bound(amount, 1, HELD));
        used = uint128(bound(used, 1, amount));
        setLimit(filler, address(token), amount);
        Call3Value[] memory calls =
            Calls.one(address(token), 0, abi.encodeCall(IERC20.approve, (address(exchange), used)));
        calls =
            calls.then(address(exchange), 0, abi.encodeCall(TestExchange.swap, (token, other, used, used)));
        calls = calls.then(address(router), 0, Calls.cleanup(address(other), recipient, 0));
        calls = calls.then(address(router), 0, Calls.cleanup(address(token), recipient, 0));
        vm.prank(filler);
        spendLimiter.spend(treasury, address(token), amount, calls, recipient, address(0), "");
        assertEq(other.balanceOf(recipient), used);
        assertEq(token.balanceOf(recipient), amount - used);
        assertEq(token.balanceOf(address(exchange)), used);
        assertNothingStays();
    }

    function testFuzz_native_that_calls_bring_in_goes_to_refundTo(uint96 amount, uint96 value) public {
        amount = uint96(bound(amount, 1, type(uint96).max));
        vm.deal(filler, value);
        setLimit(filler, address(token), amount);
        Call3Value[] memory calls =
            Calls.one(address(token), 0, abi.encodeCall(IERC20.approve, (address(exchange), amount)));
        calls = calls.then(address(exchange), 0, abi.encodeCall(TestExchange.sell, (token, amount)));
        vm.prank(filler);
        spendLimiter.spend{value: value}(treasury, address(token), amount, calls, recipient, address(0), "");
        assertEq(recipient.balance, uint256(amount) + value);
        assertNothingStays();
    }

    function testFuzz_bytes_may_follow_the_calldata(uint128 amount, bytes calldata tail) public {
        amount = uint128(bound(amount, 1, HELD));
        setLimit(filler, address(token), amount);
        bytes memory data = abi.encodeCall(
            ISpendLimiter.spend,
            (treasury, address(token), amount, deliver(address(token), amount), filler, address(0), "")
        );
        vm.prank(filler);
        (bool success,) = address(spendLimiter).call(abi.encodePacked(data, tail, id));
        assertTrue(success);
        assertEq(token.balanceOf(recipient), amount);
        assertEq(spendLimiter.limit(treasury, filler, address(token)), 0);
    }

    function testFuzz_nothing_spent_is_a_multicall(address by, address from, address currency, uint96 value)
        public
    {
        assumeNotForgeAddress(by);
        vm.assume(by != address(router));
        vm.deal(by, value);
        uint256 before = recipient.balance;
        vm.prank(by);
        spendLimiter.spend{value: value}(
            from, currency, 0, Calls.one(recipient, value, ""), recipient, address(0), ""
        );
        assertEq(recipient.balance, before + value);
        assertNothingStays();
    }

    function test_nfts_reach_their_recipient() public {
        TestNft nft = new TestNft();
        Call3Value[] memory calls =
            Calls.one(address(nft), 0, abi.encodeCall(TestNft.safeMint, (address(router), 7)));
        spendLimiter.spend(treasury, address(token), 0, calls, filler, recipient, "");
        assertEq(nft.ownerOf(7), recipient);
        calls = Calls.one(address(nft), 0, abi.encodeCall(TestNft.safeMint, (address(router), 8)));
        vm.expectRevert();
        spendLimiter.spend(treasury, address(token), 0, calls, filler, address(spendLimiter), "");
    }

    function test_a_token_without_answers_is_moved() public {
        Usdt usdt = new Usdt(address(this));
        usdt.mint(treasury, 100);
        vm.startPrank(treasury);
        usdt.approve(address(spendLimiter), 100);
        spendLimiter.setLimit(filler, address(usdt), 100);
        vm.stopPrank();
        vm.prank(filler);
        spend(address(usdt), 100);
        assertEq(usdt.balanceOf(recipient), 100);
    }

    // ---- leftovers ----

    function test_a_zero_refund_recipient_is_refused() public {
        setLimit(filler, address(token), 1);
        vm.startPrank(filler);
        vm.expectRevert(ISpendLimiter.RefundToCannotBeZero.selector);
        spendLimiter.spend(treasury, address(token), 1, new Call3Value[](0), address(0), address(0), "");
        vm.expectRevert(ISpendLimiter.RefundToCannotBeZero.selector);
        spendLimiter.spend(treasury, address(token), 0, new Call3Value[](0), address(0), address(0), "");
        vm.stopPrank();
    }

    function test_native_never_stays_in_the_spend_limiter() public {
        vm.startPrank(filler);
        vm.expectRevert(
            abi.encodeWithSelector(IRouter.NativeTransferFailed.selector, address(spendLimiter), 1)
        );
        spendLimiter.spend{value: 1}(
            treasury, address(token), 0, new Call3Value[](0), address(spendLimiter), address(0), ""
        );
        (bool success,) = address(spendLimiter).call{value: 1}("");
        assertFalse(success);
        vm.stopPrank();
    }

    /// @dev The spend limiter does not look after tokens once they are in the router: the calls must.
    function test_tokens_left_in_the_router_belong_to_the_next_caller() public {
        setLimit(filler, address(token), 10);
        vm.prank(filler);
        spendLimiter.spend(treasury, address(token), 10, deliver(address(token), 7), filler, address(0), "");
        assertEq(token.balanceOf(address(router)), 3);
        vm.prank(thief);
        router.multicall(steal(address(token)), thief, thief, "");
        assertEq(token.balanceOf(thief), 3);
    }

    // ---- tokens that misbehave ----

    function arm(TestToken currency) internal {
        currency.mint(treasury, 100);
        vm.startPrank(treasury);
        currency.approve(address(spendLimiter), 100);
        spendLimiter.setLimit(filler, address(currency), 100);
        vm.stopPrank();
    }

    function test_a_fee_on_transfer_is_refused() public {
        FeeToken fee = new FeeToken();
        arm(fee);
        vm.prank(filler);
        vm.expectRevert(notArrived(address(fee), 100, 90));
        spendLimiter.spend(treasury, address(fee), 100, new Call3Value[](0), filler, address(0), "");
        assertEq(fee.balanceOf(treasury), 100);
        assertEq(spendLimiter.limit(treasury, filler, address(fee)), 100);
    }

    /// @dev Stray tokens in the router do not make up for it.
    function test_a_token_that_does_not_move_is_refused() public {
        IdleToken idle = new IdleToken();
        FalseToken no = new FalseToken();
        arm(idle);
        arm(no);
        idle.mint(address(router), 100);
        vm.startPrank(filler);
        vm.expectRevert(notArrived(address(idle), 200, 100));
        spendLimiter.spend(treasury, address(idle), 100, new Call3Value[](0), filler, address(0), "");
        vm.expectRevert();
        spendLimiter.spend(treasury, address(no), 100, new Call3Value[](0), filler, address(0), "");
        vm.stopPrank();
    }

    function test_an_address_without_code_is_no_token() public {
        setLimit(filler, address(0xdead), 1);
        vm.prank(filler);
        vm.expectRevert();
        spendLimiter.spend(treasury, address(0xdead), 1, new Call3Value[](0), filler, address(0), "");
    }

    /// @dev Anyone can register a receiver hook for the router with tokens that have such hooks.
    function test_a_token_cannot_be_taken_while_it_arrives() public {
        HookToken hook = new HookToken();
        arm(hook);
        hook.arm(
            address(router),
            abi.encodeCall(IRouter.multicall, (steal(address(hook)), thief, address(0), "")),
            true
        );
        vm.prank(filler);
        vm.expectRevert(notArrived(address(hook), 100, 0));
        spendLimiter.spend(treasury, address(hook), 100, new Call3Value[](0), filler, address(0), "");
    }

    function test_more_than_was_asked_for_is_refused() public {
        HookToken hook = new HookToken();
        arm(hook);
        hook.arm(address(hook), abi.encodeCall(TestToken.mint, (address(router), 1)), true);
        vm.prank(filler);
        vm.expectRevert(notArrived(address(hook), 100, 101));
        spendLimiter.spend(treasury, address(hook), 100, new Call3Value[](0), filler, address(0), "");
    }

    // ---- reentrancy ----

    function testFuzz_a_token_cannot_enter_the_spend_limiter(bool late) public {
        HookToken hook = new HookToken();
        arm(hook);
        setLimit(address(hook), address(token), 5);
        hook.arm(address(spendLimiter), spendData(treasury, 5, steal(address(token))), late);
        vm.prank(filler);
        spend(address(hook), 100);
        assertFalse(hook.lastSuccess());
        assertEq(bytes4(hook.lastReturn()), ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector);
        assertEq(hook.balanceOf(recipient), 100);
        assertEq(token.balanceOf(treasury), HELD);
    }

    /// @dev The intruder is itself a filler, and is called in the middle or paid at the end.
    function testFuzz_a_call_cannot_enter_the_spend_limiter(bool paid) public {
        Intruder intruder = new Intruder();
        setLimit(filler, address(token), 10);
        setLimit(address(intruder), address(token), 10);
        intruder.arm(address(spendLimiter), spendData(treasury, 10, steal(address(token))));
        Call3Value[] memory calls = deliver(address(token), 10);
        if (!paid) calls = calls.then(address(intruder), 0, abi.encodeCall(Intruder.poke, ()));
        address refundTo = paid ? address(intruder) : filler;
        vm.prank(filler);
        spendLimiter.spend{value: 1}(treasury, address(token), 10, calls, refundTo, address(0), "");
        assertTrue(intruder.tried());
        assertFalse(intruder.entered());
        assertEq(bytes4(intruder.answer()), ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector);
        assertEq(token.balanceOf(treasury), HELD - 10);
        assertEq(spendLimiter.limit(treasury, address(intruder), address(token)), 10);
        assertNothingStays();
    }

    /// @dev Tokens on their way through the router are safe from contracts called meanwhile.
    function test_a_call_cannot_enter_the_router() public {
        Intruder intruder = new Intruder();
        setLimit(filler, address(token), 10);
        intruder.arm(address(router), Calls.cleanup(address(token), thief, 0));
        Call3Value[] memory calls = Calls.one(address(intruder), 0, abi.encodeCall(Intruder.poke, ()))
            .then(address(router), 0, Calls.cleanup(address(token), recipient, 10));
        vm.prank(filler);
        spendLimiter.spend(treasury, address(token), 10, calls, filler, address(0), "");
        assertTrue(intruder.tried());
        assertFalse(intruder.entered());
        assertEq(token.balanceOf(recipient), 10);
    }
}
