//! Signing: everything is read and reckoned again first, and the decision is written before the key is used.
//!
//! The digest is fixed by that decision. Dying between it and the signature is harmless: signing again gives the same
//! bytes.

use alloy::primitives::{Address, B256, U256};
use alloy::sol_types::SolCall;
use domain::money::Amount;
use domain::payout::{Event, Kind, State, step};
use evm::contracts::{CallRequest, Depository, Erc20};
use evm::{At, Head};
use store::depository_ledger::{self, Ending};
use store::payouts::{self, Payout, PayoutId, PayoutRow, Signature};
use store::{StoreError, Tx, settlements};
use tracing::{error, info};

use crate::allocator::{Allocator, MAX_ROWS_PER_ROUND};
use crate::chain::PayoutChain;
use crate::deposits::is_there;
use crate::error::AllocatorError;
use crate::evidence::{Proof, prove};
use crate::{batches, identity, refunds, returns};

/// Why a payout is not signed.
#[derive(Debug)]
enum Stop {
    /// Something is wrong with it, or with the depository: a person should look.
    Refused(String),
    /// It waits for its turn.
    NotNow(&'static str),
    Failed(AllocatorError),
}

impl<E: Into<AllocatorError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

fn refused<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Refused(why.into()))
}

pub(crate) async fn sign(allocator: &Allocator, payout_chain: &PayoutChain, last: Head) -> Result<(), AllocatorError> {
    let chain = payout_chain.id();
    for stored in allocator.store.read(move |tx| payouts::open(tx, chain, MAX_ROWS_PER_ROUND)).await? {
        if stored.state != State::Intended {
            continue;
        }
        let why = match sign_one(allocator, payout_chain, last, &stored).await {
            Ok(()) => continue,
            // Nodes that are away now keep this one waiting, and not the others.
            Err(Stop::Failed(AllocatorError::NoQuorum(no_quorum))) => format!("{no_quorum}"),
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::NotNow(why)) => why.to_owned(),
            Err(Stop::Refused(why)) => {
                if stored.note.as_ref() != Some(&why) {
                    error!(chain.id = %chain, payout = stored.id.0, "a payout is not signed: {why}");
                }
                why
            }
        };
        if stored.note.as_ref() != Some(&why) {
            let (id, now) = (stored.id, allocator.now());
            allocator.store.write(move |tx| payouts::explain(tx, id, &why, now)).await?;
        }
    }
    Ok(())
}

async fn sign_one(
    allocator: &Allocator,
    payout_chain: &PayoutChain,
    last: Head,
    stored: &PayoutRow,
) -> Result<(), Stop> {
    let (id, payout) = (stored.id, &stored.payout);
    let decided = allocator.store.read(move |tx| payouts::live(tx, id)).await?;
    // Whatever the rows say was decided: the key is used for nothing that does not pass now.
    check(allocator, payout_chain, last, stored).await?;
    let signature = match decided {
        // Decided by a process that died: whatever it may have signed, this gives the same.
        Some(signature) => {
            let time = payout_chain.nodes.quorum_header(payout_chain.quorum, 0).await?.time;
            let most = time.saturating_add(allocator.terms.validity.as_secs());
            if signature.expiration > most {
                return refused("the decided signature would be good for longer than anything we sign");
            }
            signature
        }
        None => decide(allocator, payout_chain, stored).await?,
    };
    let request = request(payout, signature.expiration);
    if request.struct_hash() != signature.struct_hash {
        return refused("the decided signature is not for what the payout says");
    }
    let bytes = allocator.key.sign_digest(request.digest(payout_chain.id().0, payout_chain.depository())).as_bytes();
    let (ordinal, state, now) = (signature.ordinal, step(stored.state, Event::Signed)?, allocator.now());
    let unit = move |tx: &mut Tx<'_>| {
        payouts::signed(tx, id, ordinal, &bytes)?;
        payouts::set_state(tx, id, state, None, now)
    };
    allocator.store.write::<_, StoreError>(unit).await?;
    info!(chain.id = %payout_chain.id(), payout = id.0, amount = %payout.amount, "signed a payout");
    allocator.crash("payout.signed");
    // The lanes may be those of another process.
    Ok(allocator.store.wake().await?)
}

fn request(payout: &Payout, expiration: u64) -> CallRequest {
    CallRequest::payout(payout.currency, payout.recipient, payout.amount.units(), payout.nonce.0, expiration)
}

