//! Records of a local network, moved into the past: a network that has run for a minute has no week for charts to show.
//!
//! Nothing is made up. Requests that have ended, their events, entries of the ledger, keys and counts of calls keep
//! their content and their order; only their times are others. Blocks, deposits and payments stay as the chains have
//! them.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use causeway::assemble;
use causeway::config::Config;
use clap::Args;
use store::{Store, StoreError, Tx};

const DAY_MILLIS: i64 = 86_400_000;
/// Counts of calls have their day in their key: far away from here they pass each other without meeting.
const DETOUR_DAYS: i64 = 100_000;

const TIMES: [&str; 4] = [
    "update request_event set at = at - $1 where request_id in
     (select request_id from request where state in ('success', 'refunded', 'failed'))",
    "update request set created_at = created_at - $1, updated_at = updated_at - $1
     where state in ('success', 'refunded', 'failed')",
    "update ledger_entry set at = at - $1",
    "update api_key set created_at = created_at - $1",
];

#[derive(Debug, Args)]
pub(crate) struct BackdateArgs {
    /// Configuration of the network, such as `.causeway/dev.toml`.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Days by which everything becomes older.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..=90))]
    days: i64,
}

pub(crate) async fn run(args: &BackdateArgs) -> Result<()> {
    let config = Config::load(&args.config)?;
    // A test wallet is only taken where every chain is local.
    ensure!(config.dashboard.test_wallet_key.is_some(), "only records of a local network can be moved");
    let options = assemble::database(&config)?;
    let store = Store::open(&options).with_context(|| format!("database {}", options.url))?;
    let days = args.days;
    let moved = store.write(move |tx| backdate(tx, days)).await;
    store.close().await;
    moved?;
    Ok(())
}

fn backdate(tx: &mut Tx<'_>, days: i64) -> Result<(), StoreError> {
    for sql in TIMES {
        tx.execute(sql, &[days.saturating_mul(DAY_MILLIS).into()])?;
    }
    let away = DETOUR_DAYS.saturating_add(days);
    tx.execute("update api_key_usage set day = day - $1", &[away.into()])?;
    tx.execute("update api_key_usage set day = day + $1", &[DETOUR_DAYS.into()])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloy::primitives::B256;
    use domain::api_key::{ApiKeyId, Family};
    use store::key_usage::{self, Usage};
    use store::{DatabaseUrl, Options};

    use super::*;

    const INSERT: &str = "insert into request (request_id, order_id, state, quote, created_at, updated_at)
        values ($1, $1, $2, '', $3, $3)";

    fn example(tx: &mut Tx<'_>) -> Result<(Vec<i64>, Vec<i64>), StoreError> {
        let key = ApiKeyId::new([7; 10]);
        for (n, state) in [(1, "success"), (2, "waiting")] {
            tx.execute(INSERT, &[B256::repeat_byte(n).into(), state.into(), (10 * DAY_MILLIS).into()])?;
        }
        for day in [20_000, 20_001] {
            key_usage::add(tx, day, &[Usage { key, family: Family::Quotes, calls: 3, refused: 0 }])?;
        }
        backdate(tx, 1)?;
        let times = tx.rows("select created_at from request order by request_id", &[])?;
        let times = times.iter().map(|row| row.int(0)).collect::<Result<_, _>>()?;
        Ok((times, key_usage::since(tx, key, 0)?.into_iter().map(|(day, _)| day).collect()))
    }

    #[tokio::test]
    async fn a_day_passes_for_everything_that_has_ended() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let options = Options::new(DatabaseUrl::sqlite(folder.path().join("causeway.db")));
        Store::migrate(&options)?;
        let store = Store::open(&options)?;
        let (times, days) = store.write(example).await?;
        store.close().await;
        assert_eq!((times, days), (vec![9 * DAY_MILLIS, 10 * DAY_MILLIS], vec![19_999, 20_000]));
        Ok(())
    }
}
