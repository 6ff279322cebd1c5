use alloy::primitives::{Address, Bytes, U256};

use super::*;
use crate::extract::Id;
use crate::funding::SeenTreasuryTransfer;
use crate::watcher::SentTx;

const NODES: [usize; 5] = [1, 2, 3, 4, 5];

#[test]
fn an_event_counts_when_enough_nodes_show_it() {
    use Verdict::{Agreed, Contradicted, Refuted, Unseconded};
    // Nodes, of which these show a deposit and these deny it; then the verdict on the deposit, and on a receipt.
    let table = [
        (1, 1, 0, Agreed, Agreed),
        (2, 1, 0, Unseconded, Unseconded),
        (2, 1, 1, Contradicted, Contradicted),
        (2, 2, 0, Agreed, Agreed),
        (3, 1, 0, Unseconded, Unseconded),
        (3, 1, 1, Contradicted, Contradicted),
        (3, 1, 2, Refuted, Refuted),
        (3, 2, 0, Agreed, Agreed),
        (3, 2, 1, Agreed, Agreed),
        (3, 3, 0, Agreed, Agreed),
        (4, 2, 0, Agreed, Unseconded),
        (4, 2, 1, Agreed, Contradicted),
        (4, 2, 2, Contradicted, Contradicted),
        (4, 1, 3, Refuted, Refuted),
        (4, 3, 1, Agreed, Agreed),
        (5, 2, 0, Agreed, Unseconded),
        (5, 2, 2, Contradicted, Contradicted),
        (5, 2, 3, Refuted, Refuted),
        (5, 3, 2, Agreed, Agreed),
    ];
    for (nodes, shown, denied, deposit, receipt) in table {
        let most = majority(nodes);
        assert_eq!(verdict(shown, denied, second(nodes), most), deposit, "a deposit: {shown}:{denied} of {nodes}");
        assert_eq!(verdict(shown, denied, most, most), receipt, "a receipt: {shown}:{denied} of {nodes}");
    }
}

#[test]
fn one_of_several_nodes_is_never_enough() {
    for nodes in NODES.into_iter().filter(|nodes| *nodes > 1) {
        for denied in 0..nodes {
            assert_ne!(verdict(1, denied, second(nodes), majority(nodes)), Verdict::Agreed);
        }
    }
    for nodes in NODES {
        assert!(majority(nodes) * 2 > nodes && second(nodes) <= majority(nodes));
    }
}

fn head() -> Head {
    Head { number: 9, hash: B256::repeat_byte(9), parent_hash: B256::repeat_byte(8), time: 9, base_fee: 0 }
}

fn deposit(tx: u8, amount: u64) -> SeenDeposit {
    SeenDeposit {
        tx: B256::repeat_byte(tx),
        tx_index: 0,
        ordinal: 0,
        log_index: 0,
        id: Id::Event(B256::repeat_byte(1)),
        depositor: Address::ZERO,
        payer: Address::ZERO,
        sender: Address::ZERO,
        currency: Address::ZERO,
        amount: U256::from(amount),
        to: None,
        input: Bytes::new(),
        value: U256::ZERO,
        fee: None,
    }
}

fn sent(success: bool) -> SentTx {
    SentTx {
        from: Address::ZERO,
        nonce: 0,
        hash: B256::repeat_byte(2),
        index: 0,
        to: None,
        value: U256::ZERO,
        input: Bytes::new(),
        success,
        gas_used: 0,
        effective_gas_price: 0,
        fee: U256::ZERO,
        logs: Vec::new(),
    }
}

fn transfer() -> SeenTreasuryTransfer {
    SeenTreasuryTransfer {
        tx: B256::repeat_byte(3),
        ordinal: 0,
        log_index: None,
        sender: Address::ZERO,
        currency: Address::ZERO,
        amount: U256::from(5),
        account: Ok(Address::ZERO),
    }
}

fn empty() -> Block {
    Block { head: head(), deposits: Vec::new(), sent: Vec::new(), named: Vec::new(), treasury_transfers: Vec::new() }
}

fn full() -> Block {
    Block { deposits: vec![deposit(1, 5)], sent: vec![sent(true)], treasury_transfers: vec![transfer()], ..empty() }
}

fn says(block: Block) -> Option<Answer> {
    Some(Answer::Block(Box::new(block)))
}

fn agreed(answers: &[Option<Answer>]) -> (AgreedBlock, Vec<Dispute>) {
    agree(answers).expect("a block is shown")
}

#[test]
fn two_nodes_that_agree_decide_without_the_third() {
    assert!(!is_decided(&[says(full()), None, None]));
    assert!(!is_decided(&[says(full()), Some(Answer::Silent), None]));
    let answers = [says(full()), None, says(full())];
    assert!(is_decided(&answers));
    let (decided, disputes) = agreed(&answers);
    assert_eq!((decided.block, decided.stands, decided.open, disputes), (full(), true, false, Vec::new()));
    // Two that differ are not enough.
    assert!(!is_decided(&[says(full()), None, says(empty())]));
}

