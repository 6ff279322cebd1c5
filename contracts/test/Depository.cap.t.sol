// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IDepository} from "../src/interfaces/IDepository.sol";
import {Reenterer} from "./utils/DepositoryActors.sol";
import {FundedDepository} from "./utils/FundedDepository.sol";
import {OutflowModel} from "./utils/OutflowModel.sol";

contract DepositoryCapTest is FundedDepository {
    // ---- outflow cap ----

    function cap(address capped, uint128 amount, uint64 window) internal {
        vm.prank(owner);
        depository.setOutflowCap(capped, amount, window);
    }

    function refuse(IDepository.CallRequest memory callRequest, bytes memory reason) internal {
        bytes memory signature = sign(callRequest);
        vm.expectRevert(reason);
        depository.execute(callRequest, signature);
    }

    function exceeded(address capped, uint256 amount, uint256 available)
        internal
        pure
        returns (bytes memory)
    {
        return abi.encodeWithSelector(IDepository.OutflowCapExceeded.selector, capped, amount, available);
    }

    function test_a_cap_bounds_native_and_releases_evenly() public {
        vm.deal(address(depository), 100 ether);
        cap(address(0), 10 ether, 1 hours);
        run(request(native(treasury, 10 ether), 1));
        refuse(request(native(treasury, 1), 2), exceeded(address(0), 1, 0));
        skip(6 minutes);
        refuse(request(native(treasury, 1 ether + 1), 2), exceeded(address(0), 1 ether + 1, 1 ether));
        run(request(native(treasury, 1 ether), 2));
        skip(10 days);
        refuse(request(native(treasury, 10 ether + 1), 3), exceeded(address(0), 10 ether + 1, 10 ether));
        run(request(native(treasury, 10 ether), 3));
    }

    function test_a_cap_counts_all_calls_of_a_request() public {
        token.mint(address(depository), 100);
        cap(address(token), 10, 1 hours);
        refuse(
            request(transfer(address(token), treasury, 6), transfer(address(token), user, 5), 1),
            exceeded(address(token), 5, 4)
        );
        (uint256 amount, uint256 window, uint256 available) = depository.outflowCap(address(token));
        assertEq(amount, 10);
        assertEq(window, 1 hours);
        assertEq(available, 10, "a refused request takes nothing");
    }

    function test_a_cap_leaves_other_tokens_alone() public {
        token.mint(address(depository), 100);
        vm.deal(address(depository), 100);
        cap(address(0), 10, 1 hours);
        run(request(transfer(address(token), treasury, 100), 1));
        (,, uint256 available) = depository.outflowCap(address(token));
        assertEq(available, type(uint256).max);
    }

    function test_with_a_cap_only_payments_are_executed() public {
        token.mint(address(depository), 100);
        vm.deal(address(depository), 100);
        cap(address(token), 10, 1 hours);
        bytes memory reason = abi.encodeWithSelector(IDepository.CallNotAllowed.selector, 0);
        IDepository.Call memory call = transfer(address(token), treasury, 1);

        call.data = abi.encodeCall(IERC20.approve, (user, 100));
        refuse(request(call, 1), reason);
        call.data = abi.encodeCall(IERC20.transferFrom, (address(depository), user, 100));
        refuse(request(call, 1), reason);
        call.data = abi.encodePacked(abi.encodeCall(IERC20.transfer, (user, 1)), uint8(0));
        refuse(request(call, 1), reason);
        call.data = hex"a9059cbb";
        refuse(request(call, 1), reason);
        call = native(user, 1);
        call.data = hex"00";
        refuse(request(call, 1), reason);
        call = transfer(address(token), treasury, 1);
        call.value = 1;
        refuse(request(call, 1), reason);
        call = transfer(address(token), treasury, 1);
        call.allowFailure = true;
        refuse(request(call, 1), reason);
        // Approving another token is refused too: it may be a second address of the capped one.
        call = native(makeAddr("elsewhere"), 0);
        call.data = abi.encodeCall(IERC20.approve, (user, 100));
        refuse(request(call, 1), reason);
    }

    function test_depositing_money_back_does_not_refill_a_cap() public {
        vm.deal(address(depository), 10 ether);
        cap(address(0), 1 ether, 1 hours);
        Reenterer back = new Reenterer(depository);
        back.arm(abi.encodeCall(IDepository.depositNative, (user, id)));
        back.sendBack(1 ether);
        run(request(native(address(back), 1 ether), 1));
        assertEq(address(depository).balance, 10 ether);
        refuse(request(native(address(back), 1), 2), exceeded(address(0), 1, 0));
    }

    function test_a_nested_execution_is_counted() public {
        vm.deal(address(depository), 10 ether);
        cap(address(0), 1 ether, 1 hours);
        IDepository.CallRequest memory inner = request(native(treasury, 1 ether), 2);
        Reenterer thief = new Reenterer(depository);
        thief.arm(abi.encodeCall(IDepository.execute, (inner, sign(inner))));
        run(request(native(address(thief), 1 ether), 1));
        assertEq(thief.lastReturn(), exceeded(address(0), 1 ether, 0));
        assertEq(address(depository).balance, 9 ether);
    }

    function test_changing_a_cap_keeps_what_was_used() public {
        vm.deal(address(depository), 100 ether);
        cap(address(0), 10 ether, 1 hours);
        run(request(native(treasury, 8 ether), 1));
        cap(address(0), 5 ether, 1 hours);
        (,, uint256 available) = depository.outflowCap(address(0));
        assertEq(available, 0);
        cap(address(0), 20 ether, 2 hours);
        (,, available) = depository.outflowCap(address(0));
        assertEq(available, 12 ether);
        assertEq(depository.cappedTokens(), 1);
    }

    /// @dev Half an hour releases half of the old cap, neither nothing nor half of the new one.
    function test_changing_a_cap_settles_at_the_old_rate_first() public {
        vm.deal(address(depository), 100 ether);
        cap(address(0), 10 ether, 1 hours);
        run(request(native(treasury, 8 ether), 1));
        skip(30 minutes);
        cap(address(0), 20 ether, 1 hours);
        (,, uint256 available) = depository.outflowCap(address(0));
        assertEq(available, 17 ether);
        run(request(native(treasury, 17 ether), 2));
        refuse(request(native(treasury, 1), 3), exceeded(address(0), 1, 0));
        skip(30 minutes);
        cap(address(0), 2 ether, 10 hours);
        refuse(request(native(treasury, 1), 3), exceeded(address(0), 1, 0));
        skip(40 hours);
        refuse(request(native(treasury, 1), 3), exceeded(address(0), 1, 0));
        skip(1 hours);
        (,, available) = depository.outflowCap(address(0));
        assertEq(available, 0.2 ether);
    }

    function test_the_largest_cap_can_be_used_up() public {
        uint128 most = type(uint128).max;
        token.mint(address(depository), uint256(most) + 1);
        cap(address(token), most, 1 hours);
        run(request(transfer(address(token), treasury, most), 1));
        refuse(request(transfer(address(token), treasury, 1), 2), exceeded(address(token), 1, 0));
        cap(address(token), 1, 1 hours);
        refuse(request(transfer(address(token), treasury, 1), 2), exceeded(address(token), 1, 0));
    }

    function test_a_cap_can_freeze_a_token_and_be_removed() public {
        vm.deal(address(depository), 1 ether);
        cap(address(0), 0, 1);
        skip(365 days);
        refuse(request(native(treasury, 1), 1), exceeded(address(0), 1, 0));
        cap(address(token), 1, 1);
        assertEq(depository.cappedTokens(), 2);
        cap(address(0), 0, 0);
        cap(address(0), 0, 0);
        cap(address(token), 0, 0);
        assertEq(depository.cappedTokens(), 0);
        run(request(native(treasury, 1 ether), 2));
        vm.prank(owner);
        vm.expectRevert(IDepository.InvalidOutflowCap.selector);
        depository.setOutflowCap(address(0), 1, 0);
    }

    /// @dev The cap's bound, against any schedule of payments a thief may try.
    function testFuzz_a_cap_bounds_any_schedule(uint128 amount, uint32 window, uint256 seed) public {
        amount = uint128(bound(amount, 1, 1e30));
        window = uint32(bound(window, 1, 30 days));
        vm.deal(address(depository), type(uint160).max);
        cap(address(0), amount, window);
        uint256 start = block.timestamp;
        uint256 paid;
        for (uint256 i = 0; i < 16; ++i) {
            seed = uint256(keccak256(abi.encode(seed)));
            skip(bound(seed, 0, window / 4));
            (,, uint256 available) = depository.outflowCap(address(0));
            uint256 take = seed % 3 == 0 ? available : bound(seed, 0, available);
            run(request(native(treasury, take), i));
            paid += take;
            assertLe(paid, amount + uint256(amount) * (block.timestamp - start) / window);
        }
        assertEq(treasury.balance, paid);
    }

    /// @dev Caps are set, raised, lowered, stretched and removed between payments. What the model allows is paid,
    /// and one unit more is refused.
    function testFuzz_caps_that_change_allow_what_the_model_allows(uint256 seed) public {
        vm.deal(address(depository), type(uint160).max);
        OutflowModel model = new OutflowModel();
        for (uint256 i = 0; i < 24; ++i) {
            seed = uint256(keccak256(abi.encode(seed)));
            skip((seed >> 16) % 3 == 0 ? 0 : (seed >> 32) % 2 hours);
            if (i == 0 || seed % 4 == 0) {
                uint64 window = (seed >> 64) % 8 == 0 ? 0 : uint64((seed >> 72) % 1 days + 1);
                uint128 amount = window == 0 ? 0 : uint128((seed >> 128) % 10 ** (seed % 24));
                cap(address(0), amount, window);
                model.set(amount, window);
            }
            (uint256 least, uint256 most) = model.available();
            (,, uint256 available) = depository.outflowCap(address(0));
            assertLe(available, most, "more than the rule");
            assertGe(available, least, "less than the rule");
            if (most == type(uint256).max) {
                run(request(native(treasury, 1 ether), i));
            } else {
                refuse(
                    request(native(treasury, most + 1), 1000 + i), exceeded(address(0), most + 1, available)
                );
                uint256 paid = seed % 3 == 0 ? least : (seed >> 8) % (least + 1);
                run(request(native(treasury, paid), i));
                model.pay(paid);
            }
        }
    }
}
