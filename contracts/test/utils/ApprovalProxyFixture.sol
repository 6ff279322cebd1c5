// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Test} from "forge-std/Test.sol";
import {DeployPermit2} from "permit2-test/DeployPermit2.sol";
import {ApprovalProxy} from "../../src/ApprovalProxy.sol";
import {Depository} from "../../src/Depository.sol";
import {Router} from "../../src/Router.sol";
import {Usdc} from "../../src/devnet/Usdc.sol";
import {IApprovalProxy} from "../../src/interfaces/IApprovalProxy.sol";
import {IPermit2} from "../../src/interfaces/IPermit2.sol";
import {Call3Value} from "../../src/interfaces/IRouter.sol";
import {Calls, TestExchange} from "./Actors.sol";
import {TestToken} from "./HostileTokens.sol";

interface IPermit2Domain {
    function DOMAIN_SEPARATOR() external view returns (bytes32);
}

/// @notice A proxy with its router, tokens of every kind and a user who holds them.
abstract contract ApprovalProxyFixture is Test {
    using Calls for Call3Value[];

    bytes32 internal constant WITNESS_TYPEHASH =
        0x4b21a98ca11613e848d71d25db5eb5a6ee6e910560d8f8eebeff8ea5168af917;

    Router internal router;
    ApprovalProxy internal proxy;
    Depository internal depository;
    TestExchange internal exchange;
    TestToken internal token;
    TestToken internal other;
    Usdc internal usdc;
    address internal permit2;
    address internal owner = makeAddr("owner");
    address internal relayer = makeAddr("relayer");
    address internal thief = makeAddr("thief");
    address internal user;
    uint256 internal userKey;
    bytes32 internal id = keccak256("order");

    function setUp() public {
        vm.warp(1_800_000_000);
        (user, userKey) = makeAddrAndKey("user");
        permit2 = new DeployPermit2().deployPermit2();
        router = new Router();
        proxy = new ApprovalProxy(owner, address(router), permit2);
        depository = new Depository(address(1), address(2));
        exchange = new TestExchange();
        token = new TestToken();
        other = new TestToken();
        usdc = new Usdc(address(this));
        token.mint(user, 1000 ether);
        usdc.mint(user, 1000e6);
        other.mint(address(exchange), 1000 ether);
        vm.deal(user, 10 ether);
    }

    /// @dev A gasless deposit: the router approves the depository for the amount alone, deposits for the user,
    /// and takes back an approval that is left.
    function depositCalls(address currency, uint256 amount) internal view returns (Call3Value[] memory) {
        return Calls.one(
            address(router),
            0,
            Calls.spend(
                currency,
                address(depository),
                abi.encodeWithSignature(
                    "depositErc20(address,address,uint256,bytes32)", user, currency, amount, id
                ),
                amount
            )
        );
    }

    /// @dev The same as two plain calls, as others build it.
    function plainDepositCalls(address currency, uint256 amount) internal view returns (Call3Value[] memory) {
        return Calls.one(currency, 0, abi.encodeCall(IERC20.approve, (address(depository), amount)))
            .then(
                address(depository),
                0,
                abi.encodeWithSignature(
                    "depositErc20(address,address,uint256,bytes32)", user, currency, amount, id
                )
            );
    }

    function stealCalls(address currency) internal view returns (Call3Value[] memory) {
        return Calls.one(address(router), 0, Calls.cleanup(currency, thief, 0));
    }

    function notArrived(address currency, uint256 expected, uint256 balance)
        internal
        pure
        returns (bytes memory)
    {
        return abi.encodeWithSelector(IApprovalProxy.NotArrived.selector, currency, expected, balance);
    }

    function permit2Of(address currency, uint256 amount, uint256 nonce)
        internal
        view
        returns (IPermit2.PermitBatchTransferFrom memory permit)
    {
        permit.permitted = new IPermit2.TokenPermissions[](1);
        permit.permitted[0] = IPermit2.TokenPermissions({token: currency, amount: amount});
        permit.nonce = nonce;
        permit.deadline = block.timestamp + 10 minutes;
    }
}
