// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {ApprovalProxy} from "../src/ApprovalProxy.sol";
import {IApprovalProxy} from "../src/interfaces/IApprovalProxy.sol";
import {IOwned} from "../src/interfaces/IOwned.sol";
import {IPermit2} from "../src/interfaces/IPermit2.sol";
import {Call3Value, IRouter} from "../src/interfaces/IRouter.sol";
import {Calls, Intruder, TestExchange} from "./utils/Actors.sol";
import {FalseToken} from "./utils/HostileTokens.sol";
import {ApprovalProxyFixture} from "./utils/ApprovalProxyFixture.sol";

contract ApprovalProxyTest is ApprovalProxyFixture {
    using Calls for Call3Value[];

    function test_selectors_are_public() public pure {
        assertEq(IApprovalProxy.transferAndMulticall.selector, bytes4(0xf9e4bab4));
        assertEq(IApprovalProxy.permitTransferAndMulticall.selector, bytes4(0xfb68c293));
        assertEq(IApprovalProxy.permit2TransferAndMulticall.selector, bytes4(0x0a2b8f36));
        assertEq(IApprovalProxy.permit3009TransferAndMulticall.selector, bytes4(0xf80f00fb));
    }

    function test_construction_refuses_zero_addresses() public {
        vm.expectRevert(IOwned.AddressCannotBeZero.selector);
        new ApprovalProxy(address(0), address(router), permit2);
        vm.expectRevert(IOwned.AddressCannotBeZero.selector);
        new ApprovalProxy(owner, address(0), permit2);
        vm.expectRevert(IOwned.AddressCannotBeZero.selector);
        new ApprovalProxy(owner, address(router), address(0));
        assertEq(proxy.ROUTER(), address(router));
        assertEq(proxy.PERMIT2(), permit2);
    }

    function test_a_zero_refund_recipient_is_refused() public {
        IPermit2.PermitBatchTransferFrom memory permit;
        vm.expectRevert(IApprovalProxy.RefundToCannotBeZero.selector);
        proxy.transferAndMulticall(
            new address[](0), new uint256[](0), new Call3Value[](0), address(0), user, ""
        );
        vm.expectRevert(IApprovalProxy.RefundToCannotBeZero.selector);
        proxy.permitTransferAndMulticall(
            new IApprovalProxy.Permit[](0), new Call3Value[](0), address(0), user, ""
        );
        vm.expectRevert(IApprovalProxy.RefundToCannotBeZero.selector);
        proxy.permit2TransferAndMulticall(user, permit, new Call3Value[](0), address(0), user, "", "");
        vm.expectRevert(IApprovalProxy.RefundToCannotBeZero.selector);
        proxy.permit3009TransferAndMulticall(
            new IApprovalProxy.Permit3009[](0), new address[](0), new Call3Value[](0), address(0), user, ""
        );
    }

    function test_uneven_lists_are_refused() public {
        vm.expectRevert(IApprovalProxy.LengthMismatch.selector);
        proxy.transferAndMulticall(
            Calls.list(address(token)), new uint256[](0), new Call3Value[](0), user, user, ""
        );
        vm.expectRevert(IApprovalProxy.LengthMismatch.selector);
        proxy.permit3009TransferAndMulticall(
            new IApprovalProxy.Permit3009[](0),
            Calls.list(address(token)),
            new Call3Value[](0),
            user,
            user,
            ""
        );
    }

    // ---- approvals ----

    function testFuzz_transferAndMulticall_deposits(uint128 amount, bytes32 metadata) public {
        amount = uint128(bound(amount, 1, type(uint128).max));
        token.mint(user, amount);
        vm.startPrank(user);
        token.approve(address(proxy), amount);
        vm.expectEmit(address(proxy));
        emit IApprovalProxy.FundsMovement(user, address(router), address(token), amount, abi.encode(metadata));
        proxy.transferAndMulticall(
            Calls.list(address(token)),
            Calls.list(uint256(amount)),
            depositCalls(address(token), amount),
            user,
            user,
            abi.encode(metadata)
        );
        vm.stopPrank();
        assertEq(token.balanceOf(address(depository)), amount);
        assertEq(token.balanceOf(address(router)), 0);
    }

    function swapAndDeposit(uint256 spent) internal view returns (Call3Value[] memory calls) {
        bytes memory deposit =
            abi.encodeWithSignature("depositErc20(address,address,bytes32)", user, address(other), id);
        calls = Calls.one(address(token), 0, abi.encodeCall(IERC20.approve, (address(exchange), spent)));
        calls =
            calls.then(address(exchange), 0, abi.encodeCall(TestExchange.swap, (token, other, spent, spent)));
        calls = calls.then(
            address(router),
            0,
            abi.encodeCall(
                IRouter.cleanupErc20sViaCall,
                (
                    Calls.list(address(other)),
                    Calls.list(address(depository)),
                    Calls.list(deposit),
                    Calls.list(uint256(0))
                )
            )
        );
        calls = calls.then(address(router), 0, Calls.cleanup(address(token), user, 0));
    }

    function testFuzz_a_swap_ends_with_nothing_in_the_router(uint96 amount, uint96 spent, uint96 value)
        public
    {
        amount = uint96(bound(amount, 1, 900 ether));
        spent = uint96(bound(spent, 1, amount));
        vm.deal(user, value);
        uint256 before = token.balanceOf(user);
        vm.startPrank(user);
        token.approve(address(proxy), amount);
        proxy.transferAndMulticall{value: value}(
            Calls.list(address(token)), Calls.list(uint256(amount)), swapAndDeposit(spent), user, user, ""
        );
        vm.stopPrank();
        assertEq(other.balanceOf(address(depository)), spent);
        assertEq(token.balanceOf(user), before - spent);
        assertEq(user.balance, value);
        assertEq(token.balanceOf(address(router)), 0);
        assertEq(other.balanceOf(address(router)), 0);
        assertEq(address(router).balance, 0);
        assertEq(address(proxy).balance, 0);
    }

    function test_a_false_answer_is_refused() public {
        FalseToken no = new FalseToken();
        vm.expectRevert();
        proxy.transferAndMulticall(
            Calls.list(address(no)), Calls.list(uint256(1)), new Call3Value[](0), user, user, ""
        );
    }

    // ---- an approval serves nobody but its owner ----

    function test_others_cannot_use_an_approval() public {
        vm.prank(user);
        token.approve(address(proxy), type(uint256).max);
        vm.startPrank(thief);
        vm.expectRevert();
        proxy.transferAndMulticall(
            Calls.list(address(token)), Calls.list(uint256(1)), stealCalls(address(token)), thief, thief, ""
        );
        IApprovalProxy.Permit[] memory permits = new IApprovalProxy.Permit[](1);
        permits[0].token = address(token);
        permits[0].owner = user;
        permits[0].value = 1;
        vm.expectRevert(abi.encodeWithSelector(IApprovalProxy.NotPermitOwner.selector, user));
        proxy.permitTransferAndMulticall(permits, stealCalls(address(token)), thief, thief, "");
        vm.stopPrank();
        assertEq(token.balanceOf(user), 1000 ether);
    }

    function test_the_router_cannot_be_made_to_use_an_approval() public {
        vm.prank(user);
        token.approve(address(proxy), type(uint256).max);
        vm.startPrank(thief);
        vm.expectRevert();
        router.multicall(
            Calls.one(address(token), 0, abi.encodeCall(IERC20.transferFrom, (user, thief, 1))),
            thief,
            thief,
            ""
        );
        // Through the router, the proxy sees the router as its caller, and the router is in use.
        vm.expectRevert();
        router.multicall(
            Calls.one(
                address(proxy),
                0,
                abi.encodeCall(
                    IApprovalProxy.transferAndMulticall,
                    (new address[](0), new uint256[](0), new Call3Value[](0), thief, thief, "")
                )
            ),
            thief,
            thief,
            ""
        );
        vm.stopPrank();
    }

    /// @dev The user has approved every contract there is to approve; nothing may move without a fresh
    /// signature.
    function testFuzz_others_never_move_an_approved_balance(
        address by,
        uint256 amount,
        uint256 nonce,
        bytes32 r,
        bytes32 s,
        bool highV
    ) public {
        vm.assume(by != user && by != address(proxy) && by != address(vm));
        amount = bound(amount, 1, 1000e6);
        vm.startPrank(user);
        usdc.approve(address(proxy), type(uint256).max);
        usdc.approve(permit2, type(uint256).max);
        vm.stopPrank();
        uint8 v = highV ? 28 : 27;
        bytes[] memory attempts = new bytes[](4);
        Call3Value[] memory calls = stealCalls(address(usdc));
        attempts[0] = abi.encodeCall(
            IApprovalProxy.transferAndMulticall,
            (Calls.list(address(usdc)), Calls.list(amount), calls, thief, thief, "")
        );
        IApprovalProxy.Permit[] memory permits = new IApprovalProxy.Permit[](1);
        permits[0] = IApprovalProxy.Permit(address(usdc), user, amount, nonce, block.timestamp, v, r, s);
        attempts[1] =
            abi.encodeCall(IApprovalProxy.permitTransferAndMulticall, (permits, calls, thief, thief, ""));
        attempts[2] = abi.encodeCall(
            IApprovalProxy.permit2TransferAndMulticall,
            (
                user,
                permit2Of(address(usdc), amount, nonce),
                calls,
                thief,
                thief,
                "",
                abi.encodePacked(r, s, v)
            )
        );
        IApprovalProxy.Permit3009[] memory authorizations = new IApprovalProxy.Permit3009[](1);
        authorizations[0] = IApprovalProxy.Permit3009(user, amount, 0, type(uint256).max, v, r, s);
        attempts[3] = abi.encodeCall(
            IApprovalProxy.permit3009TransferAndMulticall,
            (authorizations, Calls.list(address(usdc)), calls, thief, thief, "")
        );
        for (uint256 i = 0; i < attempts.length; ++i) {
            vm.prank(by);
            (bool success,) = address(proxy).call(attempts[i]);
            assertFalse(success);
        }
        assertEq(usdc.balanceOf(user), 1000e6);
    }

    function test_the_proxy_cannot_be_entered_twice() public {
        Intruder intruder = new Intruder();
        intruder.arm(
            address(proxy),
            abi.encodeCall(
                IApprovalProxy.transferAndMulticall,
                (new address[](0), new uint256[](0), new Call3Value[](0), thief, thief, "")
            )
        );
        vm.prank(user);
        proxy.transferAndMulticall{value: 1 ether}(
            new address[](0),
            new uint256[](0),
            Calls.one(address(intruder), 0, abi.encodeCall(Intruder.poke, ())),
            user,
            user,
            ""
        );
        assertTrue(intruder.tried());
        assertFalse(intruder.entered());
        assertEq(user.balance, 10 ether);
    }

    // ---- strays ----

    function testFuzz_the_owner_withdraws_strays(uint128 tokens, uint96 value, address by) public {
        vm.assume(by != owner);
        token.mint(address(proxy), tokens);
        vm.deal(address(proxy), value);
        vm.startPrank(by);
        vm.expectRevert(IOwned.Unauthorized.selector);
        proxy.withdraw(address(token));
        vm.expectRevert(IOwned.Unauthorized.selector);
        proxy.withdraw(address(0));
        vm.stopPrank();
        vm.startPrank(owner);
        proxy.withdraw(address(token));
        proxy.withdraw(address(0));
        vm.stopPrank();
        assertEq(token.balanceOf(owner), tokens);
        assertEq(owner.balance, value);
    }

    function test_a_withdrawal_that_is_refused_reverts() public {
        ApprovalProxy refused = new ApprovalProxy(address(this), address(router), permit2);
        vm.deal(address(refused), 1);
        vm.expectRevert(IApprovalProxy.NativeTransferFailed.selector);
        refused.withdraw(address(0));
    }
}
