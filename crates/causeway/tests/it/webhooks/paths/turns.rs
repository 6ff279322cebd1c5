//! Paths that turn: fills and refunds that fail, deposits that a reorg takes back, and a person who decides.

use alloy::primitives::{Bytes, U256};
use anyhow::{Result, ensure};
use causeway::local::OPERATOR_TOKEN;
use serde_json::{Value, json};

use super::{ARBITRUM, BASE, CONFIRMATIONS, OPTIMISM, REVERTING, Story};
use crate::deposit_addresses;
use crate::fast_fill::USDC;
use crate::gasless;
use crate::harness::{ask, creeping, eventually, execute, new_account, request_id, take_away};

impl Story {
    pub(super) async fn turn(&self) -> Result<()> {
        self.not_refundable_after_a_fill().await?;
        self.refund_tried_again().await?;
        self.deposit_taken_back().await?;
        self.fast_fill_given_up().await?;
        self.refunded_by_a_person().await?;
        self.gasless_refunded().await?;
        self.refunded_from_an_address().await?;
        self.paid_otherwise_at_an_address().await
    }

    /// A fill that fails, and a deposit that can go back to nobody: it would go to an exchange.
    async fn not_refundable_after_a_fill(&self) -> Result<()> {
        let mut body = self.bridge();
        body["refundTo"] = json!(self.custodian);
        let quote = self.fill_reverts(body).await?;
        let id = request_id(&quote);
        let events = self.told(id, &self.by.key, &["pending", "submitted", "failure"]).await?;
        let reason = events[2].data("failReason");
        ensure!(reason != "N/A" && reason != "UNKNOWN", "{:?}", events[2].json());
        ensure!(events[1].data("refundFailReason") == "N/A", "{:?}", events[1].json());
        ensure!(events[2].data("refundFailReason") == "REFUND_RECIPIENT_IS_VASP", "{:?}", events[2].json());
        Ok(())
    }

    /// A refund that its recipient refuses at first: it is tried again, and nothing is told of that.
    async fn refund_tried_again(&self) -> Result<()> {
        let arbitrum = self.harness.chain("arbitrum");
        let (user, refund_to) = (arbitrum.fresh_user().await?, new_account().address);
        arbitrum.set_code(refund_to, REVERTING.to_vec().into()).await?;
        let mut body = self.bridge_from((ARBITRUM, user.address));
        (body["referrer"], body["refundTo"]) = (json!("debug-force-refund"), json!(refund_to));
        let quote = self.quoted(&self.forcing, &body).await?;
        let (id, key) = (request_id(&quote), &self.forcing);
        execute(arbitrum, &quote, &user).await?;
        arbitrum.mine(u64::from(CONFIRMATIONS) + 1).await?;
        self.told(id, key, &["pending"]).await?;
        eventually("the refund fails", || async {
            let trace = self.harness.trace(id).await?;
            let failed = |it: &Value| it["purpose"] == "refund" && it["state"] == "reverted";
            Ok(trace["payments"].as_array().is_some_and(|payments| payments.iter().any(failed)))
        })
        .await?;
        arbitrum.set_code(refund_to, Bytes::new()).await?;
        self.harness.finalise(arbitrum).await?;
        let events = self.told(id, key, &["pending", "refund"]).await?;
        ensure!(events[1].data("failReason") == "MANUAL_ADMIN_REFUND", "{:?}", events[1].json());
        ensure!(events[1].data("refundFailReason") == "N/A", "{:?}", events[1].json());
        self.agrees(id, &events[1]).await
    }

    /// Takes the treasury's USDC on Optimism away, and returns how much it was.
    async fn empty_treasury(&self) -> Result<U256> {
        let optimism = self.harness.chain("optimism");
        let (usdc, treasury) = (optimism.token("USDC").address, self.harness.treasury.address);
        let had = optimism.balance(usdc, treasury).await?;
        optimism.set_token_balance(usdc, treasury, U256::ZERO).await?;
        Ok(had)
    }

