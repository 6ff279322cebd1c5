//! The command line.

use std::path::PathBuf;

use alloy::primitives::{Address, Bytes};
use clap::{Parser, Subcommand, ValueEnum};
use domain::api_key::{ApiKeyId, Family, Rate};

use crate::role::Role;

/// Causeway moves value between chains: quote, deposit, and the recipient is paid.
#[derive(Debug, Parser)]
#[command(name = "causeway", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// How log lines look.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run everything locally: chains, contracts, DEX and the service.
    #[cfg(feature = "dev")]
    Dev(DevArgs),
    /// Run the service, or one part of it.
    Serve(RoleArgs),
    /// Bring the database up to this version's schema.
    Migrate(ConfigArgs),
    /// Check configuration, database, nodes, contracts, balances and clock, and say how to mend what is wrong.
    Doctor(RoleArgs),
    /// Import what our wallets sent since the database was saved, after restoring a backup.
    Recover(RoleArgs),
    /// Ask the running service to refund a request that waits for its fill. Who asked, and why, is kept with it.
    Refund {
        /// The request.
        #[arg(value_name = "REQUEST_ID")]
        request: String,
        /// Why.
        #[arg(long)]
        reason: String,
        /// Who decided; whoever runs this, unless given.
        #[arg(long, value_name = "NAME", env = "USER", default_value = "operator")]
        by: String,
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Ask the running service to fill up the fillers' native currency from the treasury; without --yes, what they lack.
    Topup {
        /// Send it.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Hold everything the database says against the chains; says what differs and exits 1 if anything does.
    Audit {
        #[command(flatten)]
        args: RoleArgs,
        /// Print the findings as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make, change and end API keys, also while the service runs.
    Keys {
        #[command(subcommand)]
        command: KeysCommand,
        /// The configuration file.
        #[arg(long, global = true, value_name = "FILE", default_value = "causeway.toml", env = "CAUSEWAY_CONFIG")]
        config: PathBuf,
    },
    /// Print the OpenAPI document.
    Openapi {
        /// Where to write it; standard output unless given.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Print the id of an order, from a file with its `orderData` as JSON.
    OrderId {
        /// The file, or - for standard input.
        file: PathBuf,
        /// Take chain names from this configuration as well.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

#[derive(Debug, clap::Args)]
pub struct ConfigArgs {
    /// The configuration file.
    #[arg(long, value_name = "FILE", default_value = "causeway.toml", env = "CAUSEWAY_CONFIG")]
    pub config: PathBuf,
}

#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Make a key. Prints its id and, this once, its text.
    Create {
        #[arg(long)]
        name: String,
        /// Higher rate limits.
        #[arg(long)]
        elevated: bool,
        /// Obey the referrer `debug-force-refund`.
        #[arg(long)]
        may_force_refund: bool,
    },
    /// All keys, in the order they were made.
    List,
    /// What a key is and may do.
    Show {
        id: ApiKeyId,
    },
    Rename {
        id: ApiKeyId,
        name: String,
    },
    /// Give a key another text. Prints its id and, this once, the text.
    Rotate {
        id: ApiKeyId,
        /// Seconds for which the text before stays good; a week at most.
        #[arg(long, default_value_t = 0, value_name = "SECONDS")]
        overlap_secs: u32,
    },
    /// End a key for good. Running instances refuse it within seconds.
    Revoke {
        id: ApiKeyId,
    },
    /// Link a wallet to a key: prints what the wallet has to sign and, called again with the signature, links it.
    Link {
        id: ApiKeyId,
        #[arg(long)]
        wallet: Address,
        #[arg(long, value_name = "HEX")]
        signature: Option<Bytes>,
    },
    /// Say how often a key may call, and what else it may do.
    Limits(LimitsArgs),
}

#[derive(Debug, clap::Args)]
pub struct LimitsArgs {
    pub id: ApiKeyId,
    #[arg(long, value_name = "BOOL")]
    pub elevated: Option<bool>,
    /// A rate for a family of routes, such as quotes=10/s or others=200/min, or quotes=default. Families: quotes,
    /// requests, requests-v3, transaction-status, others.
    #[arg(long = "rate", value_name = "FAMILY=RATE", value_parser = crate::commands::family_rate)]
    pub rates: Vec<(Family, Option<Rate>)>,
    #[arg(long, value_name = "BOOL")]
    pub may_force_refund: Option<bool>,
}

#[derive(Debug, clap::Args)]
pub struct RoleArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// What the process is for, and so which keys it needs. All but `all` need Postgres.
    #[arg(long, value_enum, default_value_t = Role::All)]
    pub role: Role,
}

#[cfg(feature = "dev")]
#[derive(Debug, clap::Args)]
pub struct DevArgs {
    /// The port the service listens on.
    #[arg(long, default_value_t = 8080, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Where chains, database and dev.json are kept.
    #[arg(long, default_value = ".causeway")]
    pub data_dir: PathBuf,
    /// Forget what an earlier run left.
    #[arg(long)]
    pub fresh: bool,
    /// Seconds between blocks; fractions are fine.
    #[arg(long, default_value = "1", value_parser = seconds)]
    pub block_time: std::time::Duration,
    /// `sqlite`, `postgres` (one is started), or a postgres:// URL of your own.
    #[arg(long, default_value = "sqlite")]
    pub database: String,
    /// Answer however often anyone asks.
    #[arg(long)]
    pub no_rate_limits: bool,
    /// Start everything but the service; run that with `causeway serve --config <data-dir>/dev.toml`.
    #[arg(long)]
    pub chains_only: bool,
}

#[cfg(feature = "dev")]
fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let problem = || "must be seconds between 0.05 and 60, such as 1 or 0.2".to_owned();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 {
        return Err(problem());
    }
    let millis = format!("{whole}{fraction:0<3}").parse::<u64>().map_err(|_| problem())?;
    if (50..=60_000).contains(&millis) { Ok(std::time::Duration::from_millis(millis)) } else { Err(problem()) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[cfg(feature = "dev")]
    #[test]
    fn block_times_are_read_as_seconds() {
        assert_eq!(seconds("1").map(|time| time.as_millis()), Ok(1000));
        assert_eq!(seconds("0.2").map(|time| time.as_millis()), Ok(200));
        for bad in ["", "0", "-1", "x", "61", "0.0001"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
