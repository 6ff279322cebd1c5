//! Evidence that a deposit may be reimbursed: the transaction that is said to have settled it, read from the chain and
//! compared with the order (protocol 4.2, 4.3).

use std::collections::BTreeMap;

use alloy::primitives::Address;
use alloy::sol_types::SolValue;
use domain::account::Account;
use domain::chained::Chained;
use domain::ids::{ChainId, OrderId};
use domain::money::{Amount, Ratio};
use domain::order::{Order, call_data};
use domain::time::Timestamp;
use evm::topics::CALL_MADE;
use evm::{AgreedTx, SentTx};
use store::Tx;
use store::depository_ledger::{self, Deposit, Ending, Settlement};
use tracing::{debug, error, info};

use crate::allocator::{Allocator, MAX_ROWS_PER_ROUND};
use crate::chain::PayoutChain;
use crate::error::AllocatorError;
use crate::paying_venue::PayingVenue;
use crate::venue_evidence::{self, Shown};
use crate::{deposits, identity};

#[derive(Debug)]
pub(crate) enum Proof {
    Good,
    /// The payment is on the chain and may still change.
    NotFinal,
    /// The reason. The deposit is set aside for a while, and a person is told.
    Bad(&'static str),
}

/// How long a bad proof is set aside: a node that lags must not cost us a deposit for ever.
const SET_ASIDE_MILLIS: i64 = 3_600_000;

/// Looks at what the solver says has been settled, and books what is proven.
pub(crate) async fn gather(allocator: &Allocator, payout_chain: &PayoutChain) -> Result<(), AllocatorError> {
    let chain = payout_chain.id();
    let before = Timestamp::from_millis(allocator.now().millis().saturating_sub(SET_ASIDE_MILLIS));
    allocator.store.write(move |tx| depository_ledger::rescan_range(tx, chain, before)).await?;
    for claim in allocator.store.read(move |tx| depository_ledger::claims(tx, chain, MAX_ROWS_PER_ROUND)).await? {
        let deposit = claim.held.deposit;
        let settlement = Settlement {
            key: identity::settlement_key(deposit.key, claim.order),
            order: claim.order,
            deposit: deposit.key,
            ending: claim.ending,
            chain: claim.chain,
            tx: claim.tx,
        };
        let proof = match prove(allocator, &deposit, &settlement).await {
            Ok(Proof::NotFinal) => continue,
            Ok(proof) => proof,
            // A chain nobody can read keeps only those waiting that were settled on it.
            Err(error) if error.is_transient() => {
                debug!(chain.id = %chain, tx = %deposit.tx, error = %Chained(&error), "a deposit cannot be looked at now");
                continue;
            }
            Err(error) => return Err(error),
        };
        let now = allocator.now();
        let unit = move |tx: &mut Tx<'_>| {
            let bad = match proof {
                Proof::Good if depository_ledger::settle(tx, &settlement, now)? => {
                    depository_ledger::set_settled(tx, settlement.deposit)?;
                    return Ok::<_, AllocatorError>(None);
                }
                Proof::Good => "the order, the deposit or the transaction already counts for something else",
                Proof::Bad(why) => why,
                Proof::NotFinal => return Ok(None),
            };
            depository_ledger::refuse(tx, settlement.deposit, bad, now)?;
            Ok(Some(bad))
        };
        match allocator.store.write(unit).await? {
            Some(why) => {
                error!(chain.id = %chain, tx = %deposit.tx, settled.tx = %settlement.tx, "a deposit is not reimbursed: {why}");
            }
            None => info!(chain.id = %chain, tx = %deposit.tx, "a deposit is proven to be settled"),
        }
    }
    Ok(())
}

