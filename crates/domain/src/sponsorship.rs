//! Who pays which fee, where an integrator pays for its users.
//!
//! Fees fall into buckets. The sponsor's cap is spent on the selected ones in their canonical order, without dust: what
//! a bucket's share in dollars comes to in the fee's currency is rounded down, and the user pays the rest.

use alloy_primitives::Address;

use crate::money::{Amount, OutOfRange, Price, Ratio, Signed, UsdMicros};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    Execution,
    Swap,
    Relay,
    App,
    Rent,
}

impl Component {
    pub const ALL: [Self; 5] = [Self::Execution, Self::Swap, Self::Relay, Self::App, Self::Rent];
    /// The components that are sponsored where the caller does not say.
    pub const DEFAULT: [Self; 4] = [Self::Execution, Self::Swap, Self::Relay, Self::App];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Execution => "execution",
            Self::Swap => "swap",
            Self::Relay => "relay",
            Self::App => "app",
            Self::Rent => "rent",
        }
    }
}

/// The sponsor's offer: its wallet, the components it pays, and its cap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SponsorAsk {
    /// Whose balance pays. Quotes of a time before balances name nobody, and nobody pays for them.
    pub wallet: Address,
    selected: Vec<Component>,
    pub cap: Option<UsdMicros>,
}

impl SponsorAsk {
    /// The components in canonical order, each once.
    pub fn new(wallet: Address, mut selected: Vec<Component>, cap: Option<UsdMicros>) -> Self {
        selected.sort_unstable();
        selected.dedup();
        Self { wallet, selected, cap }
    }

    pub fn selected(&self) -> &[Component] {
        &self.selected
    }
}

/// Figures in dollars are rounded one by one: so much of a difference is nobody's loss.
const ROUNDING: UsdMicros = UsdMicros(10);

/// One kind of fee, and how much of it the sponsor pays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    pub total: Signed,
    pub sponsored: Amount,
}

impl Bucket {
    pub fn user_pays(&self) -> Result<Signed, OutOfRange> {
        self.total.checked_sub(Signed::cost(self.sponsored))
    }
}

/// Why a sponsor that was asked for pays nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSponsored {
    /// The transfer stays on the same chain: no fill is charged to anybody.
    SameChain,
    BalanceTooLow,
    NothingSelected,
    /// The cap is worth less than the smallest unit of the fees' currency.
    CapTooLow,
    /// No selected fee is charged.
    NothingCharged,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sponsorship {
    pub ask: SponsorAsk,
    /// None where the sponsor pays something. Rows of an older build do not say.
    pub refused: Option<NotSponsored>,
    /// The cap kept a selected fee from being paid in full.
    pub cap_hit: bool,
    /// In the order of `Component::ALL`.
    pub buckets: [Bucket; 5],
}

/// The part of a fee that what is left of the cap covers, and takes from it. Without a cap it is all of the fee.
pub(crate) fn covered(
    fee: Amount,
    left: &mut Option<UsdMicros>,
    price: Price,
    decimals: u8,
) -> Result<Amount, OutOfRange> {
    let Some(left) = left else { return Ok(fee) };
    let worth = price.usd_ceil(fee, decimals)?;
    let spent = worth.min(*left);
    *left = left.checked_sub(spent)?;
    Ok(if spent == worth { fee } else { price.amount_floor(spent, decimals)?.min(fee) })
}

impl Sponsorship {
    /// Spends the cap on the selected buckets. `price` is that of the currency the totals are in.
    pub fn allocate(ask: &SponsorAsk, totals: [Signed; 5], price: Price, decimals: u8) -> Result<Self, OutOfRange> {
        let mut left = ask.cap;
        let mut cap_hit = false;
        let mut buckets = totals.map(|total| Bucket { total, sponsored: Amount::ZERO });
        for (bucket, component) in buckets.iter_mut().zip(Component::ALL) {
            // A reward is the user's.
            if bucket.total.is_negative() || !ask.selected.contains(&component) {
                continue;
            }
            let full = bucket.total.size();
            bucket.sponsored = covered(full, &mut left, price, decimals)?;
            cap_hit |= bucket.sponsored < full;
        }
        let refused = if buckets.iter().any(|bucket| !bucket.sponsored.is_zero()) {
            None
        } else if ask.selected.is_empty() {
            Some(NotSponsored::NothingSelected)
        } else {
            Some(if cap_hit { NotSponsored::CapTooLow } else { NotSponsored::NothingCharged })
        };
        Ok(Self { ask: ask.clone(), refused, cap_hit, buckets })
    }

