// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {DevnetToken} from "./DevnetToken.sol";
import {PlainToken} from "./PlainToken.sol";

/// @notice A plain stablecoin of 18 decimals for the local network.
contract Dai is PlainToken {
    constructor(address initialOwner) DevnetToken(initialOwner, "Dai Stablecoin", "DAI", 18) {}
}