/// Reads deposit and settlement from the chains and holds them against each other. An error means that nobody can say.
pub(crate) async fn prove(
    allocator: &Allocator,
    deposit: &Deposit,
    settlement: &Settlement,
) -> Result<Proof, AllocatorError> {
    let Some(origin) = allocator.payout_chain(deposit.chain) else {
        return Ok(Proof::Bad("the chain is not configured"));
    };
    if !deposits::is_there(origin, deposit).await? {
        return Ok(Proof::Bad("the deposit is not on the chain"));
    }
    if let Some(venue) = allocator.venue.as_ref().filter(|venue| venue.chain.id == settlement.chain) {
        return prove_on_venue(allocator, venue, deposit, settlement).await;
    }
    let Some(payout_chain) = allocator.payout_chain(settlement.chain) else {
        return Ok(Proof::Bad("the chain is not configured"));
    };
    let seen = payout_chain.nodes.quorum_tx(payout_chain.quorum, settlement.tx).await?;
    let Some(seen) = seen else { return Ok(Proof::Bad("the transaction that settled it is not on the chain")) };
    if seen.head.number > payout_chain.last_final().await?.number {
        return Ok(Proof::NotFinal);
    }
    let order = match settlement.ending {
        Ending::Fill | Ending::Refund => {
            let id = settlement.order;
            let quote = allocator.store.read(move |tx| depository_ledger::quote_of(tx, id)).await?;
            quote.and_then(|quote| quote.order())
        }
        Ending::Return | Ending::Depository => None,
    };
    Ok(judge(allocator, payout_chain, deposit, settlement, order.as_ref(), &seen)
        .map_or_else(Proof::Bad, |()| Proof::Good))
}

/// The same for a fill on the venue. Refunds and returns are made where the deposit is.
async fn prove_on_venue(
    allocator: &Allocator,
    venue: &PayingVenue,
    deposit: &Deposit,
    settlement: &Settlement,
) -> Result<Proof, AllocatorError> {
    if settlement.ending != Ending::Fill {
        return Ok(Proof::Bad("a deposit is given back on its own chain"));
    }
    let (tx, wallet) = match venue_evidence::read(allocator, venue, settlement).await? {
        Shown::Final(tx, wallet) => (tx, wallet),
        Shown::NotFinal => return Ok(Proof::NotFinal),
        Shown::Bad(why) => return Ok(Proof::Bad(why)),
    };
    let id = settlement.order;
    let quote = allocator.store.read(move |tx| depository_ledger::quote_of(tx, id)).await?;
    let order = quote.and_then(|quote| quote.order());
    let payer = (venue.account, wallet, venue.client.network());
    let judged = belongs(allocator, deposit, id, order.as_ref())
        .and_then(|order| venue_evidence::fill(order, id, &tx, payer, &venue.chain.name));
    Ok(judged.map_or_else(Proof::Bad, |()| Proof::Good))
}

fn judge(
    allocator: &Allocator,
    payout_chain: &PayoutChain,
    deposit: &Deposit,
    settlement: &Settlement,
    order: Option<&Order>,
    seen: &AgreedTx,
) -> Result<(), &'static str> {
    let chain = payout_chain.id();
    paid_by_us(payout_chain, &seen.sent, settlement.order)?;
    match settlement.ending {
        Ending::Fill => {
            let order = belongs(allocator, deposit, settlement.order, order)?;
            fill(order, &payout_chain.chain.name, seen)
        }
        Ending::Refund => {
            let order = belongs(allocator, deposit, settlement.order, order)?;
            refund(order, deposit, &payout_chain.chain.name, seen)
        }
        Ending::Return => give_back(payout_chain, deposit, settlement.order, chain, seen),
        Ending::Depository => Err("a return out of the depository is proven by its nonce"),
    }
}

/// Success, by one of our wallets, and with the id as the last bytes of the calldata.
fn paid_by_us(payout_chain: &PayoutChain, sent: &SentTx, order: OrderId) -> Result<(), &'static str> {
    if !sent.success {
        return Err("the transaction that settled it failed");
    }
    if !payout_chain.wallets.contains(&sent.from) {
        return Err("the transaction that settled it is not from one of our wallets");
    }
    if sent.id() != Some(order.0) {
        return Err("the transaction that settled it names another order");
    }
    Ok(())
}

