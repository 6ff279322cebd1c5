// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {CommonBase} from "forge-std/Base.sol";
import {StdUtils} from "forge-std/StdUtils.sol";
import {Test} from "forge-std/Test.sol";
import {SpendLimiter} from "../src/SpendLimiter.sol";
import {Router} from "../src/Router.sol";
import {ISpendLimiter} from "../src/interfaces/ISpendLimiter.sol";
import {Call3Value, IRouter} from "../src/interfaces/IRouter.sol";
import {Calls, Intruder, Taker, TestExchange} from "./utils/Actors.sol";
import {HookToken, StubbornToken, TestToken} from "./utils/HostileTokens.sol";

/// @notice Two treasuries and two fillers, each treasury with its own limits for each filler, and an intruder,
/// also a filler, who is called in the middle of every fill. Each treasury has approved the spend limiter for
/// its whole balance. Strangers leave native value, tokens and allowances in the router; the token refuses to
/// change an allowance, and the output of a swap calls out when it moves.
contract SpendLimiterHandler is CommonBase, StdUtils {
    using Calls for Call3Value[];

    uint256 public constant HELD = 1e36;

    Router public immutable router = new Router();
    SpendLimiter public immutable spendLimiter = new SpendLimiter(address(router));
    StubbornToken public immutable token = new StubbornToken();
    HookToken public immutable other = new HookToken();
    Taker public immutable taker = new Taker();
    TestExchange public immutable exchange = new TestExchange();
    Intruder public immutable intruder = new Intruder();
    address public constant THIEF = address(0x7111ef);
    address public constant PAYEE = address(0xbabe1);

    address[2] public treasuries = [address(0x7ea501), address(0x7ea502)];
    address[2] public fillers = [address(0xf111e1), address(0xf111e2)];

    /// @dev By treasury and filler: the amount spent, and the most that may have been spent.
    mapping(address treasury => mapping(address filler => uint256)) public spent;
    mapping(address treasury => mapping(address filler => uint256)) public granted;
    mapping(address treasury => uint256) public spentOf;
    uint256 public delivered;
    uint256 public deliveredOther;
    uint256 public deliveredNative;
    uint256 public entries;
    uint256 public shortFills;

    /// @dev Amounts that strangers have left in the router, zero for native.
    mapping(address token => uint256) public left;

    constructor() {
        for (uint256 i = 0; i < treasuries.length; ++i) {
            token.mint(treasuries[i], HELD);
            vm.startPrank(treasuries[i]);
            token.approve(address(spendLimiter), HELD);
            spendLimiter.setLimit(address(intruder), address(token), HELD);
            vm.stopPrank();
        }
    }

    function setLimit(bool which, bool who, uint96 amount) external {
        (address treasury, address filler) = pick(which, who);
        vm.prank(treasury);
        spendLimiter.setLimit(filler, address(token), amount);
        granted[treasury][filler] = spent[treasury][filler] + amount;
    }

    /// @dev Tokens and, sometimes, a native top-up to the payee; the remaining native value goes back.
    function deliver(bool which, bool who, uint256 amount, uint96 value, uint96 topUp, uint8 attack)
        external
    {
        (address treasury, address filler) = pick(which, who);
        uint256 remaining = spendLimiter.limit(treasury, filler, address(token));
        if (remaining == 0) return;
        amount = bound(amount, 1, remaining);
        topUp = uint96(bound(topUp, 0, value));
        Call3Value[] memory calls =
            Calls.one(address(router), 0, Calls.cleanup(address(token), PAYEE, amount));
        calls = withIntruder(calls, attack);
        if (topUp != 0) {
            calls = calls.then(address(router), 0, abi.encodeCall(IRouter.cleanupNative, (topUp, PAYEE, "")));
        }
        vm.deal(filler, value);
        vm.prank(filler);
        spendLimiter.spend{value: value}(treasury, address(token), amount, calls, filler, address(0), "");
        count(treasury, filler, amount);
        delivered += amount;
        deliveredNative += topUp;
        if (filler.balance != value - topUp) ++shortFills;
    }

    /// @dev Part of the amount is swapped for the payee, who also gets the rest. The output may call someone to
    /// whom the router has left an allowance: then the fill fails, and is never short.
    function swap(bool which, bool who, uint256 amount, uint256 used, uint8 attack, bool hook) external {
        (address treasury, address filler) = pick(which, who);
        uint256 remaining = spendLimiter.limit(treasury, filler, address(token));
        if (remaining == 0) return;
        amount = bound(amount, 1, remaining);
        used = bound(used, 1, amount);
        other.mint(address(exchange), used);
        Call3Value[] memory calls =
            Calls.one(address(token), 0, abi.encodeCall(IERC20.approve, (address(exchange), used)));
        calls = withIntruder(calls, attack);
        calls =
            calls.then(address(exchange), 0, abi.encodeCall(TestExchange.swap, (token, other, used, used)));
        calls = calls.then(address(router), 0, abi.encodeCall(IRouter.requireBalance, (address(other), used)));
        calls = calls.then(address(router), 0, Calls.cleanup(address(other), PAYEE, 0));
        calls = calls.then(address(router), 0, Calls.cleanup(address(token), PAYEE, 0));
        if (hook) {
            other.arm(address(taker), abi.encodeCall(Taker.take, (other, address(router), used)), true);
        }
        swapFor(treasury, filler, amount, used, calls, hook);
        other.arm(address(0), "", false);
    }

    function swapFor(
        address treasury,
        address filler,
        uint256 amount,
        uint256 used,
        Call3Value[] memory calls,
        bool hostile
    ) private {
        uint256 before = token.balanceOf(PAYEE);
        uint256 beforeOther = other.balanceOf(PAYEE);
        vm.prank(filler);
        (bool success,) = address(spendLimiter)
            .call(
                abi.encodeCall(
                    ISpendLimiter.spend, (treasury, address(token), amount, calls, filler, address(0), "")
                )
            );
        require(success || hostile, "a fill that nobody disturbs is stopped");
        if (!success) return;
        count(treasury, filler, amount);
        uint256 arrived = token.balanceOf(PAYEE) - before;
        uint256 arrivedOther = other.balanceOf(PAYEE) - beforeOther;
        delivered += arrived;
        deliveredOther += arrivedOther;
        if (arrived < amount - used || arrivedOther < used) ++shortFills;
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
        TestToken stray = which ? TestToken(token) : other;
        stray.mint(address(router), amount);
        left[address(stray)] += amount;
    }

    function leaveAllowance(bool which, uint8 who, uint256 amount) external {
        address[4] memory spenders = [THIEF, address(taker), address(spendLimiter), address(exchange)];
        bytes memory approval = abi.encodeCall(IERC20.approve, (spenders[who % 4], amount));
        address currency = which ? address(token) : address(other);
        vm.prank(THIEF);
        router.multicall(Calls.one(currency, 0, approval), THIEF, address(0), "");
    }

    /// @dev A thief, or a filler that asks for more than its limit.
    function steal(bool which, bool who, uint96 excess, uint8 attack) external {
        (address treasury, address filler) = pick(which, who);
        address by = attack % 2 == 0 ? THIEF : filler;
        uint256 amount = spendLimiter.limit(treasury, by, address(token)) + 1 + excess;
        vm.prank(by);
        (bool success,) = address(spendLimiter).call(spendData(treasury, amount));
        success;
        vm.prank(by);
        (success,) = address(router).call(attackData(attack));
    }

    function pick(bool which, bool who) private view returns (address treasury, address filler) {
        return (treasuries[which ? 1 : 0], fillers[who ? 1 : 0]);
    }

    function count(address treasury, address filler, uint256 amount) private {
        spent[treasury][filler] += amount;
        spentOf[treasury] += amount;
        if (intruder.entered()) ++entries;
    }

    function withIntruder(Call3Value[] memory calls, uint8 attack) private returns (Call3Value[] memory) {
        if (attack % 2 == 0) intruder.arm(address(spendLimiter), spendData(treasuries[attack / 128], 1));
        else intruder.arm(address(router), attackData(attack / 2));
        return calls.then(address(intruder), 0, abi.encodeCall(Intruder.poke, ()));
    }

    function spendData(address treasury, uint256 amount) private view returns (bytes memory) {
        Call3Value[] memory calls = Calls.one(address(router), 0, Calls.cleanup(address(token), THIEF, 0));
        return
            abi.encodeCall(ISpendLimiter.spend, (treasury, address(token), amount, calls, THIEF, THIEF, ""));
    }

    function attackData(uint8 attack) private view returns (bytes memory) {
        if (attack % 3 == 0) return abi.encodeCall(IRouter.cleanupNative, (0, THIEF, ""));
        if (attack % 3 == 1) return Calls.cleanup(address(token), THIEF, 0);
        bytes memory take = abi.encodeCall(IERC20.transferFrom, (treasuries[attack / 128], THIEF, 1));
        return abi.encodeCall(IRouter.multicall, (Calls.one(address(token), 0, take), THIEF, THIEF, ""));
    }
}

