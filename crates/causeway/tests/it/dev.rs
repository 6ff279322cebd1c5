//! `causeway dev`, run as a person would run it.

use std::fs::{self, File};
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes};
use alloy::sol_types::SolCall;
use anyhow::{Context, Result, ensure};
use devnet::Devnet;
use evm::contracts::Erc20;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::harness::{WAIT_TIMEOUT, eventually, found};
use crate::process::causeway;

struct Dev(Child);

impl Dev {
    fn start(data_dir: &Path, port: u16, more: &[&str]) -> Result<Self> {
        let mut command = causeway();
        command.arg("dev").arg("--data-dir").arg(data_dir).args(["--port", &port.to_string(), "--block-time", "0.2"]);
        // Files, because a pipe that nobody reads would stop it once it is full.
        let (out, err) = (File::create(data_dir.with_extension("out"))?, File::create(data_dir.with_extension("err"))?);
        Ok(Self(command.args(more).stdout(out).stderr(err).spawn()?))
    }

    async fn facts(&mut self, data_dir: &Path) -> Result<Value> {
        let path = data_dir.join("dev.json");
        eventually("dev.json is written", || async { Ok(path.exists()) }).await?;
        Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
    }

    /// The text on its standard output, once it is complete.
    async fn printed(&self, data_dir: &Path) -> Result<String> {
        let path = data_dir.with_extension("out");
        found("the facts are printed", || async {
            let text = fs::read_to_string(&path)?;
            Ok(text.contains("Ctrl-C stops everything.").then_some(text))
        })
        .await
    }

    async fn signal(mut self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(i32::try_from(self.0.id())?), signal)?;
        let began = std::time::Instant::now();
        while self.0.try_wait()?.is_none() {
            ensure!(began.elapsed() < WAIT_TIMEOUT, "it does not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn answers(url: &str) -> bool {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": [] });
    devnet::http::client().build().unwrap().post(url).json(&body).send().await.is_ok()
}

/// Asks each chain for the balance of each account in each token, as they are printed.
async fn every_account_holds_every_token(printed: &str, chains: &[Value]) -> Result<()> {
    let lines: Vec<Vec<&str>> = printed.lines().map(|line| line.split_whitespace().collect()).collect();
    let accounts = lines.iter().filter(|words| words.len() == 3 && words[1] == "key");
    let accounts = accounts.map(|words| words[0].parse::<Address>()).collect::<Result<Vec<_>, _>>()?;
    let tokens = lines.iter().filter(|words| words.len() == 4 && words[3] == "decimals");
    let tokens = tokens.map(|words| words[1].parse::<Address>()).collect::<Result<Vec<_>, _>>()?;
    ensure!(accounts.len() == 2 && tokens.len() == 5, "{printed}");
    let client = devnet::http::client().build()?;
    for chain in chains {
        let rpc = chain["rpcUrl"].as_str().context("rpcUrl")?;
        for (&owner, token) in accounts.iter().flat_map(|owner| tokens.iter().map(move |token| (owner, token))) {
            let data = Bytes::from(Erc20::balanceOfCall { owner }.abi_encode());
            let params = json!([{ "to": token, "data": data }, "latest"]);
            let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": params });
            let answer: Value = client.post(rpc).json(&body).send().await?.json().await?;
            let balance: B256 = serde_json::from_value(answer["result"].clone())?;
            ensure!(!balance.is_zero(), "{owner} has nothing of {token} on {}", chain["name"]);
        }
    }
    Ok(())
}

