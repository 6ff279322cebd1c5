// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {CommonBase} from "forge-std/Base.sol";
import {StdUtils} from "forge-std/StdUtils.sol";
import {Vm} from "forge-std/Vm.sol";
import {Depository} from "../src/Depository.sol";
import {IDepository} from "../src/interfaces/IDepository.sol";
import {Depositor} from "./utils/DepositoryActors.sol";
import {DepositoryFixture} from "./utils/DepositoryFixture.sol";
import {FeeToken, HookToken, TestToken} from "./utils/HostileTokens.sol";
import {OutflowModel} from "./utils/OutflowModel.sol";

/// @notice Deposits, pays out, replays, pauses, caps and replaces the allocator in any order, and keeps its own
/// totals beside the depository's. Deposits are read from the depository's logs, because that is all the indexer
/// has. Strangers send tokens and force native value in, use allowances that were signed, and one token deposits
/// again while it moves.
contract DepositoryHandler is CommonBase, StdUtils {
    bytes32 private constant NATIVE_TOPIC =
        0x8032066556caf3967d8fec4ad22a2d9e1e9576556b2903a0fcd5b1fd201e3477;
    bytes32 private constant ERC20_TOPIC = 0x49fed1d0b752ce30eee63c7a81133f3363b532fec5d4d7dd1ccfd005de4555e1;

    address private constant SPENDER = address(0xbeef);

    Depository public immutable depository;
    Depositor private immutable depositor;
    TestToken[3] public tokens;
    uint256[3] private keys;
    uint256 private current;
    address private immutable depositoryOwner;

    /// @dev Keyed by token, zero for native.
    mapping(address token => uint256) public deposited;
    mapping(address token => uint256) public donated;
    mapping(address token => uint256) public paid;
    mapping(address token => uint256) public taken;
    mapping(address token => OutflowModel) public models;
    mapping(uint256 nonce => uint256) public timesExecuted;
    mapping(bytes32 structHash => uint256) public timesHashExecuted;
    uint256[] public nonces;
    bytes32[] public hashes;
    uint256 public doublePayments;
    uint256 public pausedPayments;
    uint256 public forgedPayments;
    uint256 public unpaidNonces;
    uint256 public paymentsOverCap;
    uint256 public callsAroundCaps;

    /// @dev Encoded requests: the compiler cannot copy the structs themselves into storage.
    bytes[] private signed;
    bytes[] private signatures;
    uint256[] private signers;

    constructor(Depository depository_, uint256 allocatorKey, address owner_) {
        depository = depository_;
        depositoryOwner = owner_;
        keys = [allocatorKey, allocatorKey + 1, allocatorKey + 2];
        HookToken hook = new HookToken();
        tokens = [new TestToken(), TestToken(new FeeToken()), TestToken(hook)];
        depositor = new Depositor(depository_, hook);
        models[address(0)] = new OutflowModel();
        for (uint256 i = 0; i < 3; ++i) {
            models[address(tokens[i])] = new OutflowModel();
        }
    }

    // ---- money in ----

    function depositNative(uint96 value, address by) external {
        vm.deal(address(this), value);
        vm.recordLogs();
        depository.depositNative{value: value}(by, bytes32(uint256(value)));
        countDeposits();
    }

    /// @dev The hook token calls out while its deposit is measured: a second deposit within it is refused.
    function depositErc20(uint256 which, uint96 amount, bool wholeAllowance, uint8 hook) external {
        TestToken token = tokens[which % 3];
        amount = uint96(bound(amount, 1, type(uint96).max));
        token.mint(address(this), amount);
        token.approve(address(depository), amount);
        armHook(hook);
        vm.recordLogs();
        if (wholeAllowance) depository.depositErc20(address(0), address(token), "id");
        else depository.depositErc20(address(0), address(token), amount, "id");
        countDeposits();
        disarmHook();
    }

    function donateTokens(uint256 which, uint96 amount) external {
        TestToken token = tokens[which % 3];
        uint256 before = token.balanceOf(address(depository));
        token.mint(address(this), amount);
        token.transfer(address(depository), amount);
        donated[address(token)] += token.balanceOf(address(depository)) - before;
    }

    /// @dev A block's reward, or the end of a contract, pays without a call.
    function forceNative(uint96 value) external {
        vm.deal(address(depository), address(depository).balance + value);
        donated[address(0)] += value;
    }

    // ---- money out ----

    /// @dev Few nonces, so that different requests often share one. The signer may be a former allocator. Half of
    /// the payments take all that the cap leaves.
    function pay(uint256 which, uint256 amount, uint256 nonce, uint256 life, uint8 key, bool mayFail)
        external
    {
        which %= 4;
        nonce %= 64;
        address token = which == 0 ? address(0) : address(tokens[which - 1]);
        address recipient = address(uint160(0xbeef00 + nonce));
        IDepository.Call memory call;
        call.allowFailure = mayFail && key % 2 == 0;
        amount = bound(amount, 0, held(token));
        if (key > 127) (,, amount) = depository.outflowCap(token);
        if (amount > held(token)) amount = held(token);
        if (which == 0) {
            (call.to, call.value) = (recipient, amount);
        } else {
            (call.to, call.data) = (token, abi.encodeCall(TestToken(token).transfer, (recipient, amount)));
        }
        sign(call, nonce, life, key % 4 == 3 ? (current + 1) % 3 : current);
        submit(signed.length - 1, gasleft(), key);
    }

    /// @dev Anything but a payment goes around a cap.
    function approve(uint256 which, uint256 amount, uint256 nonce) external {
        IDepository.Call memory call;
        TestToken token = tokens[which % 3];
        (call.to, call.data) = (address(token), abi.encodeCall(token.approve, (SPENDER, amount)));
        sign(call, 1000 + nonce % 64, 1 hours, current);
        submit(signed.length - 1, gasleft(), 0);
    }

    /// @dev An allowance that was signed while nothing was capped outlives the caps that come later.
    function useAllowance(uint256 which, uint256 amount) external {
        TestToken token = tokens[which % 3];
        uint256 allowed = token.allowance(address(depository), SPENDER);
        if (allowed > held(address(token))) allowed = held(address(token));
        amount = bound(amount, 0, allowed);
        vm.prank(SPENDER);
        token.transferFrom(address(depository), SPENDER, amount);
        taken[address(token)] += amount;
    }

    /// @dev Anyone submits, with as much gas as they like.
    function replay(uint256 index, uint256 given, uint8 hook) external {
        if (signed.length == 0) return;
        given = given % 2 == 0 ? gasleft() : bound(given, 30_000, 300_000);
        submit(index % signed.length, given, hook);
    }

    // ---- time and governance ----

    function wait(uint32 time) external {
        vm.warp(block.timestamp + (time % 2 hours));
    }

    /// @dev Pauses seldom and resumes soon, so that most payouts can execute.
    function togglePause(uint8 seed) external {
        bool paused = depository.executionPaused();
        if (!paused && seed % 4 != 0) return;
        vm.prank(depositoryOwner);
        if (paused) depository.unpauseExecution();
        else depository.pauseExecution();
    }

    /// @dev Caps are changed more often than they are removed.
    function setCap(uint256 which, uint96 amount, uint32 window, uint8 seed) external {
        address token = which % 4 == 0 ? address(0) : address(tokens[which % 4 - 1]);
        window = seed % 4 == 0 ? 0 : uint32(bound(window, 1, 1 days));
        if (window == 0) amount = 0;
        vm.prank(depositoryOwner);
        depository.setOutflowCap(token, amount, window);
        models[token].set(amount, window);
    }

    function replaceAllocator(uint8 which) external {
        current = which % 3;
        vm.prank(depositoryOwner);
        depository.setAllocator(vm.addr(keys[current]));
    }

    function count() external view returns (uint256, uint256) {
        return (nonces.length, hashes.length);
    }

    // ---- inside ----

    function sign(IDepository.Call memory call, uint256 nonce, uint256 life, uint256 signer) private {
        IDepository.CallRequest memory request;
        request.calls = new IDepository.Call[](1);
        request.calls[0] = call;
        request.nonce = nonce;
        request.expiration = block.timestamp + (life % 1 days);
        (, bytes32 digest) = depository.hashCallRequest(request);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(keys[signer], digest);
        signed.push(abi.encode(request));
        signatures.push(abi.encodePacked(r, s, v));
        signers.push(signer);
    }

    function submit(uint256 index, uint256 given, uint8 hook) private {
        IDepository.CallRequest memory request = abi.decode(signed[index], (IDepository.CallRequest));
        (address token, uint256 amount) = payment(request.calls[0]);
        bool paused = depository.executionPaused();
        bool covered = amount <= held(token);
        armHook(hook);
        vm.recordLogs();
        (bool success, bytes memory answer) = address(depository).call{gas: given}(
            abi.encodeCall(IDepository.execute, (request, signatures[index]))
        );
        countDeposits();
        disarmHook();
        if (!success) return;
        if (paused) ++pausedPayments;
        if (signers[index] != current) ++forgedPayments;
        countUse(request);
        bool isPaid = abi.decode(answer, (IDepository.CallResult[]))[0].success;
        if (!isPaid && covered) ++unpaidNonces;
        if (!isPayment(request.calls[0])) {
            if (depository.cappedTokens() != 0) ++callsAroundCaps;
        } else if (isPaid) {
            paid[token] += amount;
            countAgainstCap(token, amount);
        }
    }

    function countUse(IDepository.CallRequest memory request) private {
        (bytes32 structHash,) = depository.hashCallRequest(request);
        if (++timesExecuted[request.nonce] > 1) ++doublePayments;
        if (++timesHashExecuted[structHash] > 1) ++doublePayments;
        nonces.push(request.nonce);
        hashes.push(structHash);
    }

    function countAgainstCap(address token, uint256 amount) private {
        (, uint256 most) = models[token].available();
        if (amount > most) ++paymentsOverCap;
        models[token].pay(amount);
    }

    function held(address token) private view returns (uint256) {
        return
            token == address(0)
                ? address(depository).balance
                : TestToken(token).balanceOf(address(depository));
    }

    function isPayment(IDepository.Call memory call) private pure returns (bool) {
        return call.data.length == 0 || bytes4(call.data) == IERC20.transfer.selector;
    }

    function payment(IDepository.Call memory call) private pure returns (address token, uint256 amount) {
        if (call.data.length == 0) return (address(0), call.value);
        if (!isPayment(call)) return (call.to, 0);
        bytes memory data = call.data;
        assembly ("memory-safe") {
            amount := mload(add(data, 0x44))
        }
        return (call.to, amount);
    }

    /// @dev The next transfer of the hook token makes a deposit of its own, before or after it moves.
    function armHook(uint8 hook) private {
        if (hook % 3 == 0) return;
        tokens[2].mint(address(depositor), hook);
        bytes memory deposit = abi.encodeCall(Depositor.deposit, (hook));
        HookToken(address(tokens[2])).arm(address(depositor), deposit, hook % 3 == 1);
    }

    function disarmHook() private {
        HookToken(address(tokens[2])).arm(address(0), "", false);
    }

    function countDeposits() private {
        Vm.Log[] memory logs = vm.getRecordedLogs();
        for (uint256 i = 0; i < logs.length; ++i) {
            if (logs[i].emitter != address(depository)) continue;
            if (logs[i].topics[0] == NATIVE_TOPIC) {
                (, uint256 amount,) = abi.decode(logs[i].data, (address, uint256, bytes32));
                deposited[address(0)] += amount;
            } else if (logs[i].topics[0] == ERC20_TOPIC) {
                (, address token, uint256 amount,) =
                    abi.decode(logs[i].data, (address, address, uint256, bytes32));
                deposited[token] += amount;
            }
        }
    }
}

