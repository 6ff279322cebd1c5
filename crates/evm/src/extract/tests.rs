use alloy::primitives::{LogData, b256};

use super::*;
use crate::calldata;
use crate::topics::{ERC20_DEPOSIT, NATIVE_DEPOSIT};
use domain::ids::OrderId;

const DEPOSITORY: Address = Address::repeat_byte(0xdd);
const TOKEN: Address = Address::repeat_byte(0x11);
const USER: Address = Address::repeat_byte(0xaa);
const PAYER: Address = Address::repeat_byte(0xbb);
const WALLET: Address = Address::repeat_byte(0xcc);
const TX: B256 = B256::repeat_byte(0x77);
const ID: B256 = b256!("7f3117abfbad865d612ada25300c7379160a97f0f1950f0836cc325d36f9b8cb");
const OTHER_ID: B256 = B256::repeat_byte(0x42);

fn units(amount: u64) -> U256 {
    U256::from(amount)
}

fn log(address: Address, topics: &[B256], words: &[B256], index: u64) -> Log {
    let data = words.iter().flat_map(|word| word.0).collect::<Vec<u8>>().into();
    let inner = alloy::primitives::Log { address, data: LogData::new_unchecked(topics.to_vec(), data) };
    Log { inner, transaction_hash: Some(TX), log_index: Some(index), ..Log::default() }
}

fn native(depositor: Address, amount: u64, id: B256, index: u64) -> Log {
    log(DEPOSITORY, &[NATIVE_DEPOSIT], &[depositor.into_word(), units(amount).into(), id], index)
}

fn event(depositor: Address, token: Address, amount: u64, id: B256, index: u64) -> Log {
    let words = [depositor.into_word(), token.into_word(), units(amount).into(), id];
    log(DEPOSITORY, &[ERC20_DEPOSIT], &words, index)
}

fn transfer(token: Address, from: Address, amount: u64, index: u64) -> Log {
    log(token, &[TRANSFER, from.into_word(), DEPOSITORY.into_word()], &[units(amount).into()], index)
}

fn tx(input: impl Into<Bytes>) -> Tx {
    Tx { hash: TX, from: WALLET, to: Some(TOKEN), nonce: 0, value: U256::ZERO, input: input.into() }
}

fn seen(input: impl Into<Bytes>, logs: &[Log]) -> Vec<SeenDeposit> {
    extract(&Watch::new(DEPOSITORY, [TOKEN], []), &[tx(input)], logs).unwrap()
}

fn only(input: impl Into<Bytes>, logs: &[Log]) -> SeenDeposit {
    let [deposit] = seen(input, logs).try_into().expect("one deposit");
    deposit
}

fn implicit(amount: u64, id: B256) -> Vec<u8> {
    calldata::implicit_deposit(DEPOSITORY, units(amount), OrderId(id)).to_vec()
}

fn transfer_from(from: Address, amount: u64, id: B256) -> Vec<u8> {
    calldata::erc20_fill_from_treasury(from, DEPOSITORY, units(amount), id).to_vec()
}

#[test]
fn a_native_deposit_is_what_its_event_says() {
    let deposit = only(vec![], &[native(USER, 1_000, ID, 4)]);
    assert_eq!((deposit.id, deposit.depositor, deposit.amount), (Id::Event(ID), USER, units(1_000)));
    assert_eq!((deposit.currency, deposit.payer, deposit.sender), (Address::ZERO, WALLET, WALLET));
    assert_eq!((deposit.tx, deposit.tx_index, deposit.ordinal, deposit.log_index), (TX, 0, 0, 4));
}

#[test]
fn a_token_deposit_is_one_deposit_though_two_logs() {
    let deposit = only(vec![], &[transfer(TOKEN, PAYER, 250, 1), event(USER, TOKEN, 250, ID, 2)]);
    assert_eq!((deposit.id, deposit.depositor, deposit.payer), (Id::Event(ID), USER, PAYER));
    assert_eq!((deposit.currency, deposit.amount, deposit.log_index), (TOKEN, units(250), 1));
}

#[test]
fn logs_may_come_in_any_order_and_twice() {
    let logs = [event(USER, TOKEN, 250, ID, 2), transfer(TOKEN, PAYER, 250, 1), event(USER, TOKEN, 250, ID, 2)];
    assert_eq!(only(vec![], &logs).id, Id::Event(ID));
}

#[test]
fn a_routed_deposit_keeps_the_router_as_payer() {
    let router = Address::repeat_byte(0x99);
    let logs = [
        log(TOKEN, &[TRANSFER, PAYER.into_word(), router.into_word()], &[units(250).into()], 0),
        transfer(TOKEN, router, 249, 5),
        event(USER, TOKEN, 249, ID, 6),
    ];
    let deposit = only(vec![0xf9, 0xe4, 0xba, 0xb4], &logs);
    assert_eq!((deposit.id, deposit.depositor, deposit.payer), (Id::Event(ID), USER, router));
    assert_eq!((deposit.amount, deposit.ordinal), (units(249), 0));
}

