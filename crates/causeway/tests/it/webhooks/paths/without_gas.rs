//! Paths of users who send no transaction to the depository: they sign, or pay at an address.

use alloy::primitives::U256;
use anyhow::{Result, ensure};
use devnet::Account;
use evm::calldata;
use serde_json::{Value, json};

use super::{BASE, Story};
use crate::deposit_addresses;
use crate::fast_fill::USDC;
use crate::gasless::{accepted, body, step};
use crate::harness::{ask, new_account, request_id};

impl Story {
    /// A signed deposit, which one of our relayers sends. Nothing is told before it is accepted.
    pub(super) async fn gasless(&self) -> Result<()> {
        let (base, optimism) = (self.harness.chain("base"), self.harness.chain("optimism"));
        let (key, user) = (&self.by.key, &self.user);
        let quote = self.quoted(key, &body(&self.harness, user.address, self.recipient, "USDC", 20)).await?;
        let id = request_id(&quote);
        base.pause_mining().await;
        optimism.pause_mining().await;
        accepted(&self.harness, step(&quote, "authorize1")?, user).await?;
        self.told(id, key, &["depositing"]).await?;
        base.resume_mining().await;
        self.told(id, key, &["depositing", "pending", "submitted"]).await?;
        optimism.resume_mining().await;
        let events = self.told(id, key, &["depositing", "pending", "submitted", "success"]).await?;
        ensure!(events[0].data("txHashes") == json!([]), "{:?}", events[0].json());
        let deposit = events[1].data("inTxHashes");
        ensure!(deposit.as_array().is_some_and(|hashes| hashes.len() == 1), "{:?}", events[1].json());
        ensure!(events[3].data("inTxHashes") == deposit, "{:?}", events[3].json());
        self.agrees(id, &events[3]).await
    }

    /// A signed swap on one chain.
    pub(super) async fn gasless_on_one_chain(&self) -> Result<()> {
        let base = self.harness.chain("base");
        let (key, user) = (&self.by.key, &self.user);
        let (usdc, weth) = (base.token("USDC").address, base.token("WETH").address);
        let mut asked = ask(user.address, self.recipient, (BASE, usdc), (BASE, weth), U256::from(50 * USDC));
        (asked["usePermit"], asked["subsidizeFees"]) = (json!(true), json!(true));
        let quote = self.quoted(key, &asked).await?;
        let id = request_id(&quote);
        accepted(&self.harness, step(&quote, "authorize2")?, user).await?;
        let events = self.told(id, key, &["depositing", "success"]).await?;
        let hashes = events[1].data("inTxHashes");
        ensure!(hashes.as_array().is_some_and(|hashes| hashes.len() == 1), "{:?}", events[1].json());
        ensure!(events[1].data("txHashes") == hashes, "{:?}", events[1].json());
        self.agrees(id, &events[1]).await
    }

    /// Relays that fail, of a deposit and of a swap on one chain: the user takes the money away while they are on their
    /// way.
    pub(super) async fn relays_lost(&self) -> Result<()> {
        let base = self.harness.chain("base");
        let (usdc, weth) = (base.token("USDC").address, base.token("WETH").address);
        let user = base.fresh_user().await?;
        let deposit = body(&self.harness, user.address, self.recipient, "USDC", 20);
        self.relay_lost(&user, &deposit, "authorize1").await?;
        let user = base.fresh_user().await?;
        let mut swap = ask(user.address, self.recipient, (BASE, usdc), (BASE, weth), U256::from(50 * USDC));
        (swap["usePermit"], swap["subsidizeFees"]) = (json!(true), json!(true));
        self.relay_lost(&user, &swap, "authorize2").await
    }

    async fn relay_lost(&self, user: &Account, asked: &Value, signs: &str) -> Result<()> {
        let (base, key) = (self.harness.chain("base"), &self.by.key);
        let usdc = base.token("USDC").address;
        let had = base.balance(usdc, user.address).await?;
        let quote = self.quoted(key, asked).await?;
        let id = request_id(&quote);
        base.pause_mining().await;
        accepted(&self.harness, step(&quote, signs)?, user).await?;
        self.told(id, key, &["depositing"]).await?;
        let taken = calldata::transfer(new_account().address, had);
        base.submit_with(user.private_key, usdc, U256::ZERO, taken, 100_000).await?;
        base.resume_mining().await;
        let events = self.told(id, key, &["depositing", "failure"]).await?;
        let reason = events[1].data("failReason");
        ensure!(reason != "N/A" && reason != "UNKNOWN", "{:?}", events[1].json());
        ensure!(events[1].data("refundFailReason") == "N/A", "{:?}", events[1].json());
        Ok(())
    }

    /// A deposit address: the request is told of when it is given out, and the transfer is not the sweep.
    pub(super) async fn paid_at_an_address(&self) -> Result<()> {
        let (base, optimism) = (self.harness.chain("base"), self.harness.chain("optimism"));
        let key = &self.by.key;
        let strict = json!({ "strict": true, "refundTo": new_account().address });
        let quote = self.quoted(key, &deposit_addresses::body(&self.harness, self.recipient, strict)).await?;
        let (id, at) = (request_id(&quote), deposit_addresses::address(&quote)?);
        let mut shown = json!({
            "address": format!("{at:#x}"),
            "depositAddressType": "strict",
            "depositor": null,
            "depositTxHash": null,
        });
        let given = self.told(id, key, &["waiting"]).await?;
        ensure!(given[0].data("depositAddress") == shown, "{:?}", given[0].json());
        ensure!(given[0].data("inTxHashes") == json!([]), "{:?}", given[0].json());
        optimism.pause_mining().await;
        let paid = deposit_addresses::pay(base, &self.user, at, 10 * USDC).await?;
        self.told(id, key, &["waiting", "pending", "submitted"]).await?;
        optimism.resume_mining().await;
        let events = self.told(id, key, &["waiting", "pending", "submitted", "success"]).await?;
        shown["depositor"] = json!(format!("{:#x}", self.user.address));
        shown["depositTxHash"] = json!(paid);
        for event in &events[1..] {
            ensure!(event.data("depositAddress") == shown, "{:?}", event.json());
            let swept = event.data("inTxHashes");
            ensure!(swept.as_array().is_some_and(|hashes| hashes.len() == 1), "{:?}", event.json());
            ensure!(swept != json!([paid]), "{:?}", event.json());
        }
        self.agrees(id, &events[3]).await
    }
}
