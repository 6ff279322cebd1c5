// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

/// @title Transfers by signed authorization, as EIP-3009 describes them
interface IERC3009 {
    /// @notice An authorization was used.
    event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);

    /// @notice An authorization was withdrawn before use.
    event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce);

    /// @notice True if the nonce of `authorizer` was used or withdrawn.
    function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);

    /// @notice Moves `value` from the signer to `to`; anyone may submit it.
    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external;

    /// @notice Moves `value` from the signer to `to`; only `to` may submit it, so it cannot be front-run.
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external;

    /// @notice Withdraws an authorization.
    function cancelAuthorization(address authorizer, bytes32 nonce, uint8 v, bytes32 r, bytes32 s) external;
}