#[tokio::test]
async fn dev_says_where_everything_is_and_leaves_nothing_running() -> Result<()> {
    let folder = devnet::scratch("causeway-dev-")?;
    let data_dir = folder.path().join("data");
    let port = devnet::free_port()?;
    let mut dev = Dev::start(&data_dir, port, &["--no-rate-limits"])?;
    let facts = dev.facts(&data_dir).await?;
    let printed = dev.printed(&data_dir).await?;

    // The key's wallet is the second account, and has its balance by the time that the key is printed: no waiting here.
    let wallet = facts["accounts"][1]["address"].as_str().context("address")?.to_lowercase();
    let balances = format!("http://127.0.0.1:{port}/app-fees/{wallet}/balances");
    let balances: Value = devnet::http::get(balances).await?.json().await?;
    ensure!(balances["amount"] == "1000000000", "{balances}");

    let first_url = printed.split_whitespace().find(|word| word.starts_with("http"));
    ensure!(first_url == Some(format!("http://127.0.0.1:{port}/dashboard").as_str()), "{printed}");
    ensure!(facts["baseUrl"] == format!("http://127.0.0.1:{port}"));
    let api_key = facts["apiKey"].as_str().context("apiKey")?.to_owned();
    ensure!(printed.contains(&api_key), "{printed}");
    let keyed = |key: String| {
        devnet::http::client().build().unwrap().get(format!("http://127.0.0.1:{port}/chains")).bearer_auth(key).send()
    };
    ensure!(keyed(api_key.clone()).await?.status() == 200 && keyed(api_key.clone() + "0").await?.status() == 401);
    let chains = facts["chains"].as_array().context("chains")?;
    ensure!(chains.iter().map(|chain| chain["name"].as_str().unwrap()).eq(["base", "optimism", "arbitrum"]));
    for chain in chains {
        for member in ["rpcUrl", "wsUrl", "depository", "router", "approvalProxy"] {
            ensure!(chain[member].is_string(), "{member}");
        }
        ensure!(chain["tokens"].as_array().is_some_and(|tokens| tokens.len() == 5));
    }
    every_account_holds_every_token(&printed, chains).await?;
    ensure!(facts["accounts"][1]["privateKey"].is_string() && facts["solver"].is_string());
    let venue = &facts["venue"];
    ensure!(
        venue["simulator"] == true && venue["id"] == 3_586_256 && venue["accounts"][0]["apiPrivateKey"].is_string()
    );
    let index = venue["solver"]["index"].as_u64().context("the solver's account")?;
    let url = format!("{}/api/v1/account?by=index&value={index}", venue["url"].as_str().context("url")?);
    let account: Value = devnet::http::get(url).await?.json().await?;
    ensure!(account["accounts"][0]["collateral"] == "1000000.000000", "{account}");
    eventually("all is well", || async {
        let lives: Value = devnet::http::get(format!("http://127.0.0.1:{port}/lives")).await?.json().await?;
        Ok(lives["status"] == "ok")
    })
    .await?;

    // The venue is served like every chain.
    let listed: Value = devnet::http::get(format!("http://127.0.0.1:{port}/chains")).await?.json().await?;
    let lvm = |chain: &&Value| chain["vmType"] == "lvm" && chain["id"] == 3_586_256 && chain["disabled"] == false;
    ensure!(listed["chains"].as_array().is_some_and(|chains| chains.iter().filter(lvm).count() == 1), "{listed}");

    // Ctrl-C ends every child process; SIGKILL does so too.
    let rpc = chains[0]["rpcUrl"].as_str().unwrap();
    dev.signal(Signal::SIGINT).await?;
    ensure!(!data_dir.join("dev.json").exists(), "dev.json is still there");
    ensure!(!answers(rpc).await, "a chain is still running");

    let mut dev = Dev::start(&data_dir, port, &["--no-rate-limits"])?;
    let facts = dev.facts(&data_dir).await?;
    ensure!(facts["apiKey"] == api_key, "the key is another one");
    let rpc = facts["chains"][0]["rpcUrl"].as_str().unwrap().to_owned();
    dev.signal(Signal::SIGKILL).await?;
    eventually("the chains are gone", || async { Ok(!answers(&rpc).await) }).await
}

/// Users would pay addresses that nobody can sweep.
fn doctor_refuses_another_factory(toml: &Path) -> Result<()> {
    let other = toml.with_file_name("other-factory.toml");
    let factory = format!("deposit_address_factory = \"{}\"", Address::repeat_byte(0x77));
    let text = fs::read_to_string(toml)?;
    let lines =
        text.lines().map(|line| if line.starts_with("deposit_address_factory") { factory.as_str() } else { line });
    fs::write(&other, lines.collect::<Vec<_>>().join("\n"))?;
    let doctor = causeway().args(["doctor", "--config"]).arg(&other).output()?;
    let said = String::from_utf8_lossy(&doctor.stdout);
    ensure!(!doctor.status.success(), "{said}");
    for finding in ["has no code", "deposits in 0x0000", "derives other addresses", "may not sweep"] {
        ensure!(said.contains(finding), "{finding}: {said}");
    }
    Ok(())
}

#[tokio::test]
async fn the_service_can_be_run_apart_from_its_chains() -> Result<()> {
    let folder = devnet::scratch("causeway-dev-")?;
    let data_dir = folder.path().join("data");
    let port = devnet::free_port()?;
    // Contracts are deployed for all folders at once: only the first start on a machine has that, and a download, to
    // tell.
    Devnet::shared().await;
    let mut dev = Dev::start(&data_dir, port, &["--chains-only", "--no-rate-limits"])?;
    let facts = dev.facts(&data_dir).await?;
    let told = fs::read_to_string(data_dir.with_extension("err"))?;
    ensure!(told.contains("Starting the local chains"), "{told}");
    ensure!(!told.contains("Deploying contracts") && !told.contains("first use only"), "{told}");
    let lives = format!("{}/lives", facts["baseUrl"].as_str().unwrap());
    ensure!(devnet::http::get(&lives).await.is_err(), "the service is running");
    let toml = data_dir.join("dev.toml");
    let doctor = causeway().args(["doctor", "--config"]).arg(&toml).output()?;
    let said = String::from_utf8_lossy(&doctor.stdout);
    ensure!(doctor.status.success(), "{said}");
    ensure!(said.matches("deposit addresses are derived as the factory derives them").count() == 3, "{said}");
    ensure!(!said.contains("may not sweep"), "{said}");
    doctor_refuses_another_factory(&toml)?;
    let served = crate::process::serve(&toml, None)?;
    eventually("it serves", || async {
        let Ok(response) = devnet::http::get(&lives).await else { return Ok(false) };
        Ok(response.json::<Value>().await?["status"] == "ok")
    })
    .await?;
    // Two services on one file would both pay.
    let second = causeway().args(["serve", "--config"]).arg(&toml).output()?;
    ensure!(!second.status.success());
    ensure!(String::from_utf8_lossy(&second.stderr).contains("another causeway serve is running"));
    ensure!(served.terminate().await?.success());
    dev.signal(Signal::SIGTERM).await
}
