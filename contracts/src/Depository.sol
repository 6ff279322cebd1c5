// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {Owned} from "./Owned.sol";
import {IDepository} from "./interfaces/IDepository.sol";

/// @notice See `IDepository`. There is deliberately no `receive`, no `fallback`, no upgrade and no way for the
/// owner to move money: native value without an id would be unattributable, and the allocator is the only way out.
contract Depository is IDepository, Owned {
    using SafeERC20 for IERC20;

    /// @dev `amount` and `window` are set by the owner; `used` is the amount taken and not yet released as of
    /// `updatedAt`. A window of zero means there is no cap. A payment writes the second slot alone; `used` never
    /// exceeds the amount of a cap, this one or an earlier one.
    struct OutflowCap {
        uint128 amount;
        uint64 window;
        uint128 used;
        uint64 updatedAt;
    }

    /// @dev The native currency in `outflowCap`.
    address private constant NATIVE = address(0);

    uint256 private constant NATIVE_DEPOSIT_TOPIC =
        0x8032066556caf3967d8fec4ad22a2d9e1e9576556b2903a0fcd5b1fd201e3477;
    uint256 private constant ERC20_DEPOSIT_TOPIC =
        0x49fed1d0b752ce30eee63c7a81133f3363b532fec5d4d7dd1ccfd005de4555e1;
    uint256 private constant CALL_EXECUTED_TOPIC =
        0x4be109453ef7e895dc7215c929fff9b76b51483d56a4d04548b4866e9aa7c5ea;

    string private constant NAME = "Depository";
    string private constant VERSION = "1";
    bytes32 private constant DOMAIN_TYPEHASH =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    bytes32 private constant CALL_TYPEHASH =
        keccak256("Call(address to,bytes data,uint256 value,bool allowFailure)");
    bytes32 private constant CALL_REQUEST_TYPEHASH = keccak256(
        "CallRequest(Call[] calls,uint256 nonce,uint256 expiration)Call(address to,bytes data,uint256 value,bool allowFailure)"
    );

    /// @inheritdoc IDepository
    address public allocator;

    /// @inheritdoc IDepository
    address public guardian;

    /// @inheritdoc IDepository
    bool public executionPaused;

    /// @dev Shares the slot of the guardian and the pause, which `execute` reads anyway.
    uint64 private _cappedTokens;

    /// @inheritdoc IDepository
    mapping(bytes32 structHash => bool) public callRequests;

    /// @inheritdoc IDepository
    mapping(uint256 nonce => bool) public usedNonces;

    mapping(address token => OutflowCap) private _outflowCaps;

    /// @dev Set while an ERC-20 deposit measures its receipt: a nested deposit would be counted twice.
    bool private transient _measuring;

    constructor(address initialOwner, address initialAllocator) Owned(initialOwner) {
        _setAllocator(initialAllocator);
    }

    /// @inheritdoc IDepository
    function depositNative(address depositor, bytes32 id) external payable {
        address from = depositor == address(0) ? msg.sender : depositor;
        assembly ("memory-safe") {
            // Three words fit the scratch space and the free-memory pointer, which nothing reads after `stop`.
            mstore(0x00, from)
            mstore(0x20, callvalue())
            mstore(0x40, id)
            log1(0x00, 0x60, NATIVE_DEPOSIT_TOPIC)
            stop()
        }
    }

    /// @inheritdoc IDepository
    function depositErc20(address depositor, address token, uint256 amount, bytes32 id) external {
        _depositErc20(depositor, token, amount, id);
    }

    /// @inheritdoc IDepository
    function depositErc20(address depositor, address token, bytes32 id) external {
        _depositErc20(depositor, token, IERC20(token).allowance(msg.sender, address(this)), id);
    }

    /// @inheritdoc IDepository
    function execute(CallRequest calldata request, bytes calldata signature)
        external
        returns (CallResult[] memory results)
    {
        if (executionPaused) revert ExecutionIsPaused();
        if (_measuring) revert DepositInProgress();
        if (request.expiration < block.timestamp) revert CallRequestExpired();

        bytes32 structHash = _structHash(request);
        if (!_isAllocatorSignature(_digest(structHash), signature)) revert InvalidSignature();
        if (callRequests[structHash]) revert CallRequestAlreadyUsed();
        if (usedNonces[request.nonce]) revert NonceAlreadyUsed(request.nonce);

        // Both marks precede every outside call: a reentrant call with this request fails.
        callRequests[structHash] = true;
        usedNonces[request.nonce] = true;

        bool paymentsOnly = _cappedTokens != 0;
        results = new CallResult[](request.calls.length);
        for (uint256 i = 0; i < request.calls.length; ++i) {
            Call calldata call = request.calls[i];
            bool isTransfer = _isTransfer(call);
            if (paymentsOnly) _takeFromCap(call, isTransfer, i);

            uint256 gasBefore = gasleft();
            (bool success, bytes memory returnData) = call.to.call{value: call.value}(call.data);
            if (success && isTransfer) success = _transferSucceeded(call.to, returnData);
            if (success) _logCallExecuted(structHash, call);
            else if (!call.allowFailure) revert CallFailed(returnData);
            // Anyone submits a request, with as little gas as they like. A call that was starved has used nearly
            // all there was, and a tolerated failure would use up the nonce without paying.
            else if (gasleft() < gasBefore / 2) revert CallStarved(i);

            results[i] = CallResult({success: success, returnData: returnData});
        }
    }

    /// @inheritdoc IDepository
    function setAllocator(address newAllocator) external onlyOwner {
        _setAllocator(newAllocator);
    }

    /// @inheritdoc IDepository
    function setGuardian(address newGuardian) external onlyOwner {
        guardian = newGuardian;
        emit GuardianSet(newGuardian);
    }

    /// @inheritdoc IDepository
    function setOutflowCap(address token, uint128 amount, uint64 window) external onlyOwner {
        if (window == 0 && amount != 0) revert InvalidOutflowCap();
        OutflowCap storage cap = _outflowCaps[token];

        // Settle at the old rate first, so that changing a cap never forgives the amount just taken.
        uint256 used = _used(cap);
        if (cap.window == 0 && window != 0) ++_cappedTokens;
        if (cap.window != 0 && window == 0) --_cappedTokens;
        cap.amount = amount;
        cap.window = window;
        cap.used = window == 0 ? 0 : uint128(used);
        cap.updatedAt = uint64(block.timestamp);
        emit OutflowCapSet(token, amount, window);
    }

    /// @inheritdoc IDepository
    function pauseExecution() external {
        if (msg.sender != guardian && msg.sender != owner) revert Unauthorized();
        executionPaused = true;
        emit ExecutionPaused(msg.sender);
    }

    /// @inheritdoc IDepository
    function unpauseExecution() external onlyOwner {
        executionPaused = false;
        emit ExecutionUnpaused();
    }

    /// @inheritdoc IDepository
    function cappedTokens() external view returns (uint256) {
        return _cappedTokens;
    }

    /// @inheritdoc IDepository
    function outflowCap(address token)
        external
        view
        returns (uint256 amount, uint256 window, uint256 available)
    {
        OutflowCap storage cap = _outflowCaps[token];
        (amount, window) = (cap.amount, cap.window);
        available = window == 0 ? type(uint256).max : _available(amount, _used(cap));
    }

    /// @inheritdoc IDepository
    function hashCallRequest(CallRequest calldata request)
        external
        view
        returns (bytes32 structHash, bytes32 digest)
    {
        structHash = _structHash(request);
        digest = _digest(structHash);
    }

    /// @inheritdoc IDepository
    function eip712Domain()
        external
        view
        returns (
            bytes1 fields,
            string memory name,
            string memory version,
            uint256 chainId,
            address verifyingContract,
            bytes32 salt,
            uint256[] memory extensions
        )
    {
        // The fields present are name, version, chain id and verifying contract.
        return (hex"0f", NAME, VERSION, block.chainid, address(this), bytes32(0), new uint256[](0));
    }

    function _setAllocator(address newAllocator) private {
        if (newAllocator == address(0)) revert AddressCannotBeZero();
        allocator = newAllocator;
        emit AllocatorSet(newAllocator);
    }

    function _depositErc20(address depositor, address token, uint256 amount, bytes32 id) private {
        if (_measuring) revert DepositInProgress();
        _measuring = true;
        uint256 balanceBefore = IERC20(token).balanceOf(address(this));
        IERC20(token).safeTransferFrom(msg.sender, address(this), amount);
        uint256 received = IERC20(token).balanceOf(address(this)) - balanceBefore;
        _measuring = false;

        // A callback of the token could send more in meanwhile; that is a deposit of its own and not part of
        // this one.
        if (received > amount) received = amount;
        if (received == 0) revert NothingReceived();

        address from = depositor == address(0) ? msg.sender : depositor;
        bytes memory data = abi.encode(from, token, received, id);
        assembly ("memory-safe") {
            log1(add(data, 0x20), mload(data), ERC20_DEPOSIT_TOPIC)
        }
    }

    function _logCallExecuted(bytes32 structHash, Call calldata call) private {
        bytes memory data = abi.encode(structHash, call);
        assembly ("memory-safe") {
            log1(add(data, 0x20), mload(data), CALL_EXECUTED_TOPIC)
        }
    }

    /// @dev Tells a token transfer from other calls, and refuses calls that would look like a deposit without
    /// money coming in: the depository calling its own deposit functions or sending a token to itself.
    function _isTransfer(Call calldata call) private view returns (bool isTransfer) {
        if (call.to == address(this)) revert SelfCall();
        isTransfer = call.data.length >= 68 && bytes4(call.data) == IERC20.transfer.selector;
        if (isTransfer && address(uint160(uint256(bytes32(call.data[4:])))) == address(this)) {
            revert SelfCall();
        }
    }

    /// @dev A token that answers false has moved nothing. Counting it as paid would burn the payout's nonce.
    function _transferSucceeded(address token, bytes memory returnData) private view returns (bool) {
        if (returnData.length == 0) return token.code.length != 0;
        return returnData.length >= 32 && uint256(bytes32(returnData)) == 1;
    }

    /// @dev Counts the amount the call names rather than a balance difference: a recipient that deposits the
    /// money back at once would make the difference vanish while the deposit still has to be honoured.
    function _takeFromCap(Call calldata call, bool isTransfer, uint256 index) private {
        address token;
        uint256 amount;
        if (call.allowFailure) {
            // A tolerated failure would keep its charge, and we never sign one.
            revert CallNotAllowed(index);
        } else if (call.data.length == 0) {
            (token, amount) = (NATIVE, call.value);
        } else if (isTransfer && call.data.length == 68 && call.value == 0) {
            (token, amount) = (call.to, uint256(bytes32(call.data[36:])));
        } else {
            revert CallNotAllowed(index);
        }

        OutflowCap storage cap = _outflowCaps[token];
        if (cap.window == 0) return;
        uint256 used = _used(cap);
        uint256 available = _available(cap.amount, used);
        if (amount > available) revert OutflowCapExceeded(token, amount, available);
        cap.used = uint128(used + amount);
        cap.updatedAt = uint64(block.timestamp);
    }

    /// @dev The amount taken is released evenly over the window. Rounding the release down favours the
    /// depository.
    function _used(OutflowCap storage cap) private view returns (uint256) {
        if (cap.window == 0) return 0;
        uint256 released = uint256(cap.amount) * (block.timestamp - cap.updatedAt) / cap.window;
        return released >= cap.used ? 0 : cap.used - released;
    }

    /// @dev The used amount may exceed a cap that the owner has just lowered.
    function _available(uint256 amount, uint256 used) private pure returns (uint256) {
        return used >= amount ? 0 : amount - used;
    }

    function _structHash(CallRequest calldata request) private pure returns (bytes32) {
        bytes32[] memory hashes = new bytes32[](request.calls.length);
        for (uint256 i = 0; i < hashes.length; ++i) {
            Call calldata call = request.calls[i];
            hashes[i] = keccak256(
                abi.encode(CALL_TYPEHASH, call.to, keccak256(call.data), call.value, call.allowFailure)
            );
        }
        return keccak256(
            abi.encode(
                CALL_REQUEST_TYPEHASH, keccak256(abi.encodePacked(hashes)), request.nonce, request.expiration
            )
        );
    }

    /// @dev The domain separator is recomputed each time: it is used once per payout, and a chain may fork.
    function _digest(bytes32 structHash) private view returns (bytes32) {
        bytes32 domainSeparator = keccak256(
            abi.encode(
                DOMAIN_TYPEHASH,
                keccak256(bytes(NAME)),
                keccak256(bytes(VERSION)),
                block.chainid,
                address(this)
            )
        );
        return keccak256(abi.encodePacked(hex"1901", domainSeparator, structHash));
    }

    /// @dev ECDSA recovery comes first even if the allocator has code, because an account with a key may
    /// delegate to code. High `s` and a `v` other than 27 or 28 recover to no address.
    function _isAllocatorSignature(bytes32 digest, bytes calldata signature) private view returns (bool) {
        address signer = allocator;
        address recovered;
        if (signature.length == 65) {
            (recovered,,) = ECDSA.tryRecover(
                digest, uint8(signature[64]), bytes32(signature[:32]), bytes32(signature[32:64])
            );
        } else if (signature.length == 64) {
            (recovered,,) = ECDSA.tryRecover(digest, bytes32(signature[:32]), bytes32(signature[32:]));
        }
        if (recovered == signer) return true;
        if (signer.code.length == 0) return false;

        (bool success, bytes memory answer) =
            signer.staticcall(abi.encodeCall(IERC1271.isValidSignature, (digest, signature)));
        return
            success && answer.length >= 32 && bytes32(answer) == bytes32(IERC1271.isValidSignature.selector);
    }
}
