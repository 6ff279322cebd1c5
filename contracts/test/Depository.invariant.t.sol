// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {CommonBase} from "forge-std/Base.sol";
import {StdUtils} from "forge-std/StdUtils.sol";
import {Vm} from "forge-std/Vm.sol";
import {Depository} from "../src/Depository.sol";
import {IDepository} from "../src/interfaces/IDepository.sol";
import {DepositoryFixture} from "./utils/DepositoryFixture.sol";
import {FeeToken, TestToken} from "./utils/HostileTokens.sol";

/// @notice Deposits, pays out, replays and pauses in any order, and keeps its own totals beside the
/// depository's. Deposits are read from the depository's logs, because that is all the indexer has.
contract DepositoryHandler is CommonBase, StdUtils {
    Depository public immutable depository;
    TestToken[2] public tokens;
    uint256 private immutable allocatorKey;
    address private immutable depositoryOwner;

    /// @dev Keyed by token, zero for native.
    mapping(address token => uint256) public deposited;
    mapping(address token => uint256) public paid;
    mapping(uint256 nonce => uint256) public timesExecuted;
    mapping(bytes32 structHash => uint256) public timesHashExecuted;
    uint256[] public nonces;
    bytes32[] public hashes;
    uint256 public doublePayments;
    uint256 public pausedPayments;

    /// @dev Encoded requests: the compiler cannot copy the structs themselves into storage.
    bytes[] private signed;
    bytes[] private signatures;

    constructor(Depository depository_, uint256 allocatorKey_, address owner_) {
        depository = depository_;
        allocatorKey = allocatorKey_;
        depositoryOwner = owner_;
        tokens[0] = new TestToken();
        tokens[1] = new FeeToken();
    }

    function depositNative(uint96 value, address depositor) external {
        vm.deal(address(this), value);
        vm.recordLogs();
        depository.depositNative{value: value}(depositor, bytes32(uint256(value)));
        (, uint256 amount,) = abi.decode(lastLog().data, (address, uint256, bytes32));
        deposited[address(0)] += amount;
    }

    function depositErc20(uint256 which, uint96 amount, bool wholeAllowance) external {
        TestToken token = tokens[which % 2];
        amount = uint96(bound(amount, 1, type(uint96).max));
        token.mint(address(this), amount);
        token.approve(address(depository), amount);
        vm.recordLogs();
        if (wholeAllowance) depository.depositErc20(address(0), address(token), "id");
        else depository.depositErc20(address(0), address(token), amount, "id");
        (,, uint256 received,) = abi.decode(lastLog().data, (address, address, uint256, bytes32));
        deposited[address(token)] += received;
    }

    /// @dev Few nonces, so that different requests often share one.
    function pay(uint256 which, uint256 amount, uint256 nonce, uint256 life) external {
        which %= 3;
        nonce %= 24;
        address token = which == 0 ? address(0) : address(tokens[which - 1]);
        address recipient = address(uint160(0xbeef00 + nonce));
        IDepository.CallRequest memory request;
        request.calls = new IDepository.Call[](1);
        request.nonce = nonce;
        request.expiration = block.timestamp + (life % 1 days);
        if (which == 0) {
            amount = bound(amount, 0, address(depository).balance);
            request.calls[0].to = recipient;
            request.calls[0].value = amount;
        } else {
            amount = bound(amount, 0, TestToken(token).balanceOf(address(depository)));
            request.calls[0].to = token;
            request.calls[0].data = abi.encodeCall(TestToken(token).transfer, (recipient, amount));
        }
        (, bytes32 digest) = depository.hashCallRequest(request);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(allocatorKey, digest);
        signed.push(abi.encode(request));
        signatures.push(abi.encodePacked(r, s, v));
        submit(signed.length - 1);
    }

    function replay(uint256 index) external {
        if (signed.length != 0) submit(index % signed.length);
    }

    function wait(uint32 time) external {
        vm.warp(block.timestamp + (time % 2 hours));
    }

    /// @dev Pauses seldom and resumes soon, so that most payouts can execute.
    function togglePause(uint8 dice) external {
        bool paused = depository.executionPaused();
        if (!paused && dice % 4 != 0) return;
        vm.prank(depositoryOwner);
        if (paused) depository.unpauseExecution();
        else depository.pauseExecution();
    }

    function count() external view returns (uint256, uint256) {
        return (nonces.length, hashes.length);
    }

    function submit(uint256 index) private {
        IDepository.CallRequest memory request = abi.decode(signed[index], (IDepository.CallRequest));
        (bytes32 structHash,) = depository.hashCallRequest(request);
        bool paused = depository.executionPaused();
        (bool success,) =
            address(depository).call(abi.encodeCall(IDepository.execute, (request, signatures[index])));
        if (!success) return;
        if (paused) ++pausedPayments;
        if (++timesExecuted[request.nonce] > 1) ++doublePayments;
        if (++timesHashExecuted[structHash] > 1) ++doublePayments;
        nonces.push(request.nonce);
        hashes.push(structHash);
        IDepository.Call memory call = request.calls[0];
        if (call.data.length == 0) {
            paid[address(0)] += call.value;
        } else {
            bytes memory data = call.data;
            uint256 amount;
            assembly ("memory-safe") {
                amount := mload(add(data, 0x44))
            }
            paid[call.to] += amount;
        }
    }

    function lastLog() private returns (Vm.Log memory) {
        Vm.Log[] memory logs = vm.getRecordedLogs();
        return logs[logs.length - 1];
    }
}

contract DepositoryInvariantTest is DepositoryFixture {
    DepositoryHandler internal handler;

    function setUp() public override {
        super.setUp();
        handler = new DepositoryHandler(depository, allocatorKey, owner);
        bytes4[] memory selectors = new bytes4[](6);
        selectors[0] = DepositoryHandler.depositNative.selector;
        selectors[1] = DepositoryHandler.depositErc20.selector;
        selectors[2] = DepositoryHandler.pay.selector;
        selectors[3] = DepositoryHandler.replay.selector;
        selectors[4] = DepositoryHandler.wait.selector;
        selectors[5] = DepositoryHandler.togglePause.selector;
        targetContract(address(handler));
        targetSelector(FuzzSelector({addr: address(handler), selectors: selectors}));
    }

    /// forge-config: default.invariant.runs = 64
    function invariant_balances_equal_deposits_less_payouts() public view {
        assertEq(
            address(depository).balance, handler.deposited(address(0)) - handler.paid(address(0)), "native"
        );
        for (uint256 i = 0; i < 2; ++i) {
            TestToken token = handler.tokens(i);
            assertEq(
                token.balanceOf(address(depository)),
                handler.deposited(address(token)) - handler.paid(address(token)),
                "token"
            );
        }
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
}
