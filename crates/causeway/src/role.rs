//! What one process is for. Several may serve one Postgres database, each with the keys of its role and no others.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Answers callers. Holds no wallet's key.
    Api,
    /// Follows the chains, fills and refunds; one at a time, the others stand by.
    Worker,
    /// Signs what leaves the depositories; one at a time, the others stand by.
    Allocator,
    /// All of it.
    #[default]
    All,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Worker => "worker",
            Self::Allocator => "allocator",
            Self::All => "all",
        }
    }

    /// Whether it quotes, which takes the order key.
    pub fn answers(self) -> bool {
        matches!(self, Self::Api | Self::All)
    }

    /// Whether it pays, which takes the fillers' keys.
    pub fn pays(self) -> bool {
        matches!(self, Self::Worker | Self::All)
    }

    /// Whether it signs payouts, which takes the allocator's key.
    pub fn allocates(self) -> bool {
        matches!(self, Self::Allocator | Self::All)
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
