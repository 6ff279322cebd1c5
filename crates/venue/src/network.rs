//! The venue's networks, by the id that its transactions sign.

/// Not the service's chain id: 3586256 is never signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(pub u32);

impl Network {
    pub const MAINNET: Self = Self(304);
    /// Also the simulator's: nothing signed for it counts on the real venue.
    pub const TESTNET: Self = Self(300);
}