#[test]
fn a_plain_transfer_names_its_order_behind_its_arguments() {
    let deposit = only(implicit(250, ID), &[transfer(TOKEN, WALLET, 250, 0)]);
    assert_eq!((deposit.id, deposit.depositor, deposit.payer), (Id::Calldata(ID), WALLET, WALLET));
}

#[test]
fn a_transfer_inside_a_bundle_of_the_payer_names_its_order_at_any_offset() {
    for before in [1, 3, 32, 100] {
        for call in [implicit(250, ID), transfer_from(WALLET, 250, ID)] {
            let input = [vec![0x5a; before], call, vec![0; 17]].concat();
            assert_eq!(only(input, &[transfer(TOKEN, WALLET, 250, 0)]).id, Id::Calldata(ID), "{before}");
        }
    }
}

/// A Safe's signed call, a relayed one or a bridge's claim: the sender adds bytes of their choice, and the money is not
/// theirs.
#[test]
fn a_plain_deposit_that_somebody_else_brings_names_no_order() {
    for call in [implicit(250, ID), transfer_from(PAYER, 250, ID)] {
        for before in [0, 3, 100] {
            let input = [vec![0x5a; before], call.clone()].concat();
            let deposit = only(input, &[transfer(TOKEN, PAYER, 250, 0)]);
            assert_eq!((deposit.id, deposit.depositor, deposit.payer), (Id::None, PAYER, PAYER), "{before}");
        }
    }
    // The depository's own event names an order whoever sent the transaction.
    let logs = [transfer(TOKEN, PAYER, 250, 0), event(USER, TOKEN, 250, OTHER_ID, 1)];
    assert_eq!(only(implicit(250, ID), &logs).id, Id::Event(OTHER_ID));
}

#[test]
fn calldata_that_is_not_this_transfer_names_nothing() {
    let shifted: Vec<u8> = {
        // The pattern shifted by half a byte: hex digits would match, bytes must not.
        let digits = format!("0{}0", alloy::primitives::hex::encode(implicit(250, ID)));
        alloy::primitives::hex::decode(digits).unwrap()
    };
    let mut dirty = implicit(250, ID);
    dirty[4] = 1;
    let mut short = implicit(250, ID);
    short.pop();
    let cases: [(&str, Vec<u8>); 7] = [
        ("half a byte off", shifted),
        ("dirty padding", dirty),
        ("31 bytes behind", short),
        ("another amount", implicit(251, ID)),
        ("another payer", transfer_from(USER, 250, ID)),
        ("nothing behind", implicit(250, ID)[..68].to_vec()),
        ("empty", vec![]),
    ];
    for (why, input) in cases {
        assert_eq!(only(input, &[transfer(TOKEN, WALLET, 250, 0)]).id, Id::None, "{why}");
    }
}

#[test]
fn two_ids_in_the_calldata_are_as_good_as_none() {
    let transfers = [transfer(TOKEN, WALLET, 250, 0)];
    assert_eq!(only([implicit(250, ID), implicit(250, OTHER_ID)].concat(), &transfers).id, Id::None);
    assert_eq!(only([implicit(250, ID), implicit(250, ID)].concat(), &transfers).id, Id::Calldata(ID));
}

#[test]
fn padding_is_not_an_id() {
    let mut padding = B256::ZERO;
    padding[16..].fill(0xab);
    assert_eq!(only(implicit(250, padding), &[transfer(TOKEN, WALLET, 250, 0)]).id, Id::None);
    padding[15] = 1;
    assert_eq!(only(implicit(250, padding), &[transfer(TOKEN, WALLET, 250, 0)]).id, Id::Calldata(padding));
}

#[test]
fn with_two_transfers_the_calldata_is_not_searched() {
    let deposits = seen(implicit(250, ID), &[transfer(TOKEN, WALLET, 250, 0), transfer(TOKEN, PAYER, 9, 1)]);
    assert_eq!(deposits.iter().map(|it| (it.id, it.ordinal)).collect::<Vec<_>>(), [(Id::None, 0), (Id::None, 1)]);
}

#[test]
fn a_token_that_is_not_listed_neither_takes_an_id_nor_spoils_one() {
    let junk = Address::repeat_byte(0x66);
    let deposits = seen(implicit(250, ID), &[transfer(junk, WALLET, 250, 0), transfer(TOKEN, WALLET, 250, 1)]);
    let found: Vec<_> = deposits.iter().map(|it| (it.currency, it.id)).collect();
    assert_eq!(found, [(junk, Id::None), (TOKEN, Id::Calldata(ID))]);
    assert_eq!(only(implicit(250, ID), &[transfer(junk, WALLET, 250, 0)]).id, Id::None);
}