    /// Nothing is paid by the sponsor, who cannot.
    pub fn none(ask: &SponsorAsk, totals: [Signed; 5], refused: NotSponsored) -> Self {
        let buckets = totals.map(|total| Bucket { total, sponsored: Amount::ZERO });
        Self { ask: ask.clone(), refused: Some(refused), cap_hit: false, buckets }
    }

    /// Counts what the user loses on the way beyond the fees: to pools that nobody makes good, or to a rate that pools
    /// bound. It belongs to the swap, and nobody sponsors it. A gain is the user's where no part of the swap is
    /// sponsored; else it would be taken off what the sponsor is charged.
    pub(crate) fn count_loss(&mut self, lost: UsdMicros, price: Price, decimals: u8) -> Result<(), OutOfRange> {
        let mut shown = UsdMicros::default();
        for bucket in &self.buckets {
            let charged = price.usd_signed(bucket.total, decimals)?;
            shown = shown.checked_add(charged)?.checked_sub(price.usd_floor(bucket.sponsored, decimals)?)?;
        }
        let more = lost.checked_sub(shown)?;
        let bucket = &mut self.buckets[Component::Swap as usize];
        if more.0.saturating_abs() <= ROUNDING.0 || (more.0 < 0 && !bucket.sponsored.is_zero()) {
            return Ok(());
        }
        let size = price.amount_floor(UsdMicros(more.0.saturating_abs()), decimals)?;
        let more = if more.0 < 0 { Signed::reward(size) } else { Signed::cost(size) };
        bucket.total = bucket.total.checked_add(more)?;
        Ok(())
    }

    pub fn bucket(&self, component: Component) -> &Bucket {
        &self.buckets[component as usize]
    }

    pub fn sponsored_total(&self) -> Result<Amount, OutOfRange> {
        self.buckets.iter().try_fold(Amount::ZERO, |sum, bucket| sum.checked_add(bucket.sponsored))
    }

    /// The sponsor's payment when only a part of the deposit came: gas and the flat fee stay, shares shrink with it.
    pub fn sponsored_part(&self, part: Ratio) -> Result<Amount, OutOfRange> {
        let [execution, shares @ ..] = &self.buckets;
        shares.iter().try_fold(execution.sponsored, |sum, bucket| sum.checked_add(bucket.sponsored.mul_floor(part)?))
    }

