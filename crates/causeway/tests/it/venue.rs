//! The venue end to end: deposits into it, withdrawals out of it, and the money that goes back, against a simulator of
//! the test's own.

mod attempts;
mod crashes;
mod deposits;
mod integrators;
mod operator;
mod quotes;
mod returns;
mod withdrawals;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use alloy::primitives::{B256, hex};
use anyhow::{Context, Result, ensure};
use causeway::config::Config;
use causeway::local;
use devnet::{NewAccount, VenueAccount, VenueOptions, VenueSimulator};
use domain::venue::{AccountIndex, Asset, Memo, Route, Units};
use evm::LocalSigner;
use serde_json::{Value, json};
use tempfile::TempDir;
use venue::{Client, Digest, Expiry, Fee, KeyIndex, Network, Nonce, Options, Quota, Sent, SignedTransfer, Transfer};

use crate::harness::{Engine, Harness, amount, eventually, new_account, request_id};

pub const VENUE: u64 = 3_586_256;
pub const BASE: u64 = 8453;
pub const OPTIMISM: u64 = 10;
/// The venue's fee for a transfer of a user.
pub const FEE: u64 = 3_000_000;
const SOLVER: u64 = 722_011;
const USER: u64 = 100_001;
const SOLVER_COLLATERAL: u64 = 1_000_000_000_000;
const USER_COLLATERAL: u64 = 10_000_000_000;

pub struct Stage {
    pub harness: Harness,
    pub simulator: VenueSimulator,
    pub solver: VenueAccount,
    pub user: VenueAccount,
    client: Client,
    _folder: TempDir,
}

/// A venue before there is a service for it.
struct Venue {
    simulator: VenueSimulator,
    solver: VenueAccount,
    user: VenueAccount,
    client: Client,
    pays_fees: bool,
    folder: TempDir,
}

impl Venue {
    async fn start(pays_fees: bool) -> Result<Self> {
        let folder = devnet::scratch("venue-")?;
        let options = VenueOptions { step: Duration::from_millis(50), ..VenueOptions::default() };
        let simulator = VenueSimulator::start(folder.path(), options).await?;
        let open = |index, pays_fees, collateral| {
            let (index, wallet) = (AccountIndex::new(index)?, new_account());
            simulator.open(NewAccount { index, wallet, pays_fees, collateral })
        };
        let (solver, user) = (open(SOLVER, pays_fees, SOLVER_COLLATERAL)?, open(USER, true, USER_COLLATERAL)?);
        let client = Client::new(Options {
            base_url: simulator.url.clone(),
            network: Network(simulator.network_id),
            timeout: Duration::from_secs(10),
            quota: Quota { calls: 1_000_000, weight: u32::MAX },
        })?;
        Ok(Self { simulator, solver, user, client, pays_fees, folder })
    }

    fn configure(&self, config: &mut Config, change: impl FnOnce(&mut Config)) {
        let mut venue = local::venue(&self.simulator, &self.solver, &config.folder).unwrap();
        if self.pays_fees {
            venue.max_fee = "3".to_owned();
        }
        config.venue = Some(venue);
        change(config);
    }

    fn on(self, harness: Harness) -> Stage {
        let Self { simulator, solver, user, client, folder, .. } = self;
        Stage { harness, simulator, solver, user, client, _folder: folder }
    }
}

impl Stage {
    pub async fn new(engine: Engine) -> Result<Self> {
        Self::with(engine, false, |_| ()).await
    }

    /// With `pays_fees` the solver's transfers cost what everybody's do.
    pub async fn with(engine: Engine, pays_fees: bool, change: impl FnOnce(&mut Config)) -> Result<Self> {
        let venue = Venue::start(pays_fees).await?;
        let harness = Harness::with(engine, |config| venue.configure(config, change)).await?;
        Ok(venue.on(harness))
    }

    /// On chains nobody else uses, for tests that let them stand still; with fees.
    pub async fn isolated() -> Result<Self> {
        let venue = Venue::start(true).await?;
        let harness = Harness::isolated(|config| venue.configure(config, |_| ())).await?;
        Ok(venue.on(harness))
    }

    /// A balance of USDC collateral, in units.
    pub fn balance(&self, account: &VenueAccount) -> Result<u64> {
        self.simulator.balance(AccountIndex::new(account.index)?, Asset::USDC, Route::Perps)
    }