#[test]
fn an_event_that_one_node_invents_is_held_back_and_the_others_go_on() {
    let invents = Block { deposits: vec![deposit(1, 5), deposit(7, 9)], ..full() };
    let (decided, disputes) = agreed(&[says(full()), says(invents.clone())]);
    assert_eq!((decided.block, decided.stands, decided.open), (full(), true, true));
    assert!(decided.unseconded.is_empty(), "it is denied");
    let dispute =
        Dispute { what: "a deposit", verdict: Verdict::Contradicted, shown_by: [1].into(), denied_by: [0].into() };
    assert_eq!(disputes, [dispute]);
    // With a dead node beside them it is the same, and a second honest node settles it.
    let (decided, _) = agreed(&[Some(Answer::Silent), says(full()), says(invents.clone())]);
    assert_eq!((decided.block, decided.stands, decided.open), (full(), true, true));
    let (decided, disputes) = agreed(&[says(full()), says(invents), says(full())]);
    assert_eq!((decided.block, decided.open, decided.refuted), (full(), false, true));
    assert_eq!(disputes[0].verdict, Verdict::Refuted);
}

#[test]
fn a_receipt_shown_as_failed_by_one_node_is_no_receipt() {
    let fails = Block { sent: vec![sent(false)], ..full() };
    let (decided, disputes) = agreed(&[says(full()), says(fails.clone())]);
    assert_eq!((decided.block, decided.open), (Block { sent: Vec::new(), ..full() }, true));
    assert_eq!(disputes.len(), 2, "each denies the receipt of the other");
    let (decided, _) = agreed(&[says(fails), says(full()), says(full())]);
    assert_eq!((decided.block, decided.open), (full(), false));
}

#[test]
fn the_same_deposit_with_another_amount_is_another_deposit() {
    let more = Block { deposits: vec![deposit(1, 500)], ..full() };
    let (decided, _) = agreed(&[says(full()), says(more)]);
    assert_eq!((decided.block.deposits, decided.open), (Vec::new(), true));
}

#[test]
fn a_silent_node_denies_nothing() {
    for other in [None, Some(Answer::Silent)] {
        let (decided, disputes) = agreed(&[says(full()), other]);
        assert_eq!((decided.block, decided.stands, decided.open), (empty(), false, true));
        assert_eq!((decided.unseconded, disputes), (vec![deposit(1, 5)], Vec::new()));
    }
    assert!(agree(&[Some(Answer::Silent), None]).is_none());
}

#[test]
fn another_header_under_the_same_hash_is_another_block() {
    let later = Block { head: Head { time: 1_000, ..head() }, ..full() };
    let (decided, disputes) = agreed(&[says(full()), says(later.clone())]);
    assert_eq!((decided.block, decided.stands), (empty(), false));
    assert_eq!((decided.unseconded, disputes[0].what), (Vec::new(), "the header"));
    let (decided, disputes) = agreed(&[says(later), says(full()), says(full())]);
    assert_eq!((decided.block, decided.stands), (full(), true));
    assert_eq!((disputes.len(), &disputes[0].denied_by), (1, &[0].into()));
}

#[test]
fn the_only_node_is_believed() {
    let (decided, disputes) = agreed(&[says(full())]);
    assert_eq!((decided.block, decided.stands, decided.open, disputes), (full(), true, false, Vec::new()));
}

#[test]
fn events_keep_the_order_of_the_block_whoever_hides_one() {
    let both = |first: SeenDeposit, second: SeenDeposit| {
        let second = SeenDeposit { tx_index: 1, ..second };
        Block { deposits: vec![first, second], ..empty() }
    };
    let shows = both(deposit(1, 5), deposit(2, 6));
    let hides = Block { deposits: vec![shows.deposits[1].clone()], ..empty() };
    let (decided, _) = agreed(&[says(hides), says(shows.clone()), says(shows.clone())]);
    assert_eq!(decided.block, shows);
}

#[test]
fn a_node_that_repeats_itself_has_one_vote() {
    let twice = Block { deposits: vec![deposit(1, 5), deposit(1, 5)], ..empty() };
    let (decided, _) = agreed(&[says(twice), None]);
    assert!(decided.block.deposits.is_empty() && decided.open);
}

#[test]
fn one_node_does_not_stop_a_lane_by_a_nonce() {
    let cases: [(&str, &[u64], usize, NonceVerdict); 10] = [
        ("the only node", &[7], 1, NonceVerdict::Used(7)),
        ("the only node agrees", &[5], 1, NonceVerdict::Known),
        ("one of two lies", &[5, 1_000_000], 2, NonceVerdict::Known),
        ("an old backup", &[7, 7], 2, NonceVerdict::Used(7)),
        ("an old backup, and a node that lags a little", &[9, 7], 2, NonceVerdict::Used(7)),
        ("one of two lies, the other is down", &[1_000_000], 2, NonceVerdict::Undecided),
        ("one of two is down", &[5], 2, NonceVerdict::Known),
        ("one of three lies", &[5, 5, 1_000_000], 3, NonceVerdict::Known),
        ("one of three lies, and one is down", &[5, 1_000_000], 3, NonceVerdict::Known),
        ("an old backup, and one of three denies it", &[5, 8, 7], 3, NonceVerdict::Used(7)),
    ];
    for (what, claims, nodes, expected) in cases {
        assert_eq!(nonce_verdict(claims, 5, nodes), expected, "{what}");
    }
}
