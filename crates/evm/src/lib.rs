//! Everything the service knows about EVM chains: contract calls, blocks, deposits, signing and sending.
//!
//! One chain is reached through several nodes, none of which is trusted alone to be up, fast or fresh.
//! There is no database here and no rule about orders: the caller decides what a deposit means.

pub mod account_tag;
pub mod agreement;
mod arrivals;
mod balance_changes;
pub mod blame;
pub mod calldata;
pub mod contracts;
mod contradictions;
pub mod errors;
pub mod evidence;
pub mod extract;
mod feed;
pub mod fills;
pub mod funding;
pub mod header_votes;
mod heads;
pub mod http;
mod logs;
mod node;
pub mod nodes;
pub mod permits;
pub mod pools;
pub mod quorum;
pub mod replay;
mod rescan;
pub mod revert;
pub mod routed;
pub mod rpc;
pub mod sender;
pub mod signed_message;
mod signer;
pub mod simulate;
pub mod steps;
pub mod swap;
pub mod topics;
mod watch;
pub mod watcher;

pub use agreement::AgreedBlock;
pub use arrivals::SeenTransfer;
pub use balance_changes::{NativeMovers, SentValue, balance_changes};
pub use contradictions::Contradiction;
pub use errors::{ChainError, Refusal};
pub use extract::{Id, SeenDeposit};
pub use funding::{Funding, SeenTreasuryTransfer};
pub use header_votes::{HeaderVotes, Verdict};
pub use node::EndpointHealth;
pub use nodes::{At, Attempt, Endpoint, Nodes, NonceTag, Wait};
pub use quorum::{AgreedTx, Execution, NoQuorum};
pub use replay::Replayed;
pub use rescan::{BlockSummary, RescannedBlock, Shown};
pub use rpc::{Head, HeardTx, Receipt};
pub use sender::{SendOutcome, Sent};
pub use signed_message::{signed_by_contract, signed_by_contract_over, signed_by_key};
pub use signer::{LocalSigner, SignedAuthorization, SignedTx, TxFields};
pub use simulate::{Simulated, Simulation};
pub use topics::Topics;
pub use watch::Watch;
pub use watcher::{Block, NamedTx, SentTx};
