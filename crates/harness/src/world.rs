//! Folder, database, wallets and configuration of one service.

use std::path::{Path, PathBuf};

use alloy::primitives::Address;
use anyhow::Result;
use causeway::config::Config;
use causeway::local::{self, Local};
use devnet::{Account, Devnet, Postgres};
use store::Store;
use tempfile::TempDir;

use crate::Program;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    Sqlite,
    Postgres,
}

impl Engine {
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "Postgres",
        }
    }
}

/// A fresh database: of the server, or without one a SQLite file in the folder.
pub async fn database(folder: &Path, server: Option<&Postgres>) -> Result<String> {
    match server {
        Some(server) => Ok(server.fresh_database().await?.to_string()),
        None => Ok(format!("sqlite:{}", folder.join("causeway.db").display())),
    }
}

/// The service's own wallets. Services that share chains do not share wallets.
#[derive(Clone, Copy, Debug)]
pub struct Wallets<'a> {
    pub orders: &'a Account,
    pub treasury: Address,
    pub fillers: &'a [Account],
}

impl<'a> Wallets<'a> {
    /// The wallets that the network was started with.
    pub fn of(devnet: &'a Devnet) -> Self {
        let keys = &devnet.keys;
        Self { orders: &keys.orders, treasury: keys.treasury.address, fillers: &keys.fillers }
    }
}

/// Everything a service needs before it starts.
#[derive(Debug)]
pub struct World {
    /// The configuration as the service reads it from its file.
    pub config: Config,
    /// The configuration's file.
    pub path: PathBuf,
    /// Folder of the keys, the configuration and a SQLite database; removed when it is dropped.
    pub folder: TempDir,
}

impl World {
    /// A service without rate limits on a free port. `change` may alter the configuration before it is written.
    pub fn new(
        folder: TempDir,
        devnet: &Devnet,
        database: &str,
        wallets: Wallets<'_>,
        change: impl FnOnce(&mut Config),
    ) -> Result<Self> {
        let Wallets { orders, treasury, fillers } = wallets;
        let (port, rate_limits) = (devnet::free_port()?, false);
        let local = Local { devnet, folder: folder.path(), port, rate_limits, database, orders, treasury, fillers };
        let (path, config) = local::prepare(local, change)?;
        Ok(Self { config, path, folder })
    }

    /// Makes the tables.
    pub fn migrate(&self) -> Result<()> {
        Store::migrate(&causeway::assemble::database(&self.config)?)?;
        Ok(())
    }

    /// The service of this world as a program of its own, which logs into the folder.
    pub fn program(&self, binary: Option<PathBuf>) -> Program {
        Program { binary, config: self.path.clone(), log: self.folder.path().join("service.log") }
    }
}