    async fn fill_treasury(&self, amount: U256) -> Result<()> {
        let optimism = self.harness.chain("optimism");
        optimism.set_token_balance(optimism.token("USDC").address, self.harness.treasury.address, amount).await?;
        self.harness.knows_holdings(optimism, "USDC").await
    }

    /// A deposit that counts, that a reorg takes away while there are no funds to fill it, and that stays away.
    async fn deposit_taken_back(&self) -> Result<()> {
        let (arbitrum, optimism) = (self.harness.chain("arbitrum"), self.harness.chain("optimism"));
        let (here, there) = (arbitrum.token("USDC").address, optimism.token("USDC").address);
        let user = arbitrum.fresh_user().await?;
        // Its funds lie deeper than the reorg.
        arbitrum.mine(2).await?;
        let body = ask(user.address, self.recipient, (ARBITRUM, here), (OPTIMISM, there), U256::from(20 * USDC));
        let (key, quote) = (&self.by.key, self.quoted(&self.by.key, &body).await?);
        let id = request_id(&quote);
        let had = self.empty_treasury().await?;
        self.harness.knows_holdings(optimism, "USDC").await?;
        let hash = execute(arbitrum, &quote, &user).await?;
        arbitrum.pause_mining().await;
        arbitrum.mine(u64::from(CONFIRMATIONS) + 1).await?;
        let pending = creeping(arbitrum, self.told(id, key, &["pending"])).await?;
        ensure!(pending[0].data("inTxHashes") == json!([hash]), "{:?}", pending[0].json());
        take_away(arbitrum, hash).await?;
        let events = self.told(id, key, &["pending", "waiting", "failure"]).await?;
        ensure!(events[1].data("inTxHashes") == json!([]), "{:?}", events[1].json());
        ensure!(events[2].data("failReason") == "DEPOSIT_REORGED", "{:?}", events[2].json());
        self.agrees(id, &events[2]).await?;
        self.fill_treasury(had).await
    }

    /// A fast fill that fails: the request waits for its deposit again, which pays for an ordinary fill.
    async fn fast_fill_given_up(&self) -> Result<()> {
        let (base, optimism) = (self.harness.chain("base"), self.harness.chain("optimism"));
        let (here, there) = (base.token("USDC").address, optimism.token("USDC").address);
        let amount = U256::from(100 * USDC);
        let body = ask(self.user.address, self.recipient, (BASE, here), (OPTIMISM, there), amount);
        let (key, quote) = (&self.by.key, self.quoted(&self.by.key, &body).await?);
        let id = request_id(&quote);
        optimism.pause_mining().await;
        let (code, answer) = self.by.fast_fill(&self.harness, id).await?;
        ensure!(code == 200, "{answer}");
        self.told(id, key, &["submitted"]).await?;
        let had = self.empty_treasury().await?;
        optimism.mine(1).await?;
        optimism.resume_mining().await;
        self.harness.finalise(optimism).await?;
        self.told(id, key, &["submitted", "waiting"]).await?;
        self.fill_treasury(had).await?;
        optimism.pause_mining().await;
        let hash = execute(base, &quote, &self.user).await?;
        self.told(id, key, &["submitted", "waiting", "pending", "submitted"]).await?;
        optimism.resume_mining().await;
        let path = ["submitted", "waiting", "pending", "submitted", "success"];
        let events = self.told(id, key, &path).await?;
        ensure!(events.iter().all(|it| it.data("failReason") == "N/A"), "{events:?}");
        ensure!(events[4].data("inTxHashes") == json!([hash]), "{:?}", events[4].json());
        self.agrees(id, &events[4]).await
    }

