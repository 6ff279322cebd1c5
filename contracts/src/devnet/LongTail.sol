// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {DevnetToken} from "./DevnetToken.sol";
import {PlainToken} from "./PlainToken.sol";

/// @notice A token that only a thin pool trades, for the local network.
contract LongTail is PlainToken {
    constructor(address initialOwner) DevnetToken(initialOwner, "Long Tail", "TAIL", 18) {}
}