    pub fn user_pays_total(&self) -> Result<Signed, OutOfRange> {
        self.buckets.iter().try_fold(Signed::ZERO, |sum, bucket| sum.checked_add(bucket.user_pays()?))
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::U256;
    use proptest::prelude::*;

    use super::*;

    fn amount(units: u128) -> Amount {
        Amount::new(U256::from(units))
    }

    fn dollar() -> Price {
        Price::new(100_000_000, 8).unwrap()
    }

    fn totals(units: [i64; 5]) -> [Signed; 5] {
        units.map(|units| match units {
            ..0 => Signed::reward(amount(u128::from(units.unsigned_abs()))),
            0.. => Signed::cost(amount(u128::from(units.unsigned_abs()))),
        })
    }

    #[test]
    fn the_cap_is_spent_in_canonical_order() {
        // $0.0231, $0.04, $0.01 and $0.05 under a cap of $0.07.
        let ask = SponsorAsk::new(Address::ZERO, Component::DEFAULT.to_vec(), Some(UsdMicros(70_000)));
        let paid = Sponsorship::allocate(&ask, totals([23_100, 40_000, 10_000, 50_000, 0]), dollar(), 6).unwrap();
        let sponsored = paid.buckets.map(|bucket| bucket.sponsored.to_string());
        assert_eq!(sponsored, ["23100", "40000", "6900", "0", "0"]);
        let user_pays = paid.buckets.map(|bucket| bucket.user_pays().unwrap().to_string());
        assert_eq!(user_pays, ["0", "0", "3100", "50000", "0"]);
        assert_eq!(paid.sponsored_total().unwrap().to_string(), "70000");
        assert_eq!(paid.user_pays_total().unwrap().to_string(), "53100");
        assert!(paid.cap_hit);
    }

    #[test]
    fn a_sponsor_that_pays_nothing_has_a_reason() {
        let refused = |selected: &[Component], cap, units| {
            let ask = SponsorAsk::new(Address::ZERO, selected.to_vec(), cap);
            Sponsorship::allocate(&ask, totals(units), dollar(), 6).unwrap().refused
        };
        let (all, fees) = (&Component::ALL[..], [5, 7, 3, 2, 0]);
        assert_eq!(refused(all, None, fees), None);
        assert_eq!(refused(&[], None, fees), Some(NotSponsored::NothingSelected));
        assert_eq!(refused(all, Some(UsdMicros(0)), fees), Some(NotSponsored::CapTooLow));
        assert_eq!(refused(&[Component::Rent], None, fees), Some(NotSponsored::NothingCharged));
        assert_eq!(refused(&[Component::Swap], None, [5, -7, 3, 2, 0]), Some(NotSponsored::NothingCharged));
    }

    #[test]
    fn a_loss_that_nobody_makes_good_is_paid_by_the_user() {
        let ask = SponsorAsk::new(Address::ZERO, Component::DEFAULT.to_vec(), None);
        let mut paid = Sponsorship::allocate(&ask, totals([500, 70, 30, 20, 0]), dollar(), 6).unwrap();
        let before = paid.clone();
        paid.count_loss(UsdMicros(ROUNDING.0), dollar(), 6).unwrap();
        paid.count_loss(UsdMicros(-1_000), dollar(), 6).unwrap();
        assert_eq!(paid, before, "neither rounding nor a gain changes the sponsor's part");
        paid.count_loss(UsdMicros(1_000), dollar(), 6).unwrap();
        assert_eq!(paid.user_pays_total().unwrap(), Signed::cost(amount(1_000)));
        assert_eq!(paid.sponsored_total(), before.sponsored_total());
        assert_eq!(paid.bucket(Component::Swap).total, Signed::cost(amount(1_070)));
        let again = paid.clone();
        paid.count_loss(UsdMicros(1_000), dollar(), 6).unwrap();
        assert_eq!(paid, again, "once");
    }

    #[test]
    fn a_selection_is_put_in_order_and_a_reward_is_the_users() {
        let ask = SponsorAsk::new(Address::ZERO, vec![Component::Relay, Component::Swap, Component::Relay], None);
        assert_eq!(ask.selected(), [Component::Swap, Component::Relay]);
        let paid = Sponsorship::allocate(&ask, totals([5, -7, 3, 2, 0]), dollar(), 6).unwrap();
        assert_eq!(paid.bucket(Component::Swap).sponsored, Amount::ZERO);
        assert_eq!(paid.bucket(Component::Relay).sponsored, amount(3));
        assert_eq!(paid.user_pays_total().unwrap(), Signed::ZERO);
        assert!(!paid.cap_hit);
    }

    proptest! {
        #[test]
        fn sponsor_and_user_pay_the_whole_and_the_cap_is_kept(
            units in proptest::array::uniform5(-1_000_000i64..1_000_000),
            cap in proptest::option::of(0i64..3_000_000),
            answer in 1u64..1_000_000_000_000,
            decimals in 0u8..=18,
        ) {
            let (ask, price) = (SponsorAsk::new(Address::ZERO, Component::ALL.to_vec(), cap.map(UsdMicros)), Price::new(answer.into(), 8).unwrap());
            let paid = Sponsorship::allocate(&ask, totals(units), price, decimals).unwrap();
            let mut worth = 0;
            for (bucket, total) in paid.buckets.iter().zip(totals(units)) {
                prop_assert_eq!(bucket.user_pays().unwrap().checked_add(Signed::cost(bucket.sponsored)).unwrap(), total);
                worth += price.usd_floor(bucket.sponsored, decimals).unwrap().0;
            }
            prop_assert!(cap.is_none_or(|cap| worth <= cap));
        }
    }
}
