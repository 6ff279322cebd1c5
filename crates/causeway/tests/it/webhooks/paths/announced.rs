//! Paths whose transaction is announced before it is in a block: each begins with `waiting`.

use alloy::primitives::{Address, U256};
use anyhow::{Result, bail, ensure};
use serde_json::json;

use super::{BASE, Story};
use crate::fast_fill::USDC;
use crate::harness::{ask, request_id, transactions};

impl Story {
    /// An integrator stands for a deposit that is on its way.
    pub(super) async fn announced_fast_fill(&self) -> Result<()> {
        let (base, optimism) = (self.harness.chain("base"), self.harness.chain("optimism"));
        let (key, quote) = (&self.by.key, self.quoted(&self.by.key, &self.bridge()).await?);
        let id = request_id(&quote);
        optimism.pause_mining().await;
        let hash = self.announce(base, &quote, &self.user).await?;
        let (code, answer) = self.by.fast_fill(&self.harness, id).await?;
        ensure!(code == 200, "{answer}");
        self.told(id, key, &["waiting", "submitted"]).await?;
        optimism.resume_mining().await;
        self.told(id, key, &["waiting", "submitted", "success"]).await?;
        base.resume_mining().await;
        let events = self.told(id, key, &["waiting", "submitted", "success", "success"]).await?;
        ensure!(events[..3].iter().all(|it| it.data("inTxHashes") == json!([])), "{events:?}");
        ensure!(events[3].data("inTxHashes") == json!([hash]), "{:?}", events[3].json());
        ensure!(events[3].data("txHashes") == events[2].data("txHashes"), "{:?}", events[3].json());
        self.agrees(id, &events[3]).await
    }

    /// A transaction of the user's own on one chain: one that succeeds, and one that reverts and is sent again.
    pub(super) async fn announced_same_chain(&self) -> Result<()> {
        let (base, key, native) = (self.harness.chain("base"), &self.by.key, Address::ZERO);
        let value = U256::from(10u64.pow(16));
        let body = ask(self.user.address, self.recipient, (BASE, native), (BASE, native), value);
        let quote = self.quoted(key, &body).await?;
        let id = request_id(&quote);
        let hash = self.announce(base, &quote, &self.user).await?;
        base.resume_mining().await;
        let events = self.told(id, key, &["waiting", "success"]).await?;
        ensure!(events[1].data("inTxHashes") == json!([hash]) && events[1].data("txHashes") == json!([hash]));
        self.agrees(id, &events[1]).await?;

        let (user, usdc) = (base.fresh_user().await?, base.token("USDC").address);
        let body = ask(user.address, user.address, (BASE, usdc), (BASE, native), U256::from(30 * USDC));
        let quote = self.quoted(key, &body).await?;
        let (id, steps) = (request_id(&quote), transactions(&quote)?);
        let [approve, swap] = &steps[..] else { bail!("an approval and a swap: {quote}") };
        let send = async || base.submit_with(user.private_key, swap.to, swap.value, swap.data.clone(), 600_000).await;
        base.pause_mining().await;
        let reverted = send().await?;
        let tx = json!({ "from": user.address, "txHash": reverted }).to_string();
        let hint = json!({ "chainId": BASE.to_string(), "requestId": id, "tx": tx });
        ensure!(self.harness.post("/transactions/single", &hint).await?.0 == 200);
        self.told(id, key, &["waiting"]).await?;
        base.resume_mining().await;
        let events = self.told(id, key, &["waiting", "failure"]).await?;
        ensure!(events[1].data("failReason") == "TRANSACTION_REVERTED", "{:?}", events[1].json());
        ensure!(events[1].data("inTxHashes") == json!([reverted]), "{:?}", events[1].json());

        base.send(user.private_key, approve.to, approve.value, approve.data.clone()).await?;
        let succeeded = send().await?;
        let events = self.told(id, key, &["waiting", "failure", "success"]).await?;
        let hashes = events[2].data("inTxHashes").as_array().cloned().unwrap_or_default();
        ensure!(hashes.contains(&json!(succeeded)), "{:?}", events[2].json());
        ensure!(events[2].data("failReason") == "N/A", "{:?}", events[2].json());
        self.agrees(id, &events[2]).await
    }
}
