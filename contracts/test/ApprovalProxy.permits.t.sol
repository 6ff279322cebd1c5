// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {ApprovalProxy} from "../src/ApprovalProxy.sol";
import {Usdc} from "../src/devnet/Usdc.sol";
import {IApprovalProxy} from "../src/interfaces/IApprovalProxy.sol";
import {IPermit2} from "../src/interfaces/IPermit2.sol";
import {Call3Value} from "../src/interfaces/IRouter.sol";
import {Calls} from "./utils/Actors.sol";
import {Swallower} from "./utils/HostileTokens.sol";
import {SignaturesFixture} from "./utils/SignaturesFixture.sol";

contract ApprovalProxyPermitsTest is SignaturesFixture {
    using Calls for Call3Value[];

    // ---- EIP-2612 ----

    function testFuzz_permitTransferAndMulticall(uint64 amount, bool frontRun) public {
        amount = uint64(bound(amount, 1, 1000e6));
        IApprovalProxy.Permit[] memory permits = signPermit(userKey, user, amount, block.timestamp);
        if (frontRun) {
            IApprovalProxy.Permit memory p = permits[0];
            vm.prank(thief);
            usdc.permit(p.owner, address(proxy), p.value, p.deadline, p.v, p.r, p.s);
        }
        vm.prank(user);
        proxy.permitTransferAndMulticall(permits, depositCalls(address(usdc), amount), user, user, "");
        assertEq(usdc.balanceOf(address(depository)), amount);
        assertEq(usdc.allowance(user, address(proxy)), 0);
    }

    function test_a_bad_permit_without_an_approval_is_refused() public {
        IApprovalProxy.Permit[] memory permits = signPermit(userKey, user, 5e6, block.timestamp);
        permits[0].value = 6e6;
        vm.prank(user);
        vm.expectRevert(abi.encodeWithSelector(IApprovalProxy.PermitFailed.selector, address(usdc)));
        proxy.permitTransferAndMulticall(permits, depositCalls(address(usdc), 6e6), user, user, "");
    }

    function test_a_permit_seen_in_the_open_cannot_be_used_by_others() public {
        IApprovalProxy.Permit[] memory permits = signPermit(userKey, user, 5e6, block.timestamp);
        vm.startPrank(thief);
        vm.expectRevert(abi.encodeWithSelector(IApprovalProxy.NotPermitOwner.selector, user));
        proxy.permitTransferAndMulticall(permits, stealCalls(address(usdc)), thief, thief, "");
        permits[0].owner = thief;
        vm.expectRevert(abi.encodeWithSelector(IApprovalProxy.PermitFailed.selector, address(usdc)));
        proxy.permitTransferAndMulticall(permits, stealCalls(address(usdc)), thief, thief, "");
        vm.stopPrank();
    }

    // ---- Permit2 ----

    function test_the_published_witness_and_digest() public {
        Call3Value[] memory calls = Calls.one(
                0x9099Eb14ed3f3723CD8E6904d75cB644b19d4D98,
                0,
                hex"095ea7b3000000000000000000000000cff3ea62bc5a19158f9690603bfa25a02b2dce5a000000000000000000000000000000000000000000000000000000000ee6b280"
            )
            .then(
                0xcfF3EA62BC5A19158F9690603bFA25A02B2dCE5A,
                0,
                hex"e80179520000000000000000000000004a84e43a54cc2f8abb42afa12dd825212abd36d10000000000000000000000009099eb14ed3f3723cd8e6904d75cb644b19d4d98000000000000000000000000000000000000000000000000000000000ee6b2807f3117abfbad865d612ada25300c7379160a97f0f1950f0836cc325d36f9b8cb"
            );
        address publishedUser = 0x4A84e43A54cc2F8abb42afA12Dd825212abD36D1;
        bytes32 witness = proxy.witnessHash(
            0x1d74B5942d13e0D2645946CC4F2Aa71b8eDA940F, publishedUser, publishedUser, "", calls
        );
        assertEq(witness, 0xd9ba9d5a378f0a20cff430e6f01b61b84e6a2ff28f2b0bfb21aaf06ffecf4ebf);

        vm.chainId(8453);
        IPermit2.PermitBatchTransferFrom memory permit =
            permit2Of(0x9099Eb14ed3f3723CD8E6904d75cB644b19d4D98, 250_000_000, 0);
        permit.nonce = 101956708968129979882113013600064001259767922500495045937627299844819327096459;
        permit.deadline = 1_893_456_000;
        assertEq(
            permit2Digest(permit, 0x11107C3157f4e281D85d7010a4fEE074F2aAf088, witness),
            0x13be26dfa349e494ed4e6af73be96f24525b1c636329f7715c2969f83da15f00
        );
    }

    function test_typehashes_are_public() public pure {
        assertEq(
            keccak256(
                "RelayerWitness(address relayer,address refundTo,address nftRecipient,bytes metadata,Call3Value[] call3Values)Call3Value(address target,bool allowFailure,uint256 value,bytes callData)"
            ),
            WITNESS_TYPEHASH
        );
        assertEq(
            keccak256("Call3Value(address target,bool allowFailure,uint256 value,bytes callData)"),
            0xfd3926a097b5d365885a8c0afe16fa80ed4d377e8627017476dfe9729e8a6cde
        );
    }

    /// @dev The typed data as EIP-712 describes it, computed here once more.
    function testFuzz_the_witness_covers_every_member_of_every_call(
        Call3Value[] memory calls,
        address refundTo,
        address nftRecipient,
        bytes memory metadata
    ) public view {
        bytes32[] memory hashes = new bytes32[](calls.length);
        for (uint256 i = 0; i < calls.length; ++i) {
            hashes[i] = keccak256(
                abi.encode(
                    0xfd3926a097b5d365885a8c0afe16fa80ed4d377e8627017476dfe9729e8a6cde,
                    calls[i].target,
                    calls[i].allowFailure,
                    calls[i].value,
                    keccak256(calls[i].callData)
                )
            );
        }
        assertEq(
            proxy.witnessHash(relayer, refundTo, nftRecipient, metadata, calls),
            keccak256(
                abi.encode(
                    WITNESS_TYPEHASH,
                    relayer,
                    refundTo,
                    nftRecipient,
                    keccak256(metadata),
                    keccak256(abi.encodePacked(hashes))
                )
            )
        );
    }

    /// @dev Each member of a call changed in turn.
    function changedCalls(address currency, uint256 amount)
        internal
        view
        returns (Call3Value[][4] memory changed)
    {
        for (uint256 i = 0; i < changed.length; ++i) {
            changed[i] = plainDepositCalls(currency, amount);
        }
        changed[0][1].target = address(exchange);
        changed[1][1].allowFailure = true;
        changed[2][1].value = 1;
        changed[3][1].callData = "x";
    }

    function test_a_permit2_signature_covers_every_member_of_a_call() public {
        vm.prank(user);
        token.approve(permit2, type(uint256).max);
        IPermit2.PermitBatchTransferFrom memory permit = permit2Of(address(token), 5 ether, 1);
        bytes memory signature = signPermit2(permit, plainDepositCalls(address(token), 5 ether));
        Call3Value[][4] memory changed = changedCalls(address(token), 5 ether);
        vm.deal(relayer, 1 ether);
        for (uint256 i = 0; i < changed.length; ++i) {
            vm.prank(relayer);
            vm.expectRevert(bytes4(keccak256("InvalidSigner()")));
            proxy.permit2TransferAndMulticall{value: 1}(user, permit, changed[i], user, user, "", signature);
        }
    }

    function test_an_authorization_covers_every_member_of_a_call() public {
        IApprovalProxy.Permit3009[] memory permits = sign3009(5e6, plainDepositCalls(address(usdc), 5e6));
        Call3Value[][4] memory changed = changedCalls(address(usdc), 5e6);
        vm.deal(relayer, 1 ether);
        for (uint256 i = 0; i < changed.length; ++i) {
            vm.prank(relayer);
            vm.expectRevert(Usdc.InvalidSignature.selector);
            proxy.permit3009TransferAndMulticall{value: 1}(
                permits, Calls.list(address(usdc)), changed[i], user, user, ""
            );
        }
    }

    function testFuzz_permit2TransferAndMulticall(uint128 amount, uint256 nonce) public {
        amount = uint128(bound(amount, 1, 1000 ether));
        vm.prank(user);
        token.approve(permit2, type(uint256).max);
        IPermit2.PermitBatchTransferFrom memory permit = permit2Of(address(token), amount, nonce);
        Call3Value[] memory calls = depositCalls(address(token), amount);
        bytes memory signature = signPermit2(permit, calls);
        vm.startPrank(relayer);
        proxy.permit2TransferAndMulticall(user, permit, calls, user, user, "", signature);
        assertEq(token.balanceOf(address(depository)), amount);
        vm.expectRevert();
        proxy.permit2TransferAndMulticall(user, permit, calls, user, user, "", signature);
        vm.stopPrank();
    }

    function test_a_permit2_signature_covers_the_sender_and_everything_that_runs() public {
        vm.prank(user);
        token.approve(permit2, type(uint256).max);
        IPermit2.PermitBatchTransferFrom memory permit = permit2Of(address(token), 5 ether, 1);
        Call3Value[] memory calls = depositCalls(address(token), 5 ether);
        bytes memory signature = signPermit2(permit, calls);
        bytes4 invalid = bytes4(keccak256("InvalidSigner()"));

        vm.prank(thief);
        vm.expectRevert(invalid);
        proxy.permit2TransferAndMulticall(user, permit, calls, user, user, "", signature);
        vm.startPrank(relayer);
        vm.expectRevert(invalid);
        proxy.permit2TransferAndMulticall(user, permit, stealCalls(address(token)), user, user, "", signature);
        vm.expectRevert(invalid);
        proxy.permit2TransferAndMulticall(user, permit, calls, relayer, user, "", signature);
        vm.expectRevert(invalid);
        proxy.permit2TransferAndMulticall(user, permit, calls, user, relayer, "", signature);
        vm.expectRevert(invalid);
        proxy.permit2TransferAndMulticall(user, permit, calls, user, user, "x", signature);
        permit.permitted[0].amount = 6 ether;
        vm.expectRevert(invalid);
        proxy.permit2TransferAndMulticall(user, permit, calls, user, user, "", signature);
        permit.permitted[0].amount = 5 ether;
        proxy.permit2TransferAndMulticall(user, permit, calls, user, user, "", signature);
        vm.stopPrank();
    }

    function test_a_permit2_signature_names_the_proxy_as_spender() public {
        vm.prank(user);
        token.approve(permit2, type(uint256).max);
        ApprovalProxy twin = new ApprovalProxy(owner, address(router), permit2);
        IPermit2.PermitBatchTransferFrom memory permit = permit2Of(address(token), 5 ether, 1);
        Call3Value[] memory calls = depositCalls(address(token), 5 ether);
        bytes memory signature = signPermit2(permit, calls);
        vm.prank(relayer);
        vm.expectRevert(bytes4(keccak256("InvalidSigner()")));
        twin.permit2TransferAndMulticall(user, permit, calls, user, user, "", signature);
    }

    // ---- EIP-3009 ----

    function testFuzz_permit3009TransferAndMulticall(uint64 amount) public {
        amount = uint64(bound(amount, 1, 1000e6));
        Call3Value[] memory calls = depositCalls(address(usdc), amount);
        IApprovalProxy.Permit3009[] memory permits = sign3009(amount, calls);
        // A stray token in the proxy stays there.
        usdc.mint(address(proxy), 3);
        vm.startPrank(relayer);
        proxy.permit3009TransferAndMulticall(permits, Calls.list(address(usdc)), calls, user, user, "");
        assertEq(usdc.balanceOf(address(depository)), amount);
        assertEq(usdc.balanceOf(address(router)), 0);
        assertEq(usdc.balanceOf(address(proxy)), 3);
        vm.expectRevert(Usdc.AuthorizationAlreadyUsed.selector);
        proxy.permit3009TransferAndMulticall(permits, Calls.list(address(usdc)), calls, user, user, "");
        vm.stopPrank();
    }

    function test_an_authorization_covers_the_sender_and_everything_that_runs() public {
        Call3Value[] memory calls = depositCalls(address(usdc), 5e6);
        IApprovalProxy.Permit3009[] memory permits = sign3009(5e6, calls);
        address[] memory tokens = Calls.list(address(usdc));
        vm.prank(thief);
        vm.expectRevert(Usdc.InvalidSignature.selector);
        proxy.permit3009TransferAndMulticall(permits, tokens, calls, user, user, "");
        vm.startPrank(relayer);
        vm.expectRevert(Usdc.InvalidSignature.selector);
        proxy.permit3009TransferAndMulticall(permits, tokens, stealCalls(address(usdc)), user, user, "");
        vm.expectRevert(Usdc.InvalidSignature.selector);
        proxy.permit3009TransferAndMulticall(permits, tokens, calls, relayer, user, "");
        vm.expectRevert(Usdc.InvalidSignature.selector);
        proxy.permit3009TransferAndMulticall(permits, tokens, calls, user, relayer, "");
        vm.expectRevert(Usdc.InvalidSignature.selector);
        proxy.permit3009TransferAndMulticall(permits, tokens, calls, user, user, "x");
        vm.stopPrank();

        // Nobody but the proxy can present it to the token.
        IApprovalProxy.Permit3009 memory p = permits[0];
        bytes32 witness = proxy.witnessHash(relayer, user, user, "", calls);
        vm.prank(thief);
        vm.expectRevert(Usdc.CallerMustBePayee.selector);
        usdc.receiveWithAuthorization(
            p.from, address(proxy), p.value, p.validAfter, p.validBefore, witness, p.v, p.r, p.s
        );
        assertEq(usdc.balanceOf(user), 1000e6);
    }

    function test_a_contract_that_swallows_calls_hands_out_no_strays() public {
        Swallower swallower = new Swallower();
        swallower.mint(address(proxy), 10);
        IApprovalProxy.Permit3009[] memory permits = new IApprovalProxy.Permit3009[](1);
        permits[0].from = user;
        permits[0].value = 10;
        vm.prank(thief);
        vm.expectRevert(abi.encodeWithSelector(IApprovalProxy.NothingReceived.selector, address(swallower)));
        proxy.permit3009TransferAndMulticall(
            permits, Calls.list(address(swallower)), stealCalls(address(swallower)), thief, thief, ""
        );
    }
}
