// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {Test} from "forge-std/Test.sol";
import {SpendLimiter} from "../src/SpendLimiter.sol";
import {Router} from "../src/Router.sol";
import {Usdt} from "../src/devnet/Usdt.sol";
import {ISpendLimiter} from "../src/interfaces/ISpendLimiter.sol";
import {Call3Value, CallResult, IRouter} from "../src/interfaces/IRouter.sol";
import {Calls, Intruder, TestExchange, TestNft} from "./utils/Actors.sol";
import {FalseToken, FeeToken, HookToken, IdleToken, TestToken} from "./utils/HostileTokens.sol";

contract SpendLimiterTest is Test {
    using Calls for Call3Value[];

    uint256 internal constant HELD = type(uint128).max;

    Router internal router = new Router();
    SpendLimiter internal spendLimiter = new SpendLimiter(address(router));
    TestToken internal token = new TestToken();
    TestToken internal other = new TestToken();
    TestExchange internal exchange = new TestExchange();
    address internal treasury = makeAddr("treasury");
    address internal filler = makeAddr("filler");
    address internal recipient = makeAddr("recipient");
    address internal thief = makeAddr("thief");
    bytes32 internal id = keccak256("order");

    function setUp() public {
        vm.deal(filler, 10 ether);
        vm.deal(address(exchange), HELD);
        other.mint(address(exchange), HELD);
        fund(treasury, token, HELD);
    }

    function fund(address account, TestToken currency, uint256 approved) internal {
        currency.mint(account, HELD);
        vm.prank(account);
        currency.approve(address(spendLimiter), approved);
    }

    function setLimit(address by, address currency, uint256 amount) internal {
        vm.prank(treasury);
        spendLimiter.setLimit(by, currency, amount);
    }

    function deliver(address currency, uint256 amount) internal view returns (Call3Value[] memory) {
        return Calls.one(address(router), 0, Calls.cleanup(currency, recipient, amount));
    }

    function steal(address currency) internal view returns (Call3Value[] memory) {
        return Calls.one(address(router), 0, Calls.cleanup(currency, thief, 0));
    }

    /// @dev The plainest spend, by the pranked account.
    function spend(address currency, uint256 amount) internal {
        spendLimiter.spend(treasury, currency, amount, deliver(currency, amount), filler, address(0), "");
    }

    function spendData(address from, uint256 amount, Call3Value[] memory calls)
        internal
        view
        returns (bytes memory)
    {
        return abi.encodeCall(ISpendLimiter.spend, (from, address(token), amount, calls, thief, thief, ""));
    }

    function limitExceeded(uint256 amount, uint256 remaining) internal view returns (bytes memory) {
        return abi.encodeWithSelector(ISpendLimiter.LimitExceeded.selector, address(token), amount, remaining);
    }

    function notArrived(address currency, uint256 expected, uint256 balance)
        internal
        pure
        returns (bytes memory)
    {
        return abi.encodeWithSelector(ISpendLimiter.NotArrived.selector, currency, expected, balance);
    }

    function assertNothingStays() internal view {
        address[2] memory places = [address(router), address(spendLimiter)];
        for (uint256 i = 0; i < places.length; ++i) {
            assertEq(places[i].balance, 0);
            assertEq(token.balanceOf(places[i]), 0);
            assertEq(other.balanceOf(places[i]), 0);
        }
    }

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
