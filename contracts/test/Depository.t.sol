// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {Vm} from "forge-std/Vm.sol";
import {Depository} from "../src/Depository.sol";
import {Usdt} from "../src/devnet/Usdt.sol";
import {IDepository} from "../src/interfaces/IDepository.sol";
import {IOwned} from "../src/interfaces/IOwned.sol";
import {FalseToken, FeeToken, HookToken, IdleToken, TestToken} from "./utils/HostileTokens.sol";
import {Depositor} from "./utils/DepositoryActors.sol";
import {FundedDepository} from "./utils/FundedDepository.sol";

contract DepositoryTest is FundedDepository {
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
}
