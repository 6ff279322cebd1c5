// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {Vm} from "forge-std/Vm.sol";
import {DepositAddress} from "../src/DepositAddress.sol";
import {DepositAddressFactory} from "../src/DepositAddressFactory.sol";
import {Usdt} from "../src/devnet/Usdt.sol";
import {IDepositAddress} from "../src/interfaces/IDepositAddress.sol";
import {IDepositAddressFactory} from "../src/interfaces/IDepositAddressFactory.sol";
import {IOwned} from "../src/interfaces/IOwned.sol";
import {DepositAddressFixture} from "./utils/DepositAddressFixture.sol";

contract DepositAddressFactoryTest is DepositAddressFixture {
    // ---- derivation ----

    function test_selectors_are_public() public pure {
        assertEq(IDepositAddressFactory.computeDepositAddress.selector, bytes4(0x0767bc1e));
        assertEq(IDepositAddressFactory.sweep.selector, bytes4(0xd80c6c1b));
        assertEq(IDepositAddress.sweep.selector, bytes4(keccak256("sweep(address,address,bytes32)")));
        assertEq(
            IDepositAddressFactory.sweepOpen.selector,
            bytes4(keccak256("sweepOpen(bytes32,bytes32,address,address,uint256)"))
        );
    }

    function test_the_published_strict_address() public pure {
        bytes32 salt = strictSalt(
            0x7f3117abfbad865d612ada25300c7379160a97f0f1950f0836cc325d36f9b8cb,
            address(bytes20(hex"cd8475f2565435680a562f812ef5946576b00ad7"))
        );
        assertEq(salt, 0x9f8ede1cf5529413ebb716a80d4429963a83deb4ace86de9e6884f780163c47e);
        assertEq(
            derived(
                address(bytes20(hex"4839d59c938039415a5feb01667f304585cab2e9")),
                address(bytes20(hex"a647af846de690ef23cfa936545d68d34ca81f2a")),
                salt
            ),
            address(bytes20(hex"5fa97d759682c0fb78639b324534ca0bea5544ea"))
        );
    }

    function testFuzz_addresses_follow_the_published_rule(
        bytes32 orderId,
        address depositor,
        bytes32 routeKey
    ) public view {
        address implementation = factory.IMPLEMENTATION();
        assertEq(
            factory.computeDepositAddress(orderId, depositor),
            derived(address(factory), implementation, strictSalt(orderId, depositor))
        );
        assertEq(
            factory.computeOpenDepositAddress(routeKey),
            derived(address(factory), implementation, keccak256(bytes.concat("open", routeKey)))
        );
    }

    /// @dev The same bytes, cut elsewhere, or read as the other kind: no two parameters share an address.
    function testFuzz_other_parameters_are_another_address(
        bytes32 orderId,
        address depositor,
        bytes32 otherId,
        address other
    ) public view {
        address strict = factory.computeDepositAddress(orderId, depositor);
        if (orderId != otherId) assertNotEq(strict, factory.computeDepositAddress(otherId, depositor));
        if (depositor != other) assertNotEq(strict, factory.computeDepositAddress(orderId, other));
        assertNotEq(strict, factory.computeOpenDepositAddress(orderId));
        assertNotEq(strict, factory.computeOpenDepositAddress(strictSalt(orderId, depositor)));
        if (orderId != otherId) {
            assertNotEq(
                factory.computeOpenDepositAddress(orderId), factory.computeOpenDepositAddress(otherId)
            );
        }
    }

    /// @dev The code of deposit addresses follows from the factory's address, and so does all else.
    function test_the_implementation_follows_from_the_factory() public view {
        assertEq(factory.IMPLEMENTATION(), vm.computeCreateAddress(address(factory), 1));
        DepositAddress implementation = DepositAddress(payable(factory.IMPLEMENTATION()));
        assertEq(implementation.FACTORY(), address(factory));
        assertEq(implementation.DEPOSITORY(), address(depository));
        assertEq(factory.DEPOSITORY(), address(depository));
    }

    function test_another_chain_gives_the_same_addresses() public {
        bytes memory initCode = abi.encodePacked(
            type(DepositAddressFactory).creationCode, abi.encode(owner, address(depository))
        );
        uint256 here = vm.snapshotState();
        DepositAddressFactory first = DepositAddressFactory(deterministic(initCode));
        address strict = first.computeDepositAddress(id, user);
        address open = first.computeOpenDepositAddress(route);
        vm.revertToState(here);
        vm.chainId(42161);
        DepositAddressFactory second = DepositAddressFactory(deterministic(initCode));
        assertEq(address(first), address(second));
        assertEq(second.computeDepositAddress(id, user), strict);
        assertEq(second.computeOpenDepositAddress(route), open);
        payToken(strict, 1);
        second.sweep(id, user, only(address(token)));
        assertEq(token.balanceOf(address(depository)), 1);
    }

    function deterministic(bytes memory initCode) internal returns (address) {
        (bool success,) = CREATE2_FACTORY.call(abi.encodePacked(bytes32(0), initCode));
        assertTrue(success);
        return vm.computeCreate2Address(bytes32(0), keccak256(initCode), CREATE2_FACTORY);
    }

    function test_construction_refuses_what_could_not_work() public {
        vm.expectRevert(IOwned.AddressCannotBeZero.selector);
        new DepositAddressFactory(address(0), address(depository));
        vm.expectRevert(abi.encodeWithSelector(IDepositAddressFactory.DepositoryHasNoCode.selector, user));
        new DepositAddressFactory(owner, user);
    }

    // ---- strict ----

    function testFuzz_a_strict_sweep_deposits_all_native(uint96 amount, address depositor, address by)
        public
    {
        vm.assume(depositor != address(0));
        amount = uint96(bound(amount, 1, 1000 ether));
        address strict = factory.computeDepositAddress(id, depositor);
        pay(strict, amount);
        vm.recordLogs();
        vm.prank(by);
        factory.sweep(id, depositor, only(address(0)));
        expectLog(NATIVE_TOPIC, abi.encode(depositor, amount, id));
        assertEq(address(depository).balance, amount);
        assertEq(strict.balance, 0);
    }

    function testFuzz_a_strict_sweep_deposits_all_of_a_token(uint96 amount, address depositor, address by)
        public
    {
        vm.assume(depositor != address(0));
        amount = uint96(bound(amount, 1, 1000 ether));
        address strict = factory.computeDepositAddress(id, depositor);
        payToken(strict, amount);
        vm.recordLogs();
        vm.prank(by);
        factory.sweep(id, depositor, only(address(token)));
        expectLog(ERC20_TOPIC, abi.encode(depositor, address(token), amount, id));
        assertEq(token.balanceOf(address(depository)), amount);
        assertEq(token.balanceOf(strict), 0);
        assertEq(token.allowance(strict, address(depository)), 0);
    }

    function test_a_sweep_takes_every_listed_token_and_says_so() public {
        address strict = factory.computeDepositAddress(id, user);
        pay(strict, 2 ether);
        payToken(strict, 3 ether);
        for (uint256 i = 0; i < 2; ++i) {
            vm.expectEmit(true, true, true, true, address(factory));
            emit IDepositAddressFactory.Swept(strict, id, i == 0 ? address(0) : address(token), user);
        }
        factory.sweep(id, user, both(address(0), address(token)));
        assertEq(address(depository).balance, 2 ether);
        assertEq(token.balanceOf(address(depository)), 3 ether);
    }

    /// @dev The service reads the deposit before it reads whose address it came from.
    function test_the_sweeps_log_comes_after_the_deposits() public {
        pay(factory.computeDepositAddress(id, user), 1 ether);
        vm.recordLogs();
        factory.sweep(id, user, only(address(0)));
        Vm.Log[] memory logs = vm.getRecordedLogs();
        assertEq(logs.length, 2);
        assertEq(logs[0].topics[0], NATIVE_TOPIC);
        assertEq(logs[1].topics[0], IDepositAddressFactory.Swept.selector);
    }

    function test_later_arrivals_are_swept_again() public {
        address strict = factory.computeDepositAddress(id, user);
        pay(strict, 1 ether);
        factory.sweep(id, user, only(address(0)));
        // Now the address has code, and still takes money.
        assertGt(strict.code.length, 0);
        pay(strict, 2 ether);
        payToken(strict, 3 ether);
        factory.sweep(id, user, both(address(0), address(token)));
        payToken(strict, 4 ether);
        factory.sweep(id, user, only(address(token)));
        assertEq(address(depository).balance, 3 ether);
        assertEq(token.balanceOf(address(depository)), 7 ether);
    }

    function test_the_clone_is_the_standard_one() public {
        address strict = factory.computeDepositAddress(id, user);
        pay(strict, 1);
        factory.sweep(id, user, only(address(0)));
        assertEq(
            strict.code,
            abi.encodePacked(
                hex"363d3d373d3d3d363d73", factory.IMPLEMENTATION(), hex"5af43d82803e903d91602b57fd5bf3"
            )
        );
    }

    function test_nothing_to_sweep_deposits_nothing_and_makes_no_code() public {
        vm.recordLogs();
        factory.sweep(id, user, both(address(0), address(token)));
        assertEq(vm.getRecordedLogs().length, 0);
        assertEq(factory.computeDepositAddress(id, user).code.length, 0);
        // A zero in front of a balance is skipped, and a token that is named twice is deposited once.
        payToken(factory.computeDepositAddress(id, user), 5);
        factory.sweep(id, user, both(address(0), address(token)));
        factory.sweep(id, user, both(address(token), address(token)));
        assertEq(token.balanceOf(address(depository)), 5);
    }

    /// @dev A token that answers nothing and refuses to change an allowance.
    function test_a_token_like_usdt_is_swept_again_and_again() public {
        Usdt usdt = new Usdt(address(this));
        address strict = factory.computeDepositAddress(id, user);
        for (uint256 i = 0; i < 2; ++i) {
            usdt.mint(strict, 5);
            factory.sweep(id, user, only(address(usdt)));
        }
        // An approval that was left is cleared first.
        vm.prank(strict);
        usdt.approve(address(depository), 1);
        usdt.mint(strict, 5);
        factory.sweep(id, user, only(address(usdt)));
        assertEq(usdt.balanceOf(address(depository)), 15);
    }

    /// @dev By the depository's rule for a zero depositor; a refund to the address is not lost.
    function test_without_a_depositor_the_address_names_itself() public {
        address strict = factory.computeDepositAddress(id, address(0));
        pay(strict, 1 ether);
        vm.recordLogs();
        factory.sweep(id, address(0), only(address(0)));
        expectLog(NATIVE_TOPIC, abi.encode(strict, 1 ether, id));
        run(request(native(strict, 1 ether), 1));
        assertEq(strict.balance, 1 ether);
        factory.sweep(id, address(0), only(address(0)));
        assertEq(address(depository).balance, 1 ether);
    }

    // ---- roles ----

    function testFuzz_only_the_owner_names_operators(address by, bool allowed) public {
        vm.assume(by != owner);
        vm.prank(by);
        vm.expectRevert(IOwned.Unauthorized.selector);
        factory.setOperator(by, allowed);
    }
}
