// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Usdt} from "../src/devnet/Usdt.sol";
import {Call3Value, CallResult, IRouter} from "../src/interfaces/IRouter.sol";
import {Calls, NoNative, Taker, TestExchange} from "./utils/Actors.sol";
import {HookToken, TestToken} from "./utils/HostileTokens.sol";
import {RouterFixture} from "./utils/RouterFixture.sol";

/// @notice Strangers may use the router before us: they leave money, allowances and hooks behind. None of it may
/// stop or shorten a flow that comes later.
contract RouterStrangersTest is RouterFixture {
    using Calls for Call3Value[];

    address internal stranger = makeAddr("stranger");
    Taker internal taker = new Taker();

    /// @dev Anyone can have the router approve anyone.
    function leaveAllowance(address currency, address spender, uint256 amount) internal {
        vm.prank(stranger);
        router.multicall(
            Calls.one(currency, 0, abi.encodeCall(IERC20.approve, (spender, amount))),
            stranger,
            address(0),
            ""
        );
    }

    // ---- native value left behind ----

    function testFuzz_a_wei_in_the_router_stops_nobody_who_takes_no_native(uint96 left, uint96 value) public {
        address refundTo = address(new NoNative());
        vm.deal(address(router), left);
        router.multicall(new Call3Value[](0), refundTo, address(0), "");
        assertEq(address(router).balance, left);

        vm.deal(user, value);
        vm.prank(user);
        router.multicall{value: value}(Calls.one(stranger, value, ""), refundTo, address(0), "");
        assertEq(stranger.balance, value);
        assertEq(address(router).balance, left);
    }

    function testFuzz_a_multicall_returns_what_it_brought_and_no_more(uint96 left, uint96 value, uint96 spent)
        public
    {
        spent = uint96(bound(spent, 0, value));
        vm.deal(address(router), left);
        vm.deal(user, value);
        vm.prank(user);
        router.multicall{value: value}(Calls.one(stranger, spent, ""), user, address(0), "");
        assertEq(user.balance, value - spent);
        assertEq(address(router).balance, left);
    }

    function testFuzz_native_that_the_calls_bring_in_is_returned(uint96 left, uint96 income) public {
        income = uint96(bound(income, 1, type(uint96).max));
        vm.deal(address(router), left);
        vm.deal(address(exchange), income);
        token.mint(address(router), income);
        router.multicall(
            Calls.one(address(token), 0, abi.encodeCall(IERC20.approve, (address(exchange), income)))
                .then(address(exchange), 0, abi.encodeCall(TestExchange.sell, (token, income))),
            stranger,
            address(0),
            ""
        );
        assertEq(stranger.balance, income);
        assertEq(address(router).balance, left);
    }

    /// @dev A payment of the whole balance pays what was left behind too, and then nothing is returned.
    function test_paying_all_takes_what_was_left_behind() public {
        vm.deal(address(router), 5);
        vm.prank(user);
        router.multicall{value: 1 ether}(
            Calls.one(address(router), 0, cleanupNative(0, stranger)), user, address(0), ""
        );
        assertEq(stranger.balance, 1 ether + 5);
        assertEq(address(router).balance, 0);
    }

    function test_a_nested_multicall_returns_its_own_value() public {
        address inner = makeAddr("inner");
        bytes memory nested =
            abi.encodeCall(IRouter.multicall, (Calls.one(stranger, 1 ether, ""), inner, address(0), ""));
        vm.deal(address(router), 5);
        vm.prank(user);
        router.multicall{value: 4 ether}(Calls.one(address(router), 3 ether, nested), user, address(0), "");
        assertEq(stranger.balance, 1 ether);
        assertEq(inner.balance, 2 ether);
        assertEq(user.balance, 97 ether);
        assertEq(address(router).balance, 5);
    }

    // ---- allowances left behind ----

    function test_an_allowance_left_by_a_stranger_does_not_stop_an_approval() public {
        Usdt usdt = new Usdt(address(this));
        usdt.mint(address(router), 100);
        leaveAllowance(address(usdt), address(depository), 1);
        leaveAllowance(address(usdt), address(depository), type(uint256).max);
        bytes memory approval = abi.encodeCall(IERC20.approve, (address(depository), 100));
        bytes memory deposit = abi.encodeWithSignature(
            "depositErc20(address,address,uint256,bytes32)", user, address(usdt), 100, id
        );
        vm.expectEmit(address(router));
        emit IRouter.SolverCallExecuted(address(usdt), approval, 0);
        vm.prank(user);
        router.multicall(
            Calls.one(address(usdt), 0, approval).then(address(depository), 0, deposit), user, address(0), ""
        );
        assertEq(usdt.balanceOf(address(depository)), 100);
        assertEq(usdt.allowance(address(router), address(depository)), 0);
    }

    function test_an_allowance_left_by_a_stranger_does_not_stop_a_cleanup() public {
        Usdt usdt = new Usdt(address(this));
        usdt.mint(address(router), 100);
        leaveAllowance(address(usdt), address(depository), 7);
        bytes memory deposit =
            abi.encodeWithSignature("depositErc20(address,address,bytes32)", user, address(usdt), id);
        router.multicall(
            Calls.one(address(router), 0, Calls.spend(address(usdt), address(depository), deposit, 0)),
            user,
            address(0),
            ""
        );
        assertEq(usdt.balanceOf(address(depository)), 100);
    }

    function test_an_approval_that_fails_for_another_reason_says_so() public {
        bytes memory approval = abi.encodeCall(IERC20.approve, (address(0), 5));
        vm.expectRevert(abi.encodeWithSignature("ERC20InvalidSpender(address)", address(0)));
        router.multicall(Calls.one(address(token), 0, approval), user, address(0), "");

        Call3Value[] memory calls = Calls.one(address(exchange), 0, approval);
        calls[0].allowFailure = true;
        CallResult[] memory results = router.multicall(calls, user, address(0), "");
        assertFalse(results[0].success);
    }

    // ---- the output of a swap ----

    function swapInto(HookToken output, bool required) internal view returns (Call3Value[] memory calls) {
        bytes memory deposit =
            abi.encodeWithSignature("depositErc20(address,address,bytes32)", user, address(output), id);
        calls = Calls.one(address(token), 0, abi.encodeCall(IERC20.approve, (address(exchange), 100)));
        calls = calls.then(address(exchange), 0, abi.encodeCall(TestExchange.swap, (token, output, 100, 100)));
        if (required) {
            calls = calls.then(
                address(router), 0, abi.encodeCall(IRouter.requireBalance, (address(output), 100))
            );
        }
        calls = calls.then(address(router), 0, Calls.spend(address(output), address(depository), deposit, 0));
    }

    /// @dev The exchange has sent its minimum; the hook's callee takes it by an allowance of the router.
    function test_the_output_of_a_swap_is_checked_on_arrival() public {
        HookToken output = new HookToken();
        leaveAllowance(address(output), address(taker), type(uint256).max);
        output.mint(address(exchange), 200);
        bytes memory take = abi.encodeCall(Taker.take, (output, address(router), 99));

        token.mint(address(router), 100);
        output.arm(address(taker), take, true);
        vm.expectRevert(abi.encodeWithSelector(IRouter.BalanceTooLow.selector, address(output), 100, 1));
        router.multicall(swapInto(output, true), user, address(0), "");

        router.multicall(swapInto(output, false), user, address(0), "");
        assertEq(output.balanceOf(address(depository)), 1, "without the step the deposit is short");
        token.mint(address(router), 100);
        router.multicall(swapInto(output, true), user, address(0), "");
        assertEq(output.balanceOf(address(depository)), 101);
    }

    function testFuzz_requireBalance(uint128 held, uint128 amount, bool native) public {
        address currency = native ? address(0) : address(token);
        if (native) vm.deal(address(router), held);
        else token.mint(address(router), held);
        if (amount > held) {
            vm.expectRevert(abi.encodeWithSelector(IRouter.BalanceTooLow.selector, currency, amount, held));
        }
        router.requireBalance(currency, amount);
    }

    // ---- a native payment in one call ----

    function testFuzz_cleanupNative_pays_the_value_sent_along(uint96 left, uint96 amount) public {
        amount = uint96(bound(amount, 1, type(uint96).max));
        vm.deal(address(router), left);
        vm.deal(user, amount);
        vm.expectEmit(address(router));
        emit IRouter.SolverNativeTransfer(stranger, amount);
        vm.expectEmit(address(router));
        emit IRouter.FundsMovement(address(router), stranger, address(0), amount, "");
        vm.prank(user);
        (bool success,) =
            address(router).call{value: amount}(abi.encodePacked(cleanupNative(amount, stranger), id));
        assertTrue(success);
        assertEq(stranger.balance, amount);
        assertEq(address(router).balance, left);
    }

    function test_value_beyond_the_payment_is_refused() public {
        vm.startPrank(user);
        vm.expectRevert(abi.encodeWithSelector(IRouter.ValueLeftOver.selector, 2));
        router.cleanupNative{value: 5}(3, stranger, "");
        vm.stopPrank();
        // Inside a multicall it goes back.
        vm.prank(user);
        router.multicall{value: 5}(
            Calls.one(address(router), 5, cleanupNative(3, stranger)), user, address(0), ""
        );
        assertEq(stranger.balance, 3);
        assertEq(user.balance, 100 ether - 3);
    }

    function test_a_recipient_that_refuses_gives_the_value_back() public {
        address recipient = address(new NoNative());
        vm.prank(user);
        vm.expectRevert(abi.encodeWithSelector(IRouter.NativeTransferFailed.selector, recipient, 5));
        router.cleanupNative{value: 5}(5, recipient, "");
        assertEq(user.balance, 100 ether);
    }
}
