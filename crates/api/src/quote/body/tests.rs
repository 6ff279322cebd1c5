//! Numbers and amounts, as clients write them.

use serde_json::json;

use super::*;

#[test]
fn slippage_is_a_whole_number_of_basis_points() {
    let slippage = |value: &Value| slippage("slippageTolerance", value);
    assert_eq!(slippage(&json!("0")).ok(), Some(0));
    assert_eq!(slippage(&json!("10000")).ok(), Some(10_000));
    for bad in ["", "10001", "-1", "+5", "1.5", "0x1", "５"] {
        assert!(slippage(&json!(bad)).is_err(), "{bad}");
    }
    for bad in [json!(50), json!(-1), json!(1.5), json!(1e3), json!(true), json!([])] {
        assert!(slippage(&bad).is_err(), "{bad}");
    }
}

#[test]
fn a_call_has_its_value_in_either_of_two_forms() {
    for value in ["0x10", "16"] {
        assert_eq!(units(value).map(|units| units.units()), Some(U256::from(16)), "{value}");
    }
    for bad in ["0x", "-1", "1.5", "0xg", ""] {
        assert_eq!(units(bad), None, "{bad}");
    }
}
