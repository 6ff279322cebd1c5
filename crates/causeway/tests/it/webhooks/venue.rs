//! Paths into the venue and out of it.

use anyhow::{Result, ensure};
use devnet::Account;
use serde_json::{Value, json};

use super::sequence::Sequences;
use super::{call, listen, nothing_is_due};
use crate::fast_fill::{Integrator, integrator};
use crate::harness::{execute, new_account, request_id};
use crate::keys::create;
use crate::venue::{Stage, VENUE};

/// A service at a venue with a receiver, and two keys: one of an integrator with a balance, one that may force refunds.
struct Story {
    stage: Stage,
    heard: Sequences,
    by: Integrator,
    forcing: String,
    user: Account,
}

impl Story {
    async fn quoted(&self, key: &str, body: &Value) -> Result<Value> {
        let (code, quote) = call(&self.stage.harness, "POST", "/quote/v2", key, Some(body)).await?;
        ensure!(code == 200, "{quote}");
        Ok(quote)
    }

    /// A quote of a deposit of fifty dollars from Base.
    async fn deposit(&self) -> Result<Value> {
        let usdc = self.stage.harness.chain("base").token("USDC").address;
        let body = self.stage.deposit(&self.user.address.to_string(), &usdc.to_string(), "50000000");
        self.quoted(&self.by.key, &body).await
    }

    /// While transfers are stuck, the venue has taken them and executes none.
    fn stuck(&self, stuck: bool) {
        self.stage.simulator.faults.update(|fault| fault.stuck = stuck);
    }

    async fn paid_in(&self) -> Result<()> {
        let (key, quote) = (&self.by.key, self.deposit().await?);
        let id = request_id(&quote);
        self.stuck(true);
        let hash = execute(self.stage.harness.chain("base"), &quote, &self.user).await?;
        self.heard.told(id, key, &["pending", "submitted"]).await?;
        self.stuck(false);
        let events = self.heard.told(id, key, &["pending", "submitted", "success"]).await?;
        ensure!(events.iter().all(|it| it.data("inTxHashes") == json!([hash])), "{events:?}");
        // The venue's hashes have eighty digits.
        let filled = events[2].data("txHashes");
        ensure!(filled[0].as_str().is_some_and(|hash| hash.len() == 80), "{filled}");
        ensure!(events[2].data("destinationChainId") == VENUE, "{:?}", events[2].json());
        Ok(())
    }

    async fn fast_filled(&self) -> Result<()> {
        let (key, quote) = (&self.by.key, self.deposit().await?);
        let id = request_id(&quote);
        self.stuck(true);
        let (code, answer) = self.by.fast_fill(&self.stage.harness, id).await?;
        ensure!(code == 200, "{answer}");
        self.heard.told(id, key, &["submitted"]).await?;
        self.stuck(false);
        self.heard.told(id, key, &["submitted", "success"]).await?;
        let hash = execute(self.stage.harness.chain("base"), &quote, &self.user).await?;
        let events = self.heard.told(id, key, &["submitted", "success", "success"]).await?;
        ensure!(events[1].data("inTxHashes") == json!([]), "{:?}", events[1].json());
        ensure!(events[2].data("inTxHashes") == json!([hash]), "{:?}", events[2].json());
        Ok(())
    }

    /// A withdrawal, without a word in advance or announced while the venue has not executed it.
    async fn out_of_the_venue(&self, announced: bool) -> Result<()> {
        let (harness, key) = (&self.stage.harness, &self.by.key);
        let optimism = harness.chain("optimism");
        let body = self.stage.withdrawal(20_000_000, &new_account().address.to_string());
        let quote = self.quoted(key, &body).await?;
        let id = request_id(&quote);
        let path = ["waiting", "pending", "submitted", "success"];
        let path = if announced { &path[..] } else { &path[1..] };
        let (last, before) = (path.len() - 1, &path[..path.len() - 1]);
        self.stuck(announced);
        optimism.pause_mining().await;
        let digest = self.stage.withdraw(&quote).await?.to_string();
        if announced {
            let hint = json!({ "chainId": VENUE.to_string(), "txHash": digest, "requestId": id });
            ensure!(harness.post("/transactions/index", &hint).await?.0 == 200);
            let waiting = self.heard.told(id, key, &["waiting"]).await?;
            ensure!(waiting[0].data("inTxHashes") == json!([]), "{:?}", waiting[0].json());
            self.stuck(false);
        }
        self.heard.told(id, key, before).await?;
        optimism.resume_mining().await;
        let events = self.heard.told(id, key, path).await?;
        ensure!(events[last].data("inTxHashes") == json!([digest]), "{:?}", events[last].json());
        ensure!(events[last].data("originChainId") == VENUE, "{:?}", events[last].json());
        Ok(())
    }

    /// Withdrawals that are refused: one goes back on the venue, and one is smaller than the venue's fee for that.
    async fn refunded_on_the_venue(&self) -> Result<()> {
        let cases = [(20_000_000, "refund", "N/A"), (2_500_000, "failure", "AMOUNT_TOO_LOW_TO_REFUND")];
        for (units, end, reason) in cases {
            let mut body = self.stage.withdrawal(units, &new_account().address.to_string());
            body["referrer"] = json!("debug-force-refund");
            let quote = self.quoted(&self.forcing, &body).await?;
            self.stage.withdraw(&quote).await?;
            let events = self.heard.told(request_id(&quote), &self.forcing, &["pending", end]).await?;
            ensure!(events[1].data("refundFailReason") == reason, "{:?}", events[1].json());
        }
        Ok(())
    }

    /// A fill that the venue takes and does not execute: the deposit goes back on its chain. Nothing more is promised
    /// to its recipient for a while.
    async fn refused_by_the_venue(&self) -> Result<()> {
        let (key, quote) = (&self.by.key, self.deposit().await?);
        let id = request_id(&quote);
        self.stuck(true);
        execute(self.stage.harness.chain("base"), &quote, &self.user).await?;
        self.heard.told(id, key, &["pending", "submitted"]).await?;
        self.stage.simulator.faults.update(|fault| (fault.stuck, fault.fail_sends) = (false, true));
        let events = self.heard.told(id, key, &["pending", "submitted", "refund"]).await?;
        self.stage.simulator.faults.clear();
        let reason = events[2].data("failReason");
        ensure!(reason != "N/A" && reason != "UNKNOWN", "{:?}", events[2].json());
        Ok(())
    }
}

#[tokio::test]
async fn every_path_through_the_venue_tells_exactly_its_sequence() -> Result<()> {
    let stage = Stage::isolated().await?;
    let service = stage.harness.serve().await?;
    let heard = Sequences::start().await?;
    let by = integrator(&stage.harness, 500).await?;
    let (_, forcing) = create(&stage.harness, &["--elevated", "--may-force-refund"])?;
    for key in [&by.key, &forcing] {
        listen(&stage.harness, key, &heard.url()).await?;
    }
    let user = stage.harness.chain("base").fresh_user().await?;
    let story = Story { stage, heard, by, forcing, user };
    story.paid_in().await?;
    story.fast_filled().await?;
    story.out_of_the_venue(false).await?;
    story.out_of_the_venue(true).await?;
    story.refunded_on_the_venue().await?;
    story.refused_by_the_venue().await?;
    for key in [&story.by.key, &story.forcing] {
        nothing_is_due(&story.stage.harness, key).await?;
    }
    service.stop().await?;
    story.heard.are_all()
}
