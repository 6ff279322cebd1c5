//! Agreement between the nodes of a chain: the events of a block that enough of them show alike. No I/O.
//!
//! The word of one node is not money where there are several: an event counts when enough nodes show it in the same
//! block. The rule for one event is `verdict`; the rest counts votes.

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::B256;

use crate::extract::SeenDeposit;
use crate::rpc::Head;
use crate::watcher::Block;

/// The decision on an event that some nodes show and others do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Enough nodes show it, and more than deny it.
    Agreed,
    /// Too few show it, and nobody denies it: the others have not answered, or do not know the block yet.
    Unseconded,
    /// Some show it and some deny it, and neither are enough.
    Contradicted,
    /// Most nodes deny it.
    Refuted,
}

/// Judges an event by the number of nodes that show it and of those that show its block without it. `need` is how many
/// have to show it, `most` is more than half of the nodes.
pub fn verdict(shown: usize, denied: usize, need: usize, most: usize) -> Verdict {
    if shown >= need && shown > denied {
        Verdict::Agreed
    } else if denied >= most && denied > shown {
        Verdict::Refuted
    } else if denied > 0 {
        Verdict::Contradicted
    } else {
        Verdict::Unseconded
    }
}

/// The number of nodes that have to show a deposit: two, or the only one there is.
pub fn second(nodes: usize) -> usize {
    nodes.min(2)
}

/// More than half of the nodes: what voids, credits and makes final needs so many.
pub fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// The decision on the nonces of a wallet that nodes claim to be used, beside the number that we know to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonceVerdict {
    /// No more are used than we know of.
    Known,
    /// So many are used: more than we know of.
    Used(u64),
    /// Only nodes that claim more have answered, and they are too few to be believed.
    Undecided,
}

/// Judges the claims of the nodes that answered, out of all `nodes`. Only more than half of them together make us
/// believe that somebody else used a wallet's nonces: one node must not be able to stop a lane.
pub fn nonce_verdict(claims: &[u64], ours: u64, nodes: usize) -> NonceVerdict {
    let mut beyond: Vec<u64> = claims.iter().copied().filter(|claim| *claim > ours).collect();
    beyond.sort_unstable_by(|a, b| b.cmp(a));
    match beyond.get(majority(nodes) - 1) {
        Some(&used) => NonceVerdict::Used(used),
        None if beyond.len() < claims.len() => NonceVerdict::Known,
        None => NonceVerdict::Undecided,
    }
}

/// A node's answer about one block.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Block(Box<Block>),
    /// The node does not know the block yet, or failed: it says nothing.
    Silent,
}

/// A block as its nodes agree on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgreedBlock {
    /// The block, with the events on which enough nodes agree and no others.
    pub block: Block,
    /// More than half of the nodes have this block.
    pub stands: bool,
    /// Deposits that only one node shows so far, and none denies.
    pub unseconded: Vec<SeenDeposit>,
    /// An event is shown by too few nodes to be believed and not refuted: the block has to be read again.
    pub open: bool,
    /// An event is denied by most nodes. Right after the block was made, these may merely not have its logs yet.
    pub refuted: bool,
}

/// A node shows something that another node denies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dispute {
    pub what: &'static str,
    pub verdict: Verdict,
    pub shown_by: BTreeSet<usize>,
    pub denied_by: BTreeSet<usize>,
}

