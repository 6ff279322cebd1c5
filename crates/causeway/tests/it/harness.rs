//! A service of a test's own on the shared chains.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

pub use ::harness::{Engine, Post, Receiver, WAIT_TIMEOUT, ask, eventually, found};
use ::harness::{Wallets, World, database};
use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::sol_types::SolCall;
use anyhow::{Context, Result, bail, ensure};
use causeway::config::Config;
use causeway::env::system_env;
use causeway::local::OPERATOR_TOKEN;
use causeway::logs::{self, LogFormat};
use causeway::service::Service;
use devnet::{Account, Chain, Deterministic, Devnet, Postgres};
use evm::calldata;
use evm::contracts::{DepositAddressFactory, SpendLimiter};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Everything a service needs, with wallets nobody else uses. The service itself is started by the test.
pub struct Harness {
    pub devnet: &'static Devnet,
    pub config: Config,
    pub fillers: Vec<Account>,
    pub treasury: Account,
    /// A depository of its own on every chain: deposits into others are not this service's to return.
    pub depository: Address,
    pub folder: TempDir,
    /// One client for all calls: making one takes so long that many would hold up the service, which runs on the same
    /// thread.
    pub client: reqwest::Client,
    /// The last field, and so the last to be dropped.
    _isolated: Option<IsolatedChains>,
}

