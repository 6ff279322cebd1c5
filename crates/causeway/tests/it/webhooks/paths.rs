//! Every path of a request tells exactly its sequence, in order, and no more.

mod announced;
mod turns;
mod without_gas;

use alloy::primitives::{Address, B256, U256, hex};
use anyhow::{Context, Result, ensure};
use causeway::config::Config;
use causeway::service::Service;
use devnet::{Account, Chain};
use serde_json::{Value, json};

use super::sequence::Sequences;
use super::{call, listen};
use crate::deposit_addresses;
use crate::fast_fill::{Integrator, USDC, integrator};
use crate::harness::{
    Harness, Post, ask, eventually, execute, found, new_account, request_id, take_away, transactions,
};
use crate::keys::create;

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;
const ARBITRUM: u64 = 42161;

/// Blocks on Arbitrum with which a deposit counts: long enough for it to be taken away before, however slow the
/// machine.
const CONFIRMATIONS: u32 = 40;
/// File of addresses that get no refund.
const CUSTODIAL: &str = "custodial.txt";
/// A contract that takes nothing: it reverts without data.
const REVERTING: [u8; 3] = hex!("5f5ffd");

/// A service with a receiver, a user, and two keys: one of an integrator with a balance, one that may force refunds.
struct Story {
    harness: Harness,
    heard: Sequences,
    by: Integrator,
    forcing: String,
    user: Account,
    recipient: Address,
    /// An exchange's address.
    custodian: Address,
}

impl Story {
    async fn begin() -> Result<(Self, Service)> {
        let harness = Harness::isolated(|config: &mut Config| {
            config.screening.custodial = Some(CUSTODIAL.into());
            let base = config.chains.iter_mut().find(|chain| chain.id == BASE).expect("the network has it");
            // Others are mined before our relays.
            base.tip_gwei = "0.0001".to_owned();
            let arbitrum = config.chains.iter_mut().find(|chain| chain.id == ARBITRUM);
            let arbitrum = arbitrum.expect("the network has it");
            (arbitrum.confirmations, arbitrum.finality_blocks) = (CONFIRMATIONS, u64::from(CONFIRMATIONS) + 20);
            arbitrum.risk.lost_after_secs = 1;
        })
        .await?;
        let (user, custodian) = (harness.chain("base").fresh_user().await?, new_account().address);
        std::fs::write(harness.folder.path().join(CUSTODIAL), format!("{custodian}\n"))?;
        let service = harness.serve().await?;
        let heard = Sequences::start().await?;
        let by = integrator(&harness, 500).await?;
        let (_, forcing) = create(&harness, &["--elevated", "--may-force-refund"])?;
        listen(&harness, &by.key, &heard.url()).await?;
        listen(&harness, &forcing, &heard.url()).await?;
        let recipient = new_account().address;
        Ok((Self { harness, heard, by, forcing, user, recipient, custodian }, service))
    }

    /// Ends the service once nothing is left to be posted: nothing comes after that.
    async fn end(&self, service: Service) -> Result<()> {
        for key in [&self.by.key, &self.forcing] {
            super::nothing_is_due(&self.harness, key).await?;
        }
        service.stop().await?;
        self.heard.are_all()
    }

    fn bridge(&self) -> Value {
        self.bridge_from((BASE, self.user.address))
    }

    fn bridge_from(&self, (chain, user): (u64, Address)) -> Value {
        let value = U256::from(10u64.pow(16));
        ask(user, self.recipient, (chain, Address::ZERO), (OPTIMISM, Address::ZERO), value)
    }

    async fn quoted(&self, key: &str, body: &Value) -> Result<Value> {
        let (code, quote) = call(&self.harness, "POST", "/quote/v2", key, Some(body)).await?;
        ensure!(code == 200, "{quote}");
        Ok(quote)
    }

