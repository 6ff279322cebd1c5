// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

/// @notice An outflow cap as its rule says it, with no running total that could be settled wrongly: a list of
/// payments, and the amount that the caps have released since the first. Used is the most by which any stretch of
/// time up to now paid more than was released in it.
contract OutflowModel {
    struct Payment {
        uint256 amount;
        uint256 releasedBefore;
    }

    /// @dev Releases are counted in this part of a unit, rounded up.
    uint256 private constant PART = 1e18;

    uint256 private amount;
    uint256 private window;
    uint256 private setAt;
    uint256 private releasedBefore;
    uint256 private changes;
    Payment[] private payments;

    /// @dev A cap that is removed forgets its payments.
    function set(uint256 newAmount, uint256 newWindow) external {
        releasedBefore = released();
        (amount, window, setAt) = (newAmount, newWindow, block.timestamp);
        ++changes;
        if (newWindow == 0) delete payments;
    }

    function pay(uint256 paid) external {
        if (window != 0) payments.push(Payment({amount: paid, releasedBefore: released()}));
    }

    /// @notice The bounds of what may leave now. The depository keeps less than one unit each time it settles.
    function available() external view returns (uint256 least, uint256 most) {
        if (window == 0) return (type(uint256).max, type(uint256).max);
        uint256 used = usedParts();
        most = used >= amount * PART ? 0 : (amount * PART - used) / PART;
        uint256 kept = changes + payments.length + 1;
        least = most > kept ? most - kept : 0;
    }

    function usedParts() private view returns (uint256 used) {
        uint256 total = released();
        uint256 sum;
        for (uint256 i = payments.length; i != 0; --i) {
            sum += payments[i - 1].amount * PART;
            uint256 free = total - payments[i - 1].releasedBefore;
            if (sum > free && sum - free > used) used = sum - free;
        }
    }

    function released() private view returns (uint256) {
        if (window == 0) return releasedBefore;
        uint256 parts = amount * PART * (block.timestamp - setAt);
        return releasedBefore + (parts + window - 1) / window;
    }
}
