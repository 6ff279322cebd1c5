//! One function per subcommand.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use domain::account::Vm;
use solver::operator::recover_venue::Unlisted;
use store::Store;
use tracing::info;

mod audit;
#[cfg(feature = "dev")]
mod dev;
mod doctor;
mod endpoints;
mod keys;
mod operator;
mod pause;
mod recover;
mod refund;
mod topup;
#[cfg(feature = "dev")]
mod venue_transfer;
mod webhook_listen;

#[cfg(feature = "dev")]
pub use dev::api_key;

use crate::cli::{Cli, Command};
use crate::config::Config;
use crate::env::system_env;
use crate::role::Role;
use crate::service::Service;
use crate::signals::Signals;
use crate::{assemble, logs};

pub fn run(cli: Cli) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match cli.command {
        #[cfg(feature = "dev")]
        Command::Dev(args) => {
            logs::start(cli.log_format, "warn");
            runtime.block_on(dev::run(&args))
        }
        Command::Serve(args) => {
            logs::start(cli.log_format, "info");
            runtime.block_on(serve(&Config::load(&args.config.config)?, args.role))
        }
        Command::Migrate(args) => migrate(&Config::load(&args.config)?),
        Command::Doctor(args) => {
            logs::start(cli.log_format, "error");
            runtime.block_on(doctor::run(&args.config.config, args.role))
        }
        Command::Recover { args, unlisted_have_failed } => {
            logs::start(cli.log_format, "warn");
            let unlisted = if unlisted_have_failed { Unlisted::Failed } else { Unlisted::Refused };
            runtime.block_on(recover::run(&Config::load(&args.config.config)?, args.role, unlisted))
        }
        Command::Refund { request, reason, by, config } => {
            runtime.block_on(refund::run(&Config::load(&config.config)?, &request, &by, &reason))
        }
        Command::Pause(args) => runtime.block_on(pause::run(&args, true)),
        Command::Resume(args) => runtime.block_on(pause::run(&args, false)),
        Command::Topup { yes, config } => runtime.block_on(topup::run(&Config::load(&config.config)?, yes)),
        Command::Audit { args, json } => {
            logs::start(cli.log_format, "error");
            runtime.block_on(audit::run(&Config::load(&args.config.config)?, args.role, json))
        }
        Command::Keys { command, config } => {
            logs::start(cli.log_format, "warn");
            runtime.block_on(keys::run(&Config::load(&config)?, command))
        }
        #[cfg(feature = "dev")]
        Command::VenueTransfer(args) => runtime.block_on(venue_transfer::run(&args)),
        Command::WebhookListen(args) => runtime.block_on(webhook_listen::run(args)),
        Command::Openapi { output } => print(&api::openapi::generate(&documented_addresses()), output.as_deref()),
        Command::Errors { output } => print(&api::error_page(), output.as_deref()),
        Command::OrderId { file, config } => order_id(&file, config.as_deref()),
    }
}

/// Serves until a signal asks to stop. One that comes while the service starts ends it at once: what has begun by then
/// is safe, as after a crash.
async fn serve(config: &Config, role: Role) -> Result<()> {
    let mut signals = Signals::listen()?;
    let service = tokio::select! {
        biased;
        service = Service::start_as(config, role, system_env()) => service?,
        () = signals.heard() => {
            info!("stopping before the start is complete");
            return Ok(());
        }
    };
    service.run(signals).await
}

fn migrate(config: &Config) -> Result<()> {
    let options = assemble::database(config)?;
    let applied = Store::migrate(&options).with_context(|| format!("database {}", options.url))?;
    for name in &applied {
        println!("applied {name}");
    }
    println!("the database is up to date");
    Ok(())
}

fn print(text: &str, output: Option<&Path>) -> Result<()> {
    match output {
        Some(path) => std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display())),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}

/// Placeholder addresses for the published document: a deployment's real ones appear only in its own document.
fn documented_addresses() -> api::Addresses {
    api::Addresses {
        base_url: "https://api.causeway.example".to_owned(),
        testnet_base_url: Some("https://api.testnet.causeway.example".to_owned()),
    }
}

fn order_id(file: &Path, config: Option<&Path>) -> Result<()> {
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text)?;
    } else {
        text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    let catalog = config.map(Config::load).transpose()?.map(|config| assemble::catalog(&config)).transpose()?;
    let vm = |name: &str| catalog.as_ref().and_then(|catalog| catalog.vm(name)).or_else(|| well_known(name));
    println!("{}", api::order_data::order_id(&text, &vm)?);
    Ok(())
}

/// The protocol's chain names, which never change.
fn well_known(name: &str) -> Option<Vm> {
    match name {
        "ethereum" | "optimism" | "bnb" | "gnosis" | "polygon" | "zksync" | "base" | "arbitrum" | "arbitrum_nova"
        | "avalanche" | "linea" | "blast" | "scroll" => Some(Vm::Evm),
        "solana" => Some(Vm::Svm),
        "venue" => Some(Vm::Venue),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checked_in_openapi_document_is_the_generated_one() {
        let generated = api::openapi::generate(&documented_addresses());
        let checked_in = include_str!("../../../docs/openapi.json");
        assert!(generated == checked_in, "run `cargo run -- openapi --output docs/openapi.json`");
    }
}
