//! Facts about the local network for people and programs: `dev.json`, and the same on the screen.

use std::path::Path;

use anyhow::{Context, Result};
use devnet::{Chain, Devnet};
use domain::api_key::KeyText;
use serde_json::{Value, json};

use crate::assemble::plain;
use crate::cli::DevArgs;
use crate::config::Config;

const FILE: &str = "dev.json";

pub(crate) fn remove(folder: &Path) {
    // The file may not exist.
    let _ = std::fs::remove_file(folder.join(FILE));
}

pub(crate) fn write(folder: &Path, devnet: &Devnet, config: &Config, database: &str, api_key: &KeyText) -> Result<()> {
    let facts = json!({
        "dashboard": dashboard(config),
        "baseUrl": plain(&config.base_url),
        "apiKey": api_key.expose(),
        "chains": devnet.chains.iter().map(chain).collect::<Vec<_>>(),
        "accounts": devnet.keys.users.iter().map(|account| {
            json!({ "address": account.address, "privateKey": account.private_key })
        }).collect::<Vec<_>>(),
        "solver": devnet.keys.treasury.address,
        "venue": venue(devnet),
        "database": database,
    });
    // The file is written aside and renamed, so that a reader never sees half of it.
    let (path, partial) = (folder.join(FILE), folder.join("dev.json.partial"));
    std::fs::write(&partial, serde_json::to_string_pretty(&facts)? + "\n")?;
    std::fs::rename(&partial, &path).with_context(|| format!("cannot write {}", path.display()))
}

fn dashboard(config: &Config) -> String {
    format!("{}/dashboard", plain(&config.base_url))
}

/// The venue is a simulator, and says so.
fn venue(devnet: &Devnet) -> Value {
    let venue = &devnet.venue;
    json!({
        "simulator": true,
        "id": domain::venue::CHAIN.0,
        "url": plain(&venue.simulator.url),
        "networkId": venue.simulator.network_id,
        "solver": venue.solver,
        "accounts": venue.users,
    })
}

fn chain(chain: &Chain) -> Value {
    json!({
        "id": chain.id,
        "name": chain.name,
        "rpcUrl": plain(&chain.rpc_url),
        "wsUrl": plain(&chain.ws_url),
        "depository": chain.contracts.depository,
        "router": chain.contracts.router,
        "approvalProxy": chain.contracts.approval_proxy,
        "depositAddressFactory": chain.contracts.deposit_address_factory,
        "tokens": chain.tokens.iter().map(|token| {
            json!({ "symbol": token.symbol, "address": token.address, "decimals": token.decimals })
        }).collect::<Vec<_>>(),
    })
}

pub(crate) fn print(devnet: &Devnet, config: &Config, args: &DevArgs, folder: &Path, api_key: &KeyText) {
    let base = plain(&config.base_url);
    println!("Causeway is running on a local network.\n");
    println!(
        "  dashboard     {}{}",
        dashboard(config),
        if args.chains_only { "  (not started, see below)" } else { "" }
    );
    println!("  base address  {base}{}", if args.chains_only { "  (not started, see below)" } else { "" });
    println!("  api key       {}  (of the second account below)", api_key.expose());
    println!("  facts         {}", folder.join(FILE).display());
    println!("  config        {}\n", folder.join("dev.toml").display());
    println!("  {:<10} {:>6}  {:<23} depository", "chain", "id", "rpc");
    for chain in &devnet.chains {
        let rpc = plain(&chain.rpc_url);
        println!("  {:<10} {:>6}  {:<23} {}", chain.name, chain.id, rpc, chain.contracts.depository);
    }
    let venue = &devnet.venue.simulator;
    println!("  {:<10} {:>6}  {:<23} a simulator; its accounts are in the facts", "venue", "", plain(&venue.url));
    if let Some(first) = devnet.chains.first() {
        println!("\n  tokens, at the same address on every chain");
        for token in &first.tokens {
            println!("  {:<10} {}  {} decimals", token.symbol, token.address, token.decimals);
        }
    }
    println!("\n  accounts with funds on every chain");
    for account in devnet.keys.users.iter().take(2) {
        println!("  {}  key {}", account.address, account.private_key);
    }
    if args.chains_only {
        println!("\nStart the service:\n\n  causeway serve --config {}", folder.join("dev.toml").display());
    } else if let Some(user) = devnet.keys.users.first() {
        println!("\nA first quote, 0.1 ETH from base to optimism:\n");
        println!("{}", first_quote(&base, &user.address.to_string()));
    }
    println!("\nCtrl-C stops everything.");
}

fn first_quote(base: &str, user: &str) -> String {
    let zero = "0x0000000000000000000000000000000000000000";
    format!(
        "  curl -s {base}/quote/v2 -H 'content-type: application/json' -d '{{\"user\":\"{user}\",\
         \"originChainId\":8453,\"destinationChainId\":10,\"originCurrency\":\"{zero}\",\
         \"destinationCurrency\":\"{zero}\",\"amount\":\"100000000000000000\",\"tradeType\":\"EXACT_INPUT\"}}'"
    )
}
