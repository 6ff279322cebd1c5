// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Permit.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {Owned} from "./Owned.sol";
import {IApprovalProxy} from "./interfaces/IApprovalProxy.sol";
import {IERC3009} from "./interfaces/IERC3009.sol";
import {IPermit2} from "./interfaces/IPermit2.sol";
import {Call3Value, CallResult, IRouter} from "./interfaces/IRouter.sol";

/// @notice See `IApprovalProxy`.
contract ApprovalProxy is IApprovalProxy, Owned, ReentrancyGuardTransient {
    using SafeERC20 for IERC20;

    /// @dev An amount on its way to the router, which held `balanceBefore` of the token before the first of all
    /// amounts moved.
    struct Move {
        address token;
        uint256 amount;
        uint256 balanceBefore;
    }

    bytes32 private constant CALL_TYPEHASH =
        keccak256("Call3Value(address target,bool allowFailure,uint256 value,bytes callData)");
    bytes32 private constant WITNESS_TYPEHASH = keccak256(
        "RelayerWitness(address relayer,address refundTo,address nftRecipient,bytes metadata,Call3Value[] call3Values)Call3Value(address target,bool allowFailure,uint256 value,bytes callData)"
    );
    /// @dev Permit2 appends this to its own members: the witness member, then every struct in alphabetical
    /// order.
    string private constant WITNESS_TYPE_STRING =
        "RelayerWitness witness)Call3Value(address target,bool allowFailure,uint256 value,bytes callData)RelayerWitness(address relayer,address refundTo,address nftRecipient,bytes metadata,Call3Value[] call3Values)TokenPermissions(address token,uint256 amount)";

    /// @inheritdoc IApprovalProxy
    address public immutable ROUTER;

    /// @inheritdoc IApprovalProxy
    address public immutable PERMIT2;

    constructor(address initialOwner, address router, address permit2) Owned(initialOwner) {
        if (router == address(0) || permit2 == address(0)) revert AddressCannotBeZero();
        ROUTER = router;
        PERMIT2 = permit2;
    }

    modifier refundable(address refundTo) {
        if (refundTo == address(0)) revert RefundToCannotBeZero();
        _;
    }

    /// @inheritdoc IApprovalProxy
    function transferAndMulticall(
        address[] calldata tokens,
        uint256[] calldata amounts,
        Call3Value[] calldata calls,
        address refundTo,
        address nftRecipient,
        bytes calldata metadata
    ) external payable nonReentrant refundable(refundTo) returns (CallResult[] memory) {
        if (tokens.length != amounts.length) revert LengthMismatch();
        Move[] memory moves = new Move[](tokens.length);
        for (uint256 i = 0; i < moves.length; ++i) {
            moves[i] = _planned(tokens[i], amounts[i]);
        }
        for (uint256 i = 0; i < moves.length; ++i) {
            _moveFromCaller(moves[i], metadata);
        }
        _requireArrived(moves);
        return _multicall(calls, refundTo, nftRecipient, metadata);
    }

    /// @inheritdoc IApprovalProxy
    function permitTransferAndMulticall(
        Permit[] calldata permits,
        Call3Value[] calldata calls,
        address refundTo,
        address nftRecipient,
        bytes calldata metadata
    ) external payable nonReentrant refundable(refundTo) returns (CallResult[] memory) {
        Move[] memory moves = new Move[](permits.length);
        for (uint256 i = 0; i < moves.length; ++i) {
            Permit calldata permit = permits[i];
            if (permit.owner != msg.sender) revert NotPermitOwner(permit.owner);
            moves[i] = _planned(permit.token, permit.value);
        }
        for (uint256 i = 0; i < moves.length; ++i) {
            _permit(permits[i]);
            _moveFromCaller(moves[i], metadata);
        }
        _requireArrived(moves);
        return _multicall(calls, refundTo, nftRecipient, metadata);
    }

    /// @inheritdoc IApprovalProxy
    function permit2TransferAndMulticall(
        address user,
        IPermit2.PermitBatchTransferFrom calldata permit,
        Call3Value[] calldata calls,
        address refundTo,
        address nftRecipient,
        bytes calldata metadata,
        bytes calldata permitSignature
    ) external payable nonReentrant refundable(refundTo) returns (CallResult[] memory) {
        // Nested rather than named: the stack has no slot left for another variable.
        _movePermit2(
            _witnessHash(_callsHash(calls), msg.sender, refundTo, nftRecipient, metadata),
            user,
            permit,
            permitSignature,
            metadata
        );
        return _multicall(calls, refundTo, nftRecipient, metadata);
    }

    /// @inheritdoc IApprovalProxy
    function permit3009TransferAndMulticall(
        Permit3009[] calldata permits,
        address[] calldata tokens,
        Call3Value[] calldata calls,
        address refundTo,
        address nftRecipient,
        bytes calldata metadata
    ) external payable nonReentrant refundable(refundTo) returns (CallResult[] memory) {
        if (permits.length != tokens.length) revert LengthMismatch();
        bytes32 witness = _witnessHash(_callsHash(calls), msg.sender, refundTo, nftRecipient, metadata);
        Move[] memory moves = new Move[](tokens.length);
        for (uint256 i = 0; i < moves.length; ++i) {
            moves[i] = _planned(tokens[i], 0);
        }
        for (uint256 i = 0; i < moves.length; ++i) {
            moves[i].amount = _move3009(permits[i], tokens[i], witness, metadata);
        }
        _requireArrived(moves);
        return _multicall(calls, refundTo, nftRecipient, metadata);
    }

    /// @inheritdoc IApprovalProxy
    function withdraw(address token) external onlyOwner nonReentrant {
        uint256 amount = token == address(0) ? address(this).balance : IERC20(token).balanceOf(address(this));
        emit FundsMovement(address(this), msg.sender, token, amount, "");
        if (token == address(0)) {
            (bool success,) = msg.sender.call{value: amount}("");
            if (!success) revert NativeTransferFailed();
        } else {
            IERC20(token).safeTransfer(msg.sender, amount);
        }
    }

    /// @inheritdoc IApprovalProxy
    function witnessHash(
        address relayer,
        address refundTo,
        address nftRecipient,
        bytes calldata metadata,
        Call3Value[] calldata calls
    ) external pure returns (bytes32) {
        return _witnessHash(_callsHash(calls), relayer, refundTo, nftRecipient, metadata);
    }

    function _multicall(
        Call3Value[] calldata calls,
        address refundTo,
        address nftRecipient,
        bytes calldata metadata
    ) private returns (CallResult[] memory) {
        return IRouter(ROUTER).multicall{value: msg.value}(calls, refundTo, nftRecipient, metadata);
    }

    function _planned(address token, uint256 amount) private view returns (Move memory) {
        return Move({token: token, amount: amount, balanceBefore: IERC20(token).balanceOf(ROUTER)});
    }

    function _moveFromCaller(Move memory move, bytes calldata metadata) private {
        IERC20(move.token).safeTransferFrom(msg.sender, ROUTER, move.amount);
        emit FundsMovement(msg.sender, ROUTER, move.token, move.amount, metadata);
    }

    /// @dev A failing permit is fine if the approval is in place already: someone submitted the permit before
    /// us.
    function _permit(Permit calldata permit) private {
        try IERC20Permit(permit.token)
            .permit(
                permit.owner, address(this), permit.value, permit.deadline, permit.v, permit.r, permit.s
            ) {}
        catch {
            uint256 allowance = IERC20(permit.token).allowance(permit.owner, address(this));
            if (allowance < permit.value) revert PermitFailed(permit.token);
        }
    }

    function _movePermit2(
        bytes32 witness,
        address user,
        IPermit2.PermitBatchTransferFrom calldata permit,
        bytes calldata signature,
        bytes calldata metadata
    ) private {
        uint256 count = permit.permitted.length;
        Move[] memory moves = new Move[](count);
        IPermit2.SignatureTransferDetails[] memory details = new IPermit2.SignatureTransferDetails[](count);
        for (uint256 i = 0; i < count; ++i) {
            IPermit2.TokenPermissions calldata permitted = permit.permitted[i];
            details[i] = IPermit2.SignatureTransferDetails({to: ROUTER, requestedAmount: permitted.amount});
            moves[i] = _planned(permitted.token, permitted.amount);
            emit FundsMovement(user, ROUTER, permitted.token, permitted.amount, metadata);
        }
        IPermit2(PERMIT2)
            .permitWitnessTransferFrom(permit, details, user, witness, WITNESS_TYPE_STRING, signature);
        _requireArrived(moves);
    }

    /// @dev Only the amount the authorization brought in is passed on: a contract that accepts any call would
    /// otherwise hand out stray tokens.
    function _move3009(Permit3009 calldata permit, address token, bytes32 witness, bytes calldata metadata)
        private
        returns (uint256 received)
    {
        uint256 balanceBefore = IERC20(token).balanceOf(address(this));
        _receive3009(permit, token, witness);
        received = IERC20(token).balanceOf(address(this)) - balanceBefore;
        if (received == 0) revert NothingReceived(token);
        emit FundsMovement(permit.from, ROUTER, token, received, metadata);
        IERC20(token).safeTransfer(ROUTER, received);
    }

    function _receive3009(Permit3009 calldata permit, address token, bytes32 witness) private {
        IERC3009(token)
            .receiveWithAuthorization(
                permit.from,
                address(this),
                permit.value,
                permit.validAfter,
                permit.validBefore,
                witness,
                permit.v,
                permit.r,
                permit.s
            );
    }

    /// @dev A token may call out while it is moved, and the callee could use the router, which is not in use
    /// yet, to take the tokens that have arrived. The same check refuses a token that keeps a fee. A token that
    /// is named twice must arrive twice.
    function _requireArrived(Move[] memory moves) private view {
        for (uint256 i = 0; i < moves.length; ++i) {
            address token = moves[i].token;
            uint256 expected = moves[i].balanceBefore;
            for (uint256 j = 0; j < moves.length; ++j) {
                if (moves[j].token == token) expected += moves[j].amount;
            }
            uint256 balance = IERC20(token).balanceOf(ROUTER);
            if (balance < expected) revert NotArrived(token, expected, balance);
        }
    }

    function _witnessHash(
        bytes32 callsHash,
        address relayer,
        address refundTo,
        address nftRecipient,
        bytes calldata metadata
    ) private pure returns (bytes32) {
        return keccak256(
            abi.encode(WITNESS_TYPEHASH, relayer, refundTo, nftRecipient, keccak256(metadata), callsHash)
        );
    }

    function _callsHash(Call3Value[] calldata calls) private pure returns (bytes32) {
        bytes32[] memory hashes = new bytes32[](calls.length);
        for (uint256 i = 0; i < hashes.length; ++i) {
            Call3Value calldata call = calls[i];
            hashes[i] = keccak256(
                abi.encode(
                    CALL_TYPEHASH, call.target, call.allowFailure, call.value, keccak256(call.callData)
                )
            );
        }
        return keccak256(abi.encodePacked(hashes));
    }
}