    /// Signs a transfer as the user's own client would, and sends it.
    pub async fn send(&self, transfer: Transfer) -> Result<Digest> {
        let network = self.client.network();
        let wallet = LocalSigner::from_hex(&hex::encode(self.user.l1_private_key))?;
        let wallet = wallet.sign_digest(transfer.wallet_digest(network));
        let signed = SignedTransfer::new(transfer, network, &self.user.key()?, &[7; 32], Some(wallet));
        match self.client.send(&signed).await {
            Sent::Taken => Ok(signed.hash(network)),
            other => anyhow::bail!("not taken: {other:?}"),
        }
    }

    /// A transfer of the user's to the solver's account.
    pub fn transfer(&self, amount: u64, memo: B256) -> Result<Transfer> {
        let (from, key_index) = (AccountIndex::new(self.user.index)?, KeyIndex::new(self.user.api_key_index.into())?);
        let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
        Ok(Transfer {
            from,
            key_index,
            to: AccountIndex::new(self.solver.index)?,
            asset: Asset::USDC,
            from_route: Route::Perps,
            to_route: Route::Perps,
            amount: Units::new(amount)?,
            usdc_fee: Fee::new(FEE)?,
            memo: Memo(memo),
            expires_at: Expiry::new(now + 300_000)?,
            nonce: Nonce::new(self.simulator.next_nonce(from, key_index)?)?,
            skips_nonces: false,
        })
    }

    /// Signs and sends the one step of a withdrawal, with the parameters as they are given.
    pub async fn withdraw(&self, quote: &Value) -> Result<Digest> {
        let steps = quote["steps"].as_array().context("steps")?;
        ensure!(steps.len() == 1 && steps[0]["id"] == "deposit" && steps[0]["kind"] == "transaction", "{steps:?}");
        let action = &steps[0]["items"][0]["data"]["action"];
        ensure!(action["type"] == "transfer", "{action}");
        let parameters = &action["parameters"];
        let number = |name: &str| parameters[name].as_u64().with_context(|| name.to_owned());
        let memo: B256 = parameters["memo"].as_str().context("memo")?.parse()?;
        let transfer = Transfer {
            to: AccountIndex::new(number("toAccountIndex")?)?,
            asset: Asset::new(number("assetIndex")?)?,
            from_route: Route::new(number("fromRouteType")?)?,
            to_route: Route::new(number("toRouteType")?)?,
            usdc_fee: Fee::new(number("usdcFee")?)?,
            ..self.transfer(number("amount")?, memo)?
        };
        self.send(transfer).await
    }

    /// The body of a withdrawal of USDC from the venue to optimism.
    pub fn withdrawal(&self, amount: u64, recipient: &str) -> Value {
        json!({
            "user": self.user.index.to_string(), "recipient": recipient,
            "originChainId": VENUE, "destinationChainId": OPTIMISM, "originCurrency": "0",
            "destinationCurrency": self.harness.chain("optimism").token("USDC").address,
            "amount": amount.to_string(), "tradeType": "EXACT_INPUT",
        })
    }

    /// The body of a deposit from base into the user's account on the venue.
    pub fn deposit(&self, user: &str, currency: &str, amount: &str) -> Value {
        json!({
            "user": user, "recipient": self.user.index.to_string(), "originChainId": BASE,
            "destinationChainId": VENUE, "originCurrency": currency, "destinationCurrency": "0", "amount": amount,
            "tradeType": "EXACT_INPUT",
        })
    }

    /// Waits until a deposit has succeeded and the user, who had so much, has what was promised beside it, which is
    /// returned.
    pub async fn is_filled(&self, quote: &Value, had: u64) -> Result<u64> {
        self.harness.wait_for(request_id(quote), "success").await?;
        let promised: u64 = amount(&quote["details"]["currencyOut"]["amount"]).to();
        self.user_has(had + promised).await?;
        Ok(promised)
    }

    /// Waits until the user's balance on the venue is this one.
    pub async fn user_has(&self, units: u64) -> Result<()> {
        let had =
            eventually("the user's balance on the venue", || async { Ok(self.balance(&self.user)? == units) }).await;
        had.with_context(|| format!("expected {units}, there are {:?}", self.balance(&self.user)))
    }

    /// Lets the venue's walk go on for a while, in which something wrong would have happened.
    pub async fn rounds_pass(&self) -> Result<()> {
        let at = || async {
            let (_, lives) = self.harness.get("/lives").await?;
            let chains = lives["report"]["chains"].as_array().cloned().unwrap_or_default();
            Ok::<_, anyhow::Error>(chains.iter().find(|it| it["id"] == VENUE).and_then(|it| it["block"].as_u64()))
        };
        let before = at().await?.context("the venue is walked")?;
        eventually("the walk along the venue goes on", || async { Ok(at().await? > Some(before + 3)) }).await
    }
}
