// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IApprovalProxy} from "../src/interfaces/IApprovalProxy.sol";
import {IPermit2} from "../src/interfaces/IPermit2.sol";
import {Call3Value, IRouter} from "../src/interfaces/IRouter.sol";
import {Calls} from "./utils/Actors.sol";
import {FeeToken, FeeToken3009, HookToken, HookToken3009, ShortToken3009} from "./utils/HostileTokens.sol";
import {SignaturesFixture} from "./utils/SignaturesFixture.sol";

/// @notice Everything that was moved is in the router when the calls begin, or nothing happens.
contract ApprovalProxyArrivalsTest is SignaturesFixture {
    using Calls for Call3Value[];

    HookToken internal hook = new HookToken();

    /// @dev The next transfer of the hook token has a thief take an amount of a currency from the router.
    function armToTake(HookToken armed, address currency, uint256 amount) internal {
        Call3Value[] memory calls = Calls.one(address(router), 0, Calls.cleanup(currency, thief, amount));
        armed.arm(address(router), abi.encodeCall(IRouter.multicall, (calls, thief, address(0), "")), true);
    }

    function test_a_fee_on_transfer_is_refused() public {
        FeeToken fee = new FeeToken();
        fee.mint(user, 100);
        vm.startPrank(user);
        fee.approve(address(proxy), 100);
        vm.expectRevert(notArrived(address(fee), 100, 90));
        proxy.transferAndMulticall(
            Calls.list(address(fee)), Calls.list(uint256(100)), new Call3Value[](0), user, user, ""
        );
        vm.stopPrank();
        assertEq(fee.balanceOf(user), 100);
    }

    /// @dev Anyone can register a receiver hook for the router with tokens that have such hooks.
    function test_a_token_cannot_be_taken_while_it_arrives() public {
        hook.mint(user, 5);
        hook.arm(
            address(router),
            abi.encodeCall(IRouter.multicall, (stealCalls(address(hook)), thief, address(0), "")),
            true
        );
        vm.startPrank(user);
        hook.approve(address(proxy), 5);
        vm.expectRevert(notArrived(address(hook), 5, 0));
        proxy.transferAndMulticall(
            Calls.list(address(hook)), Calls.list(uint256(5)), new Call3Value[](0), user, user, ""
        );
        vm.stopPrank();
    }

    /// @dev The first token is in the router, which is not in use yet, while the second token calls out.
    function test_tokens_cannot_be_taken_between_the_moves() public {
        hook.mint(user, 1);
        hook.arm(
            address(router),
            abi.encodeCall(IRouter.multicall, (stealCalls(address(token)), thief, address(0), "")),
            true
        );
        address[] memory tokens = new address[](2);
        uint256[] memory amounts = new uint256[](2);
        (tokens[0], tokens[1]) = (address(token), address(hook));
        (amounts[0], amounts[1]) = (100 ether, 1);
        vm.startPrank(user);
        token.approve(address(proxy), 100 ether);
        hook.approve(address(proxy), 1);
        vm.expectRevert(notArrived(address(token), 100 ether, 0));
        proxy.transferAndMulticall(tokens, amounts, new Call3Value[](0), user, user, "");
        vm.stopPrank();
    }

    function test_permit2_tokens_cannot_be_taken_between_the_moves() public {
        hook.mint(user, 1);
        IPermit2.PermitBatchTransferFrom memory permit = permit2Of(address(token), 100 ether, 1);
        permit.permitted = new IPermit2.TokenPermissions[](2);
        permit.permitted[0] = IPermit2.TokenPermissions({token: address(token), amount: 100 ether});
        permit.permitted[1] = IPermit2.TokenPermissions({token: address(hook), amount: 1});
        vm.startPrank(user);
        token.approve(permit2, type(uint256).max);
        hook.approve(permit2, type(uint256).max);
        vm.stopPrank();
        Call3Value[] memory calls = Calls.one(address(router), 0, Calls.cleanup(address(token), user, 0))
            .then(address(router), 0, Calls.cleanup(address(hook), user, 0));
        bytes memory signature = signPermit2(permit, calls);
        uint256 state = vm.snapshotState();
        hook.arm(
            address(router),
            abi.encodeCall(IRouter.multicall, (stealCalls(address(token)), thief, address(0), "")),
            true
        );
        vm.prank(relayer);
        vm.expectRevert(notArrived(address(token), 100 ether, 0));
        proxy.permit2TransferAndMulticall(user, permit, calls, user, user, "", signature);

        vm.revertToState(state);
        vm.prank(relayer);
        proxy.permit2TransferAndMulticall(user, permit, calls, user, user, "", signature);
        assertEq(token.balanceOf(user), 1000 ether);
    }

    // ---- EIP-2612 ----

    /// @dev Neither token has permits: the allowance is in place, as if the permit had been seen in the open.
    function permitOf(address currency, uint256 amount)
        internal
        view
        returns (IApprovalProxy.Permit[] memory permits)
    {
        permits = new IApprovalProxy.Permit[](1);
        (permits[0].token, permits[0].owner, permits[0].value) = (currency, user, amount);
    }

    function test_a_permitted_token_cannot_be_taken_while_it_arrives() public {
        hook.mint(user, 5);
        armToTake(hook, address(hook), 0);
        vm.startPrank(user);
        hook.approve(address(proxy), 5);
        vm.expectRevert(notArrived(address(hook), 5, 0));
        proxy.permitTransferAndMulticall(permitOf(address(hook), 5), new Call3Value[](0), user, user, "");

        hook.arm(address(0), "", false);
        proxy.permitTransferAndMulticall(permitOf(address(hook), 5), new Call3Value[](0), user, user, "");
        assertEq(hook.balanceOf(address(router)), 5);
        vm.stopPrank();
    }

    function test_a_permitted_token_that_keeps_a_fee_is_refused() public {
        FeeToken fee = new FeeToken();
        fee.mint(user, 100);
        vm.startPrank(user);
        fee.approve(address(proxy), 100);
        vm.expectRevert(notArrived(address(fee), 100, 90));
        proxy.permitTransferAndMulticall(permitOf(address(fee), 100), new Call3Value[](0), user, user, "");
        vm.stopPrank();
        assertEq(fee.balanceOf(user), 100);
    }

    // ---- a token that is named twice ----

    /// @dev The first 60 are taken while the hook token moves; the second 60 do not stand for both.
    function test_a_token_named_twice_must_arrive_twice() public {
        hook.mint(user, 1);
        address[] memory tokens = new address[](3);
        uint256[] memory amounts = new uint256[](3);
        (tokens[0], tokens[1], tokens[2]) = (address(token), address(hook), address(token));
        (amounts[0], amounts[1], amounts[2]) = (60, 1, 60);
        armToTake(hook, address(token), 60);
        vm.startPrank(user);
        token.approve(address(proxy), 120);
        hook.approve(address(proxy), 1);
        vm.expectRevert(notArrived(address(token), 120, 60));
        proxy.transferAndMulticall(tokens, amounts, new Call3Value[](0), user, user, "");

        hook.arm(address(0), "", false);
        proxy.transferAndMulticall(tokens, amounts, new Call3Value[](0), user, user, "");
        assertEq(token.balanceOf(address(router)), 120);
        vm.stopPrank();
    }

    function test_a_permit2_list_naming_a_token_twice_must_arrive_in_full() public {
        hook.mint(user, 1);
        IPermit2.PermitBatchTransferFrom memory permit = permit2Of(address(token), 60, 1);
        permit.permitted = new IPermit2.TokenPermissions[](3);
        permit.permitted[0] = IPermit2.TokenPermissions({token: address(token), amount: 60});
        permit.permitted[1] = IPermit2.TokenPermissions({token: address(token), amount: 40});
        permit.permitted[2] = IPermit2.TokenPermissions({token: address(hook), amount: 1});
        vm.startPrank(user);
        token.approve(permit2, type(uint256).max);
        hook.approve(permit2, type(uint256).max);
        vm.stopPrank();
        bytes memory signature = signPermit2(permit, new Call3Value[](0));
        armToTake(hook, address(token), 40);
        vm.prank(relayer);
        vm.expectRevert(notArrived(address(token), 100, 60));
        proxy.permit2TransferAndMulticall(user, permit, new Call3Value[](0), user, user, "", signature);

        hook.arm(address(0), "", false);
        vm.prank(relayer);
        proxy.permit2TransferAndMulticall(user, permit, new Call3Value[](0), user, user, "", signature);
        assertEq(token.balanceOf(address(router)), 100);
    }

    // ---- EIP-3009 ----

    function authorization(uint256 amount, uint256 count)
        internal
        view
        returns (IApprovalProxy.Permit3009[] memory permits)
    {
        permits = new IApprovalProxy.Permit3009[](count);
        for (uint256 i = 0; i < count; ++i) {
            permits[i].from = user;
            permits[i].value = amount;
        }
    }

    function test_an_authorized_token_cannot_be_taken_while_it_arrives() public {
        HookToken3009 authorized = new HookToken3009();
        authorized.mint(user, 100);
        armToTake(authorized, address(authorized), 0);
        vm.prank(relayer);
        vm.expectRevert(notArrived(address(authorized), 100, 0));
        proxy.permit3009TransferAndMulticall(
            authorization(100, 1), Calls.list(address(authorized)), new Call3Value[](0), user, user, ""
        );
    }

    function test_an_authorized_token_that_keeps_a_fee_is_refused() public {
        FeeToken3009 fee = new FeeToken3009();
        fee.mint(user, 100);
        vm.prank(relayer);
        vm.expectRevert(notArrived(address(fee), 100, 90));
        proxy.permit3009TransferAndMulticall(
            authorization(100, 1), Calls.list(address(fee)), new Call3Value[](0), user, user, ""
        );
    }

    function test_an_authorized_token_named_twice_must_arrive_twice() public {
        HookToken3009 authorized = new HookToken3009();
        authorized.mint(user, 120);
        address[] memory tokens = new address[](2);
        (tokens[0], tokens[1]) = (address(authorized), address(authorized));
        armToTake(authorized, address(authorized), 0);
        vm.prank(relayer);
        vm.expectRevert(notArrived(address(authorized), 120, 60));
        proxy.permit3009TransferAndMulticall(
            authorization(60, 2), tokens, new Call3Value[](0), user, user, ""
        );
    }

    /// @dev Tokens that somebody left in the proxy do not make up for what an authorization did not bring.
    function test_an_authorization_passes_on_what_it_brought_and_no_more() public {
        ShortToken3009 short = new ShortToken3009();
        short.mint(user, 100);
        short.mint(address(proxy), 10);
        vm.prank(relayer);
        proxy.permit3009TransferAndMulticall(
            authorization(100, 1), Calls.list(address(short)), new Call3Value[](0), user, user, ""
        );
        assertEq(short.balanceOf(address(router)), 90);
        assertEq(short.balanceOf(address(proxy)), 10);
    }
}
