use alloy::primitives::{LogData, address, hex};
use serde_json::Value;

use super::*;
use crate::account_tag::tag;
use crate::calldata;

const SOLVER: Address = Address::repeat_byte(0x51);
const TOKEN: Address = Address::repeat_byte(0x11);
const OTHER_TOKEN: Address = Address::repeat_byte(0x12);
const PAYER: Address = Address::repeat_byte(0xbb);
const ACCOUNT: Address = Address::repeat_byte(0xac);
const WALLET: Address = Address::repeat_byte(0xcc);
const SAFE: Address = Address::repeat_byte(0x5f);
const TX: B256 = B256::repeat_byte(0x77);

fn funding() -> Funding {
    Funding { solver: SOLVER, here: true, tokens: [TOKEN].into(), ours: [WALLET].into(), sources: [SAFE].into() }
}

fn log(token: Address, from: Address, to: Address, amount: u64, index: u64) -> Log {
    let topics = vec![TRANSFER, from.into_word(), to.into_word()];
    let data = U256::from(amount).to_be_bytes_vec().into();
    let inner = alloy::primitives::Log { address: token, data: LogData::new_unchecked(topics, data) };
    Log { inner, transaction_hash: Some(TX), log_index: Some(index), ..Log::default() }
}

fn tx(to: Address, value: u64, input: impl Into<Bytes>) -> Tx {
    Tx { hash: TX, from: PAYER, to: Some(to), nonce: 0, value: U256::from(value), input: input.into() }
}

fn tagged(amount: u64, account: Address) -> Vec<u8> {
    calldata::erc20_fill(SOLVER, U256::from(amount), tag(account)).to_vec()
}

fn seen(funding: &Funding, tx: Tx, logs: &[Log]) -> Vec<SeenTreasuryTransfer> {
    funding.treasury_transfers(&[tx], &[TX].into(), logs).unwrap()
}

fn account(tx: Tx, logs: &[Log]) -> Result<Address, Unattributed> {
    let [receipt] = seen(&funding(), tx, logs).try_into().expect("one receipt");
    receipt.account
}

#[test]
fn the_published_vectors_hold() {
    let vectors: Value = serde_json::from_str(include_str!("../../tests/app-balance-vectors.json")).unwrap();
    let address = |value: &Value| value.as_str().unwrap().parse::<Address>().unwrap();
    let funding = Funding {
        solver: address(&vectors["solver"]),
        here: true,
        tokens: vectors["acceptedTokens"].as_array().unwrap().iter().map(address).collect(),
        ours: BTreeSet::new(),
        sources: BTreeSet::new(),
    };
    let sender = address(&vectors["sender"]);
    let cases = vectors["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 14);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let input: Bytes = hex::decode(case["input"].as_str().unwrap()).unwrap().into();
        let to = address(&case["to"]);
        let value: U256 = case["value"].as_str().unwrap().parse().unwrap();
        // A token answers the call by moving the amount to the address in the low 20 bytes.
        let moved = (to != funding.solver).then(|| {
            let to_whom = Address::from_slice(&input[16..36]);
            let topics = vec![TRANSFER, sender.into_word(), to_whom.into_word()];
            let data = LogData::new_unchecked(topics, Bytes::copy_from_slice(&input[36..68]));
            let inner = alloy::primitives::Log { address: to, data };
            Log { inner, transaction_hash: Some(TX), log_index: Some(0), ..Log::default() }
        });
        let tx = Tx { hash: TX, from: sender, to: Some(to), nonce: 0, value, input };
        let logs: Vec<Log> = moved.into_iter().collect();
        let treasury_transfers = funding.treasury_transfers(&[tx], &[TX].into(), &logs).unwrap();
        let credited: Vec<_> = treasury_transfers.iter().filter_map(|seen| Some((seen.account.ok()?, seen))).collect();
        if case["credited"].is_null() {
            assert!(credited.is_empty(), "{name}: {credited:?}");
            continue;
        }
        let [(account, receipt)] = credited[..] else { panic!("{name}: {treasury_transfers:?}") };
        assert_eq!(account, address(&case["credited"]), "{name}");
        assert_eq!(receipt.amount.to_string(), case["amount"].as_str().unwrap(), "{name}");
        let currency = if case["currency"] == "native" { Address::ZERO } else { address(&case["currency"]) };
        assert_eq!((receipt.currency, receipt.sender), (currency, sender), "{name}");
    }
}