    /// A deposit at an address that names nobody for a refund: its fill fails, and so does the request, until a person
    /// sends it to the recovery address.
    async fn refunded_by_a_person(&self) -> Result<()> {
        let (base, optimism, key) = (self.harness.chain("base"), self.harness.chain("optimism"), &self.by.key);
        let recovery = json!({ "recoveryAddress": new_account().address });
        let asked = deposit_addresses::body(&self.harness, new_account().address, recovery);
        let quote = self.quoted(key, &asked).await?;
        let (id, at) = (request_id(&quote), deposit_addresses::address(&quote)?);
        self.told(id, key, &["waiting"]).await?;
        optimism.pause_mining().await;
        deposit_addresses::pay(base, &self.user, at, 10 * USDC).await?;
        self.told(id, key, &["waiting", "pending", "submitted"]).await?;
        let had = self.empty_treasury().await?;
        optimism.mine(1).await?;
        optimism.resume_mining().await;
        self.harness.finalise(optimism).await?;
        let failed = self.told(id, key, &["waiting", "pending", "submitted", "failure"]).await?;
        ensure!(failed[3].data("refundFailReason") == "N/A", "{:?}", failed[3].json());
        self.fill_treasury(had).await?;

        let decision = json!({ "requestId": id, "by": "alice", "reason": "the user asked" });
        let call = self.harness.client.post(self.harness.url("/operator/refunds"));
        let (code, answer) = self.harness.served(call.bearer_auth(OPERATOR_TOKEN).json(&decision)).await?;
        ensure!(code == 200, "{answer}");
        let path = ["waiting", "pending", "submitted", "failure", "pending", "refund"];
        let events = self.told(id, key, &path).await?;
        ensure!(events[4].data("failReason") == "N/A", "{:?}", events[4].json());
        ensure!(events[5].data("failReason") == "MANUAL_ADMIN_REFUND", "{:?}", events[5].json());
        self.agrees(id, &events[5]).await
    }

    /// A signed deposit that is refused.
    async fn gasless_refunded(&self) -> Result<()> {
        let (key, user) = (&self.forcing, self.harness.chain("base").fresh_user().await?);
        let mut asked = gasless::body(&self.harness, user.address, self.recipient, "USDC", 20);
        asked["referrer"] = json!("debug-force-refund");
        let quote = self.quoted(key, &asked).await?;
        let id = request_id(&quote);
        gasless::accepted(&self.harness, gasless::step(&quote, "authorize1")?, &user).await?;
        let events = self.told(id, key, &["depositing", "pending", "refund"]).await?;
        ensure!(events[2].data("failReason") == "MANUAL_ADMIN_REFUND", "{:?}", events[2].json());
        self.agrees(id, &events[2]).await
    }

    /// Money at an address that is refused.
    async fn refunded_from_an_address(&self) -> Result<()> {
        let (base, key) = (self.harness.chain("base"), &self.forcing);
        let strict = json!({ "strict": true, "refundTo": new_account().address, "referrer": "debug-force-refund" });
        let quote = self.quoted(key, &deposit_addresses::body(&self.harness, self.recipient, strict)).await?;
        let (id, at) = (request_id(&quote), deposit_addresses::address(&quote)?);
        self.told(id, key, &["waiting"]).await?;
        deposit_addresses::pay(base, &self.user, at, 10 * USDC).await?;
        let events = self.told(id, key, &["waiting", "pending", "refund"]).await?;
        ensure!(events[2].data("failReason") == "MANUAL_ADMIN_REFUND", "{:?}", events[2].json());
        self.agrees(id, &events[2]).await
    }

    /// Another amount at an open address is a request of its own; the one that was quoted goes on waiting.
    async fn paid_otherwise_at_an_address(&self) -> Result<()> {
        let (base, optimism, key) = (self.harness.chain("base"), self.harness.chain("optimism"), &self.by.key);
        let open = json!({ "refundTo": new_account().address });
        let quote = self.quoted(key, &deposit_addresses::body(&self.harness, self.recipient, open)).await?;
        let at = deposit_addresses::address(&quote)?;
        self.told(request_id(&quote), key, &["waiting"]).await?;
        optimism.pause_mining().await;
        deposit_addresses::pay(base, &self.user, at, 25 * USDC).await?;
        let id = self.heard.another().await?;
        self.told(&id, key, &["waiting", "pending", "submitted"]).await?;
        optimism.resume_mining().await;
        let events = self.told(&id, key, &["waiting", "pending", "submitted", "success"]).await?;
        let shown = events[3].data("depositAddress");
        ensure!(shown["address"] == format!("{at:#x}"), "{shown}");
        self.agrees(&id, &events[3]).await
    }
}
