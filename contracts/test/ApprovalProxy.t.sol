// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Test} from "forge-std/Test.sol";
import {DeployPermit2} from "permit2-test/DeployPermit2.sol";
import {ApprovalProxy} from "../src/ApprovalProxy.sol";
import {Depository} from "../src/Depository.sol";
import {Router} from "../src/Router.sol";
import {Usdc} from "../src/devnet/Usdc.sol";
import {IApprovalProxy} from "../src/interfaces/IApprovalProxy.sol";
import {IOwned} from "../src/interfaces/IOwned.sol";
import {IPermit2} from "../src/interfaces/IPermit2.sol";
import {Call3Value, IRouter} from "../src/interfaces/IRouter.sol";
import {Calls, Intruder, TestExchange} from "./utils/Actors.sol";
import {FalseToken, FeeToken, HookToken, Swallower, TestToken} from "./utils/HostileTokens.sol";

interface IPermit2Domain {
    function DOMAIN_SEPARATOR() external view returns (bytes32);
}

contract ApprovalProxyTest is Test {
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

    /// @dev A gasless deposit: approve the depository, deposit for the user.
    function depositCalls(address currency, uint256 amount) internal view returns (Call3Value[] memory) {
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

    function test_selectors_are_public() public pure {
        assertEq(IApprovalProxy.transferAndMulticall.selector, bytes4(0xf9e4bab4));
        assertEq(IApprovalProxy.permitTransferAndMulticall.selector, bytes4(0xfb68c293));
        assertEq(IApprovalProxy.permit2TransferAndMulticall.selector, bytes4(0x0a2b8f36));
        assertEq(IApprovalProxy.permit3009TransferAndMulticall.selector, bytes4(0xf80f00fb));
    }

    function test_construction_refuses_zero_addresses() public {
        vm.expectRevert(IOwned.AddressCannotBeZero.selector);
        new ApprovalProxy(address(0), address(router), permit2);
        vm.expectRevert(IOwned.AddressCannotBeZero.selector);
        new ApprovalProxy(owner, address(0), permit2);
        vm.expectRevert(IOwned.AddressCannotBeZero.selector);
        new ApprovalProxy(owner, address(router), address(0));
        assertEq(proxy.ROUTER(), address(router));
        assertEq(proxy.PERMIT2(), permit2);
    }

    function test_a_zero_refund_recipient_is_refused() public {
        IPermit2.PermitBatchTransferFrom memory permit;
        vm.expectRevert(IApprovalProxy.RefundToCannotBeZero.selector);
        proxy.transferAndMulticall(
            new address[](0), new uint256[](0), new Call3Value[](0), address(0), user, ""
        );
        vm.expectRevert(IApprovalProxy.RefundToCannotBeZero.selector);
        proxy.permitTransferAndMulticall(
            new IApprovalProxy.Permit[](0), new Call3Value[](0), address(0), user, ""
        );
        vm.expectRevert(IApprovalProxy.RefundToCannotBeZero.selector);
        proxy.permit2TransferAndMulticall(user, permit, new Call3Value[](0), address(0), user, "", "");
        vm.expectRevert(IApprovalProxy.RefundToCannotBeZero.selector);
        proxy.permit3009TransferAndMulticall(
            new IApprovalProxy.Permit3009[](0), new address[](0), new Call3Value[](0), address(0), user, ""
        );
    }

    function test_uneven_lists_are_refused() public {
        vm.expectRevert(IApprovalProxy.LengthMismatch.selector);
        proxy.transferAndMulticall(
            Calls.list(address(token)), new uint256[](0), new Call3Value[](0), user, user, ""
        );
        vm.expectRevert(IApprovalProxy.LengthMismatch.selector);
        proxy.permit3009TransferAndMulticall(
            new IApprovalProxy.Permit3009[](0),
            Calls.list(address(token)),
            new Call3Value[](0),
            user,
            user,
            ""
        );
    }

    // ---- approvals ----

    function testFuzz_transferAndMulticall_deposits(uint128 amount, bytes32 metadata) public {
        amount = uint128(bound(amount, 1, type(uint128).max));
        token.mint(user, amount);
        vm.startPrank(user);
        token.approve(address(proxy), amount);
        vm.expectEmit(address(proxy));
        emit IApprovalProxy.FundsMovement(user, address(router), address(token), amount, abi.encode(metadata));
        proxy.transferAndMulticall(
            Calls.list(address(token)),
            Calls.list(uint256(amount)),
            depositCalls(address(token), amount),
            user,
            user,
            abi.encode(metadata)
        );
        vm.stopPrank();
        assertEq(token.balanceOf(address(depository)), amount);
        assertEq(token.balanceOf(address(router)), 0);
    }

    function swapAndDeposit(uint256 spent) internal view returns (Call3Value[] memory calls) {
        bytes memory deposit =
            abi.encodeWithSignature("depositErc20(address,address,bytes32)", user, address(other), id);
        calls = Calls.one(address(token), 0, abi.encodeCall(IERC20.approve, (address(exchange), spent)));
        calls =
            calls.then(address(exchange), 0, abi.encodeCall(TestExchange.swap, (token, other, spent, spent)));
        calls = calls.then(
            address(router),
            0,
            abi.encodeCall(
                IRouter.cleanupErc20sViaCall,
                (
                    Calls.list(address(other)),
                    Calls.list(address(depository)),
                    Calls.list(deposit),
                    Calls.list(uint256(0))
                )
            )
        );
        calls = calls.then(address(router), 0, Calls.cleanup(address(token), user, 0));
    }

    function testFuzz_a_swap_ends_with_nothing_in_the_router(uint96 amount, uint96 spent, uint96 value)
        public
    {
        amount = uint96(bound(amount, 1, 900 ether));
        spent = uint96(bound(spent, 1, amount));
        vm.deal(user, value);
        uint256 before = token.balanceOf(user);
        vm.startPrank(user);
        token.approve(address(proxy), amount);
        proxy.transferAndMulticall{value: value}(
            Calls.list(address(token)), Calls.list(uint256(amount)), swapAndDeposit(spent), user, user, ""
        );
        vm.stopPrank();
        assertEq(other.balanceOf(address(depository)), spent);
        assertEq(token.balanceOf(user), before - spent);
        assertEq(user.balance, value);
        assertEq(token.balanceOf(address(router)), 0);
        assertEq(other.balanceOf(address(router)), 0);
        assertEq(address(router).balance, 0);
        assertEq(address(proxy).balance, 0);
    }

    function notArrived(address currency, uint256 expected, uint256 balance)
        internal
        pure
        returns (bytes memory)
    {
        return abi.encodeWithSelector(IApprovalProxy.NotArrived.selector, currency, expected, balance);
    }

    function test_a_fee_on_transfer_is_refused() public {
        FeeToken fee = new FeeToken();
        fee.mint(user, 100);
        vm.startPrank(user);
        fee.approve(address(proxy), 100);
        vm.expectRevert(notArrived(address(fee), 100, 90));
        proxy.transferAndMulticall(
            Calls.list(address(fee)), Calls.list(uint256(100)), new Call3Value[](0), user, user, ""
        );
        vm.stopPrank();
        assertEq(fee.balanceOf(user), 100);
    }

    /// @dev Anyone can register a receiver hook for the router with tokens that have such hooks.
    function test_a_token_cannot_be_taken_while_it_arrives() public {
        HookToken hook = new HookToken();
        hook.mint(user, 5);
        hook.arm(
            address(router),
            abi.encodeCall(IRouter.multicall, (stealCalls(address(hook)), thief, address(0), "")),
            true
        );
        vm.startPrank(user);
        hook.approve(address(proxy), 5);
        vm.expectRevert(notArrived(address(hook), 5, 0));
        proxy.transferAndMulticall(
            Calls.list(address(hook)), Calls.list(uint256(5)), new Call3Value[](0), user, user, ""
        );
        vm.stopPrank();
    }

    function test_a_false_answer_is_refused() public {
        FalseToken no = new FalseToken();
        vm.expectRevert();
        proxy.transferAndMulticall(
            Calls.list(address(no)), Calls.list(uint256(1)), new Call3Value[](0), user, user, ""
        );
    }

    /// @dev The first token is in the router, which is not in use yet, while the second token calls out.
    function test_tokens_cannot_be_taken_between_the_moves() public {
        HookToken hook = new HookToken();
        hook.mint(user, 1);
        hook.arm(
            address(router),
            abi.encodeCall(IRouter.multicall, (stealCalls(address(token)), thief, address(0), "")),
            true
        );
        address[] memory tokens = new address[](2);
        uint256[] memory amounts = new uint256[](2);
        (tokens[0], tokens[1]) = (address(token), address(hook));
        (amounts[0], amounts[1]) = (100 ether, 1);
        vm.startPrank(user);
        token.approve(address(proxy), 100 ether);
        hook.approve(address(proxy), 1);
        vm.expectRevert(notArrived(address(token), 100 ether, 0));
        proxy.transferAndMulticall(tokens, amounts, new Call3Value[](0), user, user, "");
        vm.stopPrank();
    }

    // ---- an approval serves nobody but its owner ----

    function test_others_cannot_use_an_approval() public {
        vm.prank(user);
        token.approve(address(proxy), type(uint256).max);
        vm.startPrank(thief);
        vm.expectRevert();
        proxy.transferAndMulticall(
            Calls.list(address(token)), Calls.list(uint256(1)), stealCalls(address(token)), thief, thief, ""
        );
        IApprovalProxy.Permit[] memory permits = new IApprovalProxy.Permit[](1);
        permits[0].token = address(token);
        permits[0].owner = user;
        permits[0].value = 1;
        vm.expectRevert(abi.encodeWithSelector(IApprovalProxy.NotPermitOwner.selector, user));
        proxy.permitTransferAndMulticall(permits, stealCalls(address(token)), thief, thief, "");
        vm.stopPrank();
        assertEq(token.balanceOf(user), 1000 ether);
    }

    function test_the_router_cannot_be_made_to_use_an_approval() public {
        vm.prank(user);
        token.approve(address(proxy), type(uint256).max);
        vm.startPrank(thief);
        vm.expectRevert();
        router.multicall(
            Calls.one(address(token), 0, abi.encodeCall(IERC20.transferFrom, (user, thief, 1))),
            thief,
            thief,
            ""
        );
        // Through the router, the proxy sees the router as its caller, and the router is in use.
        vm.expectRevert();
        router.multicall(
            Calls.one(
                address(proxy),
                0,
                abi.encodeCall(
                    IApprovalProxy.transferAndMulticall,
                    (new address[](0), new uint256[](0), new Call3Value[](0), thief, thief, "")
                )
            ),
            thief,
            thief,
            ""
        );
        vm.stopPrank();
    }

    /// @dev The user has approved every contract there is to approve; nothing may move without a fresh
    /// signature.
    function testFuzz_others_never_move_an_approved_balance(
        address by,
        uint256 amount,
        uint256 nonce,
        bytes32 r,
        bytes32 s,
        bool highV
    ) public {
        vm.assume(by != user && by != address(proxy) && by != address(vm));
        amount = bound(amount, 1, 1000e6);
        vm.startPrank(user);
        usdc.approve(address(proxy), type(uint256).max);
        usdc.approve(permit2, type(uint256).max);
        vm.stopPrank();
        uint8 v = highV ? 28 : 27;
        bytes[] memory attempts = new bytes[](4);
        Call3Value[] memory calls = stealCalls(address(usdc));
        attempts[0] = abi.encodeCall(
            IApprovalProxy.transferAndMulticall,
            (Calls.list(address(usdc)), Calls.list(amount), calls, thief, thief, "")
        );
        IApprovalProxy.Permit[] memory permits = new IApprovalProxy.Permit[](1);
        permits[0] = IApprovalProxy.Permit(address(usdc), user, amount, nonce, block.timestamp, v, r, s);
        attempts[1] =
            abi.encodeCall(IApprovalProxy.permitTransferAndMulticall, (permits, calls, thief, thief, ""));
        attempts[2] = abi.encodeCall(
            IApprovalProxy.permit2TransferAndMulticall,
            (
                user,
                permit2Of(address(usdc), amount, nonce),
                calls,
                thief,
                thief,
                "",
                abi.encodePacked(r, s, v)
            )
        );
        IApprovalProxy.Permit3009[] memory authorizations = new IApprovalProxy.Permit3009[](1);
        authorizations[0] = IApprovalProxy.Permit3009(user, amount, 0, type(uint256).max, v, r, s);
        attempts[3] = abi.encodeCall(
            IApprovalProxy.permit3009TransferAndMulticall,
            (authorizations, Calls.list(address(usdc)), calls, thief, thief, "")
        );
        for (uint256 i = 0; i < attempts.length; ++i) {
            vm.prank(by);
            (bool success,) = address(proxy).call(attempts[i]);
            assertFalse(success);
        }
        assertEq(usdc.balanceOf(user), 1000e6);
    }

    function test_the_proxy_cannot_be_entered_twice() public {
        Intruder intruder = new Intruder();
        intruder.arm(
            address(proxy),
            abi.encodeCall(
                IApprovalProxy.transferAndMulticall,
                (new address[](0), new uint256[](0), new Call3Value[](0), thief, thief, "")
            )
        );
        vm.prank(user);
        proxy.transferAndMulticall{value: 1 ether}(
            new address[](0),
            new uint256[](0),
            Calls.one(address(intruder), 0, abi.encodeCall(Intruder.poke, ())),
            user,
            user,
            ""
        );
        assertTrue(intruder.tried());
        assertFalse(intruder.entered());
        assertEq(user.balance, 10 ether);
    }

    // ---- EIP-2612 ----

    function signPermit(uint256 key, address account, uint256 value, uint256 deadline)
        internal
        view
        returns (IApprovalProxy.Permit[] memory permits)
    {
        uint256 nonce = usdc.nonces(account);
        bytes32 structHash =
            keccak256(abi.encode(usdc.PERMIT_TYPEHASH(), account, address(proxy), value, nonce, deadline));
        (uint8 v, bytes32 r, bytes32 s) =
            vm.sign(key, keccak256(abi.encodePacked(hex"1901", usdc.DOMAIN_SEPARATOR(), structHash)));
        permits = new IApprovalProxy.Permit[](1);
        permits[0] = IApprovalProxy.Permit({
            token: address(usdc),
            owner: account,
            value: value,
            nonce: nonce,
            deadline: deadline,
            v: v,
            r: r,
            s: s
        });
    }

    function testFuzz_permitTransferAndMulticall(uint64 amount, bool frontRun) public {
        amount = uint64(bound(amount, 1, 1000e6));
        IApprovalProxy.Permit[] memory permits = signPermit(userKey, user, amount, block.timestamp);
        if (frontRun) {
            IApprovalProxy.Permit memory p = permits[0];
            vm.prank(thief);
            usdc.permit(p.owner, address(proxy), p.value, p.deadline, p.v, p.r, p.s);
        }
        vm.prank(user);
        proxy.permitTransferAndMulticall(permits, depositCalls(address(usdc), amount), user, user, "");
        assertEq(usdc.balanceOf(address(depository)), amount);
        assertEq(usdc.allowance(user, address(proxy)), 0);
    }

    function test_a_bad_permit_without_an_approval_is_refused() public {
        IApprovalProxy.Permit[] memory permits = signPermit(userKey, user, 5e6, block.timestamp);
        permits[0].value = 6e6;
        vm.prank(user);
        vm.expectRevert(abi.encodeWithSelector(IApprovalProxy.PermitFailed.selector, address(usdc)));
        proxy.permitTransferAndMulticall(permits, depositCalls(address(usdc), 6e6), user, user, "");
    }

    function test_a_permit_seen_in_the_open_cannot_be_used_by_others() public {
        IApprovalProxy.Permit[] memory permits = signPermit(userKey, user, 5e6, block.timestamp);
        vm.startPrank(thief);
        vm.expectRevert(abi.encodeWithSelector(IApprovalProxy.NotPermitOwner.selector, user));
        proxy.permitTransferAndMulticall(permits, stealCalls(address(usdc)), thief, thief, "");
        permits[0].owner = thief;
        vm.expectRevert(abi.encodeWithSelector(IApprovalProxy.PermitFailed.selector, address(usdc)));
        proxy.permitTransferAndMulticall(permits, stealCalls(address(usdc)), thief, thief, "");
        vm.stopPrank();
    }

    // ---- Permit2 ----

    function permit2Digest(IPermit2.PermitBatchTransferFrom memory permit, address spender, bytes32 witness)
        internal
        view
        returns (bytes32)
    {
        bytes32 typehash = keccak256(
            "PermitBatchWitnessTransferFrom(TokenPermissions[] permitted,address spender,uint256 nonce,uint256 deadline,RelayerWitness witness)Call3Value(address target,bool allowFailure,uint256 value,bytes callData)RelayerWitness(address relayer,address refundTo,address nftRecipient,bytes metadata,Call3Value[] call3Values)TokenPermissions(address token,uint256 amount)"
        );
        bytes32[] memory hashes = new bytes32[](permit.permitted.length);
        for (uint256 i = 0; i < hashes.length; ++i) {
            hashes[i] = keccak256(
                abi.encode(
                    keccak256("TokenPermissions(address token,uint256 amount)"),
                    permit.permitted[i].token,
                    permit.permitted[i].amount
                )
            );
        }
        bytes32 structHash = keccak256(
            abi.encode(
                typehash, keccak256(abi.encodePacked(hashes)), spender, permit.nonce, permit.deadline, witness
            )
        );
        return keccak256(abi.encodePacked(hex"1901", IPermit2Domain(permit2).DOMAIN_SEPARATOR(), structHash));
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

    function signPermit2(IPermit2.PermitBatchTransferFrom memory permit, Call3Value[] memory calls)
        internal
        view
        returns (bytes memory)
    {
        bytes32 witness = proxy.witnessHash(relayer, user, user, "", calls);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(userKey, permit2Digest(permit, address(proxy), witness));
        return abi.encodePacked(r, s, v);
    }

    function test_the_published_witness_and_digest() public {
        Call3Value[] memory calls = Calls.one(
                0x9099Eb14ed3f3723CD8E6904d75cB644b19d4D98,
                0,
                hex"095ea7b3000000000000000000000000cff3ea62bc5a19158f9690603bfa25a02b2dce5a000000000000000000000000000000000000000000000000000000000ee6b280"
            )
            .then(
                0xcfF3EA62BC5A19158F9690603bFA25A02B2dCE5A,
                0,
                hex"e80179520000000000000000000000004a84e43a54cc2f8abb42afa12dd825212abd36d10000000000000000000000009099eb14ed3f3723cd8e6904d75cb644b19d4d98000000000000000000000000000000000000000000000000000000000ee6b2807f3117abfbad865d612ada25300c7379160a97f0f1950f0836cc325d36f9b8cb"
            );
        address publishedUser = 0x4A84e43A54cc2F8abb42afA12Dd825212abD36D1;
        bytes32 witness = proxy.witnessHash(
            0x1d74B5942d13e0D2645946CC4F2Aa71b8eDA940F, publishedUser, publishedUser, "", calls
        );
        assertEq(witness, 0xd9ba9d5a378f0a20cff430e6f01b61b84e6a2ff28f2b0bfb21aaf06ffecf4ebf);

        vm.chainId(8453);
        IPermit2.PermitBatchTransferFrom memory permit =
            permit2Of(0x9099Eb14ed3f3723CD8E6904d75cB644b19d4D98, 250_000_000, 0);
        permit.nonce = 101956708968129979882113013600064001259767922500495045937627299844819327096459;
        permit.deadline = 1_893_456_000;
        assertEq(
            permit2Digest(permit, 0x11107C3157f4e281D85d7010a4fEE074F2aAf088, witness),
            0x13be26dfa349e494ed4e6af73be96f24525b1c636329f7715c2969f83da15f00
        );
    }

    function test_typehashes_are_public() public pure {
        assertEq(
            keccak256(
                "RelayerWitness(address relayer,address refundTo,address nftRecipient,bytes metadata,Call3Value[] call3Values)Call3Value(address target,bool allowFailure,uint256 value,bytes callData)"
            ),
            WITNESS_TYPEHASH
        );
        assertEq(
            keccak256("Call3Value(address target,bool allowFailure,uint256 value,bytes callData)"),
            0xfd3926a097b5d365885a8c0afe16fa80ed4d377e8627017476dfe9729e8a6cde
        );
    }

    function testFuzz_permit2TransferAndMulticall(uint128 amount, uint256 nonce) public {
        amount = uint128(bound(amount, 1, 1000 ether));
        vm.prank(user);
        token.approve(permit2, type(uint256).max);
        IPermit2.PermitBatchTransferFrom memory permit = permit2Of(address(token), amount, nonce);
        Call3Value[] memory calls = depositCalls(address(token), amount);
        bytes memory signature = signPermit2(permit, calls);
        vm.startPrank(relayer);
        proxy.permit2TransferAndMulticall(user, permit, calls, user, user, "", signature);
        assertEq(token.balanceOf(address(depository)), amount);
        vm.expectRevert();
        proxy.permit2TransferAndMulticall(user, permit, calls, user, user, "", signature);
        vm.stopPrank();
    }

    function test_a_permit2_signature_covers_the_sender_and_everything_that_runs() public {
        vm.prank(user);
        token.approve(permit2, type(uint256).max);
        IPermit2.PermitBatchTransferFrom memory permit = permit2Of(address(token), 5 ether, 1);
        Call3Value[] memory calls = depositCalls(address(token), 5 ether);
        bytes memory signature = signPermit2(permit, calls);
        bytes4 invalid = bytes4(keccak256("InvalidSigner()"));

        vm.prank(thief);
        vm.expectRevert(invalid);
        proxy.permit2TransferAndMulticall(user, permit, calls, user, user, "", signature);
        vm.startPrank(relayer);
        vm.expectRevert(invalid);
        proxy.permit2TransferAndMulticall(user, permit, stealCalls(address(token)), user, user, "", signature);
        vm.expectRevert(invalid);
        proxy.permit2TransferAndMulticall(user, permit, calls, relayer, user, "", signature);
        vm.expectRevert(invalid);
        proxy.permit2TransferAndMulticall(user, permit, calls, user, relayer, "", signature);
        vm.expectRevert(invalid);
        proxy.permit2TransferAndMulticall(user, permit, calls, user, user, "x", signature);
        permit.permitted[0].amount = 6 ether;
        vm.expectRevert(invalid);
        proxy.permit2TransferAndMulticall(user, permit, calls, user, user, "", signature);
        permit.permitted[0].amount = 5 ether;
        proxy.permit2TransferAndMulticall(user, permit, calls, user, user, "", signature);
        vm.stopPrank();
    }

    function test_a_permit2_signature_names_the_proxy_as_spender() public {
        vm.prank(user);
        token.approve(permit2, type(uint256).max);
        ApprovalProxy twin = new ApprovalProxy(owner, address(router), permit2);
        IPermit2.PermitBatchTransferFrom memory permit = permit2Of(address(token), 5 ether, 1);
        Call3Value[] memory calls = depositCalls(address(token), 5 ether);
        bytes memory signature = signPermit2(permit, calls);
        vm.prank(relayer);
        vm.expectRevert(bytes4(keccak256("InvalidSigner()")));
        twin.permit2TransferAndMulticall(user, permit, calls, user, user, "", signature);
    }

    function test_permit2_tokens_cannot_be_taken_between_the_moves() public {
        HookToken hook = new HookToken();
        hook.mint(user, 1);
        IPermit2.PermitBatchTransferFrom memory permit = permit2Of(address(token), 100 ether, 1);
        permit.permitted = new IPermit2.TokenPermissions[](2);
        permit.permitted[0] = IPermit2.TokenPermissions({token: address(token), amount: 100 ether});
        permit.permitted[1] = IPermit2.TokenPermissions({token: address(hook), amount: 1});
        vm.startPrank(user);
        token.approve(permit2, type(uint256).max);
        hook.approve(permit2, type(uint256).max);
        vm.stopPrank();
        Call3Value[] memory calls = Calls.one(address(router), 0, Calls.cleanup(address(token), user, 0))
            .then(address(router), 0, Calls.cleanup(address(hook), user, 0));
        bytes memory signature = signPermit2(permit, calls);
        uint256 state = vm.snapshotState();
        hook.arm(
            address(router),
            abi.encodeCall(IRouter.multicall, (stealCalls(address(token)), thief, address(0), "")),
            true
        );
        vm.prank(relayer);
        vm.expectRevert(notArrived(address(token), 100 ether, 0));
        proxy.permit2TransferAndMulticall(user, permit, calls, user, user, "", signature);

        vm.revertToState(state);
        vm.prank(relayer);
        proxy.permit2TransferAndMulticall(user, permit, calls, user, user, "", signature);
        assertEq(token.balanceOf(user), 1000 ether);
    }

    // ---- EIP-3009 ----

    function sign3009(uint256 amount, Call3Value[] memory calls)
        internal
        view
        returns (IApprovalProxy.Permit3009[] memory permits)
    {
        return sign3009For(relayer, amount, calls);
    }

    function sign3009For(address submitter, uint256 amount, Call3Value[] memory calls)
        internal
        view
        returns (IApprovalProxy.Permit3009[] memory permits)
    {
        bytes32 witness = proxy.witnessHash(submitter, user, user, "", calls);
        bytes32 structHash = keccak256(
            abi.encode(
                usdc.RECEIVE_WITH_AUTHORIZATION_TYPEHASH(),
                user,
                address(proxy),
                amount,
                0,
                block.timestamp + 600,
                witness
            )
        );
        (uint8 v, bytes32 r, bytes32 s) =
            vm.sign(userKey, keccak256(abi.encodePacked(hex"1901", usdc.DOMAIN_SEPARATOR(), structHash)));
        permits = new IApprovalProxy.Permit3009[](1);
        permits[0] = IApprovalProxy.Permit3009({
            from: user, value: amount, validAfter: 0, validBefore: block.timestamp + 600, v: v, r: r, s: s
        });
    }

    function testFuzz_permit3009TransferAndMulticall(uint64 amount) public {
        amount = uint64(bound(amount, 1, 1000e6));
        Call3Value[] memory calls = depositCalls(address(usdc), amount);
        IApprovalProxy.Permit3009[] memory permits = sign3009(amount, calls);
        // A stray token in the proxy stays there.
        usdc.mint(address(proxy), 3);
        vm.startPrank(relayer);
        proxy.permit3009TransferAndMulticall(permits, Calls.list(address(usdc)), calls, user, user, "");
        assertEq(usdc.balanceOf(address(depository)), amount);
        assertEq(usdc.balanceOf(address(router)), 0);
        assertEq(usdc.balanceOf(address(proxy)), 3);
        vm.expectRevert(Usdc.AuthorizationAlreadyUsed.selector);
        proxy.permit3009TransferAndMulticall(permits, Calls.list(address(usdc)), calls, user, user, "");
        vm.stopPrank();
    }

    function test_an_authorization_covers_the_sender_and_everything_that_runs() public {
        Call3Value[] memory calls = depositCalls(address(usdc), 5e6);
        IApprovalProxy.Permit3009[] memory permits = sign3009(5e6, calls);
        address[] memory tokens = Calls.list(address(usdc));
        vm.prank(thief);
        vm.expectRevert(Usdc.InvalidSignature.selector);
        proxy.permit3009TransferAndMulticall(permits, tokens, calls, user, user, "");
        vm.startPrank(relayer);
        vm.expectRevert(Usdc.InvalidSignature.selector);
        proxy.permit3009TransferAndMulticall(permits, tokens, stealCalls(address(usdc)), user, user, "");
        vm.expectRevert(Usdc.InvalidSignature.selector);
        proxy.permit3009TransferAndMulticall(permits, tokens, calls, relayer, user, "");
        vm.expectRevert(Usdc.InvalidSignature.selector);
        proxy.permit3009TransferAndMulticall(permits, tokens, calls, user, relayer, "");
        vm.expectRevert(Usdc.InvalidSignature.selector);
        proxy.permit3009TransferAndMulticall(permits, tokens, calls, user, user, "x");
        vm.stopPrank();

        // Nobody but the proxy can present it to the token.
        IApprovalProxy.Permit3009 memory p = permits[0];
        bytes32 witness = proxy.witnessHash(relayer, user, user, "", calls);
        vm.prank(thief);
        vm.expectRevert(Usdc.CallerMustBePayee.selector);
        usdc.receiveWithAuthorization(
            p.from, address(proxy), p.value, p.validAfter, p.validBefore, witness, p.v, p.r, p.s
        );
        assertEq(usdc.balanceOf(user), 1000e6);
    }

    function test_a_contract_that_swallows_calls_hands_out_no_strays() public {
        Swallower swallower = new Swallower();
        swallower.mint(address(proxy), 10);
        IApprovalProxy.Permit3009[] memory permits = new IApprovalProxy.Permit3009[](1);
        permits[0].from = user;
        permits[0].value = 10;
        vm.prank(thief);
        vm.expectRevert(abi.encodeWithSelector(IApprovalProxy.NothingReceived.selector, address(swallower)));
        proxy.permit3009TransferAndMulticall(
            permits, Calls.list(address(swallower)), stealCalls(address(swallower)), thief, thief, ""
        );
    }

    // ---- strays ----

    function testFuzz_the_owner_withdraws_strays(uint128 tokens, uint96 value, address by) public {
        vm.assume(by != owner);
        token.mint(address(proxy), tokens);
        vm.deal(address(proxy), value);
        vm.startPrank(by);
        vm.expectRevert(IOwned.Unauthorized.selector);
        proxy.withdraw(address(token));
        vm.expectRevert(IOwned.Unauthorized.selector);
        proxy.withdraw(address(0));
        vm.stopPrank();
        vm.startPrank(owner);
        proxy.withdraw(address(token));
        proxy.withdraw(address(0));
        vm.stopPrank();
        assertEq(token.balanceOf(owner), tokens);
        assertEq(owner.balance, value);
    }

    function test_a_withdrawal_that_is_refused_reverts() public {
        ApprovalProxy refused = new ApprovalProxy(address(this), address(router), permit2);
        vm.deal(address(refused), 1);
        vm.expectRevert(IApprovalProxy.NativeTransferFailed.selector);
        refused.withdraw(address(0));
    }
}
