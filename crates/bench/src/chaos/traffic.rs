//! The users: they request quotes, sign, send, and resend transactions that a chain dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes, U256, keccak256};
use anyhow::{Context, Result};
use devnet::{Account, Chain, Devnet, Rng};
use domain::api_key::KeyText;
use domain::ids::OrderId;
use evm::account_tag::tag;
use evm::calldata;
use serde_json::{Value, json};

use super::plan::{Kind, Transfer};

/// Enough gas for an approval and for every kind of deposit.
const GAS_LIMIT: u64 = 300_000;
/// Pause between two attempts to get a quote from a service that may be dead.
const RETRY: Duration = Duration::from_millis(150);
/// Attempts at a fast fill before its user pays all the same.
const TRIES: u32 = 20;
/// Wei that nobody would send back.
const CRUMB: u64 = 1_000;
/// In USDC: more than the total of sponsored fees and fast fills.
const BALANCE: u64 = 1_000_000;

/// The integrator that sponsors and fast-fills: an API key, and the wallet linked to it.
#[derive(Debug)]
pub(crate) struct Integrator {
    pub key: KeyText,
    pub wallet: Account,
}

/// A quoted order.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub request: String,
    pub id: B256,
    /// The recipient's minimum, and the quoted amount.
    pub minimum: U256,
    pub quoted: U256,
}

/// A deposit into a depository.
#[derive(Clone, Debug)]
pub(crate) struct Deposit {
    pub transfer: usize,
    pub chain: usize,
    pub tx: B256,
    pub id: B256,
    pub depositor: Address,
    pub currency: Address,
    pub amount: U256,
    /// It can pay for its order, or be refunded as the order's own.
    pub qualifies: bool,
    /// Returning it would cost more than its value.
    pub worthless: bool,
}

/// A signed transaction of a user.
#[derive(Clone, Debug)]
pub(crate) struct Signed {
    pub chain: usize,
    pub from: Address,
    pub nonce: u64,
    pub raw: Bytes,
}

#[derive(Debug, Default)]
struct Done {
    /// Quotes received before the first fault.
    quotes: BTreeMap<usize, Value>,
    orders: BTreeMap<usize, Order>,
    deposits: Vec<Deposit>,
    signed: BTreeMap<B256, Signed>,
    /// Transactions that a reorg dropped and their users did not resend.
    abandoned: BTreeSet<B256>,
    /// Fast fills that were accepted.
    ahead: usize,
    /// Users who have sent everything.
    through: usize,
}

/// The users' activity so far.
#[derive(Debug)]
pub(crate) struct Traffic<'a> {
    pub devnet: &'a Devnet,
    pub base_url: String,
    integrator: &'a Integrator,
    users: usize,
    client: reqwest::Client,
    done: Mutex<Done>,
}

impl<'a> Traffic<'a> {
    pub(crate) fn new(devnet: &'a Devnet, base_url: String, integrator: &'a Integrator, users: usize) -> Result<Self> {
        let client = devnet::http::client().timeout(Duration::from_secs(10)).build()?;
        Ok(Self { devnet, base_url, integrator, users, client, done: Mutex::default() })
    }

