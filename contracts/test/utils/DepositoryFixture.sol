// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Test} from "forge-std/Test.sol";
import {Depository} from "../../src/Depository.sol";
import {IDepository} from "../../src/interfaces/IDepository.sol";

/// @notice A depository with known keys, and helpers to sign for its allocator.
abstract contract DepositoryFixture is Test {
    bytes32 internal constant NATIVE_TOPIC =
        0x8032066556caf3967d8fec4ad22a2d9e1e9576556b2903a0fcd5b1fd201e3477;
    bytes32 internal constant ERC20_TOPIC =
        0x49fed1d0b752ce30eee63c7a81133f3363b532fec5d4d7dd1ccfd005de4555e1;
    bytes32 internal constant EXECUTED_TOPIC =
        0x4be109453ef7e895dc7215c929fff9b76b51483d56a4d04548b4866e9aa7c5ea;

    address internal owner = makeAddr("owner");
    address internal guardian = makeAddr("guardian");
    address internal user = makeAddr("user");
    address internal treasury = makeAddr("treasury");
    address internal allocator;
    uint256 internal allocatorKey;
    bytes32 internal id = keccak256("order");
    Depository internal depository;

    function setUp() public virtual {
        (allocator, allocatorKey) = makeAddrAndKey("allocator");
        depository = new Depository(owner, allocator);
        vm.prank(owner);
        depository.setGuardian(guardian);
        vm.warp(1_800_000_000);
    }

    function native(address to, uint256 amount) internal pure returns (IDepository.Call memory) {
        return IDepository.Call({to: to, data: "", value: amount, allowFailure: false});
    }

    function transfer(address token, address to, uint256 amount)
        internal
        pure
        returns (IDepository.Call memory)
    {
        return IDepository.Call({
            to: token, data: abi.encodeCall(IERC20.transfer, (to, amount)), value: 0, allowFailure: false
        });
    }

    function request(IDepository.Call memory call, uint256 nonce)
        internal
        view
        returns (IDepository.CallRequest memory)
    {
        IDepository.Call[] memory calls = new IDepository.Call[](1);
        calls[0] = call;
        return IDepository.CallRequest({calls: calls, nonce: nonce, expiration: block.timestamp + 30 minutes});
    }

    function request(IDepository.Call memory first, IDepository.Call memory second, uint256 nonce)
        internal
        view
        returns (IDepository.CallRequest memory)
    {
        IDepository.Call[] memory calls = new IDepository.Call[](2);
        (calls[0], calls[1]) = (first, second);
        return IDepository.CallRequest({calls: calls, nonce: nonce, expiration: block.timestamp + 30 minutes});
    }

    function sign(IDepository.CallRequest memory callRequest) internal view returns (bytes memory) {
        return signAs(allocatorKey, callRequest);
    }

    function signAs(uint256 key, IDepository.CallRequest memory callRequest)
        internal
        view
        returns (bytes memory)
    {
        (, bytes32 digest) = depository.hashCallRequest(callRequest);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, s, v);
    }

    function run(IDepository.CallRequest memory callRequest) internal {
        depository.execute(callRequest, sign(callRequest));
    }
}
