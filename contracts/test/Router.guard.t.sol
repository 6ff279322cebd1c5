// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC1155Receiver} from "@openzeppelin/contracts/token/ERC1155/IERC1155Receiver.sol";
import {IERC721Receiver} from "@openzeppelin/contracts/token/ERC721/IERC721Receiver.sol";
import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";
import {Call3Value, IRouter} from "../src/interfaces/IRouter.sol";
import {Calls, Intruder, TestMultiToken, TestNft} from "./utils/Actors.sol";
import {RouterFixture} from "./utils/RouterFixture.sol";

contract RouterGuardTest is RouterFixture {
    using Calls for Call3Value[];

    // ---- guard ----

    function intrusions() internal returns (bytes[] memory list) {
        address thief = makeAddr("thief");
        list = new bytes[](5);
        list[0] = abi.encodeCall(IRouter.multicall, (new Call3Value[](0), thief, address(0), ""));
        list[1] = Calls.cleanup(address(token), thief, 0);
        list[2] = abi.encodeCall(
            IRouter.cleanupErc20sViaCall,
            (Calls.list(address(token)), Calls.list(thief), Calls.list(""), Calls.list(uint256(0)))
        );
        list[3] = abi.encodeCall(IRouter.cleanupNative, (0, thief, ""));
        list[4] = abi.encodeCall(IRouter.cleanupNativeViaCall, (0, thief, ""));
    }

    function test_nobody_enters_during_a_multicall() public {
        bytes[] memory list = intrusions();
        for (uint256 i = 0; i < list.length; ++i) {
            Intruder intruder = new Intruder();
            intruder.arm(address(router), list[i]);
            vm.prank(user);
            router.multicall{value: 1 ether}(
                Calls.one(address(intruder), 0, abi.encodeCall(Intruder.poke, ())), user, address(0), ""
            );
            assertTrue(intruder.tried());
            assertFalse(intruder.entered());
            assertEq(intruder.answer(), abi.encodePacked(IRouter.Reentrancy.selector));
        }
    }

    function intrudeAfter(bytes memory nested, bytes memory intrusion) internal {
        Intruder intruder = new Intruder();
        intruder.arm(address(router), intrusion);
        token.mint(address(router), 5);
        Call3Value[] memory calls = Calls.one(address(router), 0, nested);
        calls = calls.then(address(intruder), 0, abi.encodeCall(Intruder.poke, ()));
        calls = calls.then(address(router), 0, Calls.cleanup(address(token), user, 0));
        vm.prank(user);
        router.multicall{value: 1 ether}(calls, user, address(0), "");
        assertTrue(intruder.tried());
        assertEq(intruder.answer(), abi.encodePacked(IRouter.Reentrancy.selector));
    }

    /// @dev A guard that is cleared rather than restored lets the intruder in after the first cleanup.
    function test_a_nested_cleanup_does_not_open_the_router() public {
        bytes[] memory list = intrusions();
        bytes[4] memory nested = [
            cleanupNative(1, user),
            Calls.cleanup(address(token), user, 0),
            abi.encodeCall(IRouter.cleanupNativeViaCall, (1, user, "")),
            abi.encodeCall(IRouter.multicall, (new Call3Value[](0), address(0), address(0), ""))
        ];
        for (uint256 n = 0; n < nested.length; ++n) {
            for (uint256 i = 0; i < list.length; ++i) {
                intrudeAfter(nested[n], list[i]);
            }
        }
        assertEq(makeAddr("thief").balance, 0);
        assertEq(token.balanceOf(makeAddr("thief")), 0);
    }

    function test_a_failed_nested_call_does_not_open_the_router() public {
        Intruder intruder = new Intruder();
        intruder.arm(address(router), cleanupNative(0, makeAddr("thief")));
        Call3Value[] memory calls = Calls.one(address(router), 0, cleanupNative(100 ether, user))
            .then(address(intruder), 0, abi.encodeCall(Intruder.poke, ()));
        calls[0].allowFailure = true;
        vm.prank(user);
        router.multicall{value: 1 ether}(calls, user, address(0), "");
        assertEq(intruder.answer(), abi.encodePacked(IRouter.Reentrancy.selector));
    }

    function test_the_recipient_of_a_cleanup_or_refund_cannot_enter() public {
        Intruder intruder = new Intruder();
        intruder.arm(address(router), cleanupNative(0, makeAddr("thief")));
        vm.deal(address(router), 2 ether);
        router.cleanupNative(1 ether, address(intruder), "");
        assertEq(intruder.answer(), abi.encodePacked(IRouter.Reentrancy.selector));

        intruder = new Intruder();
        intruder.arm(address(router), cleanupNative(0, makeAddr("thief")));
        vm.prank(user);
        router.multicall{value: 1}(new Call3Value[](0), address(intruder), address(0), "");
        assertEq(intruder.answer(), abi.encodePacked(IRouter.Reentrancy.selector));
    }

    function test_the_router_is_free_again_afterwards() public {
        router.multicall(Calls.one(address(router), 0, cleanupNative(0, user)), user, address(0), "");
        router.multicall(new Call3Value[](0), user, address(0), "");
        vm.prank(user);
        router.cleanupNative(0, user, "");
    }

    // ---- NFTs ----

    function test_nfts_go_to_their_recipient_during_a_multicall() public {
        TestNft nft = new TestNft();
        TestMultiToken multi = new TestMultiToken();
        uint256[] memory ids = new uint256[](2);
        (ids[0], ids[1]) = (1, 2);
        router.multicall(
            Calls.one(address(nft), 0, abi.encodeCall(TestNft.safeMint, (address(router), 1)))
                .then(address(multi), 0, abi.encodeCall(TestMultiToken.mint, (address(router), 1, 5)))
                .then(
                    address(multi), 0, abi.encodeCall(TestMultiToken.mintBatch, (address(router), ids, ids))
                ),
            user,
            user,
            ""
        );
        assertEq(nft.ownerOf(1), user);
        assertEq(multi.balanceOf(user, 1), 6);
        assertEq(multi.balanceOf(user, 2), 2);
    }

    function test_nfts_without_a_recipient_are_refused() public {
        TestNft nft = new TestNft();
        TestMultiToken multi = new TestMultiToken();
        vm.expectRevert(IRouter.NoNftRecipient.selector);
        nft.safeMint(address(router), 1);
        vm.expectRevert(IRouter.NoNftRecipient.selector);
        multi.mint(address(router), 1, 1);
        vm.expectRevert(IRouter.NoNftRecipient.selector);
        multi.mintBatch(address(router), Calls.list(uint256(1)), Calls.list(uint256(1)));
        vm.expectRevert(IRouter.NoNftRecipient.selector);
        router.multicall(
            Calls.one(address(nft), 0, abi.encodeCall(TestNft.safeMint, (address(router), 1))),
            user,
            address(0),
            ""
        );
    }

    function test_the_nft_recipient_is_restored_after_a_nested_multicall_and_forgotten_at_the_end() public {
        TestNft nft = new TestNft();
        address inner = makeAddr("inner");
        bytes memory nested = abi.encodeCall(
            IRouter.multicall,
            (
                Calls.one(address(nft), 0, abi.encodeCall(TestNft.safeMint, (address(router), 1))),
                address(0),
                inner,
                ""
            )
        );
        router.multicall(
            Calls.one(address(router), 0, nested)
                .then(address(nft), 0, abi.encodeCall(TestNft.safeMint, (address(router), 2))),
            user,
            user,
            ""
        );
        assertEq(nft.ownerOf(1), inner);
        assertEq(nft.ownerOf(2), user);
        vm.expectRevert(IRouter.NoNftRecipient.selector);
        nft.safeMint(address(router), 3);
    }

    function test_supported_interfaces() public view {
        assertTrue(router.supportsInterface(type(IERC165).interfaceId));
        assertTrue(router.supportsInterface(type(IERC721Receiver).interfaceId));
        assertTrue(router.supportsInterface(type(IERC1155Receiver).interfaceId));
        assertFalse(router.supportsInterface(0xffffffff));
    }
}
