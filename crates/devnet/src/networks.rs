//! The chains that the devnet simulates.

pub(crate) const BASE: u64 = 8453;
pub(crate) const OPTIMISM: u64 = 10;
const ARBITRUM: u64 = 42161;

/// A chain to simulate: the name and id of a real one, so that clients find what they expect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    pub id: u64,
    pub name: &'static str,
}

pub(crate) const NETWORKS: [Network; 3] = [
    Network { id: BASE, name: "base" },
    Network { id: OPTIMISM, name: "optimism" },
    Network { id: ARBITRUM, name: "arbitrum" },
];
