//! Deposits at a fixed rate, and the time until their fills are mined.

use std::time::{Duration, Instant};

use alloy::primitives::U64;
use anyhow::{Result, ensure};
use serde_json::json;

use super::report::Throughput;
use super::{FillArgs, Filling};
use crate::stats::per_second;
use crate::{cpu, processes};

/// Deposits in one JSON-RPC batch.
const TXS_PER_BATCH: usize = 50;
/// The longest time without a fill in any block before the run counts as stuck.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) async fn measure(filling: &Filling<'_>, args: &FillArgs) -> Result<Throughput> {
    let count = usize::try_from(args.rate * args.seconds)?;
    let orders = filling.orders(count).await?;
    let deposits = filling.deposits(&orders).await?;
    let (origin, destination) = (filling.origin(), filling.destination());
    let first_block = destination.block_number().await?;
    let watched = filling.processes();
    let (before, began) = (processes::now(&watched), Instant::now());
    let load = async {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        for second in deposits.chunks(usize::try_from(args.rate)?) {
            tick.tick().await;
            for batch in second.chunks(TXS_PER_BATCH) {
                origin.batch(batch.iter().map(|raw| ("eth_sendRawTransaction", json!([raw])))).await?;
            }
        }
        Ok::<_, anyhow::Error>(began.elapsed())
    };
    let fills = async {
        let (mut block, mut filled, mut last) = (first_block, 0, Instant::now());
        let mut first = None;
        while filled < count {
            ensure!(last.elapsed() < STALL_TIMEOUT, "only {filled} of {count} were filled");
            if destination.block_number().await? <= block {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
            block += 1;
            let held: U64 = destination.rpc("eth_getBlockTransactionCountByNumber", [U64::from(block)]).await?;
            if held > U64::ZERO {
                filled += held.to::<usize>();
                last = Instant::now();
                first.get_or_insert(last);
            }
        }
        Ok((first.unwrap_or(last), last))
    };
    let (sent, fills) = tokio::join!(load, fills);
    let (load_took, (first, last)) = (sent?, fills?);
    let shares = processes::since(&before, &watched);
    // The time runs from the start: counting from the first block would leave out the time its fills took.
    let took = last.duration_since(began);
    Ok(Throughput {
        transfers: count,
        deposits_per_second: per_second(count, load_took),
        fills_per_second: per_second(count, took),
        first_fill_millis: u64::try_from(first.duration_since(began).as_millis())?,
        last_fill_millis: u64::try_from(took.as_millis())?,
        cores_used_permille: shares.iter().map(|share| share.core_permille).sum(),
        service_cpu_micros_per_fill: service_cpu(&shares, took, count),
        shares,
        available_cores: std::thread::available_parallelism()?.get(),
        measured: cpu::used().is_some(),
    })
}

/// CPU time of the service per transfer.
fn service_cpu(shares: &[processes::Share], took: Duration, count: usize) -> Option<u64> {
    let share = shares.iter().find(|share| share.name == "service")?;
    let micros = u64::try_from(took.as_micros()).ok()?.checked_mul(share.core_permille)? / 1_000;
    micros.checked_div(count as u64)
}
