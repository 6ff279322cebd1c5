// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Vm} from "forge-std/Vm.sol";
import {Depository} from "../src/Depository.sol";
import {Usdt} from "../src/devnet/Usdt.sol";
import {IDepository} from "../src/interfaces/IDepository.sol";
import {IOwned} from "../src/interfaces/IOwned.sol";
import {DepositoryFixture} from "./utils/DepositoryFixture.sol";
import {FalseToken, FeeToken, HookToken, IdleToken, TestToken} from "./utils/HostileTokens.sol";

contract DepositoryTest is DepositoryFixture {
    TestToken internal token;

    function setUp() public override {
        super.setUp();
        token = new TestToken();
        vm.deal(user, 1000 ether);
        token.mint(user, 1000 ether);
        vm.prank(user);
        token.approve(address(depository), type(uint256).max);
    }

    function expectLog(bytes32 topic, bytes memory data) internal {
        Vm.Log[] memory logs = vm.getRecordedLogs();
        bool found;
        for (uint256 i = 0; i < logs.length; ++i) {
            if (logs[i].emitter != address(depository) || logs[i].topics[0] != topic) continue;
            assertEq(logs[i].topics.length, 1, "topics");
            assertEq(logs[i].data, data, "log data");
            found = true;
        }
        assertTrue(found, "log missing");
    }

    // ---- the public surface ----

    function test_selectors_are_public() public pure {
        assertEq(IDepository.depositNative.selector, bytes4(0x49290c1c));
        assertEq(bytes4(keccak256("depositErc20(address,address,uint256,bytes32)")), bytes4(0xe8017952));
        assertEq(bytes4(keccak256("depositErc20(address,address,bytes32)")), bytes4(0x5a1ee3ac));
        assertEq(IDepository.execute.selector, bytes4(0x2d9fb478));
        assertEq(IDepository.setAllocator.selector, bytes4(0xbf83f2a2));
        assertEq(IDepository.allocator.selector, bytes4(0xaa5dcecc));
        assertEq(IDepository.callRequests.selector, bytes4(0xd52bfcc8));
        assertEq(IOwned.owner.selector, bytes4(0x8da5cb5b));
    }

    function test_errors_are_public() public pure {
        assertEq(IOwned.AddressCannotBeZero.selector, bytes4(0xe622e040));
        assertEq(IDepository.CallRequestExpired.selector, bytes4(0x68b8a4da));
        assertEq(IDepository.InvalidSignature.selector, bytes4(0x8baa579f));
        assertEq(IDepository.CallRequestAlreadyUsed.selector, bytes4(0x49482b28));
        assertEq(IDepository.CallFailed.selector, bytes4(0xa5fa8d2b));
        assertEq(IOwned.Unauthorized.selector, bytes4(0x82b42900));
    }

    function test_the_published_deposit_calldata_is_understood() public {
        address depositor = 0x4A84e43A54cc2F8abb42afA12Dd825212abD36D1;
        bytes32 order = 0x7f3117abfbad865d612ada25300c7379160a97f0f1950f0836cc325d36f9b8cb;
        vm.recordLogs();
        (bool success,) = address(depository).call{value: 1000}(
            hex"49290c1c0000000000000000000000004a84e43a54cc2f8abb42afa12dd825212abd36d17f3117abfbad865d612ada25300c7379160a97f0f1950f0836cc325d36f9b8cb"
        );
        assertTrue(success);
        expectLog(NATIVE_TOPIC, abi.encode(depositor, 1000, order));
    }

    function test_the_published_request_hashes_and_executes() public {
        vm.chainId(8453);
        address at = 0xcfF3EA62BC5A19158F9690603bFA25A02B2dCE5A;
        deployCodeTo(
            "Depository.sol:Depository", abi.encode(owner, 0xb0932B029556Bee479C380EE51a7633A737524ea), at
        );
        depository = Depository(at);

        address published = 0x9099Eb14ed3f3723CD8E6904d75cB644b19d4D98;
        deployCodeTo("HostileTokens.sol:TestToken", published);
        TestToken(published).mint(at, 250_000_000);
        vm.deal(at, 0.1 ether);

        IDepository.Call[] memory calls = new IDepository.Call[](2);
        calls[0] = transfer(published, 0x4A84e43A54cc2F8abb42afA12Dd825212abD36D1, 250_000_000);
        calls[1] = native(0xAfDe0C87685F1E800457b929986Cd944E9D4A98c, 0.1 ether);
        calls[1].allowFailure = true;
        IDepository.CallRequest memory published_ = IDepository.CallRequest({
            calls: calls,
            nonce: 38915384846242836741402117988096754280966544408304891356156207388522298108196,
            expiration: 1_893_456_000
        });
        assertEq(
            abi.encode(published_),
            hex"00000000000000000000000000000000000000000000000000000000000000200000000000000000000000000000000000000000000000000000000000000060560953c847d02900e04a7896957e57f28a5432dbbfd26b12a1304bbf948269240000000000000000000000000000000000000000000000000000000070dbd8800000000000000000000000000000000000000000000000000000000000000002000000000000000000000000000000000000000000000000000000000000004000000000000000000000000000000000000000000000000000000000000001400000000000000000000000009099eb14ed3f3723cd8e6904d75cb644b19d4d980000000000000000000000000000000000000000000000000000000000000080000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000044a9059cbb0000000000000000000000004a84e43a54cc2f8abb42afa12dd825212abd36d1000000000000000000000000000000000000000000000000000000000ee6b28000000000000000000000000000000000000000000000000000000000000000000000000000000000afde0c87685f1e800457b929986cd944e9d4a98c0000000000000000000000000000000000000000000000000000000000000080000000000000000000000000000000000000000000000000016345785d8a000000000000000000000000000000000000000000000000000000000000000000010000000000000000000000000000000000000000000000000000000000000000"
        );
        (bytes32 structHash, bytes32 digest) = depository.hashCallRequest(published_);
        assertEq(structHash, 0x78a517784f7a546b99c3468ad49a441ccf31b1df227295ffebe0befc35069995);
        assertEq(digest, 0xfa29463e947d31735e37fb2d797a0dd6ed2862ed8c37709814abbf30a241fe4d);

        vm.recordLogs();
        depository.execute(
            published_,
            hex"e4273fe10412a3198c243194086b855d2e5c1a8781fc11fb75e8ff39e949fdf578b191247f0c73e0f65efd6f7e358d094a95f52bfa26d1053006ff9f38ed3c2d1c"
        );
        Vm.Log[] memory logs = vm.getRecordedLogs();
        assertEq(logs[1].topics[0], EXECUTED_TOPIC);
        assertEq(logs[1].data, abi.encode(structHash, calls[0]));
        assertEq(logs[2].data, abi.encode(structHash, calls[1]));
        assertTrue(depository.callRequests(structHash));
        assertEq(TestToken(published).balanceOf(0x4A84e43A54cc2F8abb42afA12Dd825212abD36D1), 250_000_000);
        assertEq(0xAfDe0C87685F1E800457b929986Cd944E9D4A98c.balance, 0.1 ether);
    }

    function test_the_domain_is_described() public view {
        (bytes1 fields, string memory name, string memory version, uint256 chainId, address at,,) =
            depository.eip712Domain();
        assertEq(fields, bytes1(0x0f));
        assertEq(name, "Depository");
        assertEq(version, "1");
        assertEq(chainId, block.chainid);
        assertEq(at, address(depository));
    }

    // ---- construction and roles ----

    function test_construction_refuses_zero_roles() public {
        vm.expectRevert(IOwned.AddressCannotBeZero.selector);
        new Depository(address(0), allocator);
        vm.expectRevert(IOwned.AddressCannotBeZero.selector);
        new Depository(owner, address(0));
    }

    function test_only_the_owner_governs() public {
        vm.startPrank(user);
        vm.expectRevert(IOwned.Unauthorized.selector);
        depository.setAllocator(user);
        vm.expectRevert(IOwned.Unauthorized.selector);
        depository.setGuardian(user);
        vm.expectRevert(IOwned.Unauthorized.selector);
        depository.setOutflowCap(address(0), 1, 1);
        vm.expectRevert(IOwned.Unauthorized.selector);
        depository.pauseExecution();
        vm.expectRevert(IOwned.Unauthorized.selector);
        depository.unpauseExecution();
        vm.expectRevert(IOwned.Unauthorized.selector);
        depository.transferOwnership(user);
        vm.stopPrank();
    }

    function test_the_allocator_cannot_be_zero() public {
        vm.prank(owner);
        vm.expectRevert(IOwned.AddressCannotBeZero.selector);
        depository.setAllocator(address(0));
    }

    function test_a_removed_guardian_leaves_no_way_in_for_the_zero_address() public {
        vm.prank(owner);
        depository.setGuardian(address(0));
        vm.prank(guardian);
        vm.expectRevert(IOwned.Unauthorized.selector);
        depository.pauseExecution();
    }

    // ---- deposits ----

    function testFuzz_depositNative(address depositor, bytes32 order, uint96 value) public {
        vm.deal(user, value);
        vm.recordLogs();
        vm.prank(user);
        depository.depositNative{value: value}(depositor, order);
        expectLog(NATIVE_TOPIC, abi.encode(depositor == address(0) ? user : depositor, value, order));
        assertEq(address(depository).balance, value);
    }

    function test_a_native_deposit_transaction_costs_at_most_26000_gas() public {
        address payer = 0x4A84e43A54cc2F8abb42afA12Dd825212abD36D1;
        bytes memory data = abi.encodeCall(IDepository.depositNative, (payer, bytes32(type(uint256).max)));
        vm.deal(payer, 1 ether);
        vm.prank(payer);
        (bool success,) = address(depository).call{value: 1 ether}(data);
        assertTrue(success);
        uint256 intrinsic = 21_000;
        for (uint256 i = 0; i < data.length; ++i) {
            intrinsic += data[i] == 0 ? 4 : 16;
        }
        uint256 total = intrinsic + vm.lastCallGas().gasTotalUsed;
        assertLe(total, 26_000);
    }

    function testFuzz_depositErc20(address depositor, bytes32 order, uint128 amount) public {
        vm.assume(amount != 0);
        token.mint(user, amount);
        vm.recordLogs();
        vm.prank(user);
        depository.depositErc20(depositor, address(token), amount, order);
        Vm.Log[] memory logs = vm.getRecordedLogs();
        assertEq(logs.length, 2);
        assertEq(logs[0].emitter, address(token), "the token's log comes first");
        assertEq(logs[1].emitter, address(depository));
        assertEq(logs[1].topics[0], ERC20_TOPIC);
        assertEq(
            logs[1].data,
            abi.encode(depositor == address(0) ? user : depositor, address(token), amount, order)
        );
        assertEq(token.balanceOf(address(depository)), amount);
    }

    function testFuzz_depositErc20_takes_the_whole_allowance(address depositor, bytes32 order, uint128 amount)
        public
    {
        vm.assume(amount != 0);
        token.mint(user, amount);
        vm.startPrank(user);
        token.approve(address(depository), amount);
        vm.recordLogs();
        depository.depositErc20(depositor, address(token), order);
        vm.stopPrank();
        expectLog(
            ERC20_TOPIC, abi.encode(depositor == address(0) ? user : depositor, address(token), amount, order)
        );
        assertEq(token.allowance(user, address(depository)), 0);
    }

    function testFuzz_a_fee_is_not_reported_as_received(uint128 amount) public {
        amount = uint128(bound(amount, 1, type(uint128).max));
        FeeToken fee = new FeeToken();
        fee.mint(user, amount);
        vm.startPrank(user);
        fee.approve(address(depository), amount);
        vm.recordLogs();
        depository.depositErc20(user, address(fee), amount, id);
        vm.stopPrank();
        expectLog(ERC20_TOPIC, abi.encode(user, address(fee), amount - amount / 10, id));
        assertEq(fee.balanceOf(address(depository)), amount - amount / 10);
    }

    function test_a_token_without_return_values_is_accepted() public {
        Usdt usdt = new Usdt(address(this));
        usdt.mint(user, 5e6);
        vm.startPrank(user);
        usdt.approve(address(depository), 5e6);
        depository.depositErc20(user, address(usdt), 5e6, id);
        vm.stopPrank();
        run(request(transfer(address(usdt), treasury, 5e6), 1));
        assertEq(usdt.balanceOf(treasury), 5e6);
    }

    function test_nothing_received_is_refused() public {
        vm.startPrank(user);
        vm.expectRevert(IDepository.NothingReceived.selector);
        depository.depositErc20(user, address(token), 0, id);
        token.approve(address(depository), 0);
        vm.expectRevert(IDepository.NothingReceived.selector);
        depository.depositErc20(user, address(token), id);
        IdleToken idle = new IdleToken();
        vm.expectRevert(IDepository.NothingReceived.selector);
        depository.depositErc20(user, address(idle), 1 ether, id);
        FalseToken no = new FalseToken();
        vm.expectRevert();
        depository.depositErc20(user, address(no), 1 ether, id);
        vm.expectRevert();
        depository.depositErc20(user, makeAddr("no code"), 1 ether, id);
        vm.stopPrank();
    }

    function test_the_payer_is_the_caller_not_the_depositor() public {
        vm.prank(treasury);
        vm.expectRevert();
        depository.depositErc20(user, address(token), 1 ether, id);
        assertEq(token.balanceOf(user), 1000 ether);
    }

    function test_bare_native_transfers_are_refused() public {
        vm.startPrank(user);
        (bool success,) = address(depository).call{value: 1}("");
        assertFalse(success);
        (success,) = address(depository).call{value: 1}(abi.encode(id));
        assertFalse(success);
        vm.stopPrank();
    }

    function test_trailing_bytes_are_ignored() public {
        vm.prank(user);
        (bool success,) = address(depository).call{value: 1}(
            abi.encodePacked(abi.encodeCall(IDepository.depositNative, (user, id)), id)
        );
        assertTrue(success);
        IDepository.CallRequest memory callRequest = request(native(treasury, 1), 1);
        (success,) = address(depository)
            .call(abi.encodePacked(abi.encodeCall(IDepository.execute, (callRequest, sign(callRequest))), id));
        assertTrue(success);
    }

    function testFuzz_a_nested_deposit_is_not_counted_twice(bool afterMove) public {
        HookToken hook = new HookToken();
        Depositor inner = new Depositor(depository, hook);
        hook.mint(user, 10);
        hook.mint(address(inner), 100);
        hook.arm(address(inner), abi.encodeCall(Depositor.deposit, (100)), afterMove);
        vm.startPrank(user);
        hook.approve(address(depository), 10);
        vm.recordLogs();
        depository.depositErc20(user, address(hook), 10, id);
        vm.stopPrank();
        assertFalse(hook.lastSuccess());
        assertEq(hook.lastReturn(), abi.encodePacked(IDepository.DepositInProgress.selector));
        expectLog(ERC20_TOPIC, abi.encode(user, address(hook), 10, id));
        assertEq(hook.balanceOf(address(depository)), 10);
    }

    function test_money_sent_in_during_a_deposit_is_not_part_of_it() public {
        HookToken hook = new HookToken();
        Depositor inner = new Depositor(depository, hook);
        hook.mint(user, 10);
        hook.mint(address(inner), 100);
        hook.arm(address(inner), abi.encodeCall(Depositor.send, (100)), true);
        vm.startPrank(user);
        hook.approve(address(depository), 10);
        vm.recordLogs();
        depository.depositErc20(user, address(hook), 10, id);
        vm.stopPrank();
        expectLog(ERC20_TOPIC, abi.encode(user, address(hook), 10, id));
        assertEq(hook.balanceOf(address(depository)), 110);
    }

    function test_execution_inside_a_deposit_is_refused() public {
        HookToken hook = new HookToken();
        hook.mint(address(depository), 50);
        hook.mint(user, 10);
        IDepository.CallRequest memory callRequest = request(transfer(address(hook), treasury, 50), 1);
        hook.arm(
            address(depository), abi.encodeCall(IDepository.execute, (callRequest, sign(callRequest))), true
        );
        vm.startPrank(user);
        hook.approve(address(depository), 10);
        depository.depositErc20(user, address(hook), 10, id);
        vm.stopPrank();
        assertEq(hook.lastReturn(), abi.encodePacked(IDepository.DepositInProgress.selector));
        assertEq(hook.balanceOf(address(depository)), 60);
        run(callRequest);
        assertEq(hook.balanceOf(treasury), 50);
    }

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
}

contract Depositor {
    Depository private immutable depository;
    HookToken private immutable token;

    constructor(Depository depository_, HookToken token_) {
        (depository, token) = (depository_, token_);
        token_.approve(address(depository_), type(uint256).max);
    }

    function deposit(uint256 amount) external {
        depository.depositErc20(address(this), address(token), amount, "inner");
    }

    function send(uint256 amount) external {
        token.transfer(address(depository), amount);
    }
}

contract Reenterer {
    Depository private immutable depository;
    bytes private data;
    uint256 private value;
    bytes public lastReturn;

    constructor(Depository depository_) {
        depository = depository_;
    }

    function arm(bytes calldata data_) external {
        data = data_;
    }

    function sendBack(uint256 value_) external {
        value = value_;
    }

    receive() external payable {
        (, lastReturn) = address(depository).call{value: value}(data);
    }
}

contract ContractSigner {
    mapping(bytes32 digest => bool) private allowed;

    function allow(bytes32 digest) external {
        allowed[digest] = true;
    }

    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4) {
        bool valid = allowed[digest] && keccak256(signature) == keccak256("yes");
        return valid ? bytes4(0x1626ba7e) : bytes4(0xffffffff);
    }
}
