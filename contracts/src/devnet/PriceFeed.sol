// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {Owned} from "../Owned.sol";

/// @notice A price feed for the local network with the functions that readers of aggregator feeds call. The
/// latest answer always looks fresh, unless the owner freezes it to test readers against a stale feed; a round
/// that is asked for by its number has the time at which it began.
contract PriceFeed is Owned {
    event AnswerUpdated(int256 indexed current, uint256 indexed roundId, uint256 updatedAt);

    uint8 public immutable decimals;
    uint256 public constant version = 4;
    string public description;

    int256 public latestAnswer;
    uint80 public latestRound;

    struct Round {
        int256 answer;
        uint256 time;
    }

    mapping(uint80 roundId => Round) private _rounds;

    /// @notice The time the feed claims for its answer, or zero while it follows the block.
    uint256 public frozenAt;

    constructor(address initialOwner, uint8 decimals_, string memory description_, int256 answer)
        Owned(initialOwner)
    {
        decimals = decimals_;
        description = description_;
        _setAnswer(answer);
    }

    /// @notice Sets the price and starts a new round. Owner only.
    function setAnswer(int256 answer) external onlyOwner {
        _setAnswer(answer);
    }

    /// @notice Fixes the timestamp of the answer; zero lets it follow the block again. Owner only.
    function setFrozenAt(uint256 timestamp) external onlyOwner {
        frozenAt = timestamp;
    }

    function latestRoundData()
        external
        view
        returns (uint80 roundId, int256 answer, uint256 startedAt, uint256 updatedAt, uint80 answeredInRound)
    {
        uint256 time = latestTimestamp();
        return (latestRound, latestAnswer, time, time, latestRound);
    }

    /// @notice An earlier round, or the latest one, as it began. A round that never was has only zeros.
    function getRoundData(uint80 id)
        external
        view
        returns (uint80 roundId, int256 answer, uint256 startedAt, uint256 updatedAt, uint80 answeredInRound)
    {
        Round storage round = _rounds[id];
        return (id, round.answer, round.time, round.time, id);
    }

    function latestTimestamp() public view returns (uint256) {
        return frozenAt == 0 ? block.timestamp : frozenAt;
    }

    function _setAnswer(int256 answer) private {
        latestAnswer = answer;
        _rounds[++latestRound] = Round(answer, block.timestamp);
        emit AnswerUpdated(answer, latestRound, block.timestamp);
    }
}
