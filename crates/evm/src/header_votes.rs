//! The headers that the nodes of a chain show for one number, counted. No I/O.
//!
//! A node that has no block of that number yet speaks neither for a block nor against it.

use std::collections::BTreeMap;

use alloy::primitives::B256;

use crate::agreement::majority;
use crate::rpc::Head;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderVotes {
    /// The number of nodes of the chain, those that did not answer included.
    nodes: usize,
    /// The number of nodes that have no block of this number.
    none: usize,
    shown: Vec<(Head, usize)>,
}

/// The nodes' word on a block of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Stands,
    TakenBack,
    /// Another block is shown, by too few nodes, or no block by too few: some are down, or are switching right now.
    Undecided,
}

impl HeaderVotes {
    /// Counts the answers of some of the nodes. A header of another number is no answer.
    pub(crate) fn count(nodes: usize, number: u64, answers: impl IntoIterator<Item = Option<Head>>) -> Self {
        let (mut none, mut shown) = (0, BTreeMap::<B256, (Head, usize)>::new());
        for answer in answers {
            match answer {
                Some(head) if head.number == number => shown.entry(head.hash).or_insert((head, 0)).1 += 1,
                Some(_) => {}
                None => none += 1,
            }
        }
        Self { nodes, none, shown: shown.into_values().collect() }
    }

    /// The headers shown, those of most nodes first; among headers of as many nodes the preferred one.
    pub fn candidates(&self, prefers: impl Fn(&Head) -> bool) -> Vec<Head> {
        let mut shown = self.shown.clone();
        shown.sort_by_key(|(head, votes)| std::cmp::Reverse((*votes, prefers(head))));
        shown.into_iter().map(|(head, _)| head).collect()
    }

    /// The header that more than half of the nodes show.
    pub fn agreed(&self) -> Option<Head> {
        self.shown.iter().find(|(_, votes)| *votes >= majority(self.nodes)).map(|(head, _)| *head)
    }

    /// The verdict on a block of ours. One that most nodes had is taken back when most have another, or none: the word
    /// of one node does not do it, however few answer. One that too few had stays as long as no other block is shown by
    /// more.
    pub fn verdict(&self, ours: B256, stood: bool) -> Verdict {
        if !stood {
            let best = self.candidates(|head| head.hash == ours).first().copied();
            return if best.is_some_and(|best| best.hash == ours) { Verdict::Stands } else { Verdict::TakenBack };
        }
        match self.agreed() {
            Some(agreed) if agreed.hash == ours => Verdict::Stands,
            Some(_) => Verdict::TakenBack,
            None if self.shown.is_empty() && self.none >= majority(self.nodes) => Verdict::TakenBack,
            None if !self.shown.is_empty() && self.shown.iter().all(|(head, _)| head.hash == ours) => Verdict::Stands,
            None => Verdict::Undecided,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(hash: u8) -> Head {
        Head { number: 9, hash: B256::repeat_byte(hash), parent_hash: B256::ZERO, time: 9, base_fee: 0 }
    }

    fn votes(nodes: usize, answers: &[Option<u8>]) -> HeaderVotes {
        HeaderVotes::count(nodes, 9, answers.iter().map(|hash| hash.map(head)))
    }

    const OURS: B256 = B256::repeat_byte(1);

    #[test]
    fn one_node_takes_back_no_block_that_most_had() {
        use Verdict::{Stands, TakenBack, Undecided};
        let cases: [(&str, usize, &[Option<u8>], Verdict); 13] = [
            ("both have it", 2, &[Some(1), Some(1)], Stands),
            ("one has it, the other is down", 2, &[Some(1)], Stands),
            ("one has it, the other lags", 2, &[None, Some(1)], Stands),
            ("most of three have it", 3, &[Some(1), Some(2), Some(1)], Stands),
            ("a liar, the other is down", 2, &[Some(2)], Undecided),
            ("a liar, or the other has not switched yet", 2, &[Some(2), None], Undecided),
            ("a liar, the other has ours", 2, &[Some(2), Some(1)], Undecided),
            ("both switched", 2, &[Some(2), Some(2)], TakenBack),
            ("both are on a shorter chain", 2, &[None, None], TakenBack),
            ("one is on a shorter chain, the other is down", 2, &[None], Undecided),
            ("most of three switched", 3, &[Some(2), Some(1), Some(2)], TakenBack),
            ("the only node switched", 1, &[Some(2)], TakenBack),
            ("the only node is on a shorter chain", 1, &[None], TakenBack),
        ];
        for (what, nodes, answers, verdict) in cases {
            assert_eq!(votes(nodes, answers).verdict(OURS, true), verdict, "{what}");
        }
    }

    #[test]
    fn a_block_walked_ahead_of_the_others_is_left_when_more_show_another() {
        let cases: [(&str, usize, &[Option<u8>], bool); 6] = [
            ("whoever showed it is gone", 2, &[Some(2)], true),
            ("as many show it", 2, &[Some(2), Some(1)], false),
            ("the other has not come so far", 2, &[None, Some(1)], false),
            ("outvoted", 3, &[Some(2), Some(1), Some(2)], true),
            ("nobody shows it", 3, &[None, None], true),
            ("one of three shows it, and nobody another", 3, &[Some(1), None, None], false),
        ];
        for (what, nodes, answers, back) in cases {
            let verdict = if back { Verdict::TakenBack } else { Verdict::Stands };
            assert_eq!(votes(nodes, answers).verdict(OURS, false), verdict, "{what}");
        }
    }

    #[test]
    fn agreed_are_more_than_half_of_all_nodes_not_of_those_that_answer() {
        assert_eq!(votes(2, &[Some(1)]).agreed(), None);
        assert_eq!(votes(3, &[Some(1), Some(1)]).agreed(), Some(head(1)));
        assert_eq!(votes(1, &[Some(1)]).agreed(), Some(head(1)));
        // An answer about another block says nothing.
        let other = HeaderVotes::count(1, 8, [Some(head(1))]);
        assert!(other.candidates(|_| true).is_empty() && other.verdict(OURS, true) == Verdict::Undecided);
    }

    #[test]
    fn most_nodes_come_first_and_then_the_preferred() {
        let order = |votes: HeaderVotes| votes.candidates(|head| head.hash == OURS);
        assert_eq!(order(votes(3, &[Some(2), Some(1), Some(2)])), [head(2), head(1)]);
        assert_eq!(order(votes(2, &[Some(2), Some(1)])), [head(1), head(2)]);
        assert_eq!(order(votes(2, &[Some(0), Some(1)])), [head(1), head(0)]);
    }
}
