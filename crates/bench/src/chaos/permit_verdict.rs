//! The verdict on gasless deposits, from the transactions of our relayers.

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::{Address, B256, U64, U256};
use anyhow::{Context, Result};
use devnet::Devnet;
use serde_json::{Value, json};

use super::api::Api;
use super::calls::relay_of;
use super::ledger::{Ledger, Payment};
use super::permits::Permitted;
use super::plan::Kind;
use super::traffic::currency;
use super::verdict::{Tally, return_key};

/// A signature is refused when less time than this is left of it.
const LEAST_VALIDITY_SECS: u64 = 60;

/// A transaction of one of our relayers.
#[derive(Clone, Debug)]
pub(crate) struct Relayed {
    pub chain: usize,
    pub tx: B256,
    pub to: Address,
    /// The id that it carries. None for one that submits neither a permit nor a raw call.
    pub id: Option<B256>,
    /// It does nothing but use up the nonce of a relay that was given up.
    pub gives_up: bool,
    pub success: bool,
    /// Tokens that it brought into the depository.
    pub brought: Vec<(Address, U256)>,
}

impl Relayed {
    pub(crate) fn of(chain: usize, depository: Address, payment: &Payment) -> Self {
        let brought = payment.transfers.iter().filter(|it| payment.success && it.to == depository);
        Self {
            chain,
            tx: payment.hash,
            to: payment.to,
            id: relay_of(&payment.input),
            gives_up: payment.to == payment.from && payment.input.is_empty() && payment.value.is_zero(),
            success: payment.success,
            brought: brought.map(|it| (it.token, it.amount)).collect(),
        }
    }
}

/// The verdict on permits and raw calls.
#[derive(Debug)]
pub(crate) struct Permits<'a> {
    pub devnet: &'a Devnet,
    pub api: &'a Api,
    pub ledgers: &'a [Ledger],
    pub relayed: Vec<Relayed>,
    /// Ids of relays that had succeeded in a block that a reorg replaced.
    pub reorged: BTreeSet<B256>,
}

/// The payments that ended one permit.
#[derive(Debug)]
struct Ends {
    fills: Vec<Payment>,
    refunds: Vec<Payment>,
    returns: Vec<Payment>,
}