contract SpendLimiterInvariantTest is Test {
    SpendLimiterHandler internal handler = new SpendLimiterHandler();

    function setUp() public {
        bytes4[] memory selectors = new bytes4[](7);
        selectors[0] = SpendLimiterHandler.setLimit.selector;
        selectors[1] = SpendLimiterHandler.deliver.selector;
        selectors[2] = SpendLimiterHandler.swap.selector;
        selectors[3] = SpendLimiterHandler.steal.selector;
        selectors[4] = SpendLimiterHandler.leaveNative.selector;
        selectors[5] = SpendLimiterHandler.leaveTokens.selector;
        selectors[6] = SpendLimiterHandler.leaveAllowance.selector;
        targetContract(address(handler));
        targetSelector(FuzzSelector({addr: address(handler), selectors: selectors}));
    }

    /// @dev All that is in the router, or that thieves have, was left there by strangers.
    function invariant_nothing_of_a_fill_stays_or_reaches_a_thief() public view {
        address router = address(handler.router());
        assertLe(router.balance + handler.THIEF().balance, handler.left(address(0)), "native");
        TestToken[2] memory tokens = [TestToken(handler.token()), handler.other()];
        for (uint256 i = 0; i < 2; ++i) {
            uint256 elsewhere = tokens[i].balanceOf(router) + tokens[i].balanceOf(handler.THIEF())
                + tokens[i].balanceOf(address(handler.taker()));
            assertLe(elsewhere, handler.left(address(tokens[i])), "token");
            assertEq(tokens[i].balanceOf(address(handler.spendLimiter())), 0);
        }
        assertEq(address(handler.spendLimiter()).balance, 0);
    }

    function invariant_what_is_spent_was_granted() public view {
        for (uint256 i = 0; i < 2; ++i) {
            address treasury = handler.treasuries(i);
            for (uint256 j = 0; j < 2; ++j) {
                address filler = handler.fillers(j);
                uint256 remaining = handler.spendLimiter().limit(treasury, filler, address(handler.token()));
                assertEq(handler.spent(treasury, filler) + remaining, handler.granted(treasury, filler));
            }
            assertEq(handler.token().balanceOf(treasury), handler.HELD() - handler.spentOf(treasury));
        }
    }

    function invariant_fills_are_complete_and_nobody_enters() public view {
        assertEq(handler.token().balanceOf(handler.PAYEE()), handler.delivered());
        assertEq(handler.other().balanceOf(handler.PAYEE()), handler.deliveredOther());
        assertEq(handler.PAYEE().balance, handler.deliveredNative());
        assertEq(handler.shortFills(), 0);
        assertEq(handler.entries(), 0);
    }
}