    async fn told(&self, request: &str, key: &str, expected: &[&'static str]) -> Result<Vec<Post>> {
        self.heard.told(request, key, expected).await
    }

    /// The last event says what polling says.
    async fn agrees(&self, request: &str, event: &Post) -> Result<()> {
        let (told, polled) = (event.json(), self.harness.status(request).await?);
        for member in [
            "status",
            "inTxHashes",
            "txHashes",
            "originChainId",
            "destinationChainId",
            "failReason",
            "refundFailReason",
            "details",
        ] {
            ensure!(told["data"][member] == polled[member], "{member}: {told} {polled}");
        }
        Ok(())
    }

    /// Sends the only step of a quote and announces it before it is in a block. The chain stands still from here on.
    async fn announce(&self, chain: &Chain, quote: &Value, user: &Account) -> Result<B256> {
        chain.pause_mining().await;
        let step = transactions(quote)?.remove(0);
        let hash = chain.submit_with(user.private_key, step.to, step.value, step.data, 300_000).await?;
        let hint = json!({ "chainId": chain.id.to_string(), "txHash": hash });
        ensure!(self.harness.post("/transactions/index", &hint).await?.0 == 200);
        let waiting = self.told(request_id(quote), &self.by.key, &["waiting"]).await?;
        ensure!(waiting[0].data("inTxHashes") == json!([]), "{:?}", waiting[0].json());
        Ok(hash)
    }

    /// An ordinary transfer of which nobody says anything in advance.
    async fn ordinary(&self) -> Result<()> {
        let optimism = self.harness.chain("optimism");
        let (key, quote) = (&self.by.key, self.quoted(&self.by.key, &self.bridge()).await?);
        let id = request_id(&quote);
        optimism.pause_mining().await;
        let hash = execute(self.harness.chain("base"), &quote, &self.user).await?;
        self.told(id, key, &["pending", "submitted"]).await?;
        optimism.resume_mining().await;
        let events = self.told(id, key, &["pending", "submitted", "success"]).await?;
        ensure!(events.iter().all(|it| it.data("inTxHashes") == json!([hash])), "{events:?}");
        self.agrees(id, &events[2]).await
    }

    /// Quotes that nobody pays: one without a trace, and one that has given out an address.
    async fn never_paid(&self) -> Result<()> {
        let quote = self.quoted(&self.by.key, &self.bridge()).await?;
        self.heard.silent(request_id(&quote));
        let strict = json!({ "strict": true, "refundTo": new_account().address });
        let asked = deposit_addresses::body(&self.harness, self.recipient, strict);
        let quote = self.quoted(&self.by.key, &asked).await?;
        self.told(request_id(&quote), &self.by.key, &["waiting"]).await.map(drop)
    }

    /// An ordinary transfer that is announced.
    async fn announced(&self) -> Result<Value> {
        let mut body = self.bridge();
        body["referrer"] = json!("a shop");
        let quote = self.quoted(&self.by.key, &body).await?;
        // A fill that is mined before it is noted that it was sent tells of its success at once.
        let optimism = self.harness.chain("optimism");
        optimism.pause_mining().await;
        let base = self.harness.chain("base");
        let hash = self.announce(base, &quote, &self.user).await?;
        base.resume_mining().await;
        self.told(request_id(&quote), &self.by.key, &["waiting", "pending", "submitted"]).await?;
        optimism.resume_mining().await;
        let path = ["waiting", "pending", "submitted", "success"];
        let events = self.told(request_id(&quote), &self.by.key, &path).await?;
        ensure!(events[1].data("inTxHashes") == json!([hash]) && events[1].data("txHashes") == json!([]));
        ensure!(events[2].data("txHashes").as_array().is_some_and(|hashes| hashes.len() == 1));
        ensure!(events.iter().all(|it| it.data("referrer") == "a shop" && it.data("failReason") == "N/A"));
        self.agrees(request_id(&quote), &events[3]).await?;
        Ok(quote)
    }

    /// A deposit that is refused before a fill is tried.
    async fn refunded(&self) -> Result<()> {
        let mut body = self.bridge();
        body["referrer"] = json!("debug-force-refund");
        let quote = self.quoted(&self.forcing, &body).await?;
        execute(self.harness.chain("base"), &quote, &self.user).await?;
        let events = self.told(request_id(&quote), &self.forcing, &["pending", "refund"]).await?;
        ensure!(events[1].data("failReason") == "MANUAL_ADMIN_REFUND", "{:?}", events[1].json());
        self.agrees(request_id(&quote), &events[1]).await
    }

    /// Pays for a fill whose recipient takes nothing any more by the time it is mined. Returns the quote.
    async fn fill_reverts(&self, mut body: Value) -> Result<Value> {
        let (base, optimism) = (self.harness.chain("base"), self.harness.chain("optimism"));
        let recipient = new_account().address;
        body["recipient"] = json!(recipient);
        let quote = self.quoted(&self.by.key, &body).await?;
        optimism.pause_mining().await;
        execute(base, &quote, &self.user).await?;
        self.told(request_id(&quote), &self.by.key, &["pending", "submitted"]).await?;
        optimism.set_code(recipient, REVERTING.to_vec().into()).await?;
        optimism.mine(1).await?;
        optimism.resume_mining().await;
        self.harness.finalise(optimism).await?;
        Ok(quote)
    }

    /// A refund whose fill was sent, and failed.
    async fn refunded_after_a_fill(&self) -> Result<()> {
        let quote = self.fill_reverts(self.bridge()).await?;
        let path = ["pending", "submitted", "refund"];
        let events = self.told(request_id(&quote), &self.by.key, &path).await?;
        let reason = events[2].data("failReason");
        ensure!(reason != "N/A" && reason != "UNKNOWN", "{:?}", events[2].json());
        ensure!(events[2].data("refundFailReason") == "N/A", "{:?}", events[2].json());
        Ok(())
    }

    /// A refund that nobody can be paid: it would go to an exchange.
    async fn not_refundable(&self) -> Result<()> {
        let mut body = self.bridge();
        body["referrer"] = json!("debug-force-refund");
        body["refundTo"] = json!(self.custodian);
        let quote = self.quoted(&self.forcing, &body).await?;
        let hash = execute(self.harness.chain("base"), &quote, &self.user).await?;
        let events = self.told(request_id(&quote), &self.forcing, &["pending", "failure"]).await?;
        ensure!(events[0].data("refundFailReason") == "N/A", "{:?}", events[0].json());
        ensure!(events[1].data("refundFailReason") == "REFUND_RECIPIENT_IS_VASP", "{:?}", events[1].json());
        ensure!(events[1].data("inTxHashes") == json!([hash]), "{:?}", events[1].json());
        self.agrees(request_id(&quote), &events[1]).await
    }

    /// A deposit that is announced and seen, and that a reorg takes away for good.
    async fn deposit_lost(&self) -> Result<()> {
        let arbitrum = self.harness.chain("arbitrum");
        let user = arbitrum.fresh_user().await?;
        // Its funds lie deeper than the reorg.
        arbitrum.mine(2).await?;
        let quote = self.quoted(&self.by.key, &self.bridge_from((ARBITRUM, user.address))).await?;
        let hash = self.announce(arbitrum, &quote, &user).await?;
        arbitrum.resume_mining().await;
        arbitrum.receipt(hash).await?;
        arbitrum.pause_mining().await;
        eventually("the deposit is seen", || async {
            Ok(self.harness.trace(request_id(&quote)).await?["deposits"][0]["state"] == "seen")
        })
        .await?;
        take_away(arbitrum, hash).await?;
        let events = self.told(request_id(&quote), &self.by.key, &["waiting", "failure"]).await?;
        ensure!(events[1].data("failReason") == "DEPOSIT_REORGED", "{:?}", events[1].json());
        self.agrees(request_id(&quote), &events[1]).await
    }

    /// A transaction of the user's own on one chain.
    async fn same_chain(&self) -> Result<()> {
        let (value, native) = (U256::from(10u64.pow(16)), Address::ZERO);
        let body = ask(self.user.address, self.recipient, (BASE, native), (BASE, native), value);
        let quote = self.quoted(&self.by.key, &body).await?;
        let hash = execute(self.harness.chain("base"), &quote, &self.user).await?;
        let events = self.told(request_id(&quote), &self.by.key, &["success"]).await?;
        ensure!(events[0].data("inTxHashes") == json!([hash]) && events[0].data("txHashes") == json!([hash]));
        Ok(())
    }

    /// The same, which reverts: its approval was never sent.
    async fn same_chain_reverted(&self) -> Result<()> {
        let base = self.harness.chain("base");
        let usdc = base.token("USDC").address;
        let (user, amount) = (self.user.address, U256::from(30 * USDC));
        let body = ask(user, user, (BASE, usdc), (BASE, Address::ZERO), amount);
        let quote = self.quoted(&self.by.key, &body).await?;
        let swap = transactions(&quote)?.pop().context("a step")?;
        let hash = base.submit_with(self.user.private_key, swap.to, swap.value, swap.data, 600_000).await?;
        let events = self.told(request_id(&quote), &self.by.key, &["failure"]).await?;
        ensure!(events[0].data("failReason") == "TRANSACTION_REVERTED", "{:?}", events[0].json());
        ensure!(events[0].data("inTxHashes") == json!([hash]), "{:?}", events[0].json());
        Ok(())
    }

    /// A fast fill tells one more success when its deposit has a hash.
    async fn fast_filled(&self) -> Result<()> {
        let (harness, key) = (&self.harness, &self.by.key);
        let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
        let (here, there) = (base.token("USDC").address, optimism.token("USDC").address);
        let amount = U256::from(100 * USDC);
        let body = ask(self.user.address, self.recipient, (BASE, here), (OPTIMISM, there), amount);
        let quote = self.quoted(key, &body).await?;
        optimism.pause_mining().await;
        let (code, answer) = self.by.fast_fill(harness, request_id(&quote)).await?;
        ensure!(code == 200, "{answer}");
        self.told(request_id(&quote), key, &["submitted"]).await?;
        optimism.resume_mining().await;
        self.told(request_id(&quote), key, &["submitted", "success"]).await?;
        let hash = execute(base, &quote, &self.user).await?;
        let path = ["submitted", "success", "success"];
        let events = self.told(request_id(&quote), key, &path).await?;
        ensure!(events[1].data("inTxHashes") == json!([]), "{:?}", events[1].json());
        ensure!(events[2].data("inTxHashes") == json!([hash]), "{:?}", events[2].json());
        self.agrees(request_id(&quote), &events[2]).await
    }

    /// A second deposit is a request of its own, which goes back once it is final.
    async fn second_deposit(&self, of: &Value) -> Result<()> {
        let base = self.harness.chain("base");
        let second = execute(base, of, &self.user).await?;
        self.harness.finalise(base).await?;
        let id = self.heard.another().await?;
        let events = self.told(&id, &self.by.key, &["pending", "refund"]).await?;
        ensure!(events[0].data("inTxHashes") == json!([second]), "{:?}", events[0].json());
        ensure!(events[1].data("failReason") == "DOUBLE_SPEND", "{:?}", events[1].json());
        Ok(())
    }

    /// A request without a key tells nobody.
    async fn silent(&self) -> Result<()> {
        let silent = self.harness.quote(&self.bridge()).await?;
        execute(self.harness.chain("base"), &silent, &self.user).await?;
        self.harness.wait_for(request_id(&silent), "success").await?;
        self.heard.silent(request_id(&silent));
        Ok(())
    }

    async fn run(&self) -> Result<()> {
        self.silent().await?;
        self.never_paid().await?;
        self.ordinary().await?;
        let announced = self.announced().await?;
        self.announced_fast_fill().await?;
        self.announced_same_chain().await?;
        self.refunded().await?;
        self.refunded_after_a_fill().await?;
        self.not_refundable().await?;
        self.deposit_lost().await?;
        self.same_chain().await?;
        self.same_chain_reverted().await?;
        self.fast_filled().await?;
        self.gasless().await?;
        self.gasless_on_one_chain().await?;
        self.relays_lost().await?;
        self.paid_at_an_address().await?;
        self.second_deposit(&announced).await?;
        self.logged(request_id(&announced)).await
    }

    /// All of it is in the log of its key, and of no other.
    async fn logged(&self, request: &str) -> Result<()> {
        let path = format!("/webhooks/deliveries?requestId={request}&state=delivered");
        // A post is recorded once it was answered.
        let log = found("every delivery is recorded", || async {
            let (code, log) = call(&self.harness, "GET", &path, &self.by.key, None).await?;
            let deliveries = log["deliveries"].as_array().context("deliveries")?;
            let told: Vec<_> = deliveries.iter().map(|it| &it["status"]).collect();
            let whole = code == 200 && told == ["success", "submitted", "pending", "waiting"];
            Ok(whole.then_some(log))
        })
        .await?;
        ensure!(log["deliveries"][0]["attempts"][0]["code"] == 204, "{log}");
        let (_, others) = call(&self.harness, "GET", &path, &self.forcing, None).await?;
        ensure!(others["deliveries"] == json!([]), "{others}");
        Ok(())
    }
}

#[tokio::test]
async fn every_path_tells_exactly_its_sequence() -> Result<()> {
    let (story, service) = Story::begin().await?;
    story.run().await?;
    story.end(service).await
}

#[tokio::test]
async fn every_path_that_turns_tells_exactly_its_sequence() -> Result<()> {
    let (story, service) = Story::begin().await?;
    story.turn().await?;
    story.end(service).await
}
