//! Answers of several nodes to one question, counted, and a second hearing of those that differ.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use alloy::primitives::B256;

use super::Nodes;
use super::agreed::SECOND_HEARING;
use crate::agreement::{Dispute, Verdict, majority, second, verdict};
use crate::contradictions::POOL_LOGS;
use crate::errors::ChainError;
use crate::node::Node;

impl Nodes {
    /// Hears all nodes once more about a block, in the background, before any of them is accused. One hearing at a
    /// time: a node that lies at every block is named by any of them. Readings of pools have a turn of their own, or
    /// those of prices would always take it.
    pub(crate) fn hear_again<T, F>(
        &self,
        (what, block): (&'static str, B256),
        ask: impl Fn(Arc<Node>) -> F + Send + 'static,
        number: fn(&T) -> u64,
    ) where
        T: PartialEq + Send + 'static,
        F: Future<Output = Result<Option<T>, ChainError>> + Send + 'static,
    {
        let turns = if what == POOL_LOGS { &self.inner.pool_hearing } else { &self.inner.hearing };
        let Ok(turn) = turns.clone().try_acquire_owned() else { return };
        let (nodes, contradictions) = (self.inner.nodes.clone(), self.inner.contradictions.clone());
        tokio::spawn(async move {
            let _turn = turn;
            tokio::time::sleep(SECOND_HEARING).await;
            let asked: Vec<F> = nodes.iter().map(|node| ask(node.clone())).collect();
            let mut count = Count::default();
            for (place, answer) in futures::future::join_all(asked).await.into_iter().enumerate() {
                if let Ok(Some(shown)) = answer {
                    count.add(place, shown);
                }
            }
            if let Some((shown, dispute)) = count.dispute(what, nodes.len()) {
                contradictions.note(&nodes, (number(shown), block), &dispute);
            }
        });
    }
}

/// The answers, and the nodes that gave each.
pub(super) struct Count<T>(Vec<(T, BTreeSet<usize>)>);

impl<T> Default for Count<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: PartialEq> Count<T> {
    pub(super) fn add(&mut self, node: usize, shown: T) {
        match self.0.iter_mut().find(|(known, _)| *known == shown) {
            Some((_, by)) => {
                by.insert(node);
            }
            None => self.0.push((shown, [node].into())),
        }
    }

    pub(super) fn is_disputed(&self) -> bool {
        self.0.len() > 1
    }

    /// The nodes that gave another answer than this one.
    pub(super) fn others_than(&self, answer: &T) -> BTreeSet<usize> {
        self.0.iter().filter(|(shown, _)| shown != answer).flat_map(|(_, by)| by).copied().collect()
    }

    /// The answer that two nodes gave, and more than gave another.
    pub(super) fn agreed(&self, nodes: usize) -> Option<&T> {
        let counts = |shown: &T, by: &BTreeSet<usize>| {
            verdict(by.len(), self.others_than(shown).len(), second(nodes), majority(nodes)) == Verdict::Agreed
        };
        self.0.iter().find(|(shown, by)| counts(shown, by)).map(|(shown, _)| shown)
    }

    /// The contradiction, and the answer that is said to be shown. Between as many on each side it is that of the first
    /// configured node, and nobody is known to lie.
    fn dispute(&self, what: &'static str, nodes: usize) -> Option<(&T, Dispute)> {
        let (shown, by) = self.0.iter().max_by_key(|(_, by)| (by.len(), Reverse(by.first().copied())))?;
        let denied_by = self.others_than(shown);
        if denied_by.is_empty() {
            return None;
        }
        // The others may differ among themselves, so that they outvote nobody.
        let verdict = if by.len() >= majority(nodes) { Verdict::Agreed } else { Verdict::Contradicted };
        Some((shown, Dispute { what, verdict, shown_by: by.clone(), denied_by }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer of each node, and what two agree on, with the nodes that are on the other side.
    #[test]
    fn an_answer_counts_when_two_nodes_give_it_and_fewer_another() {
        for (nodes, answers, agreed, denied) in [
            (2, &[1, 1][..], Some(1), None),
            (2, &[1, 2][..], None, Some((Verdict::Contradicted, vec![1]))),
            (2, &[1][..], None, None),
            (3, &[2, 1, 1][..], Some(1), Some((Verdict::Agreed, vec![0]))),
            (3, &[1, 2, 3][..], None, Some((Verdict::Contradicted, vec![1, 2]))),
            (4, &[1, 2, 1, 2][..], None, Some((Verdict::Contradicted, vec![1, 3]))),
        ] {
            let mut count = Count::default();
            answers.iter().enumerate().for_each(|(node, answer)| count.add(node, *answer));
            assert_eq!(count.agreed(nodes).copied(), agreed, "{answers:?}");
            let dispute: Option<(Verdict, Vec<usize>)> =
                count.dispute("a number", nodes).map(|(_, it)| (it.verdict, it.denied_by.into_iter().collect()));
            assert_eq!(dispute, denied, "{answers:?}");
        }
    }
}
