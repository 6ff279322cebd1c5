//! Figures as text: clients read a JSON number as a double, which drops digits of a large one.

use domain::digits::Digits;
use domain::money::{Amount, Signed};
use serde::ser::{Serialize, Serializer};

/// Half of all texts of a quote are figures: they are written without allocating.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure(pub Digits);

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

/// For fields that stay an [`Amount`] until they are written.
pub(crate) fn amount<S: Serializer>(amount: &Amount, serializer: S) -> Result<S::Ok, S::Error> {
    Figure(Signed::cost(*amount).digits()).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::U256;

    use super::*;

    #[test]
    fn a_figure_is_text_whatever_its_size() {
        for (digits, text) in [
            (Digits::of(U256::ZERO), r#""0""#),
            (Digits::of(U256::from(u64::MAX)), r#""18446744073709551615""#),
            (
                Digits::of(U256::MAX),
                r#""115792089237316195423570985008687907853269984665640564039457584007913129639935""#,
            ),
            (Digits::scaled(U256::from(1500), 3).negative(true), r#""-1.5""#),
        ] {
            assert_eq!(serde_json::to_string(&Figure(digits)).unwrap(), text);
        }
    }
}
