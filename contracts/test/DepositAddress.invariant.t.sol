// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {CommonBase} from "forge-std/Base.sol";
import {Test} from "forge-std/Test.sol";
import {Vm} from "forge-std/Vm.sol";
import {DepositAddressFactory} from "../src/DepositAddressFactory.sol";
import {Depository} from "../src/Depository.sol";
import {IDepositAddress} from "../src/interfaces/IDepositAddress.sol";
import {IDepositAddressFactory} from "../src/interfaces/IDepositAddressFactory.sol";
import {FeeToken, HookToken, StubbornToken, TestToken} from "./utils/HostileTokens.sol";

/// @notice Two strict and two open addresses that get native currency and tokens of three kinds, and everybody
/// who sweeps them: strangers with parameters of their own, a hook in the middle, the operator. Some tokens say
/// that an address has approved the depository already.
contract DepositAddressHandler is CommonBase {
    bytes32 private constant NATIVE_TOPIC =
        0x8032066556caf3967d8fec4ad22a2d9e1e9576556b2903a0fcd5b1fd201e3477;
    bytes32 private constant ERC20_TOPIC = 0x49fed1d0b752ce30eee63c7a81133f3363b532fec5d4d7dd1ccfd005de4555e1;

    Depository public immutable depository = new Depository(address(1), address(2));
    DepositAddressFactory public immutable factory =
        new DepositAddressFactory(address(this), address(depository));
    address public constant THIEF = address(0x7111ef);
    address public constant OPERATOR = address(0x0b0e);

    /// @dev Zero, a plain token, one that refuses to change allowances, one that keeps a fee, one with a hook.
    address[5] public tokens = [
        address(0),
        address(new TestToken()),
        address(new StubbornToken()),
        address(new FeeToken()),
        address(new HookToken())
    ];
    bytes32[2] public orders = [keccak256("first"), keccak256("second")];
    address[2] public depositors = [address(0xda1), address(0xda2)];
    bytes32[2] public routes = [keccak256("one way"), keccak256("another")];

    /// @dev By order, strict or the operator's, and token: the amount that arrived at its addresses, and the
    /// amount that the depository logged.
    mapping(address account => mapping(address token => uint256)) public arrived;
    mapping(address account => mapping(address token => uint256)) public deposited;
    mapping(address token => uint256) public logged;
    uint256 public wrongDeposits;
    uint256 public entries;
    uint256 public openAllowances;
    uint256 public wrongAmounts;

    constructor() {
        factory.setOperator(OPERATOR, true);
    }

    /// @dev The first two are strict.
    function account(uint256 n) public view returns (address) {
        return n < 2
            ? factory.computeDepositAddress(orders[n], depositors[n])
            : factory.computeOpenDepositAddress(routes[n - 2]);
    }

    function pay(uint8 which, uint8 kind, uint96 amount, bool forced) external {
        address to = account(which % 4);
        address token = tokens[kind % 5];
        if (token != address(0)) {
            TestToken(token).mint(to, amount);
        } else if (forced) {
            vm.deal(to, to.balance + amount);
        } else {
            vm.deal(address(this), amount);
            (bool success,) = to.call{value: amount}("");
            require(success, "an address refuses money");
        }
        arrived[to][token] += amount;
    }

    function plantAllowance(uint8 which, uint8 kind, uint256 amount) external {
        address owner = account(which % 4);
        TestToken token = TestToken(tokens[1 + kind % 4]);
        vm.startPrank(owner);
        token.approve(address(depository), 0);
        token.approve(address(depository), amount);
        vm.stopPrank();
    }

    /// @dev Anyone sweeps, and a hook tries to enter meanwhile.
    function sweep(uint8 which, uint8 kind, uint8 second, address by, uint8 attack) external {
        uint256 n = which % 2;
        arm(attack, n, account(n));
        vm.recordLogs();
        vm.prank(by);
        factory.sweep(orders[n], depositors[n], list(kind, second));
        count(account(n), orders[n], depositors[n]);
    }

    /// @dev The operator names a part of what is there, all, or too much: that amount leaves, or nothing does.
    function sweepOpen(uint8 which, uint8 kind, uint96 amount, bytes32 orderId, uint8 attack) external {
        uint256 n = which % 2;
        address from = account(n + 2);
        address token = tokens[kind % 5];
        uint256 before = balance(token, from);
        uint256 named = attack > 191 ? before + amount : attack > 127 ? before : amount % (before + 1);
        arm(attack, n, from);
        vm.recordLogs();
        vm.prank(OPERATOR);
        (bool success,) = address(factory)
            .call(
                abi.encodeCall(
                    IDepositAddressFactory.sweepOpen, (routes[n], orderId, depositors[n], token, named)
                )
            );
        count(from, orderId, depositors[n]);
        if (success != (named != 0 && named <= before)) ++wrongAmounts;
        if (before - balance(token, from) != (success ? named : 0)) ++wrongAmounts;
    }

    // ---- strangers ----

    /// @dev Parameters that belong to nobody, or to another's order: no address of ours may change.
    function sweepElsewhere(bytes32 orderId, address depositor, bool mixed, uint8 kind) external {
        if (mixed) (orderId, depositor) = (orders[0], depositors[1]);
        if (orderId == orders[0] && depositor == depositors[0]) return;
        if (orderId == orders[1] && depositor == depositors[1]) return;
        vm.recordLogs();
        vm.prank(THIEF);
        factory.sweep(orderId, depositor, list(kind, kind));
        if (vm.getRecordedLogs().length != 0) ++wrongDeposits;
    }

    function operatorInventsARoute(bytes32 routeKey, bool ofSalt, uint8 kind) external {
        if (ofSalt) routeKey = keccak256(abi.encodePacked(orders[0], depositors[0]));
        if (routeKey == routes[0] || routeKey == routes[1]) return;
        vm.prank(OPERATOR);
        (bool success,) = address(factory)
            .call(
                abi.encodeCall(
                    IDepositAddressFactory.sweepOpen, (routeKey, orders[1], THIEF, tokens[kind % 5], 1)
                )
            );
        if (success) ++wrongDeposits;
    }

    function intrude(uint8 which, uint8 kind, bool open) external {
        address to = account(which % 4);
        vm.startPrank(THIEF);
        bool entered;
        if (open) {
            (entered,) = address(factory)
                .call(
                    abi.encodeCall(
                        IDepositAddressFactory.sweepOpen,
                        (routes[which % 2], keccak256("mine"), THIEF, tokens[kind % 5], 1)
                    )
                );
        } else if (to.code.length != 0) {
            address token = tokens[kind % 5];
            (entered,) = kind % 2 == 0
                ? to.call(abi.encodeCall(IDepositAddress.sweep, (token, THIEF, keccak256("mine"))))
                : to.call(abi.encodeCall(IDepositAddress.sweepAmount, (token, THIEF, keccak256("mine"), 1)));
        }
        vm.stopPrank();
        if (entered) ++entries;
    }

    /// @dev The hook calls the factory, or the address that is being swept and so has code.
    function arm(uint8 attack, uint256 n, address swept) private {
        bytes memory data = attack % 3 == 0
            ? abi.encodeCall(IDepositAddressFactory.sweep, (orders[n], depositors[n], list(0, 1)))
            : abi.encodeCall(IDepositAddress.sweep, (tokens[1], THIEF, keccak256("mine")));
        HookToken(tokens[4]).arm(attack % 3 == 0 ? address(factory) : swept, data, attack % 2 == 0);
    }

    function balance(address token, address of_) private view returns (uint256) {
        return token == address(0) ? of_.balance : IERC20(token).balanceOf(of_);
    }

    function list(uint8 first, uint8 second) private view returns (address[] memory chosen) {
        chosen = new address[](2);
        (chosen[0], chosen[1]) = (tokens[first % 5], tokens[second % 5]);
    }

    function count(address from, bytes32 orderId, address depositor) private {
        HookToken hook = HookToken(tokens[4]);
        if (hook.target() == address(0) && hook.lastSuccess()) ++entries;
        hook.arm(address(0), "", false);
        Vm.Log[] memory logs = vm.getRecordedLogs();
        for (uint256 i = 0; i < logs.length; ++i) {
            if (logs[i].emitter != address(depository)) continue;
            address named;
            address token;
            uint256 amount;
            bytes32 id;
            if (logs[i].topics[0] == NATIVE_TOPIC) {
                (named, amount, id) = abi.decode(logs[i].data, (address, uint256, bytes32));
            } else if (logs[i].topics[0] == ERC20_TOPIC) {
                (named, token, amount, id) = abi.decode(logs[i].data, (address, address, uint256, bytes32));
            }
            if (id != orderId || named != depositor) ++wrongDeposits;
            deposited[from][token] += amount;
            logged[token] += amount;
            if (token == address(0)) continue;
            if (IERC20(token).allowance(from, address(depository)) != 0) ++openAllowances;
        }
    }

    receive() external payable {}
}

