//! Deposits into the venue, one per block: the time from the block's announcement to the transfer that the venue has
//! taken, beside a bare transfer.
//!
//! The venue is the simulator, in the measuring process: it verifies both signatures and syncs its journal before a
//! transfer counts as taken, for the fill and for the baseline alike.

use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use devnet::{Devnet, Progress, VenueAccount};
use domain::venue::{AccountIndex, Asset, Memo, Route, Units};
use evm::LocalSigner;
use serde_json::json;
use tokio::sync::watch;
use venue::{Client, Expiry, Fee, KeyIndex, Network, Nonce, Options, Quota, Sent, SignedTransfer, Transfer};

use super::latency::holding;
use super::report::VenueLatency;
use super::{FILL_TIMEOUT, FillArgs, Filling, USERS, VALUE};
use crate::socket::Subscription;
use crate::stats::{Latency, nanos};

/// The simulator's fee for a transfer between users, in units of USDC.
const FEE: u64 = 3_000_000;
const EXPIRY: Duration = Duration::from_secs(600);
const QUOTE_PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn measure(args: &FillArgs, progress: &Progress) -> Result<VenueLatency> {
    let options = devnet::Options { fillers: 1, progress: progress.clone(), ..devnet::Options::default() };
    let devnet = Devnet::start(options).await?;
    let measured = Box::pin(take(&devnet, args)).await;
    devnet.shutdown().await?;
    measured
}

/// Takes fill and baseline in turn, so that both see the same load on the machine.
async fn take(devnet: &Devnet, args: &FillArgs) -> Result<VenueLatency> {
    let filling = Filling::with(devnet, args, false, true).await?;
    let recipient = devnet.venue.users.first().context("no user of the venue")?.index;
    let (origin, samples) = (filling.origin(), usize::try_from(args.samples)?);
    let body = |n: usize| {
        json!({
            "user": filling.users[n % USERS].address, "recipient": recipient.to_string(),
            "originChainId": origin.id, "originCurrency": alloy::primitives::Address::ZERO,
            "destinationChainId": domain::venue::CHAIN.0, "destinationCurrency": "0",
            "amount": VALUE.to_string(), "tradeType": "EXACT_INPUT",
        })
    };
    let began = Instant::now();
    let orders = loop {
        match filling.orders_of((0..samples).map(body)).await {
            Ok(orders) => break orders,
            Err(failure) => ensure!(began.elapsed() < FILL_TIMEOUT, "no quotes for the venue: {failure:#}"),
        }
        tokio::time::sleep(QUOTE_PAUSE).await;
    };
    let deposits = filling.deposits(&orders).await?;
    let mut bare = Bare::new(devnet)?;
    let mut heads = Subscription::to(&origin.ws_url, "newHeads").await?;
    let mut taken = devnet.venue.simulator.taken();
    let (mut fills, mut baselines) = (Vec::new(), Vec::new());
    for raw in &deposits {
        heads.forget().await;
        taken.mark_unchanged();
        let deposit = origin.send_raw(raw).await?;
        let (seen, _) = holding(&mut heads, origin, deposit).await?;
        fills.push(nanos(next(&mut taken).await?.duration_since(seen)));
        heads.forget().await;
        taken.mark_unchanged();
        let (seen, _) = heads.next().await?;
        bare.send().await?;
        baselines.push(nanos(next(&mut taken).await?.duration_since(seen)));
    }
    ensure!(filling.served.terminate().await?.success(), "the service did not end in order");
    Ok(VenueLatency { baseline: Latency::of(baselines), fill: Latency::of(fills) })
}

/// The moment at which the next transfer is taken, or was since the last one.
async fn next(taken: &mut watch::Receiver<Option<Instant>>) -> Result<Instant> {
    tokio::time::timeout(FILL_TIMEOUT, taken.changed()).await.context("no transfer on the venue")??;
    (*taken.borrow_and_update()).context("a transfer without its moment")
}

/// The baseline: sign one transfer and send it.
struct Bare {
    client: Client,
    from: VenueAccount,
    to: AccountIndex,
    nonce: u64,
}

impl Bare {
    fn new(devnet: &Devnet) -> Result<Self> {
        let (simulator, users) = (&devnet.venue.simulator, &devnet.venue.users);
        let [_, from, to, ..] = &users[..] else { anyhow::bail!("too few users of the venue") };
        let key = KeyIndex::new(from.api_key_index.into())?;
        let nonce = simulator.next_nonce(AccountIndex::new(from.index)?, key)?;
        let client = Client::new(Options {
            base_url: simulator.url.clone(),
            network: Network(simulator.network_id),
            timeout: FILL_TIMEOUT,
            quota: Quota { calls: 1_000_000, weight: u32::MAX },
        })?;
        Ok(Self { client, from: from.clone(), to: AccountIndex::new(to.index)?, nonce })
    }

    async fn send(&mut self) -> Result<()> {
        let transfer = Transfer {
            from: AccountIndex::new(self.from.index)?,
            key_index: KeyIndex::new(self.from.api_key_index.into())?,
            to: self.to,
            asset: Asset::USDC,
            from_route: Route::Perps,
            to_route: Route::Perps,
            amount: Units::new(1)?,
            usdc_fee: Fee::new(FEE)?,
            memo: Memo(alloy::primitives::keccak256("baseline")),
            expires_at: Expiry::new(u64::try_from((UNIX_EPOCH.elapsed()? + EXPIRY).as_millis())?)?,
            nonce: Nonce::new(self.nonce)?,
            skips_nonces: false,
        };
        self.nonce += 1;
        let network = self.client.network();
        let wallet = LocalSigner::from_hex(&self.from.l1_private_key.to_string())?;
        let wallet = wallet.sign_digest(transfer.wallet_digest(network));
        let signed = SignedTransfer::new(transfer, network, &self.from.key()?, &[7; 32], Some(wallet));
        match self.client.send(&signed).await {
            Sent::Taken => Ok(()),
            other => anyhow::bail!("the venue did not take a bare transfer: {other:?}"),
        }
    }
}
