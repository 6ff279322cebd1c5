// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {Test} from "forge-std/Test.sol";
import {Dai} from "../../src/devnet/Dai.sol";
import {DevnetToken} from "../../src/devnet/DevnetToken.sol";
import {LongTail} from "../../src/devnet/LongTail.sol";
import {PlainToken} from "../../src/devnet/PlainToken.sol";
import {Usdc} from "../../src/devnet/Usdc.sol";
import {Usdt} from "../../src/devnet/Usdt.sol";
import {IOwned} from "../../src/interfaces/IOwned.sol";

contract TokensTest is Test {
    Usdc internal usdc = new Usdc(address(this));
    Usdt internal usdt = new Usdt(address(this));
    Dai internal dai = new Dai(address(this));
    LongTail internal tail = new LongTail(address(this));
    address internal user;
    uint256 internal userKey;
    address internal other = makeAddr("other");

    function setUp() public {
        vm.warp(1_800_000_000);
        (user, userKey) = makeAddrAndKey("user");
    }

    function test_decimals_and_symbols() public view {
        assertEq(usdc.decimals(), 6);
        assertEq(usdt.decimals(), 6);
        assertEq(dai.decimals(), 18);
        assertEq(tail.decimals(), 18);
        assertEq(usdc.symbol(), "USDC");
        assertEq(usdt.symbol(), "USDT");
        assertEq(dai.symbol(), "DAI");
        assertEq(tail.symbol(), "TAIL");
    }

    function test_only_the_owner_mints() public {
        DevnetToken[4] memory tokens = [DevnetToken(usdc), usdt, dai, tail];
        for (uint256 i = 0; i < tokens.length; ++i) {
            vm.prank(user);
            vm.expectRevert(IOwned.Unauthorized.selector);
            tokens[i].mint(user, 1);
            vm.expectRevert(DevnetToken.InvalidReceiver.selector);
            tokens[i].mint(address(0), 1);
            tokens[i].mint(user, 7);
            assertEq(tokens[i].balanceOf(user), 7);
            assertEq(tokens[i].totalSupply(), 7);
        }
    }

    function testFuzz_transfers_keep_the_supply(uint128 held, uint128 moved, uint128 allowed) public {
        PlainToken[3] memory tokens = [PlainToken(usdc), dai, tail];
        for (uint256 i = 0; i < tokens.length; ++i) {
            PlainToken token = tokens[i];
            token.mint(user, held);
            vm.prank(user);
            assertTrue(token.approve(other, allowed));
            vm.prank(other);
            if (moved > allowed) {
                vm.expectRevert(
                    abi.encodeWithSelector(DevnetToken.InsufficientAllowance.selector, other, allowed, moved)
                );
                token.transferFrom(user, other, moved);
                continue;
            }
            if (moved > held) {
                vm.expectRevert(
                    abi.encodeWithSelector(DevnetToken.InsufficientBalance.selector, user, held, moved)
                );
                token.transferFrom(user, other, moved);
                continue;
            }
            assertTrue(token.transferFrom(user, other, moved));
            assertEq(token.allowance(user, other), allowed - moved);
            assertEq(token.balanceOf(user) + token.balanceOf(other), token.totalSupply());
            vm.prank(other);
            assertTrue(token.transfer(user, moved));
            assertEq(token.balanceOf(user), held);
        }
    }

    function test_an_unlimited_allowance_is_not_used_up() public {
        dai.mint(user, 1);
        vm.prank(user);
        dai.approve(other, type(uint256).max);
        vm.prank(other);
        dai.transferFrom(user, other, 1);
        assertEq(dai.allowance(user, other), type(uint256).max);
    }

    function test_usdt_returns_nothing_and_guards_its_allowance() public {
        usdt.mint(user, 10);
        vm.startPrank(user);
        usdt.approve(other, 5);
        vm.expectRevert(Usdt.AllowanceMustBeZeroFirst.selector);
        usdt.approve(other, 6);
        usdt.approve(other, 0);
        usdt.approve(other, 6);
        (bool success, bytes memory answer) = address(usdt).call(abi.encodeCall(Usdt.transfer, (other, 1)));
        vm.stopPrank();
        assertTrue(success);
        assertEq(answer.length, 0);
        vm.prank(other);
        usdt.transferFrom(user, other, 6);
        assertEq(usdt.balanceOf(other), 7);
    }

    function sign(uint256 key, bytes32 structHash) internal view returns (uint8 v, bytes32 r, bytes32 s) {
        return vm.sign(key, keccak256(abi.encodePacked(hex"1901", usdc.DOMAIN_SEPARATOR(), structHash)));
    }

    function test_usdc_typehashes() public view {
        assertEq(
            usdc.RECEIVE_WITH_AUTHORIZATION_TYPEHASH(),
            0xd099cc98ef71107a616c4f0f941f04c322d8e254fe26b3c6668db87aae413de8
        );
        assertEq(
            usdc.TRANSFER_WITH_AUTHORIZATION_TYPEHASH(),
            0x7c7c6cdb67a18743f49ec6fa9b35f50d52ed05cbed4cc592e13b44501c1a2267
        );
        assertEq(usdc.version(), "2");
    }

    function testFuzz_usdc_permit(uint256 value, uint32 late) public {
        uint256 deadline = block.timestamp;
        (uint8 v, bytes32 r, bytes32 s) =
            sign(userKey, keccak256(abi.encode(usdc.PERMIT_TYPEHASH(), user, other, value, 0, deadline)));
        vm.expectRevert(Usdc.InvalidSignature.selector);
        usdc.permit(user, address(this), value, deadline, v, r, s);
        uint256 state = vm.snapshotState();
        vm.warp(deadline + 1 + late);
        vm.expectRevert(Usdc.SignatureExpired.selector);
        usdc.permit(user, other, value, deadline, v, r, s);
        vm.revertToState(state);
        usdc.permit(user, other, value, deadline, v, r, s);
        assertEq(usdc.allowance(user, other), value);
        assertEq(usdc.nonces(user), 1);
        vm.expectRevert(Usdc.InvalidSignature.selector);
        usdc.permit(user, other, value, deadline, v, r, s);
    }

    function testFuzz_usdc_transfer_with_authorization(uint64 value, bytes32 nonce) public {
        usdc.mint(user, value);
        (uint256 validAfter, uint256 validBefore) = (block.timestamp - 1, block.timestamp + 1);
        (uint8 v, bytes32 r, bytes32 s) = sign(
            userKey,
            keccak256(
                abi.encode(
                    usdc.TRANSFER_WITH_AUTHORIZATION_TYPEHASH(),
                    user,
                    other,
                    value,
                    validAfter,
                    validBefore,
                    nonce
                )
            )
        );
        vm.warp(validAfter);
        vm.expectRevert(Usdc.AuthorizationNotYetValid.selector);
        usdc.transferWithAuthorization(user, other, value, validAfter, validBefore, nonce, v, r, s);
        vm.warp(validBefore);
        vm.expectRevert(Usdc.AuthorizationExpired.selector);
        usdc.transferWithAuthorization(user, other, value, validAfter, validBefore, nonce, v, r, s);
        vm.warp(validAfter + 1);
        usdc.transferWithAuthorization(user, other, value, validAfter, validBefore, nonce, v, r, s);
        assertEq(usdc.balanceOf(other), value);
        assertTrue(usdc.authorizationState(user, nonce));
        vm.expectRevert(Usdc.AuthorizationAlreadyUsed.selector);
        usdc.transferWithAuthorization(user, other, value, validAfter, validBefore, nonce, v, r, s);
    }

    function test_usdc_receive_with_authorization_is_for_the_payee() public {
        usdc.mint(user, 5);
        uint256 validBefore = block.timestamp + 1;
        (uint8 v, bytes32 r, bytes32 s) = sign(
            userKey,
            keccak256(
                abi.encode(
                    usdc.RECEIVE_WITH_AUTHORIZATION_TYPEHASH(), user, other, 5, 0, validBefore, bytes32("n")
                )
            )
        );
        vm.expectRevert(Usdc.CallerMustBePayee.selector);
        usdc.receiveWithAuthorization(user, other, 5, 0, validBefore, "n", v, r, s);
        vm.expectRevert(Usdc.InvalidSignature.selector);
        usdc.transferWithAuthorization(user, other, 5, 0, validBefore, "n", v, r, s);
        vm.prank(other);
        usdc.receiveWithAuthorization(user, other, 5, 0, validBefore, "n", v, r, s);
        assertEq(usdc.balanceOf(other), 5);
    }

    function test_usdc_cancels_an_authorization() public {
        (uint8 v, bytes32 r, bytes32 s) =
            sign(userKey, keccak256(abi.encode(usdc.CANCEL_AUTHORIZATION_TYPEHASH(), user, bytes32("n"))));
        vm.expectRevert(Usdc.InvalidSignature.selector);
        usdc.cancelAuthorization(other, "n", v, r, s);
        usdc.cancelAuthorization(user, "n", v, r, s);
        assertTrue(usdc.authorizationState(user, "n"));
        vm.expectRevert(Usdc.AuthorizationAlreadyUsed.selector);
        usdc.cancelAuthorization(user, "n", v, r, s);
    }
}
