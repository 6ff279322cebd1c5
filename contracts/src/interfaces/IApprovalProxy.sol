// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IOwned} from "./IOwned.sol";
import {IPermit2} from "./IPermit2.sol";
import {Call3Value, CallResult} from "./IRouter.sol";

/// @title Approval proxy
/// @notice The only contract users approve or name as the spender of a permit. It moves tokens to the router and
/// nowhere else, from the caller or from a signer whose signature covers the calls, and then runs those calls on
/// the router in the same transaction. It makes no arbitrary calls, so an approval to it cannot be abused.
/// @dev Every function forwards the native value sent along, returns the outcome of every call, and refuses a
/// zero `refundTo`, which the router would read as this contract.
interface IApprovalProxy is IOwned {
    /// @notice An EIP-2612 permit for this contract as spender. `nonce` documents the signed one; the token
    /// reads its own.
    struct Permit {
        address token;
        address owner;
        uint256 value;
        uint256 nonce;
        uint256 deadline;
        uint8 v;
        bytes32 r;
        bytes32 s;
    }

    /// @notice An EIP-3009 authorization to pay this contract. Its nonce is the hash of the witness.
    struct Permit3009 {
        address from;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        uint8 v;
        bytes32 r;
        bytes32 s;
    }

    /// @notice Tokens moved to the router, or stray funds to the owner; a zero `currency` is native.
    event FundsMovement(address from, address to, address currency, uint256 amount, bytes metadata);

    /// @notice `refundTo` is zero.
    error RefundToCannotBeZero();

    /// @notice The arrays do not have the same length.
    error LengthMismatch();

    /// @notice A permit of someone other than the caller was presented.
    error NotPermitOwner(address owner);

    /// @notice The permit failed, and the approval in place does not cover its value.
    error PermitFailed(address token);

    /// @notice The authorization brought nothing in.
    error NothingReceived(address token);

    /// @notice The router holds less than was moved to it: the token kept a fee, or another call took from the
    /// router before the calls began.
    error NotArrived(address token, uint256 expected, uint256 balance);

    /// @notice The native balance could not be sent to the owner.
    error NativeTransferFailed();

    /// @notice The router, fixed at construction.
    function ROUTER() external view returns (address);

    /// @notice The Permit2 contract, fixed at construction.
    function PERMIT2() external view returns (address);

    /// @notice The hash a Permit2 signature carries as its witness and an EIP-3009 authorization as its nonce.
    /// @param relayer The account that may submit the signature.
    function witnessHash(
        address relayer,
        address refundTo,
        address nftRecipient,
        bytes calldata metadata,
        Call3Value[] calldata calls
    ) external pure returns (bytes32);

    /// @notice Moves tokens of the caller, who approved this contract, and runs the calls.
    /// @param tokens The tokens to move.
    /// @param amounts The amount of each.
    /// @param calls The calls to run on the router.
    /// @param refundTo The recipient of leftover native value.
    /// @param nftRecipient The recipient of NFTs that arrive during the calls.
    /// @param metadata Passed to the movement events.
    function transferAndMulticall(
        address[] calldata tokens,
        uint256[] calldata amounts,
        Call3Value[] calldata calls,
        address refundTo,
        address nftRecipient,
        bytes calldata metadata
    ) external payable returns (CallResult[] memory results);

    /// @notice As above, with EIP-2612 permits of the caller in place of approvals.
    /// @dev A permit does not cover the calls, so it serves nobody but its owner. Someone may submit it to the
    /// token first; that does no harm, because the approval it gives is then in place.
    function permitTransferAndMulticall(
        Permit[] calldata permits,
        Call3Value[] calldata calls,
        address refundTo,
        address nftRecipient,
        bytes calldata metadata
    ) external payable returns (CallResult[] memory results);

    /// @notice Moves tokens of `user` by a Permit2 signature over the tokens, the caller and the calls.
    /// @param user The signer.
    /// @param permit The tokens and amounts, which are moved in full.
    /// @param permitSignature The signature over the permit with its witness.
    function permit2TransferAndMulticall(
        address user,
        IPermit2.PermitBatchTransferFrom calldata permit,
        Call3Value[] calldata calls,
        address refundTo,
        address nftRecipient,
        bytes calldata metadata,
        bytes calldata permitSignature
    ) external payable returns (CallResult[] memory results);

    /// @notice Moves tokens by EIP-3009 authorizations whose nonce is the hash of the caller and the calls.
    /// @param permits One authorization per token.
    /// @param tokens The tokens.
    function permit3009TransferAndMulticall(
        Permit3009[] calldata permits,
        address[] calldata tokens,
        Call3Value[] calldata calls,
        address refundTo,
        address nftRecipient,
        bytes calldata metadata
    ) external payable returns (CallResult[] memory results);

    /// @notice Sends stray funds to the owner: the whole balance of `token`, or native when zero. Owner only.
    function withdraw(address token) external;
}