#[test]
fn two_deposits_in_one_transaction_keep_their_own_events() {
    let logs = [
        native(USER, 5, OTHER_ID, 0),
        transfer(TOKEN, PAYER, 250, 1),
        event(USER, TOKEN, 250, ID, 2),
        transfer(TOKEN, PAYER, 250, 3),
        event(PAYER, TOKEN, 250, OTHER_ID, 4),
    ];
    let found: Vec<_> = seen(vec![], &logs).iter().map(|it| (it.ordinal, it.id, it.depositor)).collect();
    assert_eq!(found, [(0, Id::Event(OTHER_ID), USER), (1, Id::Event(ID), USER), (2, Id::Event(OTHER_ID), PAYER)]);
}

#[test]
fn an_event_counts_only_until_the_next_transfer() {
    let logs = [transfer(TOKEN, PAYER, 250, 0), transfer(TOKEN, USER, 250, 1), event(USER, TOKEN, 250, ID, 2)];
    let found: Vec<_> = seen(vec![], &logs).iter().map(|it| (it.payer, it.id)).collect();
    assert_eq!(found, [(PAYER, Id::None), (USER, Id::Event(ID))]);
}

#[test]
fn an_event_of_another_contract_is_nothing() {
    let mut forged = event(USER, TOKEN, 250, ID, 1);
    forged.inner.address = TOKEN;
    let mut forged_native = native(USER, 250, ID, 2);
    forged_native.inner.address = TOKEN;
    let deposit = only(vec![], &[transfer(TOKEN, PAYER, 250, 0), forged, forged_native]);
    assert_eq!((deposit.id, deposit.depositor), (Id::None, PAYER));
}

#[test]
fn an_event_without_its_transfer_is_nothing() {
    assert_eq!(seen(vec![], &[event(USER, TOKEN, 250, ID, 1)]), []);
    assert_eq!(seen(vec![], &[event(USER, TOKEN, 250, ID, 1), transfer(TOKEN, PAYER, 250, 2)])[0].id, Id::None);
}

#[test]
fn a_fee_on_transfer_breaks_the_tie_to_the_event() {
    let deposit = only(vec![], &[transfer(TOKEN, PAYER, 247, 0), event(USER, TOKEN, 250, ID, 1)]);
    assert_eq!((deposit.id, deposit.depositor, deposit.amount), (Id::None, PAYER, units(247)));
    let other_token = only(vec![], &[transfer(TOKEN, PAYER, 250, 0), event(USER, USER, 250, ID, 1)]);
    assert_eq!(other_token.id, Id::None);
}

#[test]
fn a_zero_id_leaves_a_deposit_unattributed_but_keeps_its_depositor() {
    let deposit = only(vec![], &[native(USER, 1, B256::ZERO, 0)]);
    assert_eq!((deposit.id, deposit.depositor), (Id::None, USER));
    let deposit = only(vec![], &[transfer(TOKEN, PAYER, 250, 0), event(USER, TOKEN, 250, B256::ZERO, 1)]);
    assert_eq!((deposit.id, deposit.depositor), (Id::None, USER));
}

#[test]
fn transfers_that_bring_no_money_are_not_deposits() {
    let elsewhere = log(TOKEN, &[TRANSFER, PAYER.into_word(), USER.into_word()], &[units(250).into()], 0);
    let nft = log(TOKEN, &[TRANSFER, PAYER.into_word(), DEPOSITORY.into_word(), units(1).into()], &[], 1);
    let mirror = transfer(NATIVE_MIRROR, PAYER, 250, 2);
    let to_itself = transfer(TOKEN, DEPOSITORY, 250, 3);
    assert_eq!(seen(vec![], &[elsewhere, nft, mirror, to_itself]), []);
}

#[test]
fn contradictory_logs_are_refused() {
    let watch = Watch::new(DEPOSITORY, [TOKEN], []);
    let mut stray = transfer(TOKEN, PAYER, 250, 0);
    stray.transaction_hash = Some(B256::repeat_byte(1));
    let mut unplaced = transfer(TOKEN, PAYER, 250, 0);
    unplaced.log_index = None;
    let short = log(DEPOSITORY, &[NATIVE_DEPOSIT], &[ID], 0);
    for logs in
        [vec![stray], vec![unplaced], vec![short], vec![transfer(TOKEN, PAYER, 1, 0), transfer(TOKEN, PAYER, 2, 0)]]
    {
        assert!(extract(&watch, &[tx(vec![])], &logs).is_err(), "{logs:?}");
    }
}

#[test]
fn other_topics_are_a_matter_of_configuration() {
    let renamed = B256::repeat_byte(0x55);
    let mut watch = Watch::new(DEPOSITORY, [TOKEN], []);
    watch.topics.native_deposit = renamed;
    let words = [USER.into_word(), units(3).into(), ID];
    let logs = [native(USER, 1, ID, 0), log(DEPOSITORY, &[renamed], &words, 1)];
    let found = extract(&watch, &[tx(vec![])], &logs).unwrap();
    assert_eq!(found.iter().map(|it| it.amount).collect::<Vec<_>>(), [units(3)]);
}