/// Chains nobody else uses. They end with the harness; only their description is left to the end of the process, so
/// that tests may hold on to it.
pub struct IsolatedChains(&'static Devnet);

impl Drop for IsolatedChains {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A change of the configuration. Boxed, or all that stands a service up would be built once for each of the tests.
type Change<'a> = Box<dyn FnOnce(&mut Config) + 'a>;

/// The treasury's balance of a stablecoin with six decimals.
pub const INVENTORY: u64 = 1_000_000_000_000;

impl Harness {
    pub async fn new(engine: Engine) -> Result<Self> {
        Self::with(engine, |_| ()).await
    }

    /// `change` may alter the configuration before it is written.
    pub async fn with(engine: Engine, change: impl FnOnce(&mut Config)) -> Result<Self> {
        Self::on(Devnet::shared().await, engine, Box::new(change)).await
    }

    /// A harness on chains nobody else uses: for tests that disturb them, that trade in their pools, or that mind the
    /// deposits of others.
    pub async fn isolated(change: impl FnOnce(&mut Config)) -> Result<Self> {
        Self::on_isolated(Duration::from_millis(200), Engine::Sqlite, Box::new(change)).await
    }

    /// A harness on chains of its own with time between their blocks: several services side by side read every block of
    /// every chain, each for itself.
    pub async fn unhurried(change: impl FnOnce(&mut Config)) -> Result<Self> {
        Self::on_isolated(Duration::from_millis(500), Engine::Postgres, Box::new(change)).await
    }

    async fn on_isolated(block_time: Duration, engine: Engine, change: Change<'_>) -> Result<Self> {
        let options = devnet::Options { block_time, gives_way: true, ..devnet::Options::default() };
        let isolated = IsolatedChains(Box::leak(Box::new(Devnet::start(options).await?)));
        let devnet = isolated.0;
        let harness = Self { _isolated: Some(isolated), ..Self::on(devnet, engine, change).await? };
        // A reorg takes back the funds given in the blocks it removes: these must lie deeper.
        futures::future::try_join_all(devnet.chains.iter().map(|chain| chain.mine(8))).await?;
        Ok(harness)
    }

    async fn on(devnet: &'static Devnet, engine: Engine, change: Change<'_>) -> Result<Self> {
        // `RUST_LOG` shows the logs of the services of a failing test.
        logs::start(LogFormat::Text, "off");
        let folder = devnet::scratch("causeway-stand-")?;
        let server = match engine {
            Engine::Sqlite => None,
            Engine::Postgres => Some(Postgres::shared().await),
        };
        let database = database(folder.path(), server).await?;
        let fillers = vec![new_account(), new_account()];
        let (orders, treasury) = (new_account(), new_account());
        let depository = new_account().address;
        let factory = devnet::deposit_address_factory(treasury.address, depository)?;
        let prepared = devnet.chains.iter().map(async |chain| {
            let code: Bytes = chain.rpc("eth_getCode", (chain.contracts.depository, "latest")).await?;
            chain.set_code(depository, code).await?;
            chain
                .set_balance(orders.relayer().address, U256::from(50u64) * U256::from(10u64).pow(U256::from(18)))
                .await?;
            fund(chain, &treasury, &fillers, &factory).await
        });
        futures::future::try_join_all(prepared).await?;
        let wallets = Wallets { orders: &orders, treasury: treasury.address, fillers: &fillers };
        let world = World::new(folder, devnet, &database, wallets, |config| {
            for chain in &mut config.chains {
                // The shared chains are long by the time a test begins.
                chain.start_block = None;
                chain.contracts.depository = depository;
                chain.contracts.deposit_address_factory = Some(factory.address);
            }
            // Deposits stay in the depository, where they can be counted; tests of repayment turn the allocator on.
            config.allocator = None;
            // A client that asks two hundred times at once opens connections that it then does not use.
            config.limits.connections_per_address = NonZeroU32::MIN.saturating_add(1_023);
            change(config);
        })?;
        world.migrate()?;
        Ok(Self {
            devnet,
            config: world.config,
            fillers,
            treasury,
            depository,
            folder: world.folder,
            client: devnet::http::client().build()?,
            _isolated: None,
        })
    }

    pub fn chain(&self, name: &str) -> &'static Chain {
        self.devnet.chain(name)
    }

    /// Starts the service in this process and waits until it serves every chain.
    pub async fn serve(&self) -> Result<Service> {
        let service = Service::start(&self.config, system_env()).await?;
        self.wait_until_served().await?;
        Ok(service)
    }

    pub async fn wait_until_served(&self) -> Result<()> {
        eventually("the service serves every chain", || async {
            // A wallet that is low on gas, or a deposit that is missing, keeps nobody from being served.
            let lives = self.get("/lives").await.ok().filter(|(code, _)| *code == 200);
            let walks =
                |chain: &Value| !chain["block"].is_null() && chain["refusing"].is_null() && chain["market"].is_null();
            let chains = lives.and_then(|(_, body)| body["report"]["chains"].as_array().cloned());
            Ok(chains.is_some_and(|chains| chains.iter().all(walks)))
        })
        .await
    }

    /// Waits until the service has applied the chain up to its present head.
    pub async fn walked(&self, chain: &Chain) -> Result<()> {
        let head = chain.block_number().await?;
        eventually("the chain is walked to its head", || async {
            let (_, lives) = self.get("/lives").await?;
            let chains = lives["report"]["chains"].as_array().cloned().unwrap_or_default();
            Ok(chains.iter().any(|it| it["id"] == chain.id && it["block"].as_u64() >= Some(head)))
        })
        .await
    }

    /// Lets so many blocks pass, waits until the service has applied them, and until whatever it sent then is mined:
    /// afterwards, anything wrong that it would do has been done. For assertions that something does not happen.
    pub async fn let_pass(&self, chain: &Chain, blocks: u64) -> Result<()> {
        blocks_pass(chain, blocks).await?;
        self.walked(chain).await?;
        blocks_pass(chain, 2).await
    }

    /// Waits until the service knows its holdings of a currency as the chain has them: those of the fillers for `ETH`,
    /// of the treasury for tokens.
    pub async fn knows_holdings(&self, chain: &Chain, symbol: &str) -> Result<()> {
        eventually("the service knows its holdings", || async {
            let holders = &self.config.solver.filler_addresses;
            let (currency, holders) = match symbol {
                "ETH" => (Address::ZERO, holders.as_slice()),
                token => (chain.token(token).address, std::slice::from_ref(&self.treasury.address)),
            };
            let mut sum = U256::ZERO;
            for holder in holders {
                sum += chain.balance(currency, *holder).await?;
            }
            let Ok((_, known)) = self.get(&format!("/chains/liquidity?chainId={}", chain.id)).await else {
                return Ok(false);
            };
            let mut holdings = known["liquidity"].as_array().into_iter().flatten();
            Ok(holdings.any(|it| it["symbol"] == symbol && it["balance"] == sum.to_string()))
        })
        .await
    }

    /// Replaces the last blocks of a chain, all of which the service has applied, by empty ones.
    pub async fn reorg_walked(&self, chain: &Chain, depth: u64) -> Result<()> {
        chain.pause_mining().await;
        self.walked(chain).await?;
        chain.reorg(depth, &[]).await?;
        chain.resume_mining().await;
        Ok(())
    }

    /// Mines at once as many blocks as make final what a chain has now. For chains of the test's own.
    pub async fn finalise(&self, chain: &Chain) -> Result<()> {
        let config = self.config.chains.iter().find(|it| it.id == chain.id).context("a configured chain")?;
        chain.mine(config.finality_blocks + 1).await
    }

    /// Sets a price, in hundred-millionths of a dollar, and waits until the service knows it.
    pub async fn set_price(&self, chain: &Chain, symbol: &str, answer: i64) -> Result<()> {
        chain.set_price(symbol, answer).await?;
        let path = format!("/currencies/token/price/v2?address={}&chainId={}", chain.token(symbol).address, chain.id);
        let text = format!("{}.{:08}", answer / 100_000_000, answer % 100_000_000);
        let text = text.trim_end_matches('0');
        let known = json!({"price": format!("{text}{}", if text.ends_with('.') { "0" } else { "" })});
        eventually("the price is known", || async { Ok(self.get(&path).await?.1 == known) }).await
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", causeway::assemble::plain(&self.config.base_url))
    }

    pub async fn get(&self, path: &str) -> Result<(u16, Value)> {
        let response = self.client.get(self.url(path)).send().await?;
        Ok((response.status().as_u16(), response.json().await?))
    }

    /// The value of a counter. All services of this process count in one recorder: compare with the value before.
    pub async fn counted(&self, series: &str) -> Result<u64> {
        let metrics = self.client.get(self.url("/metrics")).send().await?.text().await?;
        let mut values = metrics.lines().filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        Ok(values.next().map(str::parse).transpose()?.unwrap_or_default())
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<(u16, Value)> {
        let response = self.client.post(self.url(path)).json(body).send().await?;
        Ok((response.status().as_u16(), response.json().await?))
    }

    /// The trace of a request.
    pub async fn trace(&self, request: &str) -> Result<Value> {
        let (code, trace) = operator(self, &format!("/requests/{request}/trace")).await?;
        ensure!(code == 200, "no trace: {trace}");
        Ok(trace)
    }

    /// The answer to a call, which is made again while the service says that it cannot serve it now: a market that was
    /// not read in time is no answer. Tests of that very answer use `post`.
    pub async fn served(&self, call: reqwest::RequestBuilder) -> Result<(u16, Value)> {
        let began = Instant::now();
        loop {
            let response = call.try_clone().context("a body that can be sent again")?.send().await?;
            let (code, answer) = (response.status().as_u16(), response.json().await?);
            if code != 503 || began.elapsed() > WAIT_TIMEOUT {
                return Ok((code, answer));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// A quote, which must be given.
    pub async fn quote(&self, body: &Value) -> Result<Value> {
        let (code, answer) = self.served(self.client.post(self.url("/quote/v2")).json(body)).await?;
        ensure!(code == 200, "no quote: {answer}");
        Ok(answer)
    }

    pub async fn status(&self, request: &str) -> Result<Value> {
        let (code, answer) = self.get(&format!("/intents/status/v3?requestId={request}")).await?;
        ensure!(code == 200, "no status: {answer}");
        Ok(answer)
    }

    pub async fn wait_for(&self, request: &str, status: &str) -> Result<Value> {
        let mut last = Value::Null;
        let began = Instant::now();
        while began.elapsed() < WAIT_TIMEOUT {
            // The service may be between two lives.
            if let Ok(answer) = self.status(request).await {
                if answer["status"] == status {
                    return Ok(answer);
                }
                last = answer;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!(
            "{request} never became {status}, it is {last}; {}",
            self.get("/lives").await.map_or_else(|e| e.to_string(), |l| l.1.to_string())
        )
    }
}

/// Sends the transactions of a quote's steps in order, as a wallet would.
pub async fn execute(chain: &Chain, quote: &Value, user: &Account) -> Result<B256> {
    let mut last = B256::ZERO;
    for item in transactions(quote)? {
        let receipt = chain.send(user.private_key, item.to, item.value, item.data).await?;
        last = receipt.transaction_hash;
    }
    Ok(last)
}

pub struct Transaction {
    pub to: Address,
    pub value: U256,
    pub data: Bytes,
}

pub fn transactions(quote: &Value) -> Result<Vec<Transaction>> {
    let steps = quote["steps"].as_array().context("steps")?;
    let items = steps.iter().flat_map(|step| step["items"].as_array().into_iter().flatten());
    items
        .map(|item| {
            let text = |name: &str| item["data"][name].as_str().with_context(|| name.to_owned());
            Ok(Transaction { to: text("to")?.parse()?, value: text("value")?.parse()?, data: text("data")?.parse()? })
        })
        .collect()
}

pub fn request_id(quote: &Value) -> &str {
    quote["steps"][0]["requestId"].as_str().unwrap()
}

pub fn amount(value: &Value) -> U256 {
    value.as_str().unwrap().parse().unwrap()
}

/// The user's balance in a quote. None while the service does not know it.
pub fn user_balance(quote: &Value) -> Option<U256> {
    quote["details"]["userBalance"].as_str().map(|text| text.parse().unwrap())
}

pub fn new_account() -> Account {
    let mut key = B256::ZERO;
    getrandom::fill(key.as_mut_slice()).unwrap();
    Account::new(key)
}

/// A balance, once it is as it should be.
pub async fn balance_when(
    chain: &Chain,
    (currency, who): (Address, Address),
    what: &str,
    is_so: impl Fn(U256) -> bool,
) -> Result<U256> {
    found(what, || async { Ok(Some(chain.balance(currency, who).await?).filter(|balance| is_so(*balance))) }).await
}

/// The fee that the sender of a transaction paid.
pub async fn fee_of(chain: &Chain, tx: B256) -> Result<U256> {
    let receipt = chain.receipt(tx).await?;
    Ok(U256::from(receipt.gas_used) * U256::from(receipt.effective_gas_price))
}

/// The rules that moved a request, by its trace.
pub fn rules(trace: &Value) -> Vec<&str> {
    trace["events"].as_array().into_iter().flatten().filter_map(|it| it["rule"].as_str()).collect()
}

/// True if these rules are among those of a trace, in this order.
pub fn in_order(trace: &Value, expected: &[&str]) -> bool {
    let mut rules = rules(trace).into_iter();
    expected.iter().all(|expected| rules.any(|rule| rule == *expected))
}

/// Waits until the chain has made some more blocks.
pub async fn blocks_pass(chain: &Chain, count: u64) -> Result<()> {
    let until = chain.block_number().await? + count;
    eventually("blocks pass", || async { Ok(chain.block_number().await? >= until) }).await
}

/// Waits while a chain nearly stands still, and leaves it so. It makes a block now and then, because one that too few
/// nodes have shown counts with the next: few enough that nothing becomes final within thirty.
pub async fn creeping<T>(chain: &Chain, waiting: impl Future<Output = Result<T>>) -> Result<T> {
    chain.pause_mining().await;
    let creep = async {
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            if let Err(error) = chain.mine(1).await {
                return error;
            }
        }
    };
    tokio::select! {
        done = waiting => done,
        error = creep => Err(error),
    }
}

/// Replaces the block of a transaction, and all behind it, by blocks without it.
pub async fn take_away(chain: &Chain, tx: B256) -> Result<()> {
    let block = chain.receipt(tx).await?.block_number.context("a block")?;
    chain.pause_mining().await;
    chain.reorg(chain.block_number().await? - block + 1, &[]).await?;
    chain.resume_mining().await;
    Ok(())
}

/// Reads a route of the operator.
pub async fn operator(harness: &Harness, path: &str) -> Result<(u16, Value)> {
    let client = &harness.client;
    let response = client.get(harness.url(path)).bearer_auth(OPERATOR_TOKEN).send().await?;
    Ok((response.status().as_u16(), response.json().await?))
}

/// Gives a service its money and its rights. The factory of deposit addresses is its own, as its depository is.
async fn fund(chain: &Chain, treasury: &Account, fillers: &[Account], factory: &Deterministic) -> Result<()> {
    let ether = |n: u64| U256::from(n) * U256::from(10u64).pow(U256::from(18));
    chain.set_balance(treasury.address, ether(10)).await?;
    let usdc = chain.token("USDC").address;
    chain.set_token_balance(usdc, treasury.address, U256::from(INVENTORY)).await?;
    let (spend_limiter, inventory) = (chain.contracts.spend_limiter, U256::from(INVENTORY));
    let mut calls = vec![(usdc, calldata::approve(spend_limiter, inventory))];
    for filler in fillers {
        chain.set_balance(filler.address, ether(50)).await?;
        let limit = SpendLimiter::setLimitCall { filler: filler.address, token: usdc, amount: inventory };
        calls.push((usdc, calldata::approve(filler.address, inventory)));
        calls.push((spend_limiter, limit.abi_encode().into()));
    }
    let mut sent = vec![chain.submit(treasury.private_key, factory.deployer, U256::ZERO, factory.input.clone()).await?];
    for filler in fillers {
        // The factory is not there yet, so the gas cannot be estimated.
        let call = DepositAddressFactory::setOperatorCall { operator: filler.address, allowed: true }.abi_encode();
        let data = Bytes::from(call);
        sent.push(chain.submit_with(treasury.private_key, factory.address, U256::ZERO, data, 100_000).await?);
    }
    chain.send_all(treasury.private_key, calls).await?;
    for hash in sent {
        chain.receipt(hash).await?;
    }
    Ok(())
}

/// An answer without what the first quote begins to read: the user's balance and allowances, on which the gas of the
/// user's own steps depends.
pub fn without_balance(answer: &Value) -> Value {
    let mut answer = answer.clone();
    answer["details"].as_object_mut().map(|details| details.remove("userBalance"));
    answer["fees"].as_object_mut().map(|fees| fees.remove("gas"));
    answer
}
