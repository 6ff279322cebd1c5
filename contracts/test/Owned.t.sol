// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {Test} from "forge-std/Test.sol";
import {Owned} from "../src/Owned.sol";
import {IOwned} from "../src/interfaces/IOwned.sol";

contract OwnedThing is Owned {
    constructor(address initialOwner) Owned(initialOwner) {}
}

contract OwnedTest is Test {
    OwnedThing internal thing = new OwnedThing(address(this));

    function test_construction_refuses_a_zero_owner() public {
        vm.expectRevert(IOwned.AddressCannotBeZero.selector);
        new OwnedThing(address(0));
    }

    function testFuzz_ownership_moves_only_when_accepted(address next, address other) public {
        vm.assume(next != address(0) && next != other && next != address(this));
        thing.transferOwnership(next);
        assertEq(thing.owner(), address(this));
        vm.prank(other);
        vm.expectRevert(IOwned.Unauthorized.selector);
        thing.acceptOwnership();
        vm.prank(next);
        thing.acceptOwnership();
        assertEq(thing.owner(), next);
        assertEq(thing.pendingOwner(), address(0));
        vm.expectRevert(IOwned.Unauthorized.selector);
        thing.transferOwnership(other);
    }

    function test_an_offer_can_be_withdrawn() public {
        address next = makeAddr("next");
        thing.transferOwnership(next);
        thing.transferOwnership(address(0));
        vm.prank(next);
        vm.expectRevert(IOwned.Unauthorized.selector);
        thing.acceptOwnership();
    }
}