/// The events of a block by the answers so far, one place for each node; none where no answer shows a block.
pub(crate) fn agree(answers: &[Option<Answer>]) -> Option<(AgreedBlock, Vec<Dispute>)> {
    let said = answers.iter().enumerate().filter_map(|(node, answer)| match answer {
        Some(Answer::Block(block)) => Some((node, block.as_ref())),
        Some(Answer::Silent) | None => None,
    });
    let said: Vec<(usize, &Block)> = said.collect();
    let (two, most) = (second(answers.len()), majority(answers.len()));
    let mut disputes = Vec::new();

    // A node that shows another header under the same hash shows another block.
    let heads =
        votes(said.iter().map(|(node, block)| (*node, std::slice::from_ref(&block.head))), |head| (head.hash, 0));
    let header = heads.iter().rev().max_by_key(|vote| vote.by.len())?;
    let (head, with): (Head, &BTreeSet<usize>) = (header.thing, &header.by);
    let others: BTreeSet<usize> = said.iter().map(|(node, _)| *node).filter(|node| !with.contains(node)).collect();
    let stands = verdict(with.len(), others.len(), most, most) == Verdict::Agreed;
    if !others.is_empty() {
        let verdict = verdict(with.len(), others.len(), most, most);
        let denied_by = others.clone();
        disputes.push(Dispute { what: "the header", verdict, shown_by: with.clone(), denied_by });
    }

    let among: Vec<(usize, &Block)> = said.iter().filter(|(node, _)| with.contains(node)).copied().collect();
    let mut count = Count { with, elsewhere: others.len(), most, open: false, refuted: false, disputes: &mut disputes };
    let deposits = votes(among.iter().map(|(node, block)| (*node, &block.deposits[..])), |it| (it.tx, it.ordinal));
    let (mut deposits, unseconded) = count.sort("a deposit", deposits, two);
    deposits.sort_by_key(|deposit| (deposit.tx_index, deposit.log_index));
    let sent = votes(among.iter().map(|(node, block)| (*node, &block.sent[..])), |it| (it.hash, 0));
    let (mut sent, _) = count.sort("a transaction of ours", sent, most);
    sent.sort_by_key(|sent| sent.index);
    let named = votes(among.iter().map(|(node, block)| (*node, &block.named[..])), |it| (it.hash, 0));
    let (named, _) = count.sort("a transaction of a user", named, most);
    let transfers =
        votes(among.iter().map(|(node, block)| (*node, &block.treasury_transfers[..])), |it| (it.tx, it.ordinal));
    let (treasury_transfers, _) = count.sort("a transfer to the treasury", transfers, most);
    let (open, refuted) = (count.open, count.refuted);
    let block = Block { head, deposits, sent, named, treasury_transfers };
    Some((AgreedBlock { block, stands, unseconded, open, refuted }, disputes))
}

/// True if the answers that are still to come need not be waited for.
pub(crate) fn is_decided(answers: &[Option<Answer>]) -> bool {
    agree(answers).is_some_and(|(agreed, _)| agreed.stands && !agreed.open)
}

struct Count<'a> {
    /// The nodes that show the block.
    with: &'a BTreeSet<usize>,
    /// The number of nodes that show another block under its hash.
    elsewhere: usize,
    most: usize,
    open: bool,
    refuted: bool,
    disputes: &'a mut Vec<Dispute>,
}

impl Count<'_> {
    /// The agreed events, and those that wait for a second node.
    fn sort<T>(&mut self, what: &'static str, votes: Vec<Vote<T>>, need: usize) -> (Vec<T>, Vec<T>) {
        let (mut agreed, mut unseconded) = (Vec::new(), Vec::new());
        for Vote { thing, by } in votes {
            let denied_by: BTreeSet<usize> = self.with.difference(&by).copied().collect();
            let verdict = verdict(by.len(), denied_by.len() + self.elsewhere, need, self.most);
            if !denied_by.is_empty() {
                self.disputes.push(Dispute { what, verdict, shown_by: by, denied_by });
            }
            match verdict {
                Verdict::Agreed => agreed.push(thing),
                Verdict::Unseconded => {
                    self.open = true;
                    unseconded.push(thing);
                }
                Verdict::Contradicted => self.open = true,
                Verdict::Refuted => self.refuted = true,
            }
        }
        (agreed, unseconded)
    }
}

/// An event, and the nodes that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vote<T> {
    pub thing: T,
    pub by: BTreeSet<usize>,
}

/// Counts the nodes that show each event, in the order first shown. A node has one vote per place,
/// however often it repeats itself.
pub(crate) fn votes<'a, T: Clone + PartialEq + 'a>(
    answers: impl Iterator<Item = (usize, &'a [T])>,
    place: fn(&T) -> (B256, u32),
) -> Vec<Vote<T>> {
    let mut votes: Vec<Vote<T>> = Vec::new();
    let mut at_place: BTreeMap<(B256, u32), Vec<usize>> = BTreeMap::new();
    for (node, things) in answers {
        let mut said = BTreeSet::new();
        for thing in things.iter().filter(|thing| said.insert(place(thing))) {
            let versions = at_place.entry(place(thing)).or_default();
            match versions.iter().find(|&&at| votes[at].thing == *thing) {
                Some(&at) => {
                    votes[at].by.insert(node);
                }
                None => {
                    versions.push(votes.len());
                    votes.push(Vote { thing: thing.clone(), by: [node].into() });
                }
            }
        }
    }
    votes
}

#[cfg(test)]
mod tests;
