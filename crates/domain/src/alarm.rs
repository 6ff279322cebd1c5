//! Alarms: everything that may be wrong with a deployment and needs a person. Each has its row in `docs/alarms.md`.

macro_rules! alarms {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Alarm {
            $($(#[$doc])* $name,)*
        }

        impl Alarm {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

alarms! {
    /// The database cannot be read.
    Database = "database",
    /// No process holds the worker's lease: nothing is paid.
    NoWorker = "no-worker",
    /// No payments are made on a chain.
    ChainRefused = "chain-refused",
    /// An operator has paused a chain.
    ChainPaused = "chain-paused",
    /// A chain's prices and balances are not known, or its pools contradict them.
    MarketUnknown = "market-unknown",
    /// Blocks of a chain are applied too late.
    ChainBehind = "chain-behind",
    /// The nodes of a chain contradict each other.
    NodesDisagree = "nodes-disagree",
    /// A filler has less native currency than configured.
    GasLow = "gas-low",
    /// Something else has used a filler's key.
    LaneQuarantined = "lane-quarantined",
    /// Payments failed too often to be tried again.
    PaymentParked = "payment-parked",
    /// Payments have waited for long.
    PaymentWaits = "payment-waits",
    /// Orders were paid out and their deposits are gone.
    DepositMissing = "deposit-missing",
    /// Such deposits stayed away: the amount is lost.
    LossBooked = "loss-booked",
    /// An event of a block could not be processed.
    EventSetAside = "event-set-aside",
    /// A row was to become final in a block that is not the one we walked.
    FinalBlockDiffers = "final-block-differs",
    /// The venue says of more payments that they failed than its word may cost in an hour.
    VoidsCapped = "voids-capped",
    /// One node alone shows a deposit in a final block.
    DepositDoubtful = "deposit-doubtful",
    /// A node had hidden a deposit.
    DepositMissed = "deposit-missed",
    /// Money at a deposit address waits for a person.
    AddressStopped = "address-stopped",
    /// So many relays of a chain have failed that no more are sent at our cost.
    RelaysStopped = "relays-stopped",
    /// The allocator found no proof for deposits, or may not return them.
    DepositNotProven = "deposit-not-proven",
    /// Money left a depository without a signature that this database knows.
    PayoutUnrecognized = "payout-unrecognized",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alarm_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = Alarm::ALL.iter().map(|alarm| alarm.as_str()).collect();
        assert_eq!(names.len(), Alarm::ALL.len());
    }
}
