// SPDX-License-Identifier: MIT
pragma solidity =0.8.37;

import {Test} from "forge-std/Test.sol";
import {GasPriceOracle} from "../../src/devnet/GasPriceOracle.sol";

contract GasPriceOracleTest is Test {
    GasPriceOracle internal constant ORACLE = GasPriceOracle(0x420000000000000000000000000000000000000F);

    function setUp() public {
        vm.etch(address(ORACLE), vm.getDeployedCode("GasPriceOracle.sol:GasPriceOracle"));
    }

    function test_with_empty_storage_data_is_free() public {
        vm.fee(7);
        assertEq(ORACLE.getL1Fee(hex"00112233"), 0);
        assertEq(ORACLE.getL1FeeUpperBound(100), 0);
        assertEq(ORACLE.gasPrice(), 7);
        assertEq(ORACLE.baseFee(), 7);
        assertEq(ORACLE.decimals(), 6);
        assertTrue(ORACLE.isEcotone());
    }

    function test_the_fee_follows_the_data() public {
        ORACLE.setL1Fee(30 gwei, 2 gwei, 1_000_000, 500_000);
        uint256 gas = 4 + 3 * 16 + 68 * 16;
        assertEq(ORACLE.getL1GasUsed(hex"00112233"), gas);
        // At a scalar of one, data costs its gas at the base fee plus a sixteenth of half the blob fee.
        assertEq(ORACLE.getL1Fee(hex"00112233"), gas * 30 gwei + gas * 1 gwei / 16);
    }

    function testFuzz_the_upper_bound_holds(
        bytes calldata data,
        uint64 fee,
        uint64 blobFee,
        uint32 a,
        uint32 b
    ) public {
        ORACLE.setL1Fee(fee, blobFee, a, b);
        assertLe(ORACLE.getL1Fee(data), ORACLE.getL1FeeUpperBound(data.length));
    }
}