contract DepositAddressInvariantTest is Test {
    DepositAddressHandler internal handler;

    function setUp() public {
        handler = new DepositAddressHandler();
        targetContract(address(handler));
    }

    function balance(address token, address account) internal view returns (uint256) {
        return token == address(0) ? account.balance : IERC20(token).balanceOf(account);
    }

    function afterInvariant() public {
        // Nothing is stuck: one more sweep brings everything in.
        address[] memory all = new address[](5);
        for (uint256 i = 0; i < 5; ++i) {
            all[i] = handler.tokens(i);
        }
        for (uint256 n = 0; n < 2; ++n) {
            handler.factory().sweep(handler.orders(n), handler.depositors(n), all);
            sweepRest(handler.routes(n), handler.account(n + 2), all);
        }
        for (uint256 n = 0; n < 4; ++n) {
            for (uint256 i = 0; i < 5; ++i) {
                assertEq(balance(all[i], handler.account(n)), 0, "money is stuck");
            }
        }
    }

    function sweepRest(bytes32 route, address account, address[] memory all) internal {
        DepositAddressFactory factory = handler.factory();
        vm.startPrank(handler.OPERATOR());
        for (uint256 i = 0; i < all.length; ++i) {
            uint256 rest = balance(all[i], account);
            if (rest != 0) factory.sweepOpen(route, "last", address(this), all[i], rest);
        }
        vm.stopPrank();
    }

    /// @dev The token with the fee is left out: there the fee is what is missing.
    function invariant_what_arrives_is_there_or_deposited_under_its_order() public view {
        for (uint256 n = 0; n < 4; ++n) {
            address account = handler.account(n);
            for (uint256 i = 0; i < 5; ++i) {
                address token = handler.tokens(i);
                uint256 found = balance(token, account) + handler.deposited(account, token);
                if (i == 3) assertLe(found, handler.arrived(account, token));
                else assertEq(found, handler.arrived(account, token), "money of an address is elsewhere");
            }
        }
        assertEq(handler.wrongDeposits(), 0, "a deposit names another order or depositor");
        assertEq(handler.wrongAmounts(), 0, "a sweep takes another amount than its operator named");
    }

    function invariant_the_depository_holds_what_it_logged() public view {
        for (uint256 i = 0; i < 5; ++i) {
            address token = handler.tokens(i);
            assertEq(balance(token, address(handler.depository())), handler.logged(token));
        }
    }

    function invariant_nobody_else_gets_in_or_gets_anything() public view {
        assertEq(handler.entries(), 0, "a stranger swept");
        assertEq(handler.openAllowances(), 0, "an allowance outlives its sweep");
        address[3] memory others =
            [handler.THIEF(), address(handler.factory()), handler.factory().IMPLEMENTATION()];
        for (uint256 n = 0; n < others.length; ++n) {
            for (uint256 i = 0; i < 5; ++i) {
                assertEq(balance(handler.tokens(i), others[n]), 0, "money went astray");
            }
        }
    }
}
