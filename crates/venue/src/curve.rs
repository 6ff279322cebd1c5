//! Points of ECgFp5 and numbers modulo its order.
//!
//! Multiplication by a secret takes the same steps for every secret here. The library's `Point::mul` begins at the
//! first digit that is not zero and looks it up by its value, so the time it takes tells how long the secret is; enough
//! such hints about the nonces of signatures give the key away. Field arithmetic itself is the library's, and branches
//! on carries: that is left.

use std::sync::LazyLock;

use goldilocks_crypto::{AffinePoint, Point, ScalarField};
use poseidon_hash::Fp5Element;
use subtle::{ConditionallySelectable, ConstantTimeEq};

use crate::field;

const WINDOW: usize = 16;

/// 0·G to 15·G.
static MULTIPLES: LazyLock<[AffinePoint; WINDOW]> = LazyLock::new(|| {
    let mut sum = Point::neutral();
    std::array::from_fn(|_| {
        let point = sum.to_affine_single();
        sum = sum.add_affine(&generator());
        point
    })
});

fn generator() -> AffinePoint {
    Point::generator().to_affine_single()
}

/// The number times the generator. The formulas are complete, so that zero digits are added like all others.
pub(crate) fn times_generator(number: &ScalarField) -> Point {
    let mut sum = Point::neutral();
    for digit in number.split_to_4bit_limbs().iter().rev() {
        sum = sum.set_m_double(4).add_affine(&multiple(*digit));
    }
    sum
}

/// Reads the whole table whatever the digit.
fn multiple(digit: u8) -> AffinePoint {
    let table = &*MULTIPLES;
    let mut picked = table[0];
    for (n, entry) in (0u8..).zip(table) {
        let here = n.ct_eq(&digit);
        assign(&mut picked.x, &entry.x, here);
        assign(&mut picked.u, &entry.u, here);
    }
    picked
}

fn assign(to: &mut Fp5Element, from: &Fp5Element, choice: subtle::Choice) {
    for (to, from) in to.0.iter_mut().zip(&from.0) {
        to.0.conditional_assign(&from.0, choice);
    }
}

/// `left - right`, both reduced, without a branch on the result.
pub(crate) fn subtract(left: &ScalarField, right: &ScalarField) -> ScalarField {
    let (difference, borrow) = left.sub_inner(right);
    ScalarField::select(borrow, &difference, &difference.add_inner(ScalarField::N))
}

/// None for a number at or above the order: it has a smaller form.
pub(crate) fn scalar(bytes: &[u8; field::BYTES]) -> Option<ScalarField> {
    ScalarField::from_bytes_le(bytes).ok().filter(ScalarField::is_canonical)
}

/// A point by its encoding. None for what encodes no point, and for the neutral one: whoever has it for a public key
/// has signed everything.
pub(crate) fn point(encoding: &Fp5Element) -> Option<Point> {
    Point::decode(encoding).filter(|point| !point.is_neutral())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(limbs: [u64; 5]) -> ScalarField {
        ScalarField::from_non_canonical_limbs(limbs)
    }

    #[test]
    fn small_multiples_are_repeated_sums() {
        let mut sum = Point::neutral();
        for n in 0..40 {
            assert_eq!(
                field::to_bytes(&times_generator(&number([n, 0, 0, 0, 0])).encode()),
                field::to_bytes(&sum.encode())
            );
            sum = sum.add(&Point::generator());
        }
    }

    #[test]
    fn the_order_less_one_is_the_negative_and_one_more_is_neutral() {
        let last = times_generator(&ScalarField::NEG_ONE);
        assert!(last.add(&Point::generator()).is_neutral());
        assert!(times_generator(&ScalarField::N).is_neutral());
    }

    #[test]
    fn numbers_at_or_above_the_order_are_refused() {
        assert!(scalar(&ScalarField::NEG_ONE.to_bytes_le()).is_some());
        assert!(scalar(&ScalarField::N.to_bytes_le()).is_none());
        assert!(scalar(&[0xff; 40]).is_none());
    }

    #[test]
    fn the_neutral_point_is_no_public_key() {
        assert!(Point::decode(&Fp5Element::zero()).is_some(), "the library takes it");
        assert!(point(&Fp5Element::zero()).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn our_schedule_agrees_with_the_library(limbs: [u64; 5]) {
            let number = number(limbs);
            let theirs = Point::generator().mul(&number);
            prop_assert_eq!(field::to_bytes(&times_generator(&number).encode()), field::to_bytes(&theirs.encode()));
        }

        #[test]
        fn a_difference_and_its_subtrahend_sum_up(left: [u64; 5], right: [u64; 5]) {
            let (left, right) = (number(left), number(right));
            let difference = subtract(&left, &right);
            prop_assert!(difference.is_canonical());
            prop_assert_eq!(difference.add(right).0, left.0);
            prop_assert_eq!(difference.0, left.sub(right).0);
        }

        #[test]
        fn a_point_comes_back_from_its_encoding(limbs: [u64; 5]) {
            let encoded = times_generator(&number(limbs)).encode();
            let decoded = point(&encoded).map(|point| field::to_bytes(&point.encode()));
            prop_assert_eq!(decoded, Some(field::to_bytes(&encoded)));
        }
    }
}
