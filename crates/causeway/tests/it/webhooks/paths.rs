//! Every path of a request tells exactly its sequence, in order, and no more.

mod without_gas;

use std::sync::Mutex;

use alloy::primitives::{Address, U256, hex};
use anyhow::{Context, Result, ensure};
use causeway::config::Config;
use devnet::{Account, Chain};
use serde_json::{Value, json};

use super::{call, listen};
use crate::fast_fill::{Integrator, USDC, integrator};
use crate::harness::{
    Harness, Post, Receiver, ask, eventually, execute, found, new_account, request_id, take_away, transactions,
};
use crate::keys::create;

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;
const ARBITRUM: u64 = 42161;

/// File of addresses that get no refund.
const CUSTODIAL: &str = "custodial.txt";
/// A contract that takes nothing: it reverts without data.
const REVERTING: [u8; 3] = hex!("5f5ffd");

/// A service with a receiver, a user, and two keys: one of an integrator with a balance, one that may force refunds.
struct Story {
    harness: Harness,
    receiver: Receiver,
    by: Integrator,
    forcing: String,
    user: Account,
    recipient: Address,
    /// An exchange's address.
    custodian: Address,
    /// Requests and all that they have told.
    ends: Mutex<Vec<(String, Vec<&'static str>)>>,
}

impl Story {
    /// Tells the whole story: the service has ended afterwards, and so nothing comes after it.
    async fn told_to_the_end() -> Result<Self> {
        let harness = Harness::isolated(|config: &mut Config| {
            config.screening.custodial = Some(CUSTODIAL.into());
            let base = config.chains.iter_mut().find(|chain| chain.id == BASE).expect("the network has it");
            // Others are mined before our relays.
            base.tip_gwei = "0.0001".to_owned();
            let arbitrum = config.chains.iter_mut().find(|chain| chain.id == ARBITRUM);
            let arbitrum = arbitrum.expect("the network has it");
            // Long enough for a deposit to be taken away before it counts, however slow the machine.
            (arbitrum.confirmations, arbitrum.finality_blocks) = (40, 60);
            arbitrum.risk.lost_after_secs = 1;
        })
        .await?;
        let (user, custodian) = (harness.chain("base").fresh_user().await?, new_account().address);
        std::fs::write(harness.folder.path().join(CUSTODIAL), format!("{custodian}\n"))?;
        let service = harness.serve().await?;
        let receiver = Receiver::accepting().await?;
        let by = integrator(&harness, 500).await?;
        let (_, forcing) = create(&harness, &["--elevated", "--may-force-refund"])?;
        listen(&harness, &by.key, &receiver.url("/hooks")).await?;
        listen(&harness, &forcing, &receiver.url("/hooks")).await?;
        let recipient = new_account().address;
        let story = Self { harness, receiver, by, forcing, user, recipient, custodian, ends: Mutex::default() };
        story.run().await?;
        service.stop().await?;
        Ok(story)
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

    /// Waits until a request has told as many events, and checks that they are these, in order and signed.
    async fn told(&self, request: &str, key: &str, expected: &[&'static str]) -> Result<Vec<Post>> {
        let count = expected.len();
        eventually(&format!("{expected:?}"), || async { Ok(self.receiver.of(request).len() >= count) }).await?;
        self.ends.lock().unwrap().retain(|(id, _)| id != request);
        self.ends.lock().unwrap().push((request.to_owned(), expected.to_vec()));
        let events = self.receiver.of(request);
        check(&events, expected)?;
        ensure!(events.iter().all(|event| event.is_signed_by(key)), "{expected:?}: {events:?}");
        Ok(events)
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

    /// Sends the only step of a quote and announces it before it is in a block.
    async fn announce(&self, chain: &Chain, quote: &Value, user: &Account) -> Result<alloy::primitives::B256> {
        chain.pause_mining().await;
        let step = transactions(quote)?.remove(0);
        let hash = chain.submit_with(user.private_key, step.to, step.value, step.data, 300_000).await?;
        let hint = json!({ "chainId": chain.id.to_string(), "txHash": hash });
        ensure!(self.harness.post("/transactions/index", &hint).await?.0 == 200);
        let waiting = self.told(request_id(quote), &self.by.key, &["waiting"]).await?;
        ensure!(waiting[0].data("inTxHashes") == json!([]), "{:?}", waiting[0].json());
        chain.resume_mining().await;
        Ok(hash)
    }

    /// An ordinary transfer.
    async fn announced(&self) -> Result<Value> {
        let mut body = self.bridge();
        body["referrer"] = json!("a shop");
        let quote = self.quoted(&self.by.key, &body).await?;
        // A fill that is mined before it is noted that it was sent tells of its success at once.
        let optimism = self.harness.chain("optimism");
        optimism.pause_mining().await;
        let hash = self.announce(self.harness.chain("base"), &quote, &self.user).await?;
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

    /// A refund whose fill was sent, and failed: the recipient takes nothing any more.
    async fn refunded_after_a_fill(&self) -> Result<()> {
        let (base, optimism) = (self.harness.chain("base"), self.harness.chain("optimism"));
        let mut body = self.bridge();
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
        let known: Vec<String> = self.ends.lock().unwrap().iter().map(|(id, _)| id.clone()).collect();
        let second = execute(base, of, &self.user).await?;
        self.harness.finalise(base).await?;
        let is_child = |post: &Post| !known.contains(&post.request());
        let children = || self.receiver.posts().into_iter().filter(is_child).collect::<Vec<_>>();
        eventually("the second deposit is told", || async { Ok(children().len() >= 2) }).await?;
        let id = children()[0].request();
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
        self.ends.lock().unwrap().push((request_id(&silent).to_owned(), Vec::new()));
        Ok(())
    }

    async fn run(&self) -> Result<()> {
        self.silent().await?;
        let announced = self.announced().await?;
        self.refunded().await?;
        self.refunded_after_a_fill().await?;
        self.not_refundable().await?;
        self.deposit_lost().await?;
        self.same_chain().await?;
        self.same_chain_reverted().await?;
        self.fast_filled().await?;
        self.gasless().await?;
        self.gasless_on_one_chain().await?;
        self.relay_lost().await?;
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

/// The events of a request are these, numbered from 1.
fn check(events: &[Post], expected: &[&str]) -> Result<()> {
    let told: Vec<_> = events.iter().map(|event| (event.sequence(), event.status())).collect();
    let numbered: Vec<_> = (1u64..).map(Some).zip(expected.iter().map(|status| (*status).to_owned())).collect();
    ensure!(told == numbered, "{told:?}, and not {expected:?}");
    Ok(())
}

#[tokio::test]
async fn every_path_tells_exactly_its_sequence() -> Result<()> {
    let story = Story::told_to_the_end().await?;
    let ends = story.ends.lock().unwrap().clone();
    for (request, expected) in &ends {
        check(&story.receiver.of(request), expected)?;
    }
    let known: usize = ends.iter().map(|(_, expected)| expected.len()).sum();
    ensure!(story.receiver.count() == known, "{} posts, {known} expected", story.receiver.count());
    Ok(())
}
