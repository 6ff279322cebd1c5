// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {DeployPermit2} from "permit2-test/DeployPermit2.sol";
import {ApprovalProxy} from "../src/ApprovalProxy.sol";
import {DepositAddressFactory} from "../src/DepositAddressFactory.sol";
import {SpendLimiter} from "../src/SpendLimiter.sol";
import {Router} from "../src/Router.sol";
import {Usdc} from "../src/devnet/Usdc.sol";
import {IApprovalProxy} from "../src/interfaces/IApprovalProxy.sol";
import {IDepository} from "../src/interfaces/IDepository.sol";
import {IPermit2} from "../src/interfaces/IPermit2.sol";
import {Call3Value, IRouter} from "../src/interfaces/IRouter.sol";
import {Calls} from "./utils/Actors.sol";
import {DepositoryFixture} from "./utils/DepositoryFixture.sol";

interface IPermit2Domain {
    function DOMAIN_SEPARATOR() external view returns (bytes32);
}

/// @notice The gas of every entry point in the state production knows: warm balances, an order id of full
/// length. `npm run gas` runs each call as a transaction of its own and writes the results to `snapshots`.
contract GasTest is DepositoryFixture {
    using Calls for Call3Value[];

    Router internal router;
    ApprovalProxy internal proxy;
    SpendLimiter internal spendLimiter;
    Usdc internal usdc;
    address internal permit2;
    address internal relayer = makeAddr("relayer");
    address internal signer;
    uint256 internal signerKey;

    function setUp() public override {
        super.setUp();
        (signer, signerKey) = makeAddrAndKey("signer");
        permit2 = new DeployPermit2().deployPermit2();
        router = new Router();
        proxy = new ApprovalProxy(owner, address(router), permit2);
        usdc = new Usdc(address(this));
        address[5] memory holders = [signer, treasury, address(depository), address(router), user];
        for (uint256 i = 0; i < holders.length; ++i) {
            usdc.mint(holders[i], 1000e6);
            vm.deal(holders[i], 10 ether);
        }
        vm.prank(address(router));
        usdc.transfer(treasury, 1000e6 - 1);
        vm.deal(address(router), 0);
        spendLimiter = new SpendLimiter(address(router));
    }

    function depositCalls() internal view returns (Call3Value[] memory calls) {
        bytes memory deposit = abi.encodeWithSignature(
            "depositErc20(address,address,uint256,bytes32)", signer, address(usdc), 100e6, id
        );
        return Calls.one(address(router), 0, Calls.spend(address(usdc), address(depository), deposit, 100e6));
    }

    function test_depository_deposits() public {
        vm.startPrank(signer);
        depository.depositNative{value: 1 ether}(signer, id);
        vm.snapshotGasLastCall("Depository", "depositNative");
        usdc.approve(address(depository), 300e6);
        depository.depositErc20(signer, address(usdc), 100e6, id);
        vm.snapshotGasLastCall("Depository", "depositErc20");
        depository.depositErc20(signer, address(usdc), id);
        vm.snapshotGasLastCall("Depository", "depositErc20, whole allowance");
        vm.stopPrank();
    }

    function test_depository_execution() public {
        IDepository.CallRequest memory callRequest = request(native(treasury, 1 ether), uint256(id));
        bytes memory signature = sign(callRequest);
        depository.execute(callRequest, signature);
        vm.snapshotGasLastCall("Depository", "execute, native");

        callRequest = request(transfer(address(usdc), treasury, 100e6), uint256(id) + 1);
        signature = sign(callRequest);
        depository.execute(callRequest, signature);
        vm.snapshotGasLastCall("Depository", "execute, token");

        vm.prank(owner);
        depository.setOutflowCap(address(usdc), 1000e6, 1 hours);
        vm.snapshotGasLastCall("Depository", "setOutflowCap");
        callRequest = request(transfer(address(usdc), treasury, 100e6), uint256(id) + 2);
        signature = sign(callRequest);
        depository.execute(callRequest, signature);
        vm.snapshotGasLastCall("Depository", "execute, token with cap, first");
        // Time passes between payouts, and some of the first is released.
        skip(1 minutes);
        callRequest = request(transfer(address(usdc), treasury, 100e6), uint256(id) + 3);
        signature = sign(callRequest);
        depository.execute(callRequest, signature);
        vm.snapshotGasLastCall("Depository", "execute, token with cap");
    }

    function test_depository_governance() public {
        vm.prank(guardian);
        depository.pauseExecution();
        vm.snapshotGasLastCall("Depository", "pauseExecution");
        vm.startPrank(owner);
        depository.unpauseExecution();
        vm.snapshotGasLastCall("Depository", "unpauseExecution");
        depository.setAllocator(treasury);
        vm.snapshotGasLastCall("Depository", "setAllocator");
        depository.setGuardian(treasury);
        vm.snapshotGasLastCall("Depository", "setGuardian");
        depository.transferOwnership(treasury);
        vm.snapshotGasLastCall("Depository", "transferOwnership");
        vm.stopPrank();
        vm.prank(treasury);
        depository.acceptOwnership();
        vm.snapshotGasLastCall("Depository", "acceptOwnership");
    }

    function test_router() public {
        vm.startPrank(user);
        router.multicall{value: 1 ether}(Calls.one(treasury, 1 ether, ""), user, address(0), "");
        vm.snapshotGasLastCall("Router", "multicall, one native call");
        router.multicall{value: 1 ether}(
            Calls.one(address(router), 0, abi.encodeCall(IRouter.cleanupNative, (0, treasury, ""))),
            user,
            address(0),
            ""
        );
        vm.snapshotGasLastCall("Router", "multicall, cleanupNative");

        bytes memory data =
            abi.encodePacked(abi.encodeCall(IRouter.cleanupNative, (1 ether, treasury, "")), id);
        (bool filled,) = address(router).call{value: 1 ether}(data);
        vm.snapshotGasLastCall("Router", "cleanupNative, fill");
        assertTrue(filled);

        usdc.transfer(address(router), 5e6);
        router.cleanupErc20s(Calls.list(address(usdc)), Calls.list(treasury), Calls.list(uint256(5e6)), "");
        vm.snapshotGasLastCall("Router", "cleanupErc20s");
        usdc.transfer(address(router), 5e6);
        router.cleanupErc20sViaCall(
            Calls.list(address(usdc)),
            Calls.list(address(depository)),
            Calls.list(
                abi.encodeWithSignature("depositErc20(address,address,bytes32)", user, address(usdc), id)
            ),
            Calls.list(uint256(5e6))
        );
        vm.snapshotGasLastCall("Router", "cleanupErc20sViaCall, deposit");
        vm.stopPrank();
        vm.deal(address(router), 2 ether);
        router.cleanupNative(1 ether, treasury, "");
        vm.snapshotGasLastCall("Router", "cleanupNative");
        router.cleanupNativeViaCall(
            1 ether, address(depository), abi.encodeCall(IDepository.depositNative, (user, id))
        );
        vm.snapshotGasLastCall("Router", "cleanupNativeViaCall, deposit");
    }

    function test_proxy_transferAndMulticall() public {
        vm.startPrank(signer);
        usdc.approve(address(proxy), type(uint256).max);
        proxy.transferAndMulticall(
            Calls.list(address(usdc)), Calls.list(uint256(100e6)), depositCalls(), signer, signer, ""
        );
        vm.snapshotGasLastCall("ApprovalProxy", "transferAndMulticall, deposit");
        vm.stopPrank();
    }

    function test_proxy_permitTransferAndMulticall() public {
        bytes32 structHash =
            keccak256(abi.encode(usdc.PERMIT_TYPEHASH(), signer, address(proxy), 100e6, 0, block.timestamp));
        (uint8 v, bytes32 r, bytes32 s) =
            vm.sign(signerKey, keccak256(abi.encodePacked(hex"1901", usdc.DOMAIN_SEPARATOR(), structHash)));
        IApprovalProxy.Permit[] memory permits = new IApprovalProxy.Permit[](1);
        permits[0] = IApprovalProxy.Permit(address(usdc), signer, 100e6, 0, block.timestamp, v, r, s);
        Call3Value[] memory calls = depositCalls();
        vm.prank(signer);
        proxy.permitTransferAndMulticall(permits, calls, signer, signer, "");
        vm.snapshotGasLastCall("ApprovalProxy", "permitTransferAndMulticall, deposit");
    }

    function test_proxy_permit2TransferAndMulticall() public {
        vm.prank(signer);
        usdc.approve(permit2, type(uint256).max);
        Call3Value[] memory calls = depositCalls();
        IPermit2.PermitBatchTransferFrom memory permit;
        permit.permitted = new IPermit2.TokenPermissions[](1);
        permit.permitted[0] = IPermit2.TokenPermissions(address(usdc), 100e6);
        permit.nonce = uint256(id);
        permit.deadline = block.timestamp;
        bytes memory signature = signPermit2(permit, proxy.witnessHash(relayer, signer, signer, "", calls));
        vm.prank(relayer);
        proxy.permit2TransferAndMulticall(signer, permit, calls, signer, signer, "", signature);
        vm.snapshotGasLastCall("ApprovalProxy", "permit2TransferAndMulticall, deposit");
    }

    function signPermit2(IPermit2.PermitBatchTransferFrom memory permit, bytes32 witness)
        internal
        view
        returns (bytes memory)
    {
        bytes32 permitted = keccak256(
            abi.encode(
                keccak256("TokenPermissions(address token,uint256 amount)"),
                permit.permitted[0].token,
                permit.permitted[0].amount
            )
        );
        bytes32 structHash = keccak256(
            abi.encode(
                keccak256(
                    "PermitBatchWitnessTransferFrom(TokenPermissions[] permitted,address spender,uint256 nonce,uint256 deadline,RelayerWitness witness)Call3Value(address target,bool allowFailure,uint256 value,bytes callData)RelayerWitness(address relayer,address refundTo,address nftRecipient,bytes metadata,Call3Value[] call3Values)TokenPermissions(address token,uint256 amount)"
                ),
                keccak256(abi.encodePacked(permitted)),
                address(proxy),
                permit.nonce,
                permit.deadline,
                witness
            )
        );
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(
            signerKey,
            keccak256(abi.encodePacked(hex"1901", IPermit2Domain(permit2).DOMAIN_SEPARATOR(), structHash))
        );
        return abi.encodePacked(r, s, v);
    }

    function test_proxy_permit3009TransferAndMulticall() public {
        Call3Value[] memory calls = depositCalls();
        bytes32 structHash = keccak256(
            abi.encode(
                usdc.RECEIVE_WITH_AUTHORIZATION_TYPEHASH(),
                signer,
                address(proxy),
                100e6,
                0,
                block.timestamp + 600,
                proxy.witnessHash(relayer, signer, signer, "", calls)
            )
        );
        (uint8 v, bytes32 r, bytes32 s) =
            vm.sign(signerKey, keccak256(abi.encodePacked(hex"1901", usdc.DOMAIN_SEPARATOR(), structHash)));
        IApprovalProxy.Permit3009[] memory permits = new IApprovalProxy.Permit3009[](1);
        permits[0] = IApprovalProxy.Permit3009(signer, 100e6, 0, block.timestamp + 600, v, r, s);
        vm.prank(relayer);
        proxy.permit3009TransferAndMulticall(permits, Calls.list(address(usdc)), calls, signer, signer, "");
        vm.snapshotGasLastCall("ApprovalProxy", "permit3009TransferAndMulticall, deposit");
    }

    function test_proxy_withdraw() public {
        usdc.mint(address(proxy), 5);
        vm.prank(owner);
        proxy.withdraw(address(usdc));
        vm.snapshotGasLastCall("ApprovalProxy", "withdraw");
    }

    /// @dev Fills, as the filler sends them: the order id follows, and the router is empty, as every flow
    /// leaves it.
    function test_spendLimiter() public {
        vm.prank(address(router));
        usdc.transfer(treasury, 1);
        vm.startPrank(treasury);
        usdc.approve(address(spendLimiter), 1000e6);
        spendLimiter.setLimit(relayer, address(usdc), 1000e6);
        vm.snapshotGasLastCall("SpendLimiter", "setLimit, first");
        spendLimiter.setLimit(relayer, address(usdc), 2000e6);
        vm.snapshotGasLastCall("SpendLimiter", "setLimit");
        vm.stopPrank();
        vm.deal(relayer, 10 ether);

        Call3Value[] memory calls = Calls.one(address(router), 0, Calls.cleanup(address(usdc), user, 100e6));
        bytes memory delivery = fill(calls);
        bytes memory withTopUp = fill(
            calls.then(address(router), 0, abi.encodeCall(IRouter.cleanupNative, (0.001 ether, user, "")))
        );
        vm.startPrank(relayer);
        (bool delivered,) = address(spendLimiter).call(delivery);
        vm.snapshotGasLastCall("SpendLimiter", "spend, token delivered");
        (bool toppedUp,) = address(spendLimiter).call{value: 0.001 ether}(withTopUp);
        vm.snapshotGasLastCall("SpendLimiter", "spend, token delivered with native");
        vm.stopPrank();
        assertTrue(delivered && toppedUp);
        assertEq(usdc.balanceOf(user), 1200e6);
        assertEq(user.balance, 10.001 ether);
    }

    /// @dev Each kind of sweep, the first of an address and a later one.
    function test_depositAddressFactory() public {
        DepositAddressFactory factory = new DepositAddressFactory(owner, address(depository));
        vm.prank(owner);
        factory.setOperator(relayer, true);
        vm.snapshotGasLastCall("DepositAddressFactory", "setOperator");
        // The depository holds native currency, as it does in production.
        depository.depositNative{value: 1}(user, id);
        string[2] memory turns = [", first", ""];
        for (uint256 i = 0; i < turns.length; ++i) {
            vm.deal(factory.computeDepositAddress(id, signer), 1 ether);
            factory.sweep(id, signer, Calls.list(address(0)));
            vm.snapshotGasLastCall("DepositAddressFactory", string.concat("sweep, native", turns[i]));
            usdc.mint(factory.computeDepositAddress(id, user), 100e6);
            factory.sweep(id, user, Calls.list(address(usdc)));
            vm.snapshotGasLastCall("DepositAddressFactory", string.concat("sweep, token", turns[i]));
            usdc.mint(factory.computeOpenDepositAddress(id), 100e6);
            vm.prank(relayer);
            factory.sweepOpen(id, id, user, address(usdc), 100e6);
            vm.snapshotGasLastCall("DepositAddressFactory", string.concat("sweepOpen, token", turns[i]));
        }
        factory.sweep(id, signer, Calls.list(address(0)));
        vm.snapshotGasLastCall("DepositAddressFactory", "sweep, nothing");
    }

    function fill(Call3Value[] memory calls) internal view returns (bytes memory) {
        return abi.encodePacked(
            abi.encodeCall(
                spendLimiter.spend, (treasury, address(usdc), 100e6, calls, relayer, address(0), "")
            ),
            id
        );
    }
}
