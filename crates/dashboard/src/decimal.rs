//! Decimal text: dollars of the service's own answers as millionths, for pictures; and amounts that people type.

/// Millionths of a dollar as text with two decimals; below a cent, with the two digits that say something.
pub(crate) fn dollars(micros: i64) -> String {
    let (sign, size) = (if micros < 0 { "-" } else { "" }, micros.unsigned_abs());
    let step = match size {
        0..100 => 1,
        100..1_000 => 10,
        1_000..10_000 => 100,
        _ => 10_000,
    };
    let rounded = size.saturating_add(step / 2) / step * step;
    match rounded {
        0 => "$0.00".to_owned(),
        1..10_000 => format!("{sign}${}", trimmed(rounded)),
        _ => format!("{sign}${}.{:02}", grouped(rounded / 1_000_000), rounded / 10_000 % 100),
    }
}

/// Dollars without cents where there are none: limits, and the scales of charts.
pub(crate) fn round_dollars(micros: i64) -> String {
    let text = dollars(micros);
    text.strip_suffix(".00").map_or_else(|| text.clone(), str::to_owned)
}

/// A sum that is the largest thing on its card: from ten thousand on, cents say nothing and take a second line.
pub(crate) fn headline_dollars(micros: i64) -> String {
    const WHOLE_FROM: u64 = 10_000_000_000;
    let size = micros.unsigned_abs();
    if size < WHOLE_FROM {
        return dollars(micros);
    }
    let sign = if micros < 0 { "-" } else { "" };
    format!("{sign}${}", grouped(size.saturating_add(500_000) / 1_000_000))
}

/// Up to six decimals, without zeros at the end.
fn trimmed(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Digits in groups of three.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A decimal number with as many digits as a reader takes in: six behind the point, or six behind its zeros. The rest
/// is cut off, never rounded up.
pub(crate) fn brief(text: &str) -> String {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let zeros = if whole == "0" { part.len() - part.trim_start_matches('0').len() } else { 0 };
    let kept = part.get(..zeros + 6).unwrap_or(part).trim_end_matches('0');
    let whole = whole.parse::<u64>().map_or_else(|_| whole.to_owned(), grouped);
    if kept.is_empty() { whole } else { format!("{whole}.{kept}") }
}

/// Dollars as the service writes them, in millionths. None if it is no such number.
pub(crate) fn micros(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let units: i64 = units(digits, 6)?.parse().ok()?;
    Some(if negative { -units } else { units })
}

/// A decimal number that a person typed, in smallest units: digits without leading zeros.
pub(crate) fn units(text: &str, decimals: u8) -> Option<String> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = !(whole.is_empty() && part.is_empty()) && whole.len() <= 40 && part.len() <= usize::from(decimals);
    if !fits || !digits(whole) || !digits(part) {
        return None;
    }
    let padded = format!("{whole}{part:0<width$}", width = usize::from(decimals));
    let trimmed = padded.trim_start_matches('0');
    Some(if trimmed.is_empty() { "0".to_owned() } else { trimmed.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_readable() {
        for (micros, text) in [
            (0, "$0.00"),
            (5, "$0.000005"),
            (2_500, "$0.0025"),
            (2_617, "$0.0026"),
            (145, "$0.00015"),
            (9_960, "$0.01"),
            (10_000, "$0.01"),
            (1_234_567_890_000, "$1,234,567.89"),
            (-20_000, "-$0.02"),
            (999_995_000, "$1,000.00"),
        ] {
            assert_eq!(dollars(micros), text);
        }
        for (micros, text) in [(9_999_990_000, "$9,999.99"), (24_856_700_000, "$24,857"), (-24_856_200_000, "-$24,856")]
        {
            assert_eq!(headline_dollars(micros), text);
        }
        assert_eq!([0, 250_000_000_000, 1_500_000, 2_500].map(round_dollars), ["$0", "$250,000", "$1.50", "$0.0025"]);
    }

    #[test]
    fn a_long_number_is_cut_for_readers() {
        for (text, brief_text) in [
            ("0.009979813421341234", "0.00997981"),
            ("0.0", "0"),
            ("2500.50", "2,500.5"),
            ("12.123456789", "12.123456"),
            ("0.000000000000000001", "0.000000000000000001"),
            ("7", "7"),
            ("0.9999999", "0.999999"),
            ("99999999999999999999999.5", "99999999999999999999999.5"),
        ] {
            assert_eq!(brief(text), brief_text);
        }
    }

    #[test]
    fn an_amount_is_read_in_smallest_units() {
        for (text, decimals, expected) in [
            ("1", 6, Some("1000000")),
            ("0.5", 6, Some("500000")),
            (".5", 1, Some("5")),
            ("1.", 2, Some("100")),
            ("0", 18, Some("0")),
            ("007", 0, Some("7")),
            ("1.0000001", 6, None),
            ("", 6, None),
            (".", 6, None),
            ("-1", 6, None),
            ("1e3", 6, None),
            ("1,5", 6, None),
        ] {
            assert_eq!(units(text, decimals).as_deref(), expected, "{text}");
        }
        assert_eq!(micros("-0.022314"), Some(-22_314));
        assert_eq!(micros("249.925307"), Some(249_925_307));
        assert_eq!(micros("x"), None);
    }
}
