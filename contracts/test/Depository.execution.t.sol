// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {Depository} from "../src/Depository.sol";
import {IDepository} from "../src/interfaces/IDepository.sol";
import {IOwned} from "../src/interfaces/IOwned.sol";
import {DeepToken, FalseToken, GreedyToken, HookToken} from "./utils/HostileTokens.sol";
import {Depositor, Reenterer, ContractSigner} from "./utils/DepositoryActors.sol";
import {FundedDepository} from "./utils/FundedDepository.sol";

contract DepositoryExecutionTest is FundedDepository {
    // ---- execution ----

    function testFuzz_execute_pays_native(address payable to, uint96 amount, uint256 nonce) public {
        vm.assume(to.code.length == 0 && uint160(address(to)) > 0xffff && address(to) != address(vm));
        vm.deal(address(depository), amount);
        uint256 before = to.balance;
        IDepository.CallRequest memory callRequest = request(native(to, amount), nonce);
        (bytes32 structHash,) = depository.hashCallRequest(callRequest);
        vm.recordLogs();
        IDepository.CallResult[] memory results = depository.execute(callRequest, sign(callRequest));
        expectLog(EXECUTED_TOPIC, abi.encode(structHash, callRequest.calls[0]));
        assertEq(results.length, 1);
        assertTrue(results[0].success);
        assertEq(to.balance - before, amount);
        assertTrue(depository.callRequests(structHash));
        assertTrue(depository.usedNonces(nonce));
    }

    function testFuzz_execute_pays_tokens(address to, uint128 amount, uint256 nonce) public {
        vm.assume(to != address(0) && to != address(depository));
        token.mint(address(depository), amount);
        uint256 before = token.balanceOf(to);
        run(request(transfer(address(token), to, amount), nonce));
        assertEq(token.balanceOf(to) - before, amount);
    }

    function test_a_request_executes_once() public {
        vm.deal(address(depository), 2 ether);
        IDepository.CallRequest memory callRequest = request(native(treasury, 1 ether), 1);
        bytes memory signature = sign(callRequest);
        depository.execute(callRequest, signature);
        vm.expectRevert(IDepository.CallRequestAlreadyUsed.selector);
        depository.execute(callRequest, signature);
        assertEq(treasury.balance, 1 ether);
    }

    function test_signing_again_with_a_later_expiration_does_not_pay_again() public {
        vm.deal(address(depository), 2 ether);
        IDepository.CallRequest memory callRequest = request(native(treasury, 1 ether), 7);
        run(callRequest);
        callRequest.expiration += 1 days;
        bytes memory signature = sign(callRequest);
        vm.expectRevert(abi.encodeWithSelector(IDepository.NonceAlreadyUsed.selector, 7));
        depository.execute(callRequest, signature);
        assertEq(treasury.balance, 1 ether);
    }

    function testFuzz_expiration_is_inclusive(uint32 early, uint32 late) public {
        vm.deal(address(depository), 2 ether);
        IDepository.CallRequest memory callRequest = request(native(treasury, 1), 1);
        bytes memory signature = sign(callRequest);
        vm.warp(callRequest.expiration + 1 + late);
        vm.expectRevert(IDepository.CallRequestExpired.selector);
        depository.execute(callRequest, signature);
        vm.warp(callRequest.expiration - bound(early, 0, 30 minutes));
        depository.execute(callRequest, signature);
    }

    function test_execution_at_the_very_expiration_passes() public {
        vm.deal(address(depository), 1);
        IDepository.CallRequest memory callRequest = request(native(treasury, 1), 1);
        bytes memory signature = sign(callRequest);
        vm.warp(callRequest.expiration);
        depository.execute(callRequest, signature);
    }

    function test_a_compact_signature_is_accepted() public {
        vm.deal(address(depository), 1 ether);
        IDepository.CallRequest memory callRequest = request(native(treasury, 1 ether), 1);
        (, bytes32 digest) = depository.hashCallRequest(callRequest);
        (bytes32 r, bytes32 vs) = vm.signCompact(allocatorKey, digest);
        depository.execute(callRequest, abi.encodePacked(r, vs));
        assertEq(treasury.balance, 1 ether);
    }

    function test_malleable_signatures_are_refused() public {
        vm.deal(address(depository), 1 ether);
        IDepository.CallRequest memory callRequest = request(native(treasury, 1 ether), 1);
        (, bytes32 digest) = depository.hashCallRequest(callRequest);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(allocatorKey, digest);
        bytes32 high =
            bytes32(0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141 - uint256(s));
        uint8 flipped = v == 27 ? 28 : 27;
        assertEq(ecrecover(digest, flipped, r, high), allocator, "the twin is a valid curve signature");

        bytes[7] memory bad = [
            abi.encodePacked(r, high, flipped),
            abi.encodePacked(r, s, v - 27),
            abi.encodePacked(r, s, flipped),
            abi.encodePacked(r, s, v, uint8(0)),
            abi.encodePacked(r, s, uint8(0)),
            abi.encodePacked(r),
            bytes("")
        ];
        for (uint256 i = 0; i < bad.length; ++i) {
            vm.expectRevert(IDepository.InvalidSignature.selector);
            depository.execute(callRequest, bad[i]);
        }
    }

    function testFuzz_nobody_else_can_sign(uint256 key) public {
        key = bound(key, 1, 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364140);
        vm.assume(key != allocatorKey);
        IDepository.CallRequest memory callRequest = request(native(treasury, 0), 1);
        bytes memory signature = signAs(key, callRequest);
        vm.expectRevert(IDepository.InvalidSignature.selector);
        depository.execute(callRequest, signature);
    }

    function testFuzz_a_signature_covers_every_field(uint256 field, uint256 change) public {
        IDepository.CallRequest memory callRequest = request(native(treasury, 5), 1);
        bytes memory signature = sign(callRequest);
        change = bound(change, 1, 1e18);
        field = bound(field, 0, 5);
        if (field == 0) callRequest.nonce += change;
        else if (field == 1) callRequest.expiration += change;
        else if (field == 2) callRequest.calls[0].value += change;
        else if (field == 3) callRequest.calls[0].to = address(uint160(change));
        else if (field == 4) callRequest.calls[0].allowFailure = true;
        else callRequest.calls[0].data = abi.encode(change);
        vm.expectRevert(IDepository.InvalidSignature.selector);
        depository.execute(callRequest, signature);
    }

    function test_a_signature_is_for_one_chain_and_one_contract() public {
        IDepository.CallRequest memory callRequest = request(native(treasury, 0), 1);
        bytes memory signature = sign(callRequest);
        Depository twin = new Depository(owner, allocator);
        vm.expectRevert(IDepository.InvalidSignature.selector);
        twin.execute(callRequest, signature);
        vm.chainId(999);
        vm.expectRevert(IDepository.InvalidSignature.selector);
        depository.execute(callRequest, signature);
    }

    function test_replacing_the_allocator_voids_its_signatures() public {
        IDepository.CallRequest memory callRequest = request(native(treasury, 0), 1);
        bytes memory signature = sign(callRequest);
        vm.prank(owner);
        depository.setAllocator(makeAddr("next"));
        vm.expectRevert(IDepository.InvalidSignature.selector);
        depository.execute(callRequest, signature);
    }

    function test_a_contract_allocator_signs_by_erc1271() public {
        ContractSigner signer = new ContractSigner();
        vm.prank(owner);
        depository.setAllocator(address(signer));
        vm.deal(address(depository), 1 ether);
        IDepository.CallRequest memory callRequest = request(native(treasury, 1 ether), 1);
        (, bytes32 digest) = depository.hashCallRequest(callRequest);

        vm.expectRevert(IDepository.InvalidSignature.selector);
        depository.execute(callRequest, "yes");
        signer.allow(digest);
        vm.expectRevert(IDepository.InvalidSignature.selector);
        depository.execute(callRequest, "no");
        depository.execute(callRequest, "yes");
        assertEq(treasury.balance, 1 ether);
    }

    function test_an_allocator_contract_without_erc1271_signs_nothing() public {
        vm.prank(owner);
        depository.setAllocator(address(token));
        IDepository.CallRequest memory callRequest = request(native(treasury, 0), 1);
        bytes memory signature = sign(callRequest);
        vm.expectRevert(IDepository.InvalidSignature.selector);
        depository.execute(callRequest, signature);
    }

    function test_a_key_that_delegates_to_code_can_still_sign() public {
        vm.etch(allocator, abi.encodePacked(hex"ef0100", address(token)));
        run(request(native(treasury, 0), 1));
    }

    function test_a_required_failure_reverts_all_and_keeps_the_nonce() public {
        vm.deal(address(depository), 1 ether);
        IDepository.CallRequest memory callRequest =
            request(native(treasury, 1 ether), native(treasury, 1 ether), 1);
        bytes memory signature = sign(callRequest);
        vm.expectRevert(abi.encodeWithSelector(IDepository.CallFailed.selector, bytes("")));
        depository.execute(callRequest, signature);
        assertFalse(depository.usedNonces(1));
        vm.deal(address(depository), 2 ether);
        depository.execute(callRequest, signature);
        assertEq(treasury.balance, 2 ether);
    }

    function test_an_allowed_failure_is_reported_and_not_logged() public {
        vm.deal(address(depository), 1 ether);
        IDepository.Call memory failing = transfer(address(token), treasury, 1);
        failing.allowFailure = true;
        IDepository.CallRequest memory callRequest = request(failing, native(treasury, 1 ether), 1);
        bytes memory signature = sign(callRequest);
        vm.recordLogs();
        IDepository.CallResult[] memory results = depository.execute(callRequest, signature);
        assertFalse(results[0].success);
        assertTrue(results[1].success);
        assertEq(vm.getRecordedLogs().length, 1);
        assertEq(treasury.balance, 1 ether);
    }

    /// @dev Whoever submits the request chooses the gas. The nonce is used if the payment is made, and only then.
    function test_too_little_gas_does_not_use_the_nonce_of_a_payment_that_may_fail() public {
        DeepToken deep = new DeepToken();
        deep.mint(address(depository), 1);
        deep.mint(treasury, 1);
        IDepository.Call memory call = transfer(address(deep), treasury, 1);
        call.allowFailure = true;
        IDepository.CallRequest memory callRequest = request(call, 1);
        bytes memory data = abi.encodeCall(IDepository.execute, (callRequest, sign(callRequest)));
        uint256 state = vm.snapshotState();
        uint256 executed;
        for (uint256 given = 60_000; given < 600_000; given += 2_000) {
            vm.revertToState(state);
            (bool success,) = address(depository).call{gas: given}(data);
            assertEq(depository.usedNonces(1), success);
            assertEq(deep.balanceOf(treasury), success ? 2 : 1, "a nonce without its payment");
            if (success) ++executed;
        }
        assertGt(executed, 0);
    }

    function test_a_call_that_uses_all_gas_keeps_the_nonce() public {
        GreedyToken greedy = new GreedyToken();
        IDepository.Call memory call = transfer(address(greedy), treasury, 1);
        call.allowFailure = true;
        IDepository.CallRequest memory callRequest = request(call, 1);
        bytes memory signature = sign(callRequest);
        vm.expectRevert(abi.encodeWithSelector(IDepository.CallStarved.selector, 0));
        depository.execute{gas: 10_000_000}(callRequest, signature);
        assertFalse(depository.usedNonces(1));
    }

    function test_a_payment_the_token_denies_keeps_the_nonce() public {
        FalseToken no = new FalseToken();
        no.mint(address(depository), 1);
        IDepository.CallRequest memory callRequest = request(transfer(address(no), treasury, 1), 1);
        bytes memory signature = sign(callRequest);
        vm.expectRevert(abi.encodeWithSelector(IDepository.CallFailed.selector, abi.encode(false)));
        depository.execute(callRequest, signature);
        assertFalse(depository.usedNonces(1));
    }

    function test_a_payment_of_a_token_without_code_keeps_the_nonce() public {
        IDepository.CallRequest memory callRequest = request(transfer(makeAddr("gone"), treasury, 1), 1);
        bytes memory signature = sign(callRequest);
        vm.expectRevert(abi.encodeWithSelector(IDepository.CallFailed.selector, bytes("")));
        depository.execute(callRequest, signature);
        assertFalse(depository.usedNonces(1));
    }

    function test_the_depository_never_calls_or_pays_itself() public {
        vm.deal(address(depository), 1 ether);
        token.mint(address(depository), 1 ether);
        IDepository.Call memory forged = IDepository.Call({
            to: address(depository),
            data: abi.encodeCall(IDepository.depositNative, (user, id)),
            value: 1 ether,
            allowFailure: true
        });
        IDepository.CallRequest memory callRequest = request(forged, 1);
        bytes memory signature = sign(callRequest);
        vm.expectRevert(IDepository.SelfCall.selector);
        depository.execute(callRequest, signature);

        callRequest = request(transfer(address(token), address(depository), 1 ether), 1);
        signature = sign(callRequest);
        vm.expectRevert(IDepository.SelfCall.selector);
        depository.execute(callRequest, signature);
    }

    function test_a_reentrant_recipient_gains_nothing() public {
        vm.deal(address(depository), 3 ether);
        Reenterer thief = new Reenterer(depository);
        IDepository.CallRequest memory callRequest = request(native(address(thief), 1 ether), 1);
        thief.arm(abi.encodeCall(IDepository.execute, (callRequest, sign(callRequest))));
        run(callRequest);
        assertEq(thief.lastReturn(), abi.encodePacked(IDepository.CallRequestAlreadyUsed.selector));
        assertEq(address(thief).balance, 1 ether);
        assertEq(address(depository).balance, 2 ether);
    }

    function test_a_recipient_may_deposit_again_at_once() public {
        vm.deal(address(depository), 1 ether);
        Reenterer back = new Reenterer(depository);
        back.arm(abi.encodeCall(IDepository.depositNative, (user, id)));
        back.sendBack(1 ether);
        vm.recordLogs();
        run(request(native(address(back), 1 ether), 1));
        expectLog(NATIVE_TOPIC, abi.encode(user, 1 ether, id));
        assertEq(address(depository).balance, 1 ether);
    }

    function testFuzz_a_reentrant_token_gains_nothing(bool afterMove) public {
        HookToken hook = new HookToken();
        hook.mint(address(depository), 100);
        IDepository.CallRequest memory callRequest = request(transfer(address(hook), treasury, 40), 1);
        bytes memory signature = sign(callRequest);
        hook.arm(
            address(depository), abi.encodeCall(IDepository.execute, (callRequest, signature)), afterMove
        );
        depository.execute(callRequest, signature);
        assertEq(hook.lastReturn(), abi.encodePacked(IDepository.CallRequestAlreadyUsed.selector));
        assertEq(hook.balanceOf(treasury), 40);
        assertEq(hook.balanceOf(address(depository)), 60);
    }

    function testFuzz_a_deposit_during_a_payout_is_measured_on_its_own(bool afterMove) public {
        HookToken hook = new HookToken();
        Depositor inner = new Depositor(depository, hook);
        hook.mint(address(depository), 100);
        hook.mint(address(inner), 7);
        hook.arm(address(inner), abi.encodeCall(Depositor.deposit, (7)), afterMove);
        vm.recordLogs();
        run(request(transfer(address(hook), treasury, 40), 1));
        assertTrue(hook.lastSuccess());
        expectLog(ERC20_TOPIC, abi.encode(address(inner), address(hook), 7, bytes32("inner")));
        assertEq(hook.balanceOf(address(depository)), 67);
    }

    function test_an_empty_request_uses_its_nonce() public {
        IDepository.CallRequest memory callRequest = IDepository.CallRequest({
            calls: new IDepository.Call[](0), nonce: 9, expiration: block.timestamp
        });
        run(callRequest);
        assertTrue(depository.usedNonces(9));
    }

    // ---- pause ----

    function test_the_guardian_stops_execution_and_the_owner_resumes_it() public {
        vm.deal(address(depository), 1 ether);
        IDepository.CallRequest memory callRequest = request(native(treasury, 1 ether), 1);
        bytes memory signature = sign(callRequest);
        vm.prank(guardian);
        depository.pauseExecution();
        vm.expectRevert(IDepository.ExecutionIsPaused.selector);
        depository.execute(callRequest, signature);

        vm.prank(user);
        depository.depositNative{value: 1}(user, id);

        vm.prank(guardian);
        vm.expectRevert(IOwned.Unauthorized.selector);
        depository.unpauseExecution();
        vm.prank(owner);
        depository.unpauseExecution();
        depository.execute(callRequest, signature);
    }

    function test_the_owner_may_stop_execution_too() public {
        vm.prank(owner);
        depository.pauseExecution();
        assertTrue(depository.executionPaused());
    }
}
