//! Members of the service's JSON answers, by their path.

use serde_json::Value;

use crate::decimal;

/// The text at a path such as `/data/route/quoted`; empty where there is none.
pub(crate) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    value.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn number(value: &Value, path: &str) -> Option<i64> {
    value.pointer(path).and_then(Value::as_i64)
}

/// Dollars at a path, in millionths.
pub(crate) fn usd(value: &Value, path: &str) -> i64 {
    decimal::micros(text(value, path)).unwrap_or_default()
}

/// An amount with its symbol, such as `249.97 USDC`, as readers take it in; empty where there is none.
pub(crate) fn amount(value: &Value, path: &str) -> String {
    let Some(amount) = value.pointer(path).filter(|amount| amount.is_object()) else { return String::new() };
    let shown = decimal::brief(text(amount, "/amountFormatted"));
    format!("{shown} {}", text(amount, "/currency/symbol")).trim().to_owned()
}

/// An amount with its symbol, to the last decimal; empty where there is none.
pub(crate) fn exact_amount(value: &Value, path: &str) -> String {
    let Some(amount) = value.pointer(path).filter(|amount| amount.is_object()) else { return String::new() };
    let formatted = text(amount, "/amountFormatted");
    let shown = formatted.strip_suffix(".0").unwrap_or(formatted);
    format!("{shown} {}", text(amount, "/currency/symbol")).trim().to_owned()
}
