//! The subject of a watcher: the addresses and topics to look for in a block, and the log filters that ask for them.

use std::collections::BTreeSet;

use alloy::primitives::Address;
use serde_json::{Value, json};

use crate::funding::Funding;
use crate::steps::Entry;
use crate::topics::{TRANSFER, Topics};

/// The addresses and topics to look for in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    pub depository: Address,
    /// Our wallets, whose transactions are followed.
    pub wallets: BTreeSet<Address>,
    /// The contracts through which users' own transactions enter, which name a request.
    pub entry: Option<Entry>,
    /// The transfers that may fund app balances.
    pub funding: Option<Funding>,
    pub topics: Topics,
}

impl Watch {
    pub fn new(depository: Address, wallets: impl IntoIterator<Item = Address>) -> Self {
        let (entry, funding, topics) = (None, None, Topics::default());
        Self { depository, wallets: wallets.into_iter().collect(), entry, funding, topics }
    }

    pub fn with_entry(self, entry: Option<Entry>) -> Self {
        Self { entry, ..self }
    }

    pub fn with_funding(self, funding: Option<Funding>) -> Self {
        Self { funding, ..self }
    }
}

/// The depository's own events, in the blocks the filter already names.
pub(crate) fn events_filter(mut filter: Value, watch: &Watch) -> Value {
    filter["address"] = json!(watch.depository);
    filter["topics"] = json!([[watch.topics.native_deposit, watch.topics.erc20_deposit]]);
    filter
}

/// Transfers of any token to the depository, or to the treasury.
pub(crate) fn transfers_filter(mut filter: Value, watch: &Watch) -> Value {
    let to = std::iter::once(watch.depository).chain(watch.funding.as_ref().map(|funding| funding.solver));
    filter["topics"] = json!([TRANSFER, null, to.map(|to| to.into_word()).collect::<Vec<_>>()]);
    filter
}