/// Nothing of a payout's row is believed: not its amount, not its recipient, not its nonce.
async fn check(allocator: &Allocator, payout_chain: &PayoutChain, last: Head, stored: &PayoutRow) -> Result<(), Stop> {
    let (id, chain, payout) = (stored.id, payout_chain.id(), &stored.payout);
    let read = move |tx: &mut Tx<'_>| {
        let parts = payouts::parts(tx, id)?;
        Ok::<_, AllocatorError>((payouts::count_unrecognized(tx, chain)?, payouts::imported(tx, chain)?, parts))
    };
    let (unrecognized, imported, parts) = allocator.store.read(read).await?;
    if unrecognized > 0 {
        return refused("the depository has paid out what this database has not signed for");
    }
    if imported > 0 {
        return Err(Stop::NotNow("a payout of a database that was lost is not final yet"));
    }
    let keys: Vec<B256> = parts.iter().map(|(key, _)| *key).collect();
    let subject = match (payout.kind, &keys[..]) {
        (_, []) => return refused("it is for no deposit"),
        (Kind::Batch, keys) => identity::batch_key(keys),
        (Kind::Refund, [key]) => *key,
        (Kind::Refund | Kind::Excess, _) => return refused("it is of no kind that is signed"),
    };
    if payout.chain != chain || payout.subject != subject || payout.nonce != identity::nonce(payout.kind, subject) {
        return refused("its nonce is not that of its deposits");
    }
    let mut sum = Amount::ZERO;
    for (key, part) in parts {
        sum = sum.checked_add(part)?;
        check_part(allocator, payout_chain, last, stored, key, part).await?;
    }
    if sum != payout.amount {
        return refused(format!("it is for {} and its deposits for {sum}", payout.amount));
    }
    if payout.kind == Kind::Batch && payout.recipient != allocator.treasury {
        return refused("a batch is paid to the treasury only");
    }
    if payout_chain.is_used(payout.nonce, last).await? {
        return Err(Stop::NotNow("it was paid out already"));
    }
    let named = ask(payout_chain, payout_chain.depository(), Depository::allocatorCall {}.abi_encode(), last).await?;
    if Address::from_word(named.into()) != allocator.address() {
        return refused(format!("the depository's allocator is not {}", allocator.address()));
    }
    solvent(allocator, payout_chain, last, stored).await
}

async fn check_part(
    allocator: &Allocator,
    payout_chain: &PayoutChain,
    last: Head,
    stored: &PayoutRow,
    key: B256,
    part: Amount,
) -> Result<(), Stop> {
    let payout = &stored.payout;
    let read = move |tx: &mut Tx<'_>| {
        Ok::<_, AllocatorError>((depository_ledger::find(tx, key)?, depository_ledger::settlement_of(tx, key)?))
    };
    let (Some(held), settlement) = allocator.store.read(read).await? else {
        return refused("one of its deposits is not in the ledger");
    };
    let deposit = &held.deposit;
    if deposit.chain != payout.chain || deposit.currency != payout.currency {
        return refused("one of its deposits is of another currency");
    }
    let promised = if payout.kind == Kind::Batch { held.reimbursed } else { held.refunded };
    if promised != part {
        return refused("the ledger promises another part of one of its deposits");
    }
    let Some(settlement) = settlement else { return refused("one of its deposits is not settled") };
    match (payout.kind, settlement.ending) {
        (Kind::Batch, Ending::Depository) => {
            // The gas that was kept back, once the rest has gone back.
            if !payout_chain.is_used(identity::nonce(Kind::Refund, key), last).await? {
                return refused("one of its deposits has not gone back yet");
            }
        }
        (Kind::Batch, _) => {
            return match prove(allocator, deposit, &settlement).await? {
                Proof::Good => Ok(()),
                Proof::NotFinal => Err(Stop::NotNow("a payment it is for is not final")),
                Proof::Bad(why) => refused(why),
            };
        }
        (Kind::Refund, Ending::Depository) if settlement.order.0 != deposit.return_key => {
            let order = settlement.order;
            if allocator.store.read(move |tx| settlements::payout(tx, order)).await? != Some(stored.id) {
                return refused("the order it refunds ends by something else");
            }
            match refunds::recipient(allocator, payout_chain, deposit, order).await? {
                Ok(recipient) if recipient == payout.recipient => {}
                Ok(_) => return refused("an order is refunded to whom it names only"),
                Err(why) => return refused(why),
            }
        }
        // One that an order was filled or refunded for is that order's, whatever the rows say.
        (Kind::Refund, Ending::Depository) if payout.recipient == deposit.depositor => {
            if allocator.advice.blocks(deposit.parties()) {
                return refused("it is from a blocked wallet");
            }
            if !returns::is_nobodys(allocator, deposit).await? {
                return refused("a deposit that pays for an order does not go back");
            }
        }
        (Kind::Refund, Ending::Depository) => return refused("a deposit goes back to whom it names only"),
        (Kind::Refund | Kind::Excess, _) => return refused("a deposit that was settled does not go back"),
    }
    if is_there(payout_chain, deposit).await? { Ok(()) } else { refused("a deposit is not on the chain") }
}