/// The order the deposit names, as its hash proves, and taken on by our own key.
pub(crate) fn belongs<'a>(
    allocator: &Allocator,
    deposit: &Deposit,
    id: OrderId,
    order: Option<&'a Order>,
) -> Result<&'a Order, &'static str> {
    if deposit.order != Some(id) {
        return Err("the deposit names another order");
    }
    let order = order.ok_or("the order is not known")?;
    if order.id() != id {
        return Err("the stored quote is not the one of the order");
    }
    if order.solver != allocator.order_key {
        return Err("the order was not taken on by us");
    }
    let [input] = &order.inputs[..] else { return Err("an order with other than one input") };
    let chain = &allocator.payout_chain(deposit.chain).ok_or("the chain is not configured")?.chain;
    if input.chain != chain.name || input.currency.evm() != Some(deposit.currency) {
        return Err("the deposit is not in the order's currency");
    }
    Ok(order)
}

fn fill(order: &Order, chain: &str, seen: &AgreedTx) -> Result<(), &'static str> {
    let output = &order.output;
    if output.chain != chain {
        return Err("the fill is on another chain");
    }
    if seen.head.time > u64::from(output.deadline) {
        return Err("the fill came after the order's deadline");
    }
    let router = contract(&output.extra_data)?;
    // Two payments to one recipient are not met by one transfer.
    let mut owed: BTreeMap<(Address, Address), Amount> = BTreeMap::new();
    for payment in &output.payments {
        let sum = owed.entry((evm(&payment.recipient)?, evm(&payment.currency)?)).or_default();
        *sum = sum.checked_add(payment.minimum).map_err(|_| "amounts out of range")?;
    }
    for ((recipient, currency), minimum) in owed {
        let paid = seen.sent.paid(currency, recipient, router);
        if paid < minimum.units() || paid.is_zero() {
            return Err("the fill paid less than the order's minimum");
        }
    }
    called(&output.calls, router, &seen.sent)
}

/// Every call of the order was made, in order; others may be in between.
fn called(calls: &[Vec<u8>], router: Address, sent: &SentTx) -> Result<(), &'static str> {
    let mut wanted = calls.iter().peekable();
    for log in sent.logs.iter().filter(|log| log.address() == router && log.topics() == [CALL_MADE]) {
        type Made = (Address, alloy::primitives::Bytes, alloy::primitives::U256);
        let Ok((to, data, value)) = Made::abi_decode_params(&log.data().data) else { continue };
        if wanted.peek().is_some_and(|call| **call == call_data(to, &data, Amount::new(value))) {
            wanted.next();
        }
    }
    if wanted.next().is_some() { Err("the fill did not make the order's calls") } else { Ok(()) }
}

fn refund(order: &Order, deposit: &Deposit, chain: &str, seen: &AgreedTx) -> Result<(), &'static str> {
    let input = order.inputs.first().ok_or("an order without input")?;
    let share = Ratio::new(deposit.amount.units(), input.amount.units()).map_err(|_| "an order of nothing")?;
    for route in input.refunds.iter().filter(|route| route.chain == chain) {
        let named = evm(&route.recipient)?;
        let recipient = if named.is_zero() { deposit.depositor } else { named };
        let paid = seen.sent.paid(evm(&route.currency)?, recipient, contract(&route.extra_data)?);
        let least = route.minimum.mul_ceil(share).map_err(|_| "amounts out of range")?;
        let in_time = seen.head.time <= u64::from(route.deadline);
        if in_time && !paid.is_zero() && paid >= least.units() {
            return Ok(());
        }
    }
    Err("the refund did not pay whom the order names, in time")
}

/// A deposit that paid for no order, back to whom it names.
fn give_back(
    payout_chain: &PayoutChain,
    deposit: &Deposit,
    id: OrderId,
    chain: ChainId,
    seen: &AgreedTx,
) -> Result<(), &'static str> {
    if id.0 != deposit.return_key || chain != deposit.chain {
        return Err("the return is of another deposit");
    }
    let paid = seen.sent.paid(deposit.currency, deposit.depositor, payout_chain.chain.router);
    if paid.is_zero() { Err("the return did not pay the depositor") } else { Ok(()) }
}

fn evm(account: &Account) -> Result<Address, &'static str> {
    account.evm().ok_or("not an address of this kind of chain")
}

