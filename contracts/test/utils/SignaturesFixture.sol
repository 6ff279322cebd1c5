// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IApprovalProxy} from "../../src/interfaces/IApprovalProxy.sol";
import {IPermit2} from "../../src/interfaces/IPermit2.sol";
import {Call3Value} from "../../src/interfaces/IRouter.sol";
import {ApprovalProxyFixture, IPermit2Domain} from "./ApprovalProxyFixture.sol";

/// @notice The user's signatures, in each form the proxy takes.
abstract contract SignaturesFixture is ApprovalProxyFixture {
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

    function signPermit2(IPermit2.PermitBatchTransferFrom memory permit, Call3Value[] memory calls)
        internal
        view
        returns (bytes memory)
    {
        bytes32 witness = proxy.witnessHash(relayer, user, user, "", calls);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(userKey, permit2Digest(permit, address(proxy), witness));
        return abi.encodePacked(r, s, v);
    }

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
}
