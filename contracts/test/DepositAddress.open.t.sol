// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {Vm} from "forge-std/Vm.sol";
import {Usdt} from "../src/devnet/Usdt.sol";
import {IDepositAddressFactory} from "../src/interfaces/IDepositAddressFactory.sol";
import {IDepository} from "../src/interfaces/IDepository.sol";
import {IOwned} from "../src/interfaces/IOwned.sol";
import {DepositAddressFixture} from "./utils/DepositAddressFixture.sol";
import {FalseToken, FeeToken, HookToken, IdleToken, TestToken} from "./utils/HostileTokens.sol";

/// @notice A sweep of an open address takes the amount that its operator named: no more, no less, or nothing.
contract DepositAddressOpenTest is DepositAddressFixture {
    address internal open;
    bytes32 internal next = keccak256("next order");

    function setUp() public override {
        super.setUp();
        open = factory.computeOpenDepositAddress(route);
    }

    function sweepOpen(bytes32 orderId, address currency, uint256 amount) internal {
        vm.prank(operator);
        factory.sweepOpen(route, orderId, user, currency, amount);
    }

    function refuseOpen(address currency, uint256 amount, bytes memory reason) internal {
        vm.prank(operator);
        vm.expectRevert(reason);
        factory.sweepOpen(route, id, user, currency, amount);
    }

    // ---- the amount ----

    function testFuzz_exactly_the_amount_of_native_is_deposited(
        uint96 amount,
        uint96 beyond,
        bytes32 orderId,
        address depositor
    ) public {
        vm.assume(depositor != address(0));
        amount = uint96(bound(amount, 1, 500 ether));
        beyond = uint96(bound(beyond, 0, 500 ether));
        pay(open, uint256(amount) + beyond);
        vm.recordLogs();
        vm.prank(operator);
        factory.sweepOpen(route, orderId, depositor, address(0), amount);
        expectLog(NATIVE_TOPIC, abi.encode(depositor, amount, orderId));
        assertEq(address(depository).balance, amount);
        assertEq(open.balance, beyond);
    }

    function testFuzz_exactly_the_amount_of_a_token_is_deposited(
        uint96 amount,
        uint96 beyond,
        bytes32 orderId,
        address depositor
    ) public {
        vm.assume(depositor != address(0));
        amount = uint96(bound(amount, 1, 500 ether));
        beyond = uint96(bound(beyond, 0, 500 ether));
        payToken(open, uint256(amount) + beyond);
        vm.recordLogs();
        vm.prank(operator);
        factory.sweepOpen(route, orderId, depositor, address(token), amount);
        expectLog(ERC20_TOPIC, abi.encode(depositor, address(token), amount, orderId));
        assertEq(token.balanceOf(address(depository)), amount);
        assertEq(token.balanceOf(open), beyond);
        assertEq(token.allowance(open, address(depository)), 0);
    }

    /// @dev Between the operator's look and its sweep, somebody else pays.
    function test_what_came_later_is_swept_under_another_order() public {
        payToken(open, 5 ether);
        payToken(open, 3 ether);
        vm.recordLogs();
        sweepOpen(id, address(token), 5 ether);
        expectLog(ERC20_TOPIC, abi.encode(user, address(token), 5 ether, id));
        assertEq(token.balanceOf(open), 3 ether);
        vm.recordLogs();
        sweepOpen(next, address(token), 3 ether);
        expectLog(ERC20_TOPIC, abi.encode(user, address(token), 3 ether, next));
        assertEq(token.balanceOf(open), 0);
    }

    function test_an_open_address_serves_one_order_after_the_other() public {
        for (uint256 i = 1; i < 4; ++i) {
            pay(open, i);
            vm.recordLogs();
            sweepOpen(bytes32(i), address(0), i);
            expectLog(NATIVE_TOPIC, abi.encode(user, i, bytes32(i)));
        }
    }

    function testFuzz_too_little_is_refused_and_makes_no_code(uint96 held, uint96 missing) public {
        held = uint96(bound(held, 0, 500 ether));
        missing = uint96(bound(missing, 1, type(uint96).max));
        uint256 amount = uint256(held) + missing;
        pay(open, held);
        payToken(open, held);
        refuseOpen(address(0), amount, tooLow(address(0), amount, held));
        refuseOpen(address(token), amount, tooLow(address(token), amount, held));
        refuseOpen(address(token), type(uint256).max, tooLow(address(token), type(uint256).max, held));
        assertEq(open.code.length, 0);
        assertEq(open.balance, held);
        assertEq(token.balanceOf(open), held);
        assertEq(address(depository).balance, 0);
    }

    function test_zero_is_refused_and_makes_no_code() public {
        bytes memory reason = abi.encodeWithSelector(IDepositAddressFactory.AmountCannotBeZero.selector);
        refuseOpen(address(0), 0, reason);
        pay(open, 1);
        payToken(open, 1);
        refuseOpen(address(0), 0, reason);
        refuseOpen(address(token), 0, reason);
        assertEq(open.code.length, 0);
        sweepOpen(id, address(0), 1);
        refuseOpen(address(0), 0, reason);
    }

    /// @dev The second of two sweeps for the same money finds none.
    function test_the_same_money_is_not_swept_twice() public {
        payToken(open, 5);
        sweepOpen(id, address(token), 5);
        refuseOpen(address(token), 5, tooLow(address(token), 5, 0));
    }

    function test_an_open_sweep_says_so_after_its_deposit() public {
        pay(open, 2);
        vm.recordLogs();
        sweepOpen(id, address(0), 1);
        Vm.Log[] memory logs = vm.getRecordedLogs();
        assertEq(logs.length, 2);
        assertEq(logs[0].topics[0], NATIVE_TOPIC);
        assertEq(logs[1].topics[0], IDepositAddressFactory.Swept.selector);
        assertEq(logs[1].topics[1], bytes32(uint256(uint160(open))));
        assertEq(logs[1].topics[2], id);
        assertEq(logs[1].topics[3], bytes32(0));
        assertEq(logs[1].data, abi.encode(user));
    }

    // ---- hostile tokens ----

    /// @dev The named amount leaves the address. The depository logs what arrived, and the rest stays.
    function test_a_token_that_keeps_a_fee_is_reported_as_it_arrived() public {
        FeeToken fee = new FeeToken();
        fee.mint(open, 15 ether);
        vm.recordLogs();
        sweepOpen(id, address(fee), 10 ether);
        expectLog(ERC20_TOPIC, abi.encode(user, address(fee), 9 ether, id));
        assertEq(fee.balanceOf(address(depository)), 9 ether);
        assertEq(fee.balanceOf(open), 5 ether);
    }

    /// @dev In the middle of the sweep more comes to the address, or to the depository, and is not the order's.
    function test_what_comes_during_a_sweep_is_not_part_of_it() public {
        HookToken hook = new HookToken();
        hook.mint(open, 5 ether);
        address[2] memory places = [open, address(depository)];
        for (uint256 i = 0; i < 4; ++i) {
            uint256 before = vm.snapshotState();
            hook.arm(address(hook), abi.encodeCall(TestToken.mint, (places[i % 2], 3 ether)), i > 1);
            vm.recordLogs();
            sweepOpen(id, address(hook), 4 ether);
            assertTrue(hook.lastSuccess());
            expectLog(ERC20_TOPIC, abi.encode(user, address(hook), 4 ether, id));
            assertEq(hook.balanceOf(open), i % 2 == 0 ? 4 ether : 1 ether);
            vm.revertToState(before);
        }
    }

    function test_a_token_that_moves_nothing_deposits_nothing_and_makes_no_code() public {
        FalseToken denying = new FalseToken();
        denying.mint(open, 5);
        refuseOpen(
            address(denying),
            5,
            abi.encodeWithSelector(SafeERC20.SafeERC20FailedOperation.selector, address(denying))
        );
        IdleToken idle = new IdleToken();
        idle.mint(open, 5);
        refuseOpen(address(idle), 5, abi.encodeWithSelector(IDepository.NothingReceived.selector));
        assertEq(open.code.length, 0);
    }

    /// @dev A token that answers nothing and refuses to change an allowance, with one left from elsewhere.
    function test_a_token_like_usdt_is_swept_part_by_part() public {
        Usdt usdt = new Usdt(address(this));
        usdt.mint(open, 15);
        sweepOpen(id, address(usdt), 5);
        vm.prank(open);
        usdt.approve(address(depository), 100);
        vm.recordLogs();
        sweepOpen(next, address(usdt), 4);
        expectLog(ERC20_TOPIC, abi.encode(user, address(usdt), 4, next));
        assertEq(usdt.balanceOf(open), 6);
        assertEq(usdt.allowance(open, address(depository)), 0);
    }

    // ---- roles ----

    function testFuzz_only_operators_sweep_open_addresses(address by, uint256 amount) public {
        vm.assume(by != operator);
        pay(open, 1 ether);
        vm.prank(by);
        vm.expectRevert(IOwned.Unauthorized.selector);
        factory.sweepOpen(route, id, by, address(0), amount);
    }

    function test_an_operator_can_be_dismissed() public {
        pay(open, 1 ether);
        vm.expectEmit(true, true, true, true, address(factory));
        emit IDepositAddressFactory.OperatorSet(operator, false);
        vm.prank(owner);
        factory.setOperator(operator, false);
        assertFalse(factory.operators(operator));
        refuseOpen(address(0), 1 ether, abi.encodeWithSelector(IOwned.Unauthorized.selector));
    }
}
