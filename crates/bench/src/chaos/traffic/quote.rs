//! Quotes as the users ask for them.

use alloy::primitives::U256;
use serde_json::{Value, json};

use super::{Traffic, currency};
use crate::chaos::plan::{Kind, Transfer};
use crate::chaos::{calls, permits, venue};

impl Traffic<'_> {
    pub(super) async fn quote(&self, transfer: &Transfer, amount: U256) -> Value {
        let (from, to) = (&self.devnet.chains[transfer.origin], &self.devnet.chains[transfer.destination]);
        let mut body = json!({
            "user": transfer.user.address, "recipient": transfer.recipient,
            "originChainId": from.id, "originCurrency": currency(from, transfer.from),
            "destinationChainId": to.id, "destinationCurrency": currency(to, transfer.to),
            "amount": amount.to_string(), "tradeType": "EXACT_INPUT",
        });
        if let Ok(account) = self.venue.account(transfer.index) {
            let (who, end) =
                if transfer.kind.leaves_venue() { ("user", "origin") } else { ("recipient", "destination") };
            body[who] = json!(account.index.to_string());
            body[format!("{end}ChainId")] = json!(venue::CHAIN);
            body[format!("{end}Currency")] = json!("0");
        }
        if transfer.kind.has_address() {
            body["useDepositAddress"] = json!(true);
            body["refundTo"] = json!(transfer.user.address);
        }
        if transfer.kind == Kind::StrictAddress {
            body["strict"] = json!(true);
        }
        if transfer.kind.signs_permit() {
            body["usePermit"] = json!(true);
            body["permitExpiry"] = json!(permits::EXPIRY_SECS);
        }
        if let Some(account) = self.account(transfer.index) {
            calls::ask(&mut body, transfer.kind, account);
        }
        if transfer.kind == Kind::Forced {
            body["referrer"] = json!("debug-force-refund");
        }
        if transfer.kind == Kind::Sponsored {
            body["subsidizeFees"] = json!(true);
            let stable = |symbol| ["USDC", "USDT"].contains(&symbol);
            if transfer.coin && stable(transfer.from) && stable(transfer.to) {
                body["fixedRate"] = json!("1:1");
            }
        }
        // All are quoted with the key: it may force refunds, and its webhooks tell how each request ends.
        self.api.quote(Some(&self.integrator.key), &body).await
    }
}
