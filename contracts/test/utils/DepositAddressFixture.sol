// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {DepositAddressFactory} from "../../src/DepositAddressFactory.sol";
import {IDepositAddressFactory} from "../../src/interfaces/IDepositAddressFactory.sol";
import {FundedDepository} from "./FundedDepository.sol";

/// @notice A factory at a depository whose user holds native currency and a token, and an operator.
abstract contract DepositAddressFixture is FundedDepository {
    DepositAddressFactory internal factory;
    address internal operator = makeAddr("operator");
    address internal thief = makeAddr("thief");
    address internal anyone = makeAddr("anyone");
    bytes32 internal route = keccak256("route");

    function setUp() public virtual override {
        super.setUp();
        factory = new DepositAddressFactory(owner, address(depository));
        vm.prank(owner);
        factory.setOperator(operator, true);
    }

    /// @dev The address as the rule of EIP-1167 and CREATE2 says, without the library that the factory uses.
    function derived(address from, address implementation, bytes32 salt) internal pure returns (address) {
        bytes32 initCodeHash = keccak256(
            abi.encodePacked(
                hex"3d602d80600a3d3981f3363d3d373d3d3d363d73",
                implementation,
                hex"5af43d82803e903d91602b57fd5bf3"
            )
        );
        return address(uint160(uint256(keccak256(abi.encodePacked(hex"ff", from, salt, initCodeHash)))));
    }

    function strictSalt(bytes32 orderId, address depositor) internal pure returns (bytes32) {
        return keccak256(bytes.concat(orderId, bytes20(depositor)));
    }

    function only(address currency) internal pure returns (address[] memory tokens) {
        tokens = new address[](1);
        tokens[0] = currency;
    }

    function both(address first, address second) internal pure returns (address[] memory tokens) {
        tokens = new address[](2);
        (tokens[0], tokens[1]) = (first, second);
    }

    function tooLow(address currency, uint256 amount, uint256 balance) internal pure returns (bytes memory) {
        return
            abi.encodeWithSelector(IDepositAddressFactory.BalanceTooLow.selector, currency, amount, balance);
    }

    function pay(address to, uint256 amount) internal {
        vm.prank(user);
        (bool success,) = to.call{value: amount}("");
        assertTrue(success);
    }

    function payToken(address to, uint256 amount) internal {
        vm.prank(user);
        token.transfer(to, amount);
    }
}