/// The contract whose events count, as the order names it.
fn contract(extra_data: &[u8]) -> Result<Address, &'static str> {
    let word: [u8; 32] = extra_data.try_into().map_err(|_| "the order names no contract")?;
    Ok(Address::from_word(word.into()))
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{B256, Bytes, U256};
    use domain::order::{Input, Output, Payment, Refund};
    use evm::Head;

    use super::*;

    const RECIPIENT: Address = Address::repeat_byte(1);
    const DEPOSITOR: Address = Address::repeat_byte(2);
    const DEADLINE: u32 = 1_000;

    fn amount(units: u64) -> Amount {
        Amount::new(U256::from(units))
    }

    /// Native currency from `here` for 90 of it on `there`.
    fn order() -> Order {
        let (native, nobody): (Account, Account) = (Address::ZERO.into(), Address::ZERO.into());
        let router = Address::repeat_byte(9).into_word().to_vec();
        let refund = Refund {
            chain: "here".to_owned(),
            recipient: nobody,
            currency: native.clone(),
            minimum: Amount::ZERO,
            deadline: DEADLINE,
            extra_data: router.clone(),
        };
        Order {
            solver_chain: "here".to_owned(),
            solver: Address::ZERO,
            salt: U256::ZERO,
            inputs: vec![Input {
                chain: "here".to_owned(),
                currency: native.clone(),
                amount: amount(100),
                weight: U256::ONE,
                refunds: vec![refund],
            }],
            output: Output {
                chain: "there".to_owned(),
                payments: vec![Payment {
                    recipient: RECIPIENT.into(),
                    currency: native,
                    minimum: amount(90),
                    expected: amount(95),
                }],
                calls: Vec::new(),
                deadline: DEADLINE,
                extra_data: router,
            },
            fees: Vec::new(),
        }
    }

    fn seen(to: Address, value: u64, time: u32) -> AgreedTx {
        let head = Head { number: 7, hash: B256::ZERO, parent_hash: B256::ZERO, time: time.into(), base_fee: 0 };
        let sent = SentTx {
            from: Address::repeat_byte(5),
            nonce: 0,
            hash: B256::repeat_byte(3),
            index: 0,
            to: Some(to),
            value: U256::from(value),
            input: Bytes::from(vec![0; 32]),
            success: true,
            gas_used: 0,
            effective_gas_price: 0,
            fee: U256::ZERO,
            logs: Vec::new(),
        };
        AgreedTx { head, sent }
    }

    fn deposit() -> Deposit {
        Deposit {
            key: B256::ZERO,
            chain: ChainId(1),
            tx: B256::ZERO,
            ordinal: 0,
            block_number: 1,
            block_hash: B256::ZERO,
            block_time: Timestamp::from_millis(0),
            order: None,
            return_key: B256::ZERO,
            depositor: DEPOSITOR,
            payer: DEPOSITOR,
            sender: DEPOSITOR,
            currency: Address::ZERO,
            amount: amount(100),
        }
    }

    #[test]
    fn a_fill_pays_the_orders_recipient_its_minimum_in_time_and_on_its_chain() {
        let order = order();
        let cases = [
            ("there", RECIPIENT, 90, DEADLINE, true),
            ("there", RECIPIENT, 89, DEADLINE, false),
            ("there", DEPOSITOR, 90, DEADLINE, false),
            ("there", RECIPIENT, 90, DEADLINE + 1, false),
            ("here", RECIPIENT, 90, DEADLINE, false),
        ];
        for (chain, to, value, time, good) in cases {
            let judged = fill(&order, chain, &seen(to, value, time));
            assert_eq!(judged.is_ok(), good, "{chain} {to} {value} {time}: {judged:?}");
        }
    }

    #[test]
    fn a_refund_pays_whom_the_order_names_or_else_the_depositor() {
        let mut order = order();
        let judge = |order: &Order, to, time| refund(order, &deposit(), "here", &seen(to, 1, time)).is_ok();
        assert!(judge(&order, DEPOSITOR, DEADLINE));
        assert!(!judge(&order, DEPOSITOR, DEADLINE + 1) && !judge(&order, RECIPIENT, DEADLINE));
        order.inputs[0].refunds[0].recipient = RECIPIENT.into();
        assert!(judge(&order, RECIPIENT, DEADLINE) && !judge(&order, DEPOSITOR, DEADLINE));
        assert!(refund(&order, &deposit(), "there", &seen(RECIPIENT, 1, DEADLINE)).is_err(), "another chain");
    }
}
