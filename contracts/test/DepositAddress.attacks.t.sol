// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {DepositAddress} from "../src/DepositAddress.sol";
import {IDepositAddress} from "../src/interfaces/IDepositAddress.sol";
import {IDepositAddressFactory} from "../src/interfaces/IDepositAddressFactory.sol";
import {IDepository} from "../src/interfaces/IDepository.sol";
import {IOwned} from "../src/interfaces/IOwned.sol";
import {TestNft} from "./utils/Actors.sol";
import {DepositAddressFixture} from "./utils/DepositAddressFixture.sol";
import {FalseToken, FeeToken, HookToken, IdleToken, TestToken} from "./utils/HostileTokens.sol";

/// @notice Sends its balance without asking the recipient.
contract Forced {
    constructor(address payable to) payable {
        selfdestruct(to);
    }
}

/// @notice Answers false to an approval and grants nothing.
contract UnapprovableToken is TestToken {
    function approve(address, uint256) public pure override returns (bool) {
        return false;
    }
}

contract DepositAddressAttacksTest is DepositAddressFixture {
    address internal strict;

    function setUp() public override {
        super.setUp();
        strict = factory.computeDepositAddress(id, user);
    }

    // ---- who may sweep, and where to ----

    function testFuzz_nobody_but_the_factory_sweeps_a_clone(address by, address depositor, bytes32 orderId)
        public
    {
        vm.assume(by != address(factory));
        pay(strict, 1);
        factory.sweep(id, user, only(address(0)));
        pay(strict, 1 ether);
        vm.startPrank(by);
        vm.expectRevert(IDepositAddress.Unauthorized.selector);
        IDepositAddress(strict).sweep(address(0), depositor, orderId);
        vm.expectRevert(IDepositAddress.Unauthorized.selector);
        IDepositAddress(strict).sweep(address(token), depositor, orderId);
        vm.expectRevert(IDepositAddress.Unauthorized.selector);
        IDepositAddress(strict).sweepAmount(address(0), depositor, orderId, 1);
        vm.stopPrank();
        assertEq(strict.balance, 1 ether);
    }

    /// @dev A sweep with other parameters is a sweep of another address: the victim's keeps its balance.
    function testFuzz_another_refund_recipient_reaches_nothing(bytes32 otherId, address other) public {
        vm.assume(other != user || otherId != id);
        pay(strict, 1 ether);
        payToken(strict, 2 ether);
        vm.startPrank(thief);
        factory.sweep(otherId, other, both(address(0), address(token)));
        vm.stopPrank();
        assertEq(address(depository).balance, 0);
        assertEq(strict.balance, 1 ether);
        assertEq(token.balanceOf(strict), 2 ether);
    }

    /// @dev The operator names orders of open addresses only, whatever route it invents.
    function testFuzz_an_operator_reaches_no_strict_address(bytes32 routeKey) public {
        pay(strict, 1 ether);
        bytes32[4] memory routes = [routeKey, id, strictSalt(id, user), bytes32(bytes20(user))];
        for (uint256 i = 0; i < routes.length; ++i) {
            vm.prank(operator);
            vm.expectRevert(tooLow(address(0), 1, 0));
            factory.sweepOpen(routes[i], keccak256("mine"), thief, address(0), 1);
        }
        assertEq(strict.balance, 1 ether);
    }

    /// @dev The service's own sweep comes second: it must not fail, or its wallet would wait for it in vain.
    function test_a_sweep_that_was_front_run_does_not_fail() public {
        pay(strict, 1 ether);
        vm.prank(thief);
        factory.sweep(id, user, only(address(0)));
        vm.recordLogs();
        vm.prank(operator);
        factory.sweep(id, user, only(address(0)));
        assertEq(vm.getRecordedLogs().length, 0);
        assertEq(address(depository).balance, 1 ether);
    }

    // ---- hostile tokens ----

    function test_a_hook_cannot_enter_the_factory() public {
        HookToken hook = new HookToken();
        hook.mint(strict, 5 ether);
        pay(strict, 1 ether);
        bytes[2] memory entries = [
            abi.encodeCall(IDepositAddressFactory.sweep, (id, user, only(address(0)))),
            abi.encodeCall(IDepositAddressFactory.sweepOpen, (route, id, user, address(0), 1))
        ];
        vm.prank(owner);
        factory.setOperator(address(hook), true);
        for (uint256 i = 0; i < entries.length; ++i) {
            for (uint256 late = 0; late < 2; ++late) {
                uint256 before = vm.snapshotState();
                hook.arm(address(factory), entries[i], late == 1);
                factory.sweep(id, user, only(address(hook)));
                assertFalse(hook.lastSuccess());
                assertEq(
                    bytes4(hook.lastReturn()), ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector
                );
                assertEq(hook.balanceOf(address(depository)), 5 ether);
                assertEq(strict.balance, 1 ether);
                vm.revertToState(before);
            }
        }
    }

    /// @dev In the middle of a sweep of an open address, a hook tries to have the rest for itself.
    function test_a_hook_takes_nothing_in_the_middle_of_a_sweep() public {
        HookToken hook = new HookToken();
        address open = factory.computeOpenDepositAddress(route);
        hook.mint(open, 5 ether);
        payToken(open, 7 ether);
        bytes[4] memory attempts = [
            abi.encodeCall(IDepositAddress.sweep, (address(token), thief, keccak256("mine"))),
            abi.encodeCall(IDepositAddress.sweepAmount, (address(token), thief, keccak256("mine"), 1)),
            abi.encodeWithSignature("transferFrom(address,address,uint256)", open, thief, 7 ether),
            abi.encodeWithSignature(
                "depositErc20(address,address,uint256,bytes32)", thief, address(token), 1, id
            )
        ];
        address[4] memory targets = [open, open, address(token), address(depository)];
        for (uint256 i = 0; i < attempts.length; ++i) {
            uint256 before = vm.snapshotState();
            hook.arm(targets[i], attempts[i], i % 2 == 0);
            vm.prank(operator);
            factory.sweepOpen(route, id, user, address(hook), 5 ether);
            assertFalse(hook.lastSuccess());
            assertEq(hook.balanceOf(address(depository)), 5 ether);
            assertEq(token.balanceOf(open), 7 ether);
            assertEq(token.balanceOf(thief), 0);
            vm.revertToState(before);
        }
    }

    function test_a_token_that_keeps_a_fee_is_reported_as_it_arrived() public {
        FeeToken fee = new FeeToken();
        fee.mint(strict, 10 ether);
        vm.recordLogs();
        factory.sweep(id, user, only(address(fee)));
        expectLog(ERC20_TOPIC, abi.encode(user, address(fee), 9 ether, id));
        assertEq(fee.balanceOf(address(depository)), 9 ether);
        assertEq(fee.balanceOf(strict), 0);
    }

    function test_a_token_that_moves_nothing_deposits_nothing() public {
        FalseToken denying = new FalseToken();
        denying.mint(strict, 5);
        vm.expectRevert(abi.encodeWithSelector(SafeERC20.SafeERC20FailedOperation.selector, address(denying)));
        factory.sweep(id, user, only(address(denying)));

        IdleToken idle = new IdleToken();
        idle.mint(strict, 5);
        vm.expectRevert(IDepository.NothingReceived.selector);
        factory.sweep(id, user, only(address(idle)));

        UnapprovableToken unapprovable = new UnapprovableToken();
        unapprovable.mint(strict, 5);
        vm.expectRevert(
            abi.encodeWithSelector(SafeERC20.SafeERC20FailedOperation.selector, address(unapprovable))
        );
        factory.sweep(id, user, only(address(unapprovable)));
    }

    /// @dev The failing one stops its own sweep and no other.
    function test_a_token_that_fails_does_not_hold_up_the_others() public {
        FalseToken denying = new FalseToken();
        denying.mint(strict, 5);
        pay(strict, 1 ether);
        payToken(strict, 2 ether);
        vm.expectRevert();
        factory.sweep(id, user, both(address(denying), address(token)));
        factory.sweep(id, user, only(address(token)));
        factory.sweep(id, user, only(address(0)));
        assertEq(token.balanceOf(address(depository)), 2 ether);
        assertEq(address(depository).balance, 1 ether);
    }

    function test_what_is_no_token_is_refused() public {
        pay(strict, 1);
        factory.sweep(id, user, only(address(0)));
        address[5] memory places =
            [strict, address(factory), factory.IMPLEMENTATION(), address(depository), user];
        for (uint256 i = 0; i < places.length; ++i) {
            vm.expectRevert();
            factory.sweep(id, user, only(places[i]));
        }
    }

    /// @dev An NFT shares selectors with tokens. It gets to the depository or stays, and to nobody else.
    function test_an_nft_reaches_nobody() public {
        TestNft nft = new TestNft();
        nft.safeMint(strict, 1);
        vm.prank(thief);
        factory.sweep(id, user, only(address(nft)));
        assertEq(nft.ownerOf(1), address(depository));
        vm.expectRevert();
        nft.safeMint(strict, 2);
    }

    // ---- native currency ----

    function testFuzz_money_that_was_forced_in_is_swept(uint96 first, uint96 second) public {
        first = uint96(bound(first, 1, 1000 ether));
        second = uint96(bound(second, 1, 1000 ether));
        vm.deal(address(this), uint256(first) + second);
        new Forced{value: first}(payable(strict));
        factory.sweep(id, user, only(address(0)));
        new Forced{value: second}(payable(strict));
        factory.sweep(id, user, only(address(0)));
        assertEq(address(depository).balance, uint256(first) + second);
    }

    /// @dev Nobody could sweep the code that the addresses share, nor the factory.
    function test_money_is_refused_where_nobody_could_sweep_it() public {
        address implementation = factory.IMPLEMENTATION();
        vm.deal(address(this), 2);
        (bool success, bytes memory reason) = implementation.call{value: 1}("");
        assertFalse(success);
        assertEq(bytes4(reason), IDepositAddress.NotADepositAddress.selector);
        (success,) = address(factory).call{value: 1}("");
        assertFalse(success);
        vm.prank(thief);
        vm.expectRevert(IDepositAddress.Unauthorized.selector);
        DepositAddress(payable(implementation)).sweep(address(0), thief, id);
        vm.prank(thief);
        vm.expectRevert(IDepositAddress.Unauthorized.selector);
        DepositAddress(payable(implementation)).sweepAmount(address(0), thief, id, 1);
    }

    /// @dev The stipend of a call is enough for an address without code, and with code a little more is.
    function test_an_address_takes_native_with_little_gas() public {
        vm.deal(address(this), 2);
        (bool success,) = strict.call{value: 1, gas: 0}("");
        assertTrue(success);
        factory.sweep(id, user, only(address(0)));
        (success,) = strict.call{value: 1, gas: 3_000}("");
        assertTrue(success);
        factory.sweep(id, user, only(address(0)));
        assertEq(address(depository).balance, 2);
    }

    /// @dev Dust gives an address its code, and that is all: what comes later is deposited in full.
    function testFuzz_dust_shortens_no_payment(uint96 amount, uint64 dust) public {
        amount = uint96(bound(amount, 1, 900 ether));
        dust = uint64(bound(dust, 1, 1 ether));
        vm.deal(thief, dust);
        vm.startPrank(thief);
        (bool success,) = strict.call{value: dust}("");
        assertTrue(success);
        factory.sweep(id, user, only(address(0)));
        vm.stopPrank();
        pay(strict, amount);
        vm.recordLogs();
        factory.sweep(id, user, only(address(0)));
        expectLog(NATIVE_TOPIC, abi.encode(user, amount, id));
    }

    // ---- roles ----

    /// @dev Neither role has a way to the money of a strict address but the one that everybody has.
    function test_neither_owner_nor_operator_moves_strict_money() public {
        address implementation = factory.IMPLEMENTATION();
        pay(strict, 1 ether);
        vm.prank(owner);
        factory.setOperator(owner, true);
        vm.startPrank(owner);
        vm.expectRevert(tooLow(address(0), 1, 0));
        factory.sweepOpen(strictSalt(id, user), keccak256("mine"), owner, address(0), 1);
        vm.expectRevert(IDepositAddress.Unauthorized.selector);
        DepositAddress(payable(implementation)).sweep(address(0), owner, id);
        vm.expectRevert(IOwned.Unauthorized.selector);
        factory.acceptOwnership();
        vm.stopPrank();
        assertEq(strict.balance, 1 ether);
        assertEq(address(depository).balance, 0);
    }
}
