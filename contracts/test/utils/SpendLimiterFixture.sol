// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {Test} from "forge-std/Test.sol";
import {SpendLimiter} from "../../src/SpendLimiter.sol";
import {Router} from "../../src/Router.sol";
import {ISpendLimiter} from "../../src/interfaces/ISpendLimiter.sol";
import {Call3Value} from "../../src/interfaces/IRouter.sol";
import {Calls, TestExchange} from "./Actors.sol";
import {TestToken} from "./HostileTokens.sol";

/// @notice A spend limiter with its router, a treasury that approved it and a filler.
abstract contract SpendLimiterFixture is Test {
    using Calls for Call3Value[];

    uint256 internal constant HELD = type(uint128).max;

    Router internal router = new Router();
    SpendLimiter internal spendLimiter = new SpendLimiter(address(router));
    TestToken internal token = new TestToken();
    TestToken internal other = new TestToken();
    TestExchange internal exchange = new TestExchange();
    address internal treasury = makeAddr("treasury");
    address internal filler = makeAddr("filler");
    address internal recipient = makeAddr("recipient");
    address internal thief = makeAddr("thief");
    bytes32 internal id = keccak256("order");

    function setUp() public {
        vm.deal(filler, 10 ether);
        vm.deal(address(exchange), HELD);
        other.mint(address(exchange), HELD);
        fund(treasury, token, HELD);
    }

    function fund(address account, TestToken currency, uint256 approved) internal {
        currency.mint(account, HELD);
        vm.prank(account);
        currency.approve(address(spendLimiter), approved);
    }

    function setLimit(address by, address currency, uint256 amount) internal {
        vm.prank(treasury);
        spendLimiter.setLimit(by, currency, amount);
    }

    function deliver(address currency, uint256 amount) internal view returns (Call3Value[] memory) {
        return Calls.one(address(router), 0, Calls.cleanup(currency, recipient, amount));
    }

    function steal(address currency) internal view returns (Call3Value[] memory) {
        return Calls.one(address(router), 0, Calls.cleanup(currency, thief, 0));
    }

    /// @dev The plainest spend, by the pranked account.
    function spend(address currency, uint256 amount) internal {
        spendLimiter.spend(treasury, currency, amount, deliver(currency, amount), filler, address(0), "");
    }

    function spendData(address from, uint256 amount, Call3Value[] memory calls)
        internal
        view
        returns (bytes memory)
    {
        return abi.encodeCall(ISpendLimiter.spend, (from, address(token), amount, calls, thief, thief, ""));
    }

    function limitExceeded(uint256 amount, uint256 remaining) internal view returns (bytes memory) {
        return abi.encodeWithSelector(ISpendLimiter.LimitExceeded.selector, address(token), amount, remaining);
    }

    function notArrived(address currency, uint256 expected, uint256 balance)
        internal
        pure
        returns (bytes memory)
    {
        return abi.encodeWithSelector(ISpendLimiter.NotArrived.selector, currency, expected, balance);
    }

    function assertNothingStays() internal view {
        address[2] memory places = [address(router), address(spendLimiter)];
        for (uint256 i = 0; i < places.length; ++i) {
            assertEq(places[i].balance, 0);
            assertEq(token.balanceOf(places[i]), 0);
            assertEq(other.balanceOf(places[i]), 0);
        }
    }
}
