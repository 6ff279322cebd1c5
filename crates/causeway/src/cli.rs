//! The command line.

use std::path::PathBuf;

use alloy::primitives::{Address, Bytes};
use clap::{Parser, Subcommand};
use domain::api_key::{ApiKeyId, Family, Rate};
use domain::webhook::{EndpointName, Status};

use crate::logs::LogFormat;
use crate::role::Role;

/// Causeway moves value between chains: quote, deposit, and the recipient is paid.
#[derive(Debug, Parser)]
#[command(name = "causeway", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Format of log lines.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run everything locally: chains, contracts, DEX and the service.
    #[cfg(feature = "dev")]
    Dev(DevArgs),
    /// Run the service, or one part of it.
    Serve(RoleArgs),
    /// Migrate the database to this version's schema.
    Migrate(ConfigArgs),
    /// Check configuration, database, nodes, contracts, balances and clock, and print a fix for each problem.
    Doctor(RoleArgs),
    /// Import transactions our wallets sent after the backup was taken. Run it after restoring a backup.
    Recover {
        #[command(flatten)]
        args: RoleArgs,
        /// Go on where the venue has used nonces of ours and lists no transfer for them. Only if its operator says that
        /// those transfers paid nobody: one that did would be paid again.
        #[arg(long)]
        unlisted_have_failed: bool,
    },
    /// Ask the running service to refund a request that waits for its fill. The request records who asked and why.
    Refund {
        /// Id of the request.
        #[arg(value_name = "REQUEST_ID")]
        request: String,
        /// Reason for the refund.
        #[arg(long)]
        reason: String,
        /// Name of the person who decided; the current user by default.
        #[arg(long, value_name = "NAME", env = "USER", default_value = "operator")]
        by: String,
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Pause a chain: nothing new is quoted or paid on it, and payments under way are finished. Works beside the
    /// running service, whose processes know of it within seconds, and without it.
    Pause(PauseArgs),
    /// End the pause of a chain.
    Resume(PauseArgs),
    /// Ask the running service to refill the fillers' native currency from the treasury; without --yes, print the
    /// shortfall.
    Topup {
        /// Send the refills.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Compare the database with the chains, print the differences and exit 1 if there are any.
    Audit {
        #[command(flatten)]
        args: RoleArgs,
        /// Print the findings as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Create, change and revoke API keys, also while the service runs.
    Keys {
        #[command(subcommand)]
        command: KeysCommand,
        /// The configuration file.
        #[arg(long, global = true, value_name = "FILE", default_value = "causeway.toml", env = "CAUSEWAY_CONFIG")]
        config: PathBuf,
    },
    /// Make the transfer that a withdrawal's step asks for, read as JSON from standard input, with the keys of an
    /// account of the venue simulator.
    #[cfg(feature = "dev")]
    VenueTransfer(VenueTransferArgs),
    /// Receive webhooks on this machine: verify each event and print it.
    WebhookListen(ListenArgs),
    /// Print the OpenAPI document.
    Openapi {
        /// Output file; standard output by default.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Print the page of error codes.
    Errors {
        /// Output file; standard output by default.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Print the id of an order, read from a file with its `orderData` as JSON.
    OrderId {
        /// JSON file, or - for standard input.
        file: PathBuf,
        /// Configuration file whose chain names are accepted as well.
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

#[derive(Debug, clap::Args)]
pub struct PauseArgs {
    /// Id or name of the chain.
    #[arg(value_name = "CHAIN")]
    pub chain: String,
    /// Reason for the decision.
    #[arg(long)]
    pub reason: String,
    /// Name of the person who decided; the current user by default.
    #[arg(long, value_name = "NAME", env = "USER", default_value = "operator")]
    pub by: String,
    #[command(flatten)]
    pub config: ConfigArgs,
}

#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Create a key. Prints its id and, this once, its text.
    Create {
        #[arg(long)]
        name: String,
        /// Higher rate limits.
        #[arg(long)]
        elevated: bool,
        /// Honour the referrer `debug-force-refund`.
        #[arg(long)]
        may_force_refund: bool,
    },
    /// List all keys, oldest first.
    List,
    /// Show a key's state, permissions and limits.
    Show {
        id: ApiKeyId,
    },
    Rename {
        id: ApiKeyId,
        name: String,
    },
    /// Replace a key's text. Prints its id and, this once, the new text.
    Rotate {
        id: ApiKeyId,
        /// Seconds for which the old text stays valid; a week at most.
        #[arg(long, default_value_t = 0, value_name = "SECONDS")]
        overlap_secs: u32,
    },
    /// Revoke a key for good. Running instances refuse it within seconds.
    Revoke {
        id: ApiKeyId,
    },
    /// Give a key to an account of the dashboard, which then sees and changes it.
    Give {
        id: ApiKeyId,
        #[arg(long)]
        account: Address,
    },
    /// Link a wallet to a key: prints the message to sign and, called again with the signature, links the wallet.
    Link {
        id: ApiKeyId,
        #[arg(long)]
        wallet: Address,
        #[arg(long, value_name = "HEX")]
        signature: Option<Bytes>,
    },
    /// Set a key's rate limits and permissions.
    Limits(LimitsArgs),
    /// Show, set or delete a webhook endpoint of a key.
    Webhook(WebhookArgs),
}

#[derive(Debug, clap::Args)]
pub struct WebhookArgs {
    pub id: ApiKeyId,
    /// Name of the endpoint.
    #[arg(long, default_value = domain::webhook::DEFAULT_ENDPOINT)]
    pub name: EndpointName,
    /// URL that events are posted to.
    #[arg(long)]
    pub url: Option<String>,
    /// Header that is sent with every event. Several replace those there were.
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub headers: Vec<(String, String)>,
    /// Send no headers of its own.
    #[arg(long, conflicts_with = "headers")]
    pub no_headers: bool,
    /// Status that is posted; several replace those there were.
    #[arg(long = "status", value_name = "STATUS")]
    pub statuses: Vec<Status>,
    /// Post every status.
    #[arg(long, conflicts_with = "statuses")]
    pub all_statuses: bool,
    #[arg(long, value_name = "BOOL")]
    pub enabled: Option<bool>,
    /// Post a test event.
    #[arg(long, conflicts_with_all = ["delete", "url", "headers", "no_headers", "statuses", "all_statuses", "enabled"])]
    pub test: bool,
    #[arg(long, conflicts_with_all = ["url", "headers", "no_headers", "statuses", "all_statuses", "enabled"])]
    pub delete: bool,
}

#[derive(Debug, clap::Args)]
pub struct ListenArgs {
    /// Text of the API key (cwk_…). Give both while it is rotated.
    #[arg(long = "key", value_name = "TEXT", env = "CAUSEWAY_API_KEY", hide_env_values = true)]
    pub keys: Vec<String>,
    /// Port to listen on; 0 for any.
    #[arg(long, default_value_t = 4000)]
    pub port: u16,
    /// HTTP status that good events are answered with.
    #[arg(long, value_name = "STATUS", default_value_t = 204)]
    pub answer: u16,
    /// End after so many events.
    #[arg(long, value_name = "COUNT")]
    pub events: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub struct LimitsArgs {
    pub id: ApiKeyId,
    #[arg(long, value_name = "BOOL")]
    pub elevated: Option<bool>,
    /// Rate limit for a family of routes, such as quotes=10/s or others=200/min, or quotes=default. Families: quotes,
    /// requests, requests-v3, transaction-status, others.
    #[arg(long = "rate", value_name = "FAMILY=RATE", value_parser = family_rate)]
    pub rates: Vec<(Family, Option<Rate>)>,
    #[arg(long, value_name = "BOOL")]
    pub may_force_refund: Option<bool>,
}

#[derive(Debug, clap::Args)]
pub struct RoleArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Role of the process, which decides the keys it needs. All roles but `all` need Postgres.
    #[arg(long, value_enum, default_value_t = Role::All)]
    pub role: Role,
}

#[cfg(feature = "dev")]
#[derive(Debug, clap::Args)]
pub struct VenueTransferArgs {
    /// Index of the account, one of those in dev.json.
    #[arg(long)]
    pub account: u64,
    /// The facts that `causeway dev` has written.
    #[arg(long, default_value = ".causeway/dev.json")]
    pub facts: PathBuf,
}

#[cfg(feature = "dev")]
#[derive(Debug, clap::Args)]
pub struct DevArgs {
    /// Port the service listens on.
    #[arg(long, default_value_t = 8080, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Folder for the chains, the database and dev.json.
    #[arg(long, default_value = ".causeway")]
    pub data_dir: PathBuf,
    /// Discard the state of an earlier run.
    #[arg(long)]
    pub fresh: bool,
    /// Seconds between blocks; fractions are allowed.
    #[arg(long, default_value = "1", value_parser = seconds)]
    pub block_time: std::time::Duration,
    /// `sqlite`, `postgres` (a server is started), or a postgres:// URL of your own.
    #[arg(long, default_value = "sqlite")]
    pub database: String,
    /// Turn off rate limits.
    #[arg(long)]
    pub no_rate_limits: bool,
    /// Start everything but the service; start it with `causeway serve --config <data-dir>/dev.toml`.
    #[arg(long)]
    pub chains_only: bool,
    /// Day from which `GET /requests/v2` answers 410, to see what a client makes of it.
    #[arg(long, value_name = "DAY")]
    pub requests_v2_sunset: Option<crate::config::Day>,
}

/// Parses `quotes=10/s`, or `quotes=default` to drop the key's own rate.
fn family_rate(text: &str) -> Result<(Family, Option<Rate>), String> {
    let names = || Family::ALL.map(Family::as_str).join(", ");
    let (name, rate) = text.split_once('=').ok_or("must be such as quotes=10/s")?;
    let family = Family::ALL.into_iter().find(|family| family.as_str() == name);
    let family = family.ok_or_else(|| format!("{name} is none of {}", names()))?;
    match rate {
        "default" => Ok((family, None)),
        rate => rate.parse().map(|rate| (family, Some(rate))).map_err(|error| format!("{rate}: {error}")),
    }
}

/// Parses `Name: value`.
fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("must be such as Authorization: Bearer abc")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
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

    #[test]
    fn rates_are_given_by_family() {
        assert_eq!(family_rate("quotes=10/s"), Ok((Family::Quotes, Some("10/s".parse().unwrap()))));
        assert_eq!(family_rate("requests-v3=default"), Ok((Family::RequestsV3, None)));
        for bad in ["quotes", "quote=10/s", "quotes=10", "quotes="] {
            assert!(family_rate(bad).is_err(), "{bad}");
        }
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
