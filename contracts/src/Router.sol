// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC1155} from "@openzeppelin/contracts/token/ERC1155/IERC1155.sol";
import {IERC1155Receiver} from "@openzeppelin/contracts/token/ERC1155/IERC1155Receiver.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {IERC721} from "@openzeppelin/contracts/token/ERC721/IERC721.sol";
import {IERC721Receiver} from "@openzeppelin/contracts/token/ERC721/IERC721Receiver.sol";
import {LowLevelCall} from "@openzeppelin/contracts/utils/LowLevelCall.sol";
import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";
import {Call3Value, CallResult, IRouter} from "./interfaces/IRouter.sol";

/// @notice See `IRouter`. It has no owner and no storage: its transient state ends with the transaction.
contract Router is IRouter, IERC721Receiver, IERC1155Receiver {
    using SafeERC20 for IERC20;

    /// @dev The account that entered, or zero while the router is not in use.
    address private transient _holder;

    /// @dev The recipient of NFTs during the running multicall.
    address private transient _nftRecipient;

    /// @dev Calls of the router to itself are part of the flow that holds it. On exit the previous holder is
    /// restored rather than cleared: a cleanup inside a multicall must not leave the rest of it unguarded.
    modifier guarded() {
        address previous = _holder;
        if (previous != address(0) && msg.sender != address(this)) revert Reentrancy();
        _holder = msg.sender;
        _;
        _holder = previous;
    }

    /// @dev Swaps and unwrapped tokens pay into the router. A payment to itself brings nothing in.
    receive() external payable {
        if (msg.sender != address(this)) emit SolverNativeTransfer(address(this), msg.value);
    }

    /// @inheritdoc IRouter
    function multicall(
        Call3Value[] calldata calls,
        address refundTo,
        address nftRecipient,
        bytes calldata metadata
    ) external payable guarded returns (CallResult[] memory results) {
        if (nftRecipient == address(this)) revert InvalidRecipient();
        uint256 balanceBefore = address(this).balance - msg.value;
        bool nested = msg.sender == address(this);
        if (!nested && msg.value != 0) {
            emit SolverNativeTransfer(address(this), msg.value);
            emit FundsMovement(msg.sender, address(this), address(0), msg.value, metadata);
        }

        address previousNftRecipient = _nftRecipient;
        _nftRecipient = nftRecipient;
        results = _run(calls);
        _nftRecipient = previousNftRecipient;

        address recipient = refundTo == address(0) ? msg.sender : refundTo;
        if (recipient == address(this)) {
            // A nested multicall leaves the remainder to the outer one; outside of one it would be lost.
            if (!nested) revert InvalidRecipient();
            return results;
        }
        _returnNative(recipient, balanceBefore, metadata);
    }

    /// @inheritdoc IRouter
    function cleanupErc20s(
        address[] calldata tokens,
        address[] calldata recipients,
        uint256[] calldata amounts,
        bytes calldata metadata
    ) external guarded {
        if (tokens.length != recipients.length || tokens.length != amounts.length) revert LengthMismatch();
        for (uint256 i = 0; i < tokens.length; ++i) {
            address recipient = recipients[i];
            if (recipient == address(0) || recipient == address(this)) revert InvalidRecipient();
            uint256 amount = _orBalance(tokens[i], amounts[i]);
            // Some tokens refuse zero transfers, and an empty cleanup is normal.
            if (amount == 0) continue;
            emit FundsMovement(address(this), recipient, tokens[i], amount, metadata);
            IERC20(tokens[i]).safeTransfer(recipient, amount);
        }
    }

    /// @inheritdoc IRouter
    function cleanupErc20sViaCall(
        address[] calldata tokens,
        address[] calldata tos,
        bytes[] calldata datas,
        uint256[] calldata amounts
    ) external guarded {
        if (tokens.length != tos.length || tokens.length != datas.length || tokens.length != amounts.length) {
            revert LengthMismatch();
        }
        for (uint256 i = 0; i < tokens.length; ++i) {
            (IERC20 token, address to) = (IERC20(tokens[i]), tos[i]);
            token.forceApprove(to, _orBalance(tokens[i], amounts[i]));
            _call(to, 0, datas[i]);
            // A leftover approval could be spent while someone else's tokens pass through.
            if (token.allowance(address(this), to) != 0) token.forceApprove(to, 0);
        }
    }

    /// @inheritdoc IRouter
    function cleanupNative(uint256 amount, address recipient, bytes calldata metadata)
        external
        payable
        guarded
    {
        if (recipient == address(0) || recipient == address(this)) revert InvalidRecipient();
        uint256 paid = amount == 0 ? address(this).balance : amount;
        // Inside a multicall the rest goes to its `refundTo`; here it would belong to the next caller.
        if (msg.value > paid && msg.sender != address(this)) revert ValueLeftOver(msg.value - paid);
        if (paid == 0) return;
        emit SolverNativeTransfer(recipient, paid);
        emit FundsMovement(address(this), recipient, address(0), paid, metadata);
        _sendNative(recipient, paid);
    }

    /// @inheritdoc IRouter
    function cleanupNativeViaCall(uint256 amount, address to, bytes calldata data) external guarded {
        _call(to, amount == 0 ? address(this).balance : amount, data);
    }

    /// @inheritdoc IRouter
    function requireBalance(address token, uint256 amount) external view {
        uint256 balance = token == address(0) ? address(this).balance : IERC20(token).balanceOf(address(this));
        if (balance < amount) revert BalanceTooLow(token, amount, balance);
    }

    /// @inheritdoc IERC721Receiver
    function onERC721Received(address, address, uint256 tokenId, bytes calldata data)
        external
        returns (bytes4)
    {
        IERC721(msg.sender).safeTransferFrom(address(this), _requireNftRecipient(), tokenId, data);
        return IERC721Receiver.onERC721Received.selector;
    }

    /// @inheritdoc IERC1155Receiver
    function onERC1155Received(address, address, uint256 id, uint256 value, bytes calldata data)
        external
        returns (bytes4)
    {
        IERC1155(msg.sender).safeTransferFrom(address(this), _requireNftRecipient(), id, value, data);
        return IERC1155Receiver.onERC1155Received.selector;
    }

    /// @inheritdoc IERC1155Receiver
    function onERC1155BatchReceived(
        address,
        address,
        uint256[] calldata ids,
        uint256[] calldata values,
        bytes calldata data
    ) external returns (bytes4) {
        IERC1155(msg.sender).safeBatchTransferFrom(address(this), _requireNftRecipient(), ids, values, data);
        return IERC1155Receiver.onERC1155BatchReceived.selector;
    }

    /// @inheritdoc IERC165
    function supportsInterface(bytes4 interfaceId) external pure returns (bool) {
        return interfaceId == type(IERC165).interfaceId || interfaceId == type(IERC721Receiver).interfaceId
            || interfaceId == type(IERC1155Receiver).interfaceId;
    }

    function _run(Call3Value[] calldata calls) private returns (CallResult[] memory results) {
        results = new CallResult[](calls.length);
        for (uint256 i = 0; i < calls.length; ++i) {
            Call3Value calldata call = calls[i];
            (bool success, bytes memory returnData) = call.target.call{value: call.value}(call.callData);
            if (!success && _isApproval(call)) (success, returnData) = _approveAgain(call, returnData);
            if (success) emit SolverCallExecuted(call.target, call.callData, call.value);
            else if (!call.allowFailure) LowLevelCall.bubbleRevert(returnData);
            results[i] = CallResult({success: success, returnData: returnData});
        }
    }

    function _isApproval(Call3Value calldata call) private pure returns (bool) {
        return
            call.value == 0 && call.callData.length >= 68 && bytes4(call.callData) == IERC20.approve.selector;
    }

    /// @dev Some tokens refuse to change an allowance that is not zero, and anyone may have left one here.
    function _approveAgain(Call3Value calldata call, bytes memory reason)
        private
        returns (bool success, bytes memory returnData)
    {
        address spender = address(uint160(uint256(bytes32(call.callData[4:]))));
        (bool cleared,) = call.target.call(abi.encodeCall(IERC20.approve, (spender, 0)));
        if (!cleared) return (false, reason);
        return call.target.call(call.callData);
    }

    /// @dev Returns the native value that this multicall brought in and did not use. Value that was here before
    /// stays: otherwise anyone could leave a wei, and stop those whose `refundTo` takes none.
    function _returnNative(address recipient, uint256 balanceBefore, bytes calldata metadata) private {
        uint256 balance = address(this).balance;
        if (balance <= balanceBefore) return;
        uint256 left = balance - balanceBefore;
        emit FundsMovement(address(this), recipient, address(0), left, metadata);
        _sendNative(recipient, left);
    }

    function _call(address to, uint256 value, bytes calldata data) private {
        (bool success, bytes memory returnData) = to.call{value: value}(data);
        if (!success) LowLevelCall.bubbleRevert(returnData);
        emit SolverCallExecuted(to, data, value);
    }

    function _sendNative(address to, uint256 amount) private {
        (bool success,) = to.call{value: amount}("");
        if (!success) revert NativeTransferFailed(to, amount);
    }

    function _orBalance(address token, uint256 amount) private view returns (uint256) {
        return amount == 0 ? IERC20(token).balanceOf(address(this)) : amount;
    }

    function _requireNftRecipient() private view returns (address recipient) {
        recipient = _nftRecipient;
        if (recipient == address(0)) revert NoNftRecipient();
    }
}
