// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

/// @notice The data-fee oracle of an OP-style chain, for the local network. Its runtime code is put at the
/// chain's fixed address without running a constructor, so it has no owner and works with empty storage: until
/// the fees are set, publishing data costs nothing. Anyone may set them; it guards no money.
contract GasPriceOracle {
    /// @notice The decimals of the scalars.
    uint256 public constant decimals = 6;
    string public constant version = "1.4.0";
    bool public constant isEcotone = true;
    bool public constant isFjord = false;
    bool public constant isIsthmus = false;

    uint256 public l1BaseFee;
    uint256 public blobBaseFee;
    uint32 public baseFeeScalar;
    uint32 public blobBaseFeeScalar;

    /// @dev A signed transaction is about this much longer than the unsigned one that callers pass.
    uint256 private constant SIGNATURE_BYTES = 68;

    /// @notice Sets all four parameters of the data fee.
    function setL1Fee(
        uint256 newL1BaseFee,
        uint256 newBlobBaseFee,
        uint32 newBaseFeeScalar,
        uint32 newBlobBaseFeeScalar
    ) external {
        l1BaseFee = newL1BaseFee;
        blobBaseFee = newBlobBaseFee;
        baseFeeScalar = newBaseFeeScalar;
        blobBaseFeeScalar = newBlobBaseFeeScalar;
    }

    /// @notice The fee in wei for publishing an unsigned transaction.
    function getL1Fee(bytes calldata data) external view returns (uint256) {
        return _fee(_gas(data) + SIGNATURE_BYTES * 16);
    }

    /// @notice The maximum fee for an unsigned transaction of this length.
    function getL1FeeUpperBound(uint256 unsignedTxSize) external view returns (uint256) {
        return _fee((unsignedTxSize + SIGNATURE_BYTES) * 16);
    }

    /// @notice The gas for publishing an unsigned transaction.
    function getL1GasUsed(bytes calldata data) external pure returns (uint256) {
        return _gas(data) + SIGNATURE_BYTES * 16;
    }

    function gasPrice() external view returns (uint256) {
        return block.basefee;
    }

    function baseFee() external view returns (uint256) {
        return block.basefee;
    }

    function _fee(uint256 gas) private view returns (uint256) {
        uint256 perGas = 16 * uint256(baseFeeScalar) * l1BaseFee + uint256(blobBaseFeeScalar) * blobBaseFee;
        return gas * perGas / (16 * 10 ** decimals);
    }

    function _gas(bytes calldata data) private pure returns (uint256 gas) {
        for (uint256 i = 0; i < data.length; ++i) {
            gas += data[i] == 0 ? 4 : 16;
        }
    }
}
