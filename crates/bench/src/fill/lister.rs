//! A client that lists requests without pause, by turns: on for one deposit, off for the next.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use domain::api_key::KeyText;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::client::{Client, get_as};

/// The largest page there is.
const PATH: &str = "/requests/v3?limit=50&sortBy=updatedAt";
/// The longest that one listing may take to begin.
const START_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct Lister {
    on: watch::Sender<bool>,
    listed: Arc<AtomicU64>,
    task: JoinHandle<Result<()>>,
}

impl Lister {
    pub(super) fn start(address: SocketAddr, key: &KeyText) -> Self {
        let (on, mut is_on) = watch::channel(false);
        let (listed, request) = (Arc::new(AtomicU64::new(0)), get_as(key, PATH));
        let counted = listed.clone();
        let task = tokio::spawn(async move {
            let mut client = Client::connect(address).await?;
            // Ends with the sender.
            while is_on.wait_for(|on| *on).await.is_ok() {
                client.send(&request).await.context("the listing failed")?;
                counted.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        Self { on, listed, task }
    }

    /// Lists from now on, and returns once it does.
    pub(super) async fn go_on(&self) -> Result<()> {
        let before = self.count();
        self.on.send_replace(true);
        let begun = async {
            while self.count() == before && !self.task.is_finished() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(START_TIMEOUT, begun).await.context("no listing is answered")?;
        ensure!(!self.task.is_finished(), "the listing client has ended");
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
        let Self { on, listed, task } = self;
        drop(on);
        task.await??;
        Ok(listed.load(Ordering::Relaxed))
    }
}