#[test]
fn the_log_says_how_much_and_from_whom() {
    let transfer = log(TOKEN, PAYER, SOLVER, 99, 7);
    let [receipt] = seen(&funding(), tx(TOKEN, 0, tagged(100, Address::ZERO)), &[transfer]).try_into().unwrap();
    assert_eq!((receipt.amount, receipt.account), (U256::from(99), Ok(PAYER)));
    assert_eq!((receipt.sender, receipt.log_index, receipt.ordinal), (PAYER, Some(7), 0));
}

#[test]
fn a_wallet_may_wrap_the_transfer_in_other_calls() {
    let smart_wallet = Address::repeat_byte(0x5a);
    for before in [1, 4, 33, 200] {
        let input = [vec![0x7e; before], tagged(100, Address::ZERO), vec![0; 28]].concat();
        let logs = [log(TOKEN, smart_wallet, SOLVER, 100, 3)];
        assert_eq!(account(tx(smart_wallet, 0, input), &logs), Ok(smart_wallet), "{before}");
    }
}

#[test]
fn an_ambiguous_transfer_is_credited_to_nobody() {
    let bundle = Address::repeat_byte(0x5a);
    let one = [log(TOKEN, PAYER, SOLVER, 100, 0)];
    let input = |calls: &[Vec<u8>]| [&[0xff; 9], &calls.concat()[..]].concat();
    let twice = input(&[tagged(100, ACCOUNT), tagged(100, PAYER)]);
    assert_eq!(account(tx(bundle, 0, twice), &one), Err(Unattributed::Ambiguous));
    let same_twice = input(&[tagged(100, ACCOUNT), tagged(100, ACCOUNT)]);
    assert_eq!(account(tx(bundle, 0, same_twice), &one), Err(Unattributed::Ambiguous));
    let other_amount = input(&[tagged(101, ACCOUNT)]);
    assert_eq!(account(tx(bundle, 0, other_amount), &one), Err(Unattributed::Form));
    let two = [log(TOKEN, PAYER, SOLVER, 100, 0), log(TOKEN, PAYER, SOLVER, 100, 1)];
    let both = seen(&funding(), tx(bundle, 0, input(&[tagged(100, ACCOUNT)])), &two);
    let accounts: Vec<_> = both.iter().map(|seen| (seen.ordinal, seen.account)).collect();
    assert_eq!(accounts, [(0, Err(Unattributed::Ambiguous)), (1, Err(Unattributed::Ambiguous))]);
    // A transfer of some other token beside it takes nothing away from the one that counts.
    let beside = [log(OTHER_TOKEN, PAYER, SOLVER, 5, 0), log(TOKEN, PAYER, SOLVER, 100, 1)];
    let seen = seen(&funding(), tx(bundle, 0, input(&[tagged(100, ACCOUNT)])), &beside);
    assert_eq!(seen[1].account, Ok(ACCOUNT));
    assert_eq!(seen[0].account, Err(Unattributed::Currency));
}

#[test]
fn other_forms_are_credited_to_nobody() {
    let one = [log(TOKEN, PAYER, SOLVER, 100, 0)];
    let from = calldata::erc20_fill_from_treasury(PAYER, SOLVER, U256::from(100), tag(ACCOUNT)).to_vec();
    let cases = [
        ("transferFrom", from),
        ("a byte behind", [tagged(100, ACCOUNT), vec![0]].concat()),
        ("a byte before", [vec![0], tagged(100, ACCOUNT)].concat()),
        ("no tag", tagged(100, ACCOUNT)[..68].to_vec()),
        ("nothing", Vec::new()),
        ("asked for nothing", tagged(0, ACCOUNT)),
    ];
    for (what, input) in cases {
        assert!(account(tx(TOKEN, 0, input), &one).is_err(), "{what}");
    }
    assert_eq!(account(tx(SOLVER, 5, Vec::new()), &[]), Err(Unattributed::Form));
    assert_eq!(account(tx(SOLVER, 5, [tag(ACCOUNT).to_vec(), vec![0]].concat()), &[]), Err(Unattributed::Form));
}

#[test]
fn our_own_transfers_are_nobody_s_funding() {
    // The executor of one of our payouts chooses the calldata around the call.
    let payout = [vec![0xee; 40], tagged(100, ACCOUNT)].concat();
    let logs = [log(TOKEN, WALLET, SOLVER, 100, 0)];
    assert_eq!(seen(&funding(), tx(Address::repeat_byte(0xdd), 0, payout), &logs), []);
    let native = Tx { from: WALLET, ..tx(SOLVER, 5, tag(ACCOUNT).to_vec()) };
    assert_eq!(seen(&funding(), native, &[]), []);
}

