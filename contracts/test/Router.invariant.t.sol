// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {CommonBase} from "forge-std/Base.sol";
import {StdUtils} from "forge-std/StdUtils.sol";
import {Test} from "forge-std/Test.sol";
import {DeployPermit2} from "permit2-test/DeployPermit2.sol";
import {ApprovalProxy} from "../src/ApprovalProxy.sol";
import {Depository} from "../src/Depository.sol";
import {Router} from "../src/Router.sol";
import {Call3Value, IRouter} from "../src/interfaces/IRouter.sol";
import {Calls, Intruder, NoNative, Taker, TestExchange} from "./utils/Actors.sol";
import {HookToken, StubbornToken, TestToken} from "./utils/HostileTokens.sol";

/// @notice Runs the flows of our quotes and fills, with an intruder called in the middle of each, beside a
/// bystander who has approved the proxy without limit. Strangers leave native value, tokens and allowances in
/// the router; the input refuses to change an allowance, and the output calls out when it moves.
contract RouterHandler is CommonBase, StdUtils {
    using Calls for Call3Value[];

    Router public immutable router = new Router();
    ApprovalProxy public immutable proxy;
    Depository public immutable depository = new Depository(address(1), address(2));
    StubbornToken public immutable tokenIn = new StubbornToken();
    HookToken public immutable tokenOut = new HookToken();
    TestExchange public immutable exchange = new TestExchange();
    Intruder public immutable intruder = new Intruder();
    Taker public immutable taker = new Taker();
    address private immutable noNative = address(new NoNative());
    address public constant BYSTANDER = address(0xb157a4de4);
    address public constant THIEF = address(0x7111ef);
    address public constant PAYEE = address(0xbabe1);

    /// @dev Amounts that strangers have left in the router, zero for native.
    mapping(address token => uint256) public left;
    uint256 public deposited;
    uint256 public depositedNative;
    uint256 public paid;
    uint256 public entries;
    uint256 public shortDeposits;
    uint256 public openAllowances;

    constructor(address permit2) {
        proxy = new ApprovalProxy(address(this), address(router), permit2);
        tokenIn.mint(BYSTANDER, 1e30);
        vm.prank(BYSTANDER);
        tokenIn.approve(address(proxy), type(uint256).max);
        tokenIn.approve(address(proxy), type(uint256).max);
    }

    // ---- flows ----

    /// @dev A swap into a deposit, with part of the input unspent and returned. Whoever gets control in the
    /// middle may have an allowance of the router: then the swap fails, and is never short.
    function swapThenDeposit(uint96 amount, uint96 spent, uint8 attack, uint8 hook, uint96 taken) external {
        amount = uint96(bound(amount, 1, type(uint96).max));
        spent = uint96(bound(spent, 1, amount));
        tokenIn.mint(address(this), amount);
        tokenOut.mint(address(exchange), spent);
        bytes memory take = abi.encodeCall(Taker.take, (tokenOut, address(router), bound(taken, 0, spent)));
        bool hostile = hook % 3 != 0;
        if (hook % 3 == 1) tokenOut.arm(address(taker), take, hook > 127);

        Call3Value[] memory calls =
            Calls.one(address(tokenIn), 0, abi.encodeCall(IERC20.approve, (address(exchange), spent)));
        calls = calls.then(
            address(exchange), 0, abi.encodeCall(TestExchange.swap, (tokenIn, tokenOut, spent, spent))
        );
        calls = calls.then(address(router), 0, Calls.cleanup(address(tokenIn), address(this), 0));
        calls = withIntruder(calls, attack);
        if (hook % 3 == 2) intruder.arm(address(taker), take);
        calls = calls.then(
            address(router), 0, abi.encodeCall(IRouter.requireBalance, (address(tokenOut), spent))
        );
        calls = calls.then(address(router), 0, depositAll());
        bytes memory data = abi.encodeCall(
            proxy.transferAndMulticall,
            (Calls.list(address(tokenIn)), Calls.list(uint256(amount)), calls, noNative, address(0), "")
        );
        uint256 before = tokenOut.balanceOf(address(depository));
        (bool success,) = address(proxy).call(data);
        tokenOut.arm(address(0), "", false);
        if (hook % 3 == 2) intruder.arm(address(0), "");
        require(success || hostile, "a flow that nobody disturbs is stopped");
        uint256 arrived = tokenOut.balanceOf(address(depository)) - before;
        deposited += arrived;
        if (success && arrived < spent) ++shortDeposits;
        if (success && hook % 3 != 2 && intruder.entered()) ++entries;
        if (success && tokenOut.allowance(address(router), address(depository)) != 0) ++openAllowances;
    }

    /// @dev Native in, part of it paid as a fill, the rest deposited or returned.
    function fillNative(uint96 value, uint96 amount, bool depositRest, uint8 attack) external {
        value = uint96(bound(value, 1, type(uint96).max));
        amount = uint96(bound(amount, 1, value));
        vm.deal(address(this), value);
        Call3Value[] memory calls =
            Calls.one(address(router), 0, abi.encodeCall(IRouter.cleanupNative, (amount, PAYEE, "")));
        calls = withIntruder(calls, attack);
        depositRest = depositRest && amount != value;
        if (depositRest) {
            bytes memory data = abi.encodeCall(depository.depositNative, (address(0), "id"));
            calls = calls.then(
                address(router),
                0,
                abi.encodeCall(IRouter.cleanupNativeViaCall, (0, address(depository), data))
            );
        }
        uint256 before = address(depository).balance;
        router.multicall{value: value}(calls, address(0), address(0), "");
        uint256 arrived = address(depository).balance - before;
        depositedNative += arrived;
        paid += amount;
        if (arrived + address(this).balance < value - amount) ++shortDeposits;
        if (intruder.entered()) ++entries;
    }

    /// @dev A native fill to a contract, in one call.
    function fillContract(uint96 value) external {
        value = uint96(bound(value, 1, type(uint96).max));
        vm.deal(address(this), value);
        router.cleanupNative{value: value}(value, PAYEE, "");
        paid += value;
    }

    // ---- strangers ----

    function leaveNative(uint64 value) external {
        vm.deal(THIEF, THIEF.balance + value);
        vm.prank(THIEF);
        (bool success,) = address(router).call{value: value}("");
        require(success);
        left[address(0)] += value;
    }

    function leaveTokens(bool which, uint64 amount) external {
        TestToken token = which ? TestToken(tokenIn) : tokenOut;
        token.mint(address(router), amount);
        left[address(token)] += amount;
    }

    function leaveAllowance(bool which, uint8 who, uint256 amount) external {
        address[4] memory spenders = [THIEF, address(taker), address(depository), address(exchange)];
        bytes memory approval = abi.encodeCall(IERC20.approve, (spenders[who % 4], amount));
        address token = which ? address(tokenIn) : address(tokenOut);
        vm.prank(THIEF);
        router.multicall(Calls.one(token, 0, approval), THIEF, address(0), "");
    }

    /// @dev A thief uses the router and the proxy alone, naming the bystander wherever the interface allows it.
    function steal(uint8 attack, uint96 amount) external {
        vm.startPrank(THIEF);
        (bool success,) = attack % 2 == 0
            ? address(router).call(attackData(attack))
            : address(proxy)
                .call(
                    abi.encodeCall(
                        proxy.transferAndMulticall,
                        (
                            Calls.list(address(tokenIn)),
                            Calls.list(uint256(amount)),
                            Calls.one(
                                address(tokenIn),
                                0,
                                abi.encodeCall(IERC20.transferFrom, (BYSTANDER, THIEF, uint256(amount)))
                            ),
                            THIEF,
                            THIEF,
                            ""
                        )
                    )
                );
        success;
        vm.stopPrank();
    }

    function depositAll() private view returns (bytes memory) {
        bytes memory data = abi.encodeWithSignature(
            "depositErc20(address,address,bytes32)", address(this), address(tokenOut), bytes32("id")
        );
        return Calls.spend(address(tokenOut), address(depository), data, 0);
    }

    function withIntruder(Call3Value[] memory calls, uint8 attack) private returns (Call3Value[] memory) {
        intruder.arm(address(router), attackData(attack));
        return calls.then(address(intruder), 0, abi.encodeCall(Intruder.poke, ()));
    }

    function attackData(uint8 attack) private view returns (bytes memory) {
        if (attack % 3 == 0) return abi.encodeCall(IRouter.cleanupNative, (0, THIEF, ""));
        if (attack % 3 == 1) return Calls.cleanup(address(tokenOut), THIEF, 0);
        return abi.encodeCall(
            IRouter.multicall,
            (Calls.one(address(router), 0, Calls.cleanup(address(tokenIn), THIEF, 0)), THIEF, THIEF, "")
        );
    }

    receive() external payable {}
}

