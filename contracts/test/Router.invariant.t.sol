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
import {Calls, Intruder, TestExchange} from "./utils/Actors.sol";
import {TestToken} from "./utils/HostileTokens.sol";

/// @notice Runs the flows of our quotes and fills, with an intruder called in the middle of each, beside a
/// bystander who has approved the proxy without limit.
contract RouterHandler is CommonBase, StdUtils {
    using Calls for Call3Value[];

    Router public immutable router = new Router();
    ApprovalProxy public immutable proxy;
    Depository public immutable depository = new Depository(address(1), address(2));
    TestToken public immutable tokenIn = new TestToken();
    TestToken public immutable tokenOut = new TestToken();
    TestExchange public immutable exchange = new TestExchange();
    Intruder public immutable intruder = new Intruder();
    address public constant BYSTANDER = address(0xb157a4de4);
    address public constant THIEF = address(0x7111ef);
    address public constant PAYEE = address(0xbabe1);

    uint256 public deposited;
    uint256 public depositedNative;
    uint256 public intrusions;

    constructor(address permit2) {
        proxy = new ApprovalProxy(address(this), address(router), permit2);
        tokenIn.mint(BYSTANDER, 1e30);
        vm.prank(BYSTANDER);
        tokenIn.approve(address(proxy), type(uint256).max);
        tokenIn.approve(address(proxy), type(uint256).max);
    }

    /// @dev A swap into a deposit, with part of the input unspent and returned.
    function swapThenDeposit(uint96 amount, uint96 spent, uint8 attack) external {
        amount = uint96(bound(amount, 1, type(uint96).max));
        spent = uint96(bound(spent, 1, amount));
        tokenIn.mint(address(this), amount);
        tokenOut.mint(address(exchange), spent);
        Call3Value[] memory calls =
            Calls.one(address(tokenIn), 0, abi.encodeCall(IERC20.approve, (address(exchange), spent)));
        calls = calls.then(
            address(exchange), 0, abi.encodeCall(TestExchange.swap, (tokenIn, tokenOut, spent, spent))
        );
        calls = calls.then(address(router), 0, Calls.cleanup(address(tokenIn), address(this), 0));
        calls = withIntruder(calls, attack);
        calls = calls.then(address(router), 0, depositAll());
        proxy.transferAndMulticall(
            Calls.list(address(tokenIn)), Calls.list(uint256(amount)), calls, address(this), address(0), ""
        );
        deposited += spent;
    }

    /// @dev Native in, part of it paid as a fill, the rest deposited or returned.
    function fillNative(uint96 value, uint96 paid, bool depositRest, uint8 attack) external {
        value = uint96(bound(value, 1, type(uint96).max));
        paid = uint96(bound(paid, 1, value));
        vm.deal(address(this), value);
        Call3Value[] memory calls =
            Calls.one(address(router), 0, abi.encodeCall(IRouter.cleanupNative, (paid, PAYEE, "")));
        calls = withIntruder(calls, attack);
        if (depositRest && paid != value) {
            bytes memory data = abi.encodeCall(depository.depositNative, (address(0), "id"));
            calls = calls.then(
                address(router),
                0,
                abi.encodeCall(IRouter.cleanupNativeViaCall, (0, address(depository), data))
            );
            depositedNative += value - paid;
        }
        router.multicall{value: value}(calls, address(0), address(0), "");
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
        return abi.encodeCall(
            IRouter.cleanupErc20sViaCall,
            (
                Calls.list(address(tokenOut)),
                Calls.list(address(depository)),
                Calls.list(data),
                Calls.list(uint256(0))
            )
        );
    }

    function withIntruder(Call3Value[] memory calls, uint8 attack) private returns (Call3Value[] memory) {
        intruder.arm(address(router), attackData(attack));
        ++intrusions;
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
        bytes4[] memory selectors = new bytes4[](3);
        selectors[0] = RouterHandler.swapThenDeposit.selector;
        selectors[1] = RouterHandler.fillNative.selector;
        selectors[2] = RouterHandler.steal.selector;
        targetContract(address(handler));
        targetSelector(FuzzSelector({addr: address(handler), selectors: selectors}));
    }

    function invariant_nothing_stays_in_router_or_proxy() public view {
        address[2] memory places = [address(handler.router()), address(handler.proxy())];
        for (uint256 i = 0; i < 2; ++i) {
            assertEq(places[i].balance, 0);
            assertEq(handler.tokenIn().balanceOf(places[i]), 0);
            assertEq(handler.tokenOut().balanceOf(places[i]), 0);
        }
        assertEq(handler.tokenOut().allowance(address(handler.router()), address(handler.depository())), 0);
    }

    function invariant_deposits_are_complete_and_thieves_get_nothing() public view {
        assertEq(handler.tokenOut().balanceOf(address(handler.depository())), handler.deposited());
        assertEq(address(handler.depository()).balance, handler.depositedNative());
        assertEq(handler.THIEF().balance, 0);
        assertEq(handler.tokenIn().balanceOf(handler.THIEF()), 0);
        assertEq(handler.tokenOut().balanceOf(handler.THIEF()), 0);
        assertEq(handler.tokenIn().balanceOf(handler.BYSTANDER()), 1e30);
        if (handler.intrusions() != 0) assertFalse(handler.intruder().entered());
    }
}