/// The depository holds what it owes, and this is part of it.
async fn solvent(
    allocator: &Allocator,
    payout_chain: &PayoutChain,
    last: Head,
    stored: &PayoutRow,
) -> Result<(), Stop> {
    let (id, payout) = (stored.id, &stored.payout);
    let (chain, currency) = (payout_chain.id(), payout.currency);
    let read = move |tx: &mut Tx<'_>| {
        Ok::<_, AllocatorError>((
            depository_ledger::total(tx, chain, currency)?,
            payouts::promised(tx, chain, currency, id)?,
        ))
    };
    let (total, promised) = allocator.store.read(read).await?;
    let balance = if currency.is_zero() {
        payout_chain.nodes.quorum_balance(payout_chain.quorum, payout_chain.depository(), At::Hash(last.hash)).await?
    } else {
        let call = Erc20::balanceOfCall { owner: payout_chain.depository() }.abi_encode();
        U256::from_be_bytes(ask(payout_chain, currency, call, last).await?)
    };
    let Ok(owed) = total.deposited.checked_sub(total.executed) else {
        return refused("more has left the depository than came in");
    };
    if Amount::new(balance) < owed {
        return refused(format!("the depository holds {balance} and owes {owed}"));
    }
    let mut out = payout.amount;
    for live in promised {
        out = out.checked_add(live)?;
    }
    if out > owed { refused(format!("signatures for {out} would be out, and {owed} is there")) } else { Ok(()) }
}

async fn ask(payout_chain: &PayoutChain, to: Address, call: Vec<u8>, last: Head) -> Result<[u8; 32], Stop> {
    let answer = payout_chain.nodes.quorum_call(payout_chain.quorum, to, call.into(), At::Hash(last.hash)).await?;
    answer.as_ref().try_into().map_err(|_| Stop::Refused(format!("{to} does not answer as it should")))
}

/// Writes down what is going to be signed, if the caps have room for it.
async fn decide(allocator: &Allocator, payout_chain: &PayoutChain, stored: &PayoutRow) -> Result<Signature, Stop> {
    let Some(&cap) = payout_chain.caps.get(&stored.payout.currency) else {
        return Err(Stop::NotNow("its currency has no cap"));
    };
    let issued = payout_chain.nodes.quorum_header(payout_chain.quorum, 0).await?.time;
    let expiration = issued.saturating_add(allocator.terms.validity.as_secs());
    let struct_hash = request(&stored.payout, expiration).struct_hash();
    let (id, payout, now): (PayoutId, Payout, _) = (stored.id, stored.payout.clone(), allocator.now());
    let unit = move |tx: &mut Tx<'_>| {
        let state = payouts::lock(tx, id)?.map(|stored| stored.state);
        if state != Some(State::Intended) || payouts::live(tx, id)?.is_some() {
            return Ok(None);
        }
        let ordinal = payouts::signatures(tx, id)? + 1;
        // Signing the same payout again takes nothing more out.
        if ordinal == 1 && payout.amount > batches::room(tx, payout.chain, payout.currency, cap, now)? {
            return Ok(None);
        }
        let signature = Signature { ordinal, issued, expiration, struct_hash, bytes: None };
        payouts::decide(tx, id, &signature, now)?;
        Ok::<_, AllocatorError>(Some(signature))
    };
    allocator.store.write(unit).await?.ok_or(Stop::NotNow("the cap of its currency leaves no room"))
}