/// We move tokens to the treasury by transactions that anybody may send, with a tag of their own around or behind the
/// call.
#[test]
fn nobody_is_credited_with_what_somebody_else_moved() {
    let (relay, pool) = (Address::repeat_byte(0x3e), Address::repeat_byte(0x9d));
    let nested = |account| [vec![0xee; 40], tagged(100, account)].concat();
    let cases = [
        ("a bridge mints, called by a contract", relay, Address::ZERO, Unattributed::Minted),
        ("a Safe of ours, called by a contract", relay, SAFE, Unattributed::OwnSource),
        ("a Safe of ours, with bytes behind its call", SAFE, SAFE, Unattributed::OwnSource),
        ("a pool pays out, called by a contract", relay, pool, Unattributed::NotByItsOwner),
        ("a pool pays out, with bytes behind its call", pool, pool, Unattributed::NotByItsOwner),
    ];
    for (what, to, from, reason) in cases {
        // The caller, and an accomplice.
        for named in [PAYER, ACCOUNT] {
            let logs = [log(TOKEN, from, SOLVER, 100, 0)];
            let [receipt] = seen(&funding(), tx(to, 0, nested(named)), &logs).try_into().expect("a row to look at");
            assert_eq!((receipt.account, receipt.sender), (Err(reason), from), "{what}");
        }
    }
    // A tag that names nobody, and one that names the source itself: neither lets a caller choose.
    for named in [Address::ZERO, SAFE] {
        assert_eq!(
            account(tx(SAFE, 0, nested(named)), &[log(TOKEN, SAFE, SOLVER, 100, 0)]),
            Err(Unattributed::OwnSource)
        );
    }
    let minted = [log(TOKEN, Address::ZERO, SOLVER, 100, 0)];
    assert_eq!(account(tx(relay, 0, nested(Address::ZERO)), &minted), Err(Unattributed::Minted));
    assert_eq!(account(tx(TOKEN, 0, tagged(100, ACCOUNT)), &minted), Err(Unattributed::Minted));
}

#[test]
fn the_payer_may_name_an_account() {
    let (bundler, smart_wallet) = (Address::repeat_byte(0x3e), Address::repeat_byte(0x5a));
    let nested = |account| [vec![0xee; 40], tagged(100, account)].concat();
    let from_wallet = [log(TOKEN, smart_wallet, SOLVER, 100, 0)];
    for named in [Address::ZERO, smart_wallet] {
        assert_eq!(account(tx(bundler, 0, nested(named)), &from_wallet), Ok(smart_wallet), "relayed for itself");
    }
    let signed = Tx { from: smart_wallet, ..tx(bundler, 0, nested(ACCOUNT)) };
    assert_eq!(account(signed, &from_wallet), Ok(ACCOUNT), "signed by the payer");
    // A source of ours that signs a plain transfer means what it says.
    let plain = Tx { from: SAFE, ..tx(TOKEN, 0, tagged(100, ACCOUNT)) };
    assert_eq!(account(plain, &[log(TOKEN, SAFE, SOLVER, 100, 0)]), Ok(ACCOUNT));
}

#[test]
fn elsewhere_only_tagged_transfers_are_reported() {
    let elsewhere = Funding { here: false, ..funding() };
    let transfer = || [log(TOKEN, PAYER, SOLVER, 100, 0)];
    let meant = seen(&elsewhere, tx(TOKEN, 0, tagged(100, ACCOUNT)), &transfer());
    assert_eq!(meant.iter().map(|seen| seen.account).collect::<Vec<_>>(), [Err(Unattributed::OtherChain)]);
    assert_eq!(seen(&elsewhere, tx(TOKEN, 0, Vec::new()), &transfer()), []);
    assert_eq!(seen(&elsewhere, tx(SOLVER, 5, Vec::new()), &[]), []);
}

#[test]
fn rows_are_not_to_be_had_for_nothing() {
    let spam = [log(OTHER_TOKEN, PAYER, SOLVER, 100, 0), log(TOKEN, PAYER, SOLVER, 0, 1)];
    assert_eq!(seen(&funding(), tx(OTHER_TOKEN, 0, Vec::new()), &spam), []);
    let many: Vec<Log> = (0..400).map(|index| log(TOKEN, PAYER, SOLVER, 1, index)).collect();
    assert_eq!(seen(&funding(), tx(TOKEN, 0, Vec::new()), &many).len(), MAX_UNATTRIBUTED);
    let failed = funding().treasury_transfers(&[tx(SOLVER, 5, tag(ACCOUNT).to_vec())], &BTreeSet::new(), &[]);
    assert_eq!(failed, Ok(Vec::new()), "a native transfer that failed brought nothing");
}

#[test]
fn the_tag_is_as_published() {
    let account = address!("2222222222222222222222222222222222222222");
    assert_eq!(hex::encode(tag(account)), "012345abcdef2222222222222222222222222222222222222222012345abcdef");
}