    fn done(&self) -> std::sync::MutexGuard<'_, Done> {
        self.done.lock().expect("nothing panics while holding it")
    }

    pub(crate) fn order(&self, transfer: usize) -> Option<Order> {
        self.done().orders.get(&transfer).cloned()
    }

    pub(crate) fn deposits(&self) -> Vec<Deposit> {
        self.done().deposits.clone()
    }

    pub(crate) fn signed(&self) -> Vec<(B256, Signed)> {
        self.done().signed.iter().map(|(hash, signed)| (*hash, signed.clone())).collect()
    }

    pub(crate) fn is_abandoned(&self, tx: B256) -> bool {
        self.done().abandoned.contains(&tx)
    }

    /// The number of accepted fast fills.
    pub(crate) fn ahead(&self) -> usize {
        self.done().ahead
    }

    /// True if every user has sent everything.
    pub(crate) fn is_through(&self) -> bool {
        self.done().through >= self.users
    }

    pub(crate) async fn get(&self, path: &str) -> Result<(u16, Value)> {
        let response = self.client.get(format!("{}{path}", self.base_url)).send().await?;
        Ok((response.status().as_u16(), response.json().await?))
    }

    /// Funds the users. It runs before any reorg, which would remove the funds.
    pub(crate) async fn fund(&self, transfers: &[Transfer]) -> Result<()> {
        for transfer in transfers {
            let chain = &self.devnet.chains[transfer.origin];
            for who in [transfer.user.address, transfer.stranger.address] {
                chain.set_balance(who, U256::from(10u64).pow(U256::from(18))).await?;
                for symbol in BTreeSet::from([transfer.from, transfer.mistaken]).into_iter().filter(|it| *it != "ETH") {
                    let token = chain.token(symbol);
                    let plenty = U256::from(1_000u64) * U256::from(10u64).pow(U256::from(token.decimals));
                    chain.set_token_balance(token.address, who, plenty).await?;
                }
            }
        }
        let (chain, wallet) = (self.devnet.chain(domain::ledger::CHAIN), &self.integrator.wallet);
        let usdc = chain.token("USDC");
        let balance = U256::from(BALANCE) * U256::from(10u64).pow(U256::from(usdc.decimals));
        chain.set_token_balance(usdc.address, wallet.address, balance).await?;
        let transfer = calldata::erc20_fill(self.devnet.keys.treasury.address, balance, tag(wallet.address));
        chain.send(wallet.private_key, usdc.address, U256::ZERO, transfer).await?;
        Ok(())
    }

    /// True if the integrator's balance is credited.
    pub(crate) async fn is_funded(&self) -> bool {
        let answer = self.get(&format!("/app-fees/{:#x}/balances", self.integrator.wallet.address)).await;
        answer.is_ok_and(|(_, body)| body["amount"].as_str().is_some_and(|amount| amount != "0"))
    }

    /// Requests a quote before the first fault: half of the users do.
    pub(crate) async fn ask_early(&self, transfer: &Transfer) -> Result<()> {
        if transfer.early && transfer.kind != Kind::Orphan {
            let quote = self.quote(transfer, self.amount(transfer)).await?;
            self.done().quotes.insert(transfer.index, quote);
        }
        Ok(())
    }

    /// One transfer from the quote to the last transaction of its user.
    pub(crate) async fn run(&self, transfer: &Transfer) -> Result<()> {
        tokio::time::sleep(transfer.at).await;
        let done = self.transfer(transfer).await;
        self.done().through += 1;
        done
    }

    async fn transfer(&self, transfer: &Transfer) -> Result<()> {
        let chain = &self.devnet.chains[transfer.origin];
        let (user, stranger) = (&transfer.user, &transfer.stranger);
        let amount = self.amount(transfer);
        if transfer.kind == Kind::Orphan {
            return self.pay(transfer, user, 0, (transfer.from, amount), transfer.word, false).await;
        }
        let early = self.done().quotes.remove(&transfer.index);
        let quote = match early {
            Some(quote) => quote,
            None => self.quote(transfer, amount).await?,
        };
        let order = order(&quote)?;
        self.done().orders.insert(transfer.index, order.clone());
        let small = self.small(transfer);
        let third = amount / U256::from(3);
        match transfer.kind {
            Kind::Fill | Kind::Forced | Kind::Sponsored => self.follow(transfer, &quote, order.id, amount).await,
            Kind::Ahead => {
                self.fill_ahead(&order.request).await;
                self.follow(transfer, &quote, order.id, amount).await
            }
            Kind::Short => self.pay(transfer, user, 0, (transfer.from, third), order.id, true).await,
            Kind::Double => {
                self.follow(transfer, &quote, order.id, amount).await?;
                let nonce = steps(&quote)?.len() as u64;
                self.pay(transfer, user, nonce, (transfer.from, amount), order.id, true).await
            }
            Kind::Dust => {
                let dust = self.pay(transfer, stranger, 0, (transfer.from, small), order.id, false);
                let paid = self.follow(transfer, &quote, order.id, amount);
                // Either may come first.
                let (dust, paid) = tokio::join!(dust, paid);
                dust.and(paid)
            }
            Kind::WrongCurrency => {
                let wrong = units(chain, transfer.mistaken, transfer.size);
                let nonce = if transfer.coin { steps(&quote)?.len() as u64 } else { 0 };
                if transfer.coin {
                    self.follow(transfer, &quote, order.id, amount).await?;
                }
                self.pay(transfer, user, nonce, (transfer.mistaken, wrong), order.id, false).await
            }
            Kind::Orphan => Ok(()),
        }
    }

    fn amount(&self, transfer: &Transfer) -> U256 {
        units(&self.devnet.chains[transfer.origin], transfer.from, transfer.size)
    }

    /// Too little to be returned, or just enough.
    fn small(&self, transfer: &Transfer) -> U256 {
        match (transfer.coin, transfer.from) {
            (true, "ETH") => U256::from(CRUMB),
            (true, _) => U256::ONE,
            (false, _) => self.amount(transfer) / U256::from(4),
        }
    }

    /// Asks until there is a quote: the service may be restarting, or not know a chain's market yet.
    async fn quote(&self, transfer: &Transfer, amount: U256) -> Result<Value> {
        let (from, to) = (&self.devnet.chains[transfer.origin], &self.devnet.chains[transfer.destination]);
        let mut body = json!({
            "user": transfer.user.address, "recipient": transfer.recipient,
            "originChainId": from.id, "originCurrency": currency(from, transfer.from),
            "destinationChainId": to.id, "destinationCurrency": currency(to, transfer.to),
            "amount": amount.to_string(), "tradeType": "EXACT_INPUT",
        });
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
        let by_integrator = matches!(transfer.kind, Kind::Sponsored | Kind::Ahead);
        loop {
            let mut call = self.client.post(format!("{}/quote/v2", self.base_url));
            if by_integrator {
                call = call.header("x-api-key", self.integrator.key.expose());
            }
            let asked = call.json(&body).send().await;
            if let Ok(answer) = asked
                && answer.status().is_success()
                && let Ok(quote) = answer.json().await
            {
                return Ok(quote);
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Asks until there is any answer.
    async fn fill_ahead(&self, request: &str) {
        for _ in 0..TRIES {
            let call = self.client.post(format!("{}/fast-fill", self.base_url)).json(&json!({ "requestId": request }));
            match call.header("x-api-key", self.integrator.key.expose()).send().await {
                Ok(answer) if !answer.status().is_server_error() => {
                    self.done().ahead += usize::from(answer.status().is_success());
                    return;
                }
                Ok(_) | Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    /// Follows the steps of the quote. The last one is the deposit.
    async fn follow(&self, transfer: &Transfer, quote: &Value, id: B256, amount: U256) -> Result<()> {
        let calls = steps(quote)?;
        let last = calls.len() - 1;
        for (nonce, call) in (0..).zip(calls) {
            let tx = self.sign(transfer, &transfer.user, nonce, call)?;
            if nonce == last as u64 {
                let what = (transfer.from, amount);
                self.expect(transfer, &transfer.user, tx, what, id, true);
            }
            self.send(tx).await;
        }
        Ok(())
    }

    /// Pays into the depository without following the steps.
    async fn pay(
        &self,
        transfer: &Transfer,
        from: &Account,
        nonce: u64,
        what: (&str, U256),
        id: B256,
        qualifies: bool,
    ) -> Result<()> {
        let chain = &self.devnet.chains[transfer.origin];
        let (depository, order) = (chain.contracts.depository, OrderId(id));
        let call = match what.0 {
            "ETH" => (depository, what.1, calldata::deposit_native(from.address, order)),
            token => (chain.token(token).address, U256::ZERO, calldata::implicit_deposit(depository, what.1, order)),
        };
        let tx = self.sign(transfer, from, nonce, call)?;
        self.expect(transfer, from, tx, what, id, qualifies);
        self.send(tx).await;
        Ok(())
    }

    fn sign(&self, transfer: &Transfer, from: &Account, nonce: u64, call: (Address, U256, Bytes)) -> Result<B256> {
        let raw = self.devnet.chains[transfer.origin].sign(from, nonce, call, GAS_LIMIT)?;
        let hash = keccak256(&raw);
        let signed = Signed { chain: transfer.origin, from: from.address, nonce, raw };
        self.done().signed.insert(hash, signed);
        Ok(hash)
    }

    fn expect(&self, transfer: &Transfer, from: &Account, tx: B256, what: (&str, U256), id: B256, qualifies: bool) {
        let currency = currency(&self.devnet.chains[transfer.origin], what.0);
        let worthless = what.1 <= if currency.is_zero() { U256::from(CRUMB) } else { U256::ONE };
        self.done().deposits.push(Deposit {
            transfer: transfer.index,
            chain: transfer.origin,
            tx,
            id,
            depositor: from.address,
            currency,
            amount: what.1,
            qualifies,
            worthless,
        });
    }

    /// A refusal is not final: everything unmined is sent again later.
    async fn send(&self, tx: B256) {
        let signed = self.done().signed.get(&tx).cloned();
        if let Some(signed) = signed {
            drop(self.devnet.chains[signed.chain].send_raw(&signed.raw).await);
        }
    }

    /// Handles transactions dropped by a reorg: their users resend them after a while, or abandon them.
    pub(crate) async fn dropped(&self, hashes: &[B256], rng: &mut Rng) {
        tokio::time::sleep(rng.millis(0, 2_500)).await;
        let mut again: Vec<_> = self.signed().into_iter().filter(|(hash, _)| hashes.contains(hash)).collect();
        again.sort_by_key(|(_, signed)| (signed.from, signed.nonce));
        for (hash, signed) in again {
            let is_last = !self.done().signed.values().any(|it| it.from == signed.from && it.nonce > signed.nonce);
            if is_last && rng.once_in(6) {
                self.done().abandoned.insert(hash);
            } else {
                self.send(hash).await;
            }
        }
    }

    /// Sends every transaction that is not on its chain, and returns their number.
    pub(crate) async fn send_again(&self) -> Result<usize> {
        let mut missing = 0;
        let mut all = self.signed();
        all.sort_by_key(|(_, signed)| (signed.from, signed.nonce));
        for (hash, signed) in all {
            if self.is_abandoned(hash) {
                continue;
            }
            let receipt: Value = self.devnet.chains[signed.chain].rpc("eth_getTransactionReceipt", [hash]).await?;
            if receipt.is_null() {
                missing += 1;
                self.send(hash).await;
            }
        }
        Ok(missing)
    }
}

/// The token address; zero for the native currency.
pub(crate) fn currency(chain: &Chain, symbol: &str) -> Address {
    if symbol == "ETH" { Address::ZERO } else { chain.token(symbol).address }
}

/// An amount of this size, in the smallest units.
fn units(chain: &Chain, symbol: &str, size: u64) -> U256 {
    let exponent = if symbol == "ETH" { 13 } else { chain.token(symbol).decimals - 2 };
    U256::from(size) * U256::from(10u64).pow(U256::from(exponent))
}

fn order(quote: &Value) -> Result<Order> {
    let text = |value: &Value| value.as_str().map(str::to_owned).context("a quote without its members");
    let out = &quote["details"]["currencyOut"];
    Ok(Order {
        request: text(&quote["steps"][0]["requestId"])?,
        id: text(&quote["protocol"]["v2"]["orderId"])?.parse()?,
        minimum: text(&out["minimumAmount"])?.parse()?,
        quoted: text(&out["amount"])?.parse()?,
    })
}

/// The transactions that the steps of a quote ask the user to send.
fn steps(quote: &Value) -> Result<Vec<(Address, U256, Bytes)>> {
    let steps = quote["steps"].as_array().context("a quote without steps")?;
    let items = steps.iter().flat_map(|step| step["items"].as_array().into_iter().flatten());
    items
        .map(|item| {
            let text = |name: &str| item["data"][name].as_str().with_context(|| name.to_owned());
            Ok((text("to")?.parse()?, text("value")?.parse()?, text("data")?.parse()?))
        })
        .collect()
}
