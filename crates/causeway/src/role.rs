//! The role of a process. Several processes may serve one Postgres database, each with only the keys of its role.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Answers API callers. Holds no wallet's key.
    Api,
    /// Follows the chains, fills and refunds. One is the leader, the others stand by.
    Worker,
    /// Signs payouts from the depositories. One is the leader, the others stand by.
    Allocator,
    /// All roles in one process.
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

    /// The role quotes, which takes the order key.
    pub fn answers(self) -> bool {
        matches!(self, Self::Api | Self::All)
    }

    /// The role pays, which takes the fillers' keys.
    pub fn pays(self) -> bool {
        matches!(self, Self::Worker | Self::All)
    }

    /// The role signs payouts, which takes the allocator's key.
    pub fn allocates(self) -> bool {
        matches!(self, Self::Allocator | Self::All)
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