impl Permits<'_> {
    fn landed(&self, id: B256) -> impl Iterator<Item = &Relayed> {
        self.relayed.iter().filter(move |relay| relay.id == Some(id) && relay.success)
    }

    /// True if a reorg took the deposit away and its user did something else with the tokens: the risk of paying before
    /// finality.
    pub(crate) fn is_lost(&self, permit: &Permitted) -> Result<bool> {
        let id = permit.relay()?;
        Ok(self.reorged.contains(&id) && self.landed(id).next().is_none())
    }

    /// Relays were given up for raw calls that were taken and are not on their chain, and for nothing else. Some calls
    /// of each kind that was tried have landed.
    pub(crate) fn given_up(&self, calls: &[(Kind, Permitted)], wrong: &mut Vec<String>) -> Result<()> {
        let (mut unlanded, mut by_kind) = (0, BTreeMap::<Kind, bool>::new());
        for (kind, call) in calls {
            let landed = self.landed(call.relay()?).next().is_some();
            *by_kind.entry(*kind).or_default() |= landed;
            unlanded += usize::from(!landed);
        }
        let given_up = self.relayed.iter().filter(|relay| relay.gives_up).count();
        if given_up > unlanded {
            wrong.push(format!("{given_up} relays were given up, and {unlanded} raw calls have not landed"));
        }
        let never = by_kind.into_iter().filter(|(_, landed)| !landed);
        wrong.extend(never.map(|(kind, _)| format!("no raw call of {kind:?} has landed")));
        Ok(())
    }

    /// A permit or a raw call is relayed once at most, and what it brought has exactly one end. One that brought
    /// nothing took nothing.
    pub(crate) async fn judge(&self, permit: &Permitted, wrong: &mut Vec<String>, tally: &mut Tally) -> Result<()> {
        let mut say = |text: String| wrong.push(format!("{}: {text}", permit.label));
        let origin = &self.devnet.chains[permit.chain];
        let (id, paid_in) = (permit.relay()?, currency(origin, permit.from));
        let times = self.relayed.iter().filter(|relay| relay.id == Some(id)).count();
        if times > 1 {
            say(format!("it was relayed {times} times"));
        }
        let landed: Vec<&Relayed> = self.landed(id).collect();
        if landed.iter().any(|relay| relay.chain != permit.chain || relay.brought != [(paid_in, permit.amount)]) {
            say(format!("its relay brought something else than {} of {paid_in}", permit.amount));
        }
        let ends = self.ends(permit, &landed, &mut say);
        let Ends { fills, refunds, returns } = &ends;
        let (owed, count, lost) = (landed.len(), fills.len() + refunds.len() + returns.len(), self.is_lost(permit)?);
        if count != owed && !(lost && count == 1) {
            let (fills, refunds, returns) = (fills.len(), refunds.len(), returns.len());
            say(format!("{owed} deposits have {fills} fills, {refunds} refunds and {returns} returns"));
        }
        self.balances(permit, owed, &ends, &mut say).await?;
        if permit.had.is_some() {
            self.served(permit, owed > 0 || lost, &mut say).await?;
            // The market moves ether against the rest, and may have left a quote behind.
            if !refunds.is_empty() && (permit.from == "ETH") == (permit.to == "ETH") {
                say("it was to be filled, and is refunded".to_owned());
            }
        }
        self.status(permit, &ends, &mut say).await?;
        tally.deposits += owed;
        tally.fills += fills.len();
        tally.refunds += refunds.len();
        tally.returns += returns.len();
        tally.abandoned += usize::from(lost);
        tally.losses += count.saturating_sub(owed);
        Ok(())
    }

    fn ends(&self, permit: &Permitted, landed: &[&Relayed], say: &mut impl FnMut(String)) -> Ends {
        let of = |chain: usize, id: B256| -> Vec<Payment> {
            let payments = self.ledgers[chain].by_id();
            payments.get(&id).into_iter().flatten().map(|payment| (*payment).clone()).collect()
        };
        let (id, chain_id) = (permit.order.id, self.devnet.chains[permit.chain].id);
        let ends = Ends {
            fills: of(permit.destination, id),
            refunds: of(permit.chain, id),
            returns: landed.iter().flat_map(|relay| of(permit.chain, return_key(chain_id, relay.tx))).collect(),
        };
        let everywhere: usize = (0..self.ledgers.len()).map(|chain| of(chain, id).len()).sum();
        let elsewhere = everywhere - ends.fills.len() - ends.refunds.len();
        if elsewhere > 0 {
            say(format!("order {id} has {elsewhere} payments elsewhere"));
        }
        ends
    }

    /// The recipient has the fill. The user has what the permit did not move, and what came back.
    async fn balances(
        &self,
        permit: &Permitted,
        deposits: usize,
        ends: &Ends,
        say: &mut impl FnMut(String),
    ) -> Result<()> {
        let (origin, destination) = (&self.devnet.chains[permit.chain], &self.devnet.chains[permit.destination]);
        let got = destination.balance(currency(destination, permit.to), permit.recipient).await?;
        let (least, quoted) = (permit.order.minimum, permit.order.quoted);
        match ends.fills.len() {
            0 if !got.is_zero() => say(format!("the recipient has {got}, and there is no fill")),
            1 if got < least || got > quoted * U256::from(2) - U256::ONE => {
                say(format!("the recipient has {got}, {quoted} was quoted and {least} is the least"));
            }
            _ => {}
        }
        let paid_in = currency(origin, permit.from);
        let (mut back, tenths) = (U256::ZERO, permit.amount * U256::from(9) / U256::from(10));
        for payment in ends.refunds.iter().chain(&ends.returns) {
            let paid = payment.paid(paid_in, permit.user);
            if paid < tenths || paid > permit.amount {
                say(format!("{paid} came back of a deposit of {}", permit.amount));
            }
            back += paid;
        }
        let Some(had) = permit.had else { return Ok(()) };
        let (has, due) =
            (origin.balance(paid_in, permit.user).await?, had + back - permit.amount * U256::from(deposits));
        if has != due {
            say(format!("its user has {has} of {had}, and should have {due}"));
        }
        Ok(())
    }

    /// An honest user is refused only where the signature is too old or no gas price is known, and a permit that was
    /// taken brings the deposit, also when the same signature is posted again.
    async fn served(&self, permit: &Permitted, landed: bool, say: &mut impl FnMut(String)) -> Result<()> {
        let head: Value =
            self.devnet.chains[permit.chain].rpc("eth_getBlockByNumber", json!(["latest", false])).await?;
        let time: U64 = serde_json::from_value(head["timestamp"].clone()).context("a block without its time")?;
        let expired = time.to::<u64>() + LEAST_VALIDITY_SECS >= permit.deadline;
        for refusal in &permit.refusals {
            let fair = match refusal.as_str() {
                "SIGNATURE_EXPIRED" => expired,
                "CHAIN_DISABLED" => true,
                _ => false,
            };
            if permit.taken || !fair {
                say(format!("its permit was refused: {refusal}{}", if permit.taken { ", and taken" } else { "" }));
            }
        }
        // A raw call that no node takes is given up, and has failed.
        if permit.taken && !landed && !expired && !permit.raw_call {
            say("its permit was taken, and nothing came of it".to_owned());
        }
        Ok(())
    }

    /// The service reports the same as the chains.
    async fn status(&self, permit: &Permitted, ends: &Ends, say: &mut impl FnMut(String)) -> Result<()> {
        let request = &permit.order.request;
        let (_, answer) = self.api.get(&format!("/intents/status/v3?requestId={request}")).await?;
        let status = answer["status"].as_str().unwrap_or("missing");
        let expected: &[&str] = match (ends.fills.len(), ends.refunds.len()) {
            (0, 0) if permit.raw_call && permit.taken => &["failure"],
            // A relay that is void has failed its request.
            (0, 0) => &["waiting", "failure"],
            (0, _) => &["refund"],
            _ => &["success"],
        };
        if !expected.contains(&status) {
            say(format!("{request} is {status}, and should be {}", expected.join(" or ")));
        }
        Ok(())
    }
}
