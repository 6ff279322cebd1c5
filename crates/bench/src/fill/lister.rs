//! A client that lists requests without pause, by turns: on for one deposit, off for the next.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use domain::api_key::KeyText;
use tokio::sync::watch;

use crate::client::{Client, get_as};

/// The largest page there is.
const PATH: &str = "/requests/v3?limit=50&sortBy=updatedAt";
/// The longest that one listing may take to begin.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// In steps below the priority of the process. A real client is on another machine: here it gets the processor where
/// nobody else wants it.
#[cfg(target_os = "linux")]
const LOWEST_PRIORITY: i32 = 19;

/// On a thread of its own.
pub(crate) struct Lister {
    on: watch::Sender<bool>,
    listed: Arc<AtomicU64>,
    client: JoinHandle<Result<()>>,
}

impl Lister {
    pub(super) fn start(address: SocketAddr, key: &KeyText) -> Self {
        let (on, mut is_on) = watch::channel(false);
        let (listed, request) = (Arc::new(AtomicU64::new(0)), get_as(key, PATH));
        let counted = listed.clone();
        let list = async move {
            let mut client = Client::connect(address).await?;
            // Ends with the sender.
            while is_on.wait_for(|on| *on).await.is_ok() {
                client.send(&request).await.context("the listing failed")?;
                counted.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let client = std::thread::spawn(move || {
            #[cfg(target_os = "linux")]
            rustix::process::nice(LOWEST_PRIORITY)?;
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(list)
        });
        Self { on, listed, client }
    }

    /// Lists from now on, and returns once it does.
    pub(super) async fn go_on(&self) -> Result<()> {
        let before = self.count();
        self.on.send_replace(true);
        let begun = async {
            while self.count() == before && !self.client.is_finished() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(START_TIMEOUT, begun).await.context("no listing is answered")?;
        ensure!(!self.client.is_finished(), "the listing client has ended");
        Ok(())
    }

    pub(super) fn pause(&self) {
        self.on.send_replace(false);
    }

    /// Pages so far.
    pub(super) fn count(&self) -> u64 {
        self.listed.load(Ordering::Relaxed)
    }

    /// Ends it, and tells if a listing failed.
    pub(super) async fn stop(self) -> Result<u64> {
        let Self { on, listed, client } = self;
        drop(on);
        let ended = tokio::task::spawn_blocking(move || client.join()).await?;
        ended.map_err(|_| anyhow!("the listing client has panicked"))??;
        Ok(listed.load(Ordering::Relaxed))
    }
}