contract RouterInvariantTest is Test {
    RouterHandler internal handler;

    function setUp() public {
        handler = new RouterHandler(new DeployPermit2().deployPermit2());
        bytes4[] memory selectors = new bytes4[](7);
        selectors[0] = RouterHandler.swapThenDeposit.selector;
        selectors[1] = RouterHandler.fillNative.selector;
        selectors[2] = RouterHandler.fillContract.selector;
        selectors[3] = RouterHandler.leaveNative.selector;
        selectors[4] = RouterHandler.leaveTokens.selector;
        selectors[5] = RouterHandler.leaveAllowance.selector;
        selectors[6] = RouterHandler.steal.selector;
        targetContract(address(handler));
        targetSelector(FuzzSelector({addr: address(handler), selectors: selectors}));
    }

    /// @dev All that is in the router, or that thieves have, was left there by strangers.
    function invariant_nothing_of_a_flow_stays_in_the_router_or_reaches_a_thief() public view {
        address router = address(handler.router());
        assertLe(router.balance + handler.THIEF().balance, handler.left(address(0)), "native");
        TestToken[2] memory tokens = [TestToken(handler.tokenIn()), handler.tokenOut()];
        for (uint256 i = 0; i < 2; ++i) {
            uint256 elsewhere = tokens[i].balanceOf(router) + tokens[i].balanceOf(handler.THIEF())
                + tokens[i].balanceOf(address(handler.taker()));
            assertLe(elsewhere, handler.left(address(tokens[i])), "token");
            assertEq(tokens[i].balanceOf(address(handler.proxy())), 0);
        }
        assertEq(address(handler.proxy()).balance, 0);
    }

    function invariant_deposits_and_fills_are_complete() public view {
        assertEq(handler.shortDeposits(), 0);
        assertEq(handler.openAllowances(), 0);
        assertEq(handler.tokenOut().balanceOf(address(handler.depository())), handler.deposited());
        assertEq(address(handler.depository()).balance, handler.depositedNative());
        assertEq(handler.PAYEE().balance, handler.paid());
    }

    function invariant_nobody_else_enters_or_is_touched() public view {
        assertEq(handler.entries(), 0);
        assertEq(handler.tokenIn().balanceOf(handler.BYSTANDER()), 1e30);
        assertEq(handler.tokenIn().balanceOf(address(handler.depository())), 0);
    }
}
