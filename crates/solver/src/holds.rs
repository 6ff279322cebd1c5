//! Holds on integrators' balances around a fill: sponsored fees, app fees, and fast fills that wait for their deposit.

pub mod exposure;
pub mod failed_fill;
pub mod fast_fill;
pub mod sponsorship;
pub mod worth;
