//! Work that outlives the runtime of the test that asked for it.

use anyhow::{Context, Result};

/// Runs a future on a runtime that lasts as long as the process.
pub(crate) async fn on_background_thread<T: Send + 'static>(
    name: &str,
    start: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let work = move || {
        runtime.block_on(async {
            drop(sender.send(start.await));
            std::future::pending::<()>().await;
        });
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
    receiver.await.with_context(|| format!("the {name} thread ended"))?
}
