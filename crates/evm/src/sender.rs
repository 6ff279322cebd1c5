//! Signed transactions go to every node at once, because "accepted" by one of them means little.

use std::time::Duration;

use alloy::primitives::{B256, Bytes, keccak256};
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use crate::errors::{ChainError, Refusal};
use crate::nodes::Nodes;

/// Once one node holds the transaction, the others get this long before we go on without them; their sends carry on.
/// A lane must not wait for the timeout of a stalled node with every transaction.
const SECOND_NODE_TIMEOUT: Duration = Duration::from_millis(250);

/// The outcome of a send at one endpoint.
#[derive(Clone, Debug)]
pub enum SendOutcome {
    Accepted,
    /// The node already has these exact bytes, mined or pending.
    AlreadyKnown,
    /// The node understood the request and refused it.
    Refused(Refusal),
    /// The transaction may or may not have arrived.
    Failed(ChainError),
    /// No answer yet; the send goes on in the background.
    Unanswered,
}

impl SendOutcome {
    /// True when the node holds the transaction.
    pub fn is_held(&self) -> bool {
        matches!(self, Self::Accepted | Self::AlreadyKnown)
    }

    fn of(answer: Result<B256, ChainError>) -> Self {
        match answer {
            Ok(_) => Self::Accepted,
            Err(ChainError::Refused { refusal: Refusal::AlreadyKnown, .. }) => Self::AlreadyKnown,
            Err(ChainError::Refused {
                refusal: refusal @ (Refusal::RateLimited | Refusal::NotSupported),
                host,
                method,
            }) => Self::Failed(ChainError::Refused { host, method, refusal }),
            Err(ChainError::Refused { refusal, .. }) => Self::Refused(refusal),
            Err(error) => Self::Failed(error),
        }
    }
}

/// The outcomes of a send, one per endpoint in the order of the configuration.
#[derive(Clone, Debug)]
pub struct Sent {
    pub hash: B256,
    pub outcomes: Vec<SendOutcome>,
}

impl Sent {
    /// True when at least one node holds the transaction.
    pub fn is_held(&self) -> bool {
        self.outcomes.iter().any(SendOutcome::is_held)
    }

    /// The reason for the refusal, when no node holds the transaction.
    pub fn refusal(&self) -> Option<&Refusal> {
        if self.is_held() {
            return None;
        }
        self.outcomes.iter().find_map(|outcome| match outcome {
            SendOutcome::Refused(refusal) => Some(refusal),
            _ => None,
        })
    }

    /// True when every node refuses these very bytes: no fee and no waiting mends it.
    pub fn is_refused_for_good(&self) -> bool {
        let finally = |it: &SendOutcome| matches!(it, SendOutcome::Refused(refusal) if refusal.is_final());
        !self.outcomes.is_empty() && self.outcomes.iter().all(finally)
    }

    /// True when no node holds the transaction, and one refuses it as it is or for a reason that is not understood.
    pub fn is_refused(&self) -> bool {
        let own = |it: &SendOutcome| match it {
            SendOutcome::Refused(refusal) => refusal.is_final() || matches!(refusal, Refusal::Other(_)),
            _ => false,
        };
        !self.is_held() && !self.nonce_is_used() && self.outcomes.iter().any(own)
    }

    /// True when the nodes that answered say that the account is past this nonce, all of them: sending again is idle.
    pub fn is_spent(&self) -> bool {
        let idle = |it: &SendOutcome| {
            !it.is_held() && !matches!(it, SendOutcome::Refused(refusal) if *refusal != Refusal::NonceTooLow)
        };
        self.nonce_is_used() && self.outcomes.iter().all(idle)
    }

    /// True when some node said that the account is past this nonce: look up receipts before concluding anything.
    pub fn nonce_is_used(&self) -> bool {
        self.outcomes.iter().any(|outcome| matches!(outcome, SendOutcome::Refused(Refusal::NonceTooLow)))
    }
}

impl Nodes {
    /// Sends to every endpoint at once. `on_first` runs as soon as one endpoint has answered, whatever the outcome.
    ///
    /// The sends do not depend on the caller: they finish even if this future is dropped.
    pub async fn send_raw(&self, bytes: &[u8], on_first: impl FnOnce(&SendOutcome)) -> Sent {
        let hash = keccak256(bytes);
        let raw = Bytes::copy_from_slice(bytes);
        let doubtful: Vec<bool> = self.nodes().iter().map(|node| node.is_failing()).collect();
        let mut answers: FuturesUnordered<_> = self
            .nodes()
            .iter()
            .enumerate()
            .map(|(index, node)| {
                let (node, raw) = (node.clone(), raw.clone());
                let send = tokio::spawn(async move { node.ask::<B256>("eth_sendRawTransaction", (raw,)).await });
                async move { (index, send.await) }
            })
            .collect();
        let mut outcomes = vec![SendOutcome::Unanswered; self.len()];
        let mut healthy_left = doubtful.iter().filter(|doubtful| !**doubtful).count();
        let mut on_first = Some(on_first);
        let mut held = false;
        loop {
            let enough = held && healthy_left == 0;
            let patience = if enough { Duration::ZERO } else { SECOND_NODE_TIMEOUT };
            tokio::select! {
                biased;
                answer = answers.next() => {
                    let Some((index, answer)) = answer else { break };
                    // A send cut off by the end of the runtime stays unanswered.
                    let Ok(answer) = answer else { continue };
                    let outcome = SendOutcome::of(answer);
                    held |= outcome.is_held();
                    healthy_left = healthy_left.saturating_sub(usize::from(!doubtful[index]));
                    if let Some(act) = on_first.take() {
                        act(&outcome);
                    }
                    outcomes[index] = outcome;
                }
                () = tokio::time::sleep(patience), if held => break,
            }
        }
        Sent { hash, outcomes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_spent_when_no_node_says_otherwise() {
        let used = || SendOutcome::Refused(Refusal::NonceTooLow);
        let sent = |outcomes| Sent { hash: B256::ZERO, outcomes };
        assert!(sent(vec![used(), used()]).is_spent());
        assert!(sent(vec![used(), SendOutcome::Unanswered]).is_spent());
        assert!(!sent(vec![used(), SendOutcome::Accepted]).is_spent());
        assert!(!sent(vec![used(), SendOutcome::Refused(Refusal::InsufficientFunds)]).is_spent());
        assert!(!sent(vec![SendOutcome::Unanswered]).is_spent());
    }

    #[test]
    fn only_the_transactions_own_fault_is_a_refusal_of_it() {
        let refused = SendOutcome::Refused;
        let (low, other) = (|| refused(Refusal::GasTooLow), || refused(Refusal::Other("no".to_owned())));
        let (poor, used) = (|| refused(Refusal::InsufficientFunds), || refused(Refusal::NonceTooLow));
        // Refused, and refused for good.
        for (outcomes, is_refused, for_good) in [
            (vec![low(), low()], true, true),
            (vec![low(), other()], true, false),
            (vec![other()], true, false),
            (vec![low(), SendOutcome::Unanswered], true, false),
            (vec![low(), SendOutcome::Accepted], false, false),
            (vec![low(), used()], false, false),
            (vec![poor(), refused(Refusal::FeeTooLow), refused(Refusal::NonceTooHigh)], false, false),
            (vec![SendOutcome::Unanswered], false, false),
            (vec![], false, false),
        ] {
            let sent = Sent { hash: B256::ZERO, outcomes };
            assert_eq!((sent.is_refused(), sent.is_refused_for_good()), (is_refused, for_good), "{sent:?}");
        }
    }
}