contract DepositoryInvariantTest is DepositoryFixture {
    DepositoryHandler internal handler;

    function setUp() public override {
        super.setUp();
        handler = new DepositoryHandler(depository, allocatorKey, owner);
        bytes4[] memory selectors = new bytes4[](12);
        selectors[0] = DepositoryHandler.depositNative.selector;
        selectors[1] = DepositoryHandler.depositErc20.selector;
        selectors[2] = DepositoryHandler.donateTokens.selector;
        selectors[3] = DepositoryHandler.forceNative.selector;
        selectors[4] = DepositoryHandler.pay.selector;
        selectors[5] = DepositoryHandler.approve.selector;
        selectors[6] = DepositoryHandler.replay.selector;
        selectors[7] = DepositoryHandler.wait.selector;
        selectors[8] = DepositoryHandler.togglePause.selector;
        selectors[9] = DepositoryHandler.setCap.selector;
        selectors[10] = DepositoryHandler.replaceAllocator.selector;
        selectors[11] = DepositoryHandler.useAllowance.selector;
        targetContract(address(handler));
        targetSelector(FuzzSelector({addr: address(handler), selectors: selectors}));
    }

    /// @dev Money that came without a deposit is there too, and belongs to no order.
    /// forge-config: default.invariant.runs = 64
    function invariant_balances_equal_deposits_less_payouts() public view {
        assertEq(address(depository).balance, expected(address(0)), "native");
        for (uint256 i = 0; i < 3; ++i) {
            address token = address(handler.tokens(i));
            assertEq(TestToken(token).balanceOf(address(depository)), expected(token), "token");
        }
    }

    function expected(address token) internal view returns (uint256) {
        return handler.deposited(token) + handler.donated(token) - handler.paid(token) - handler.taken(token);
    }

    function invariant_no_request_and_no_nonce_executes_twice() public view {
        assertEq(handler.doublePayments(), 0);
        (uint256 nonceCount, uint256 hashCount) = handler.count();
        assertEq(nonceCount, hashCount);
        for (uint256 i = 0; i < nonceCount; ++i) {
            assertTrue(depository.usedNonces(handler.nonces(i)));
            assertTrue(depository.callRequests(handler.hashes(i)));
        }
    }

    function invariant_nothing_leaves_while_paused() public view {
        assertEq(handler.pausedPayments(), 0);
    }

    function invariant_only_the_present_allocator_pays() public view {
        assertEq(handler.forgedPayments(), 0);
    }

    function invariant_a_nonce_is_used_only_by_its_payment() public view {
        assertEq(handler.unpaidNonces(), 0);
    }

    function invariant_nothing_leaves_beyond_or_around_a_cap() public view {
        assertEq(handler.paymentsOverCap(), 0);
        assertEq(handler.callsAroundCaps(), 0);
    }

    function invariant_a_cap_leaves_what_its_model_leaves() public view {
        for (uint256 i = 0; i < 4; ++i) {
            address token = i == 0 ? address(0) : address(handler.tokens(i - 1));
            (uint256 least, uint256 most) = handler.models(token).available();
            (,, uint256 available) = depository.outflowCap(token);
            assertLe(available, most, "more than the rule");
            assertGe(available, least, "less than the rule");
        }
    }
}
