//! A database with a key, endpoints and events, and processes that deliver them.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use alloy_primitives::B256;
use anyhow::{Result, bail};
use domain::api_key::{ApiKey, ApiKeyId, KeyLimits, KeyText};
use domain::ids::{OrderId, RequestId};
use domain::request::State;
use domain::time::Timestamp;
use domain::webhook::EndpointName;
use serde_json::{Value, json};
use store::instances::About;
use store::keys::{self, StoredText};
use store::requests::{self, Request};
use store::sealing::MasterKey;
use store::webhooks::{Filter, Logged, publish};
use store::{Instance, Options, QuoteRow, Store, StoreError, Tx};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use webhooks::address::Policy;
use webhooks::client::Client;
use webhooks::delivery::Deliverer;
use webhooks::endpoints::{Change, Endpoints};
use webhooks::{Env, Settings};

/// A stored quote, as a build that knew no key wrote it.
const QUOTE: &str = include_str!("../../../store/src/stored_quote/rows/bridge.json");
/// The longest wait for a condition on a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
pub const KEY: ApiKeyId = ApiKeyId::new([1; 10]);

pub fn clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap())
}

/// The same every time: jitter is not what these tests are about.
fn random(bytes: &mut [u8]) {
    bytes.fill(0x7f);
}

pub fn env() -> Env {
    Env { clock, random, crash: |_| () }
}

pub fn master() -> Arc<MasterKey> {
    Arc::new(MasterKey::new(&[3; 32]).unwrap())
}

pub fn text(n: u8) -> KeyText {
    KeyText::new([n; 32])
}

pub fn stored_text(n: u8) -> StoredText {
    StoredText::new(KEY, &text(n), &master(), [n; 12]).unwrap()
}

/// Settings with short delays.
pub fn hasty() -> Settings {
    let plain = Settings { allow_local: true, ..Settings::default() };
    let retries = domain::webhook::Retries { first_delay: Duration::from_millis(1), ..plain.retries };
    Settings { retries, attempt_timeout: Duration::from_secs(5), ..plain }
}

pub struct World {
    pub store: Store,
    pub endpoints: Endpoints,
    options: Options,
    _dir: Option<TempDir>,
}

/// A process that delivers.
pub struct Process {
    stop: CancellationToken,
    task: JoinHandle<()>,
    instance: Instance,
    store: Store,
}

impl Process {
    pub async fn stop(self) -> Result<()> {
        self.stop.cancel();
        self.task.await?;
        Ok(self.instance.leave(&self.store).await?)
    }
}

impl World {
    pub async fn sqlite() -> Result<Self> {
        let dir = devnet::scratch("causeway-webhooks-")?;
        let url = format!("sqlite:{}", dir.path().join("causeway.db").display());
        Self::new(url, Some(dir)).await
    }

    pub async fn postgres() -> Result<Self> {
        Self::new(devnet::Postgres::shared().await.fresh_database().await?.to_string(), None).await
    }

    async fn new(url: String, dir: Option<TempDir>) -> Result<Self> {
        let options = Options::new(url.parse()?);
        Store::migrate(&options)?;
        let store = Store::open(&options)?;
        let key = ApiKey {
            id: KEY,
            name: "an app".to_owned(),
            wallet: None,
            limits: KeyLimits::default(),
            may_force_refund: false,
            created_at: clock(),
            rotated_at: None,
            revoked_at: None,
        };
        store.write(move |tx| keys::create(tx, &key, &stored_text(1))).await?;
        let endpoints = Endpoints {
            store: store.clone(),
            master: Some(master()),
            policy: Policy { allow_local: true },
            env: env(),
        };
        Ok(Self { store, endpoints, options, _dir: dir })
    }

    pub async fn endpoint(&self, name: &str, url: &str) -> Result<EndpointName> {
        let name: EndpointName = name.parse()?;
        self.endpoints.put(KEY, &name, Change { url: Some(url.to_owned()), ..Change::default() }).await?;
        Ok(name)
    }

    /// A quote of the key, which an event turns into a request.
    pub async fn request(&self, n: u8) -> Result<OrderId> {
        let mut body: Value = serde_json::from_str(QUOTE)?;
        body["ask"]["key"] = json!(KEY.to_string());
        body["ask"]["referrer"] = json!("ref \"ü\" ");
        let (request_id, order_id) = (B256::repeat_byte(n), B256::repeat_byte(n ^ 0xff));
        body["id"] = json!(request_id);
        let row = QuoteRow {
            request_id,
            order_id: Some(order_id),
            created_at: clock().millis(),
            expires_at: i64::MAX,
            body: body.to_string(),
        };
        self.store.write_quote(row).await?;
        Ok(OrderId(order_id))
    }

    /// Publishes a step of a request, in a unit as the solver's.
    pub async fn publish(&self, order: OrderId, state: State) -> Result<RequestId> {
        let now = clock();
        let unit = move |tx: &mut Tx<'_>| {
            let request = requests::lock_order(tx, order)?.ok_or(StoreError::ManyRows(0))?;
            let request = Request { state, ..request };
            publish(tx, &request, "a-rule", &Value::Null, now)?;
            Ok::<_, StoreError>(request.id)
        };
        Ok(self.store.write(unit).await?)
    }

    pub async fn deliver(&self, name: &str, settings: Settings) -> Result<Process> {
        let about = About { id: name.to_owned(), name: name.to_owned(), role: "all", answers: true };
        let instance = Instance::join(&self.options, &self.store, about, Duration::from_secs(6)).await?;
        let stop = CancellationToken::new();
        let deliverer = Deliverer {
            store: self.store.clone(),
            master: master(),
            client: Client::new(&settings)?,
            settings,
            env: env(),
            instance: name.to_owned(),
        };
        let task = tokio::spawn(webhooks::run(deliverer, stop.clone()));
        Ok(Process { stop, task, instance, store: self.store.clone() })
    }

    pub async fn log(&self, filter: Filter) -> Result<Vec<Logged>> {
        Ok(self.endpoints.deliveries(KEY, filter, 50).await?)
    }
}

/// Polls a condition until it holds.
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < WAIT_TIMEOUT {
        if is_so().await? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bail!("not in time: {what}")
}

/// Runs each case on a fresh database of each engine.
macro_rules! on_both_engines {
    ($($case:ident)*) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $case() -> anyhow::Result<()> {
                super::$case(crate::world::World::sqlite().await?).await
            })*
        }

        mod postgres {
            $(#[tokio::test]
            async fn $case() -> anyhow::Result<()> {
                super::$case(crate::world::World::postgres().await?).await
            })*
        }
    };
}
pub(crate) use on_both_engines;
