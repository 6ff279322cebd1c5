//! The ends of one transfer's deposits, by the chains and the venue's books.

use alloy::primitives::{B256, U256};
use anyhow::Result;
use domain::venue::AccountIndex;

use super::addresses::Addresses;
use super::ledger::Ledger;
use super::permit_verdict::Permits;
use super::plan::{Kind, Transfer};
use super::quoted::Order;
use super::traffic::{Deposit, Traffic, currency};
use super::venue::Booked;
use super::verdict::{Books, Tally, return_key};

/// The ends of one order's deposits.
pub(crate) struct Ends<'a> {
    pub books: &'a Books,
    pub traffic: &'a Traffic<'a>,
    pub transfer: &'a Transfer,
    pub present: &'a [Deposit],
    pub booked: &'a Booked,
    pub permits: &'a Permits<'a>,
}

impl Ends<'_> {
    pub(crate) async fn judge(&self, gone: usize, wrong: &mut Vec<String>, tally: &mut Tally) -> Result<()> {
        let Self { books, traffic, transfer, present, .. } = *self;
        let origin = &traffic.devnet.chains[transfer.origin];
        let order = traffic.order(transfer.index);
        if let Some(order) = order.as_ref().filter(|_| transfer.kind.has_address()) {
            return self.at_address(order, wrong, tally).await;
        }
        if let Some(permit) = traffic.permit(transfer.index) {
            return self.permits.judge(&permit, wrong, tally).await;
        }
        let mut say = |text: String| wrong.push(format!("transfer {} ({:?}): {text}", transfer.index, transfer.kind));
        if transfer.kind.is_gasless() || (order.is_none() && transfer.kind != Kind::Orphan) {
            say("never got its quote".to_owned());
            return Ok(());
        }
        if let Some(order) = order.as_ref().filter(|_| transfer.kind.leaves_venue()) {
            return self.withdrawn(order, &mut say, tally).await;
        }
        let id = order.as_ref().map_or(transfer.word, |order| order.id);
        let (fills, refunds, elsewhere) = self.outcomes(id);
        let mut returns = 0;
        for deposit in present {
            let key = return_key(origin.id, deposit.tx);
            let back = books.ledgers[deposit.chain].by_id();
            let back = back.get(&key).map_or(&[][..], Vec::as_slice);
            returns += back.len();
            if back.len() > 1 {
                say(format!("deposit {} was returned {} times", deposit.tx, back.len()));
            }
            for payment in back {
                self.fair(payment.paid(deposit.currency, deposit.depositor), deposit, &mut say);
            }
        }
        let kept = present.iter().filter(|deposit| deposit.worthless).count();
        let qualifying = present.iter().filter(|deposit| deposit.qualifies).count();
        let (owed, ends) = (present.len() - kept, fills + refunds + returns);
        if fills + refunds > 1 || elsewhere > 0 {
            say(format!("order {id} has {fills} fills, {refunds} refunds and {elsewhere} payments elsewhere"));
        }
        if ends < owed || ends > owed + gone {
            say(format!("{owed} deposits (and {gone} gone) have {fills} fills, {refunds} refunds, {returns} returns"));
        }
        if qualifying > 0 && fills + refunds == 0 && gone == 0 {
            say(format!("order {id} was paid for and has no end"));
        }
        if fills > 0 && matches!(transfer.kind, Kind::Short | Kind::Forced) {
            say("it was to be refunded, and is filled".to_owned());
        }
        // The market moves ether against the rest, and may have left a quote behind.
        let exchanged = (transfer.from == "ETH") != (transfer.to == "ETH");
        let failed = self.booked.has_failed(id);
        if refunds > 0 && !exchanged && !failed && !matches!(transfer.kind, Kind::Short | Kind::Forced) {
            say("it was to be filled, and is refunded".to_owned());
        }
        // Nobody else pays this recipient: its balance is the fill.
        let got = self.received().await?;
        match (fills, &order) {
            (0, _) if !got.is_zero() => say(format!("the recipient has {got}, and there is no fill")),
            (1, Some(order)) if got < order.minimum || got > order.quoted * U256::from(2) - U256::ONE => {
                say(format!("the recipient has {got}, {} was quoted and {} is the least", order.quoted, order.minimum));
            }
            _ => {}
        }
        tally.fills += fills;
        tally.refunds += refunds;
        tally.returns += returns;
        tally.kept += kept;
        tally.losses += ends.saturating_sub(owed);
        if let Some(order) = order {
            self.status(&order.request, (fills, refunds), &mut say).await?;
        }
        Ok(())
    }

    /// Fills and refunds of an order, and payments under its id where none belongs.
    fn outcomes(&self, id: B256) -> (usize, usize, usize) {
        let Self { books, transfer, .. } = *self;
        let count = |ledger: &Ledger| ledger.by_id().get(&id).map_or(0, Vec::len);
        let (there, back) = (count(&books.ledgers[transfer.destination]), count(&books.ledgers[transfer.origin]));
        let (on_chains, on_venue) =
            (books.ledgers.iter().map(count).sum::<usize>(), self.booked.paid_under(id).count());
        let fills = if transfer.kind == Kind::VenueIn { on_venue } else { there };
        (fills, back, on_chains + on_venue - fills - back)
    }

    /// The amount that the recipient has got: nobody else pays it.
    async fn received(&self) -> Result<U256> {
        let Self { traffic, transfer, .. } = *self;
        if transfer.kind == Kind::VenueIn {
            return Ok(U256::from(traffic.venue.change(transfer.index)?.unsigned_abs()));
        }
        let destination = &traffic.devnet.chains[transfer.destination];
        destination.balance(currency(destination, transfer.to), transfer.recipient).await
    }

    /// A withdrawal from the venue.
    async fn withdrawn(&self, order: &Order, say: &mut impl FnMut(String), tally: &mut Tally) -> Result<()> {
        let Self { books, traffic, transfer, .. } = *self;
        let account = AccountIndex::new(traffic.venue.account(transfer.index)?.index)?;
        let ends = self.booked.withdrawn(transfer, (account, order.id), &books.ledgers, say);
        let got = self.received().await?;
        match ends.fills {
            0 if !got.is_zero() => say(format!("the recipient has {got}, and there is no fill")),
            1 if got < order.minimum || got > order.quoted * U256::from(2) - U256::ONE => {
                say(format!("the recipient has {got}, {} was quoted and {} is the least", order.quoted, order.minimum));
            }
            _ => {}
        }
        tally.deposits += ends.deposits;
        tally.fills += ends.fills;
        tally.refunds += ends.refunds;
        tally.returns += ends.returns;
        self.status(&order.request, (ends.fills, ends.refunds), say).await
    }

    /// A transfer that is paid at a deposit address.
    async fn at_address(&self, order: &Order, wrong: &mut Vec<String>, tally: &mut Tally) -> Result<()> {
        let Self { books, traffic, transfer, .. } = *self;
        let Some(given) = traffic.given(transfer.index) else {
            wrong.push(format!("transfer {}: nothing was sent to its address", transfer.index));
            return Ok(());
        };
        let addresses = Addresses { devnet: traffic.devnet, ledgers: &books.ledgers };
        let ended = addresses.judge(&given, wrong, tally).await?;
        let mut say = |text: String| wrong.push(format!("{}: {text}", given.label));
        self.status(&order.request, ended, &mut say).await
    }

    /// A return is the deposit less the cost of sending it.
    fn fair(&self, back: U256, deposit: &Deposit, say: &mut impl FnMut(String)) {
        if back > deposit.amount || back < deposit.amount * U256::from(9) / U256::from(10) {
            say(format!("{back} came back of a deposit of {}", deposit.amount));
        }
    }

    /// The service reports the same as the chains.
    async fn status(
        &self,
        request: &str,
        (fills, refunds): (usize, usize),
        say: &mut impl FnMut(String),
    ) -> Result<()> {
        let (_, answer) = self.traffic.api.get(&format!("/intents/status/v3?requestId={request}")).await?;
        let status = answer["status"].as_str().unwrap_or("missing");
        let expected = match (fills, refunds) {
            (0, 0) => "waiting",
            (0, _) => "refund",
            _ => "success",
        };
        if status != expected {
            say(format!("{request} is {status}, and should be {expected}"));
        }
        Ok(())
    }
}
