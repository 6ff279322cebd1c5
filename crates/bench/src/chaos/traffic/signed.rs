//! Users who only sign, and have one of our relayers send their deposits.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::Traffic;
use crate::chaos::calls::SignedCall;
use crate::chaos::permits::{Permitted, Signed};
use crate::chaos::plan::Transfer;
use crate::chaos::quoted::Order;

impl Traffic<'_> {
    /// Signs, and posts the signature until it is taken. Half of the users post it once more, a while later.
    pub(super) async fn sign_permit(&self, transfer: &Transfer, quote: &Value, order: Order) -> Result<()> {
        self.done().paying.entry(transfer.index).or_insert_with(Instant::now);
        let (signed, chain) = (Signed::new(quote, &transfer.user)?, &self.devnet.chains[transfer.origin]);
        let permit = Permitted::of(transfer, order, chain, transfer.user.address, signed.deadline());
        self.done().permits.insert(transfer.index, permit);
        let mut answers = vec![signed.post_until_taken(self.api).await];
        if transfer.coin {
            tokio::time::sleep(Duration::from_millis(transfer.choice * 130)).await;
            answers.push(signed.post_until_taken(self.api).await);
        }
        self.note(transfer, answers);
        Ok(())
    }

    /// Signs the steps of the quote as one operation of a smart account, which the integrator posts in the same way.
    pub(super) async fn sign_call(&self, transfer: &Transfer, quote: &Value, order: Order) -> Result<()> {
        self.done().paying.entry(transfer.index).or_insert_with(Instant::now);
        let account = self.account(transfer.index).context("a raw call of no account")?;
        let (key, chain) = (&self.integrator.key, &self.devnet.chains[transfer.origin]);
        let signed = SignedCall::new(chain, transfer, account, (quote, &order)).await?;
        // The operation itself has no end.
        let call = Permitted::of(transfer, order, chain, account.address, u64::MAX);
        self.done().permits.insert(transfer.index, call);
        let mut answers = vec![signed.post_until_taken(self.api, key).await];
        if transfer.coin {
            tokio::time::sleep(Duration::from_millis(transfer.choice * 130)).await;
            answers.push(signed.post_until_taken(self.api, key).await);
        }
        self.note(transfer, answers);
        Ok(())
    }

    /// Notes the answers of the service.
    fn note(&self, transfer: &Transfer, answers: Vec<Option<(u16, Value)>>) {
        if let Some(permit) = self.done().permits.get_mut(&transfer.index) {
            answers.into_iter().for_each(|answer| permit.note(answer));
        }
    }
}
