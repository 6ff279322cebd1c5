//! Calls under API keys, by day and family of routes.

use domain::api_key::{ApiKeyId, Family};
use domain::time::Timestamp;

use crate::columns::unknown;
use crate::{StoreError, Tx};

const DAY_MILLIS: i64 = 86_400_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub key: ApiKeyId,
    pub family: Family,
    pub calls: u64,
    pub refused: u64,
}

/// The day of a time, counted from the Unix epoch.
pub fn day(at: Timestamp) -> i64 {
    at.millis().div_euclid(DAY_MILLIS)
}

/// Adds calls to the day's counts.
pub fn add(tx: &mut Tx<'_>, day: i64, counted: &[Usage]) -> Result<(), StoreError> {
    for usage in counted {
        tx.execute(
            "insert into api_key_usage (key_id, day, family, calls, refused) values ($1, $2, $3, $4, $5)
             on conflict (key_id, day, family) do update set calls = api_key_usage.calls + excluded.calls,
             refused = api_key_usage.refused + excluded.refused",
            &[
                usage.key.to_string().into(),
                day.into(),
                usage.family.as_str().into(),
                usage.calls.try_into()?,
                usage.refused.try_into()?,
            ],
        )?;
    }
    Ok(())
}

/// A key's calls since a day, by day and family.
pub fn since(tx: &mut Tx<'_>, key: ApiKeyId, from: i64) -> Result<Vec<(i64, Usage)>, StoreError> {
    let rows = tx.rows(
        "select day, family, calls, refused from api_key_usage where key_id = $1 and day >= $2 order by day, family
         limit 500",
        &[key.to_string().into(), from.into()],
    )?;
    rows.iter()
        .map(|row| {
            let text = row.text(1)?;
            let family = Family::ALL.into_iter().find(|family| family.as_str() == text);
            let family = family.ok_or_else(|| unknown(1, "a family of routes"))?;
            Ok((row.int(0)?, Usage { key, family, calls: row.uint(2)?, refused: row.uint(3)? }))
        })
        .collect()
}

/// Deletes counts of days before one.
pub fn prune(tx: &mut Tx<'_>, before: i64) -> Result<u64, StoreError> {
    tx.execute("delete from api_key_usage where day < $1", &[before.into()])
}
