//! Every kind of value comes back as it went in.

use alloy_primitives::{Address, B256};
use store::{StoreError, Value};

use crate::database::Database;

crate::on_both_engines! {
    values_come_back_as_they_went_in
    booleans_are_tested_as_such
    a_sum_is_cast_to_a_bigint
    identities_count_up
    listings_are_built_at_run_time
    one_row_means_one_row
    the_database_tells_the_time
    a_statement_with_the_wrong_number_of_arguments_is_refused
}

async fn values_come_back_as_they_went_in(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let values = [
        Value::Int(0),
        Value::Int(i64::MIN),
        Value::Int(i64::MAX),
        Value::Text(String::new()),
        Value::Text("naïve 'quotes' $1 {bytes} 船".into()),
        Value::Bytes(Vec::new()),
        Value::Bytes((0..=255).collect()),
        Value::from(B256::repeat_byte(7)),
        Value::from(Address::repeat_byte(9)),
    ];
    store
        .write(|tx| tx.execute("create table kind (id bigint primary key, i bigint, t text, b {bytes})", &[]))
        .await
        .map_err(anyhow::Error::from)?;
    for (id, value) in values.into_iter().enumerate() {
        let id = id as i64;
        let row = store
            .write({
                let value = value.clone();
                move |tx| -> Result<_, StoreError> {
                    let pick = |kind: &str| match (&value, kind) {
                        (Value::Int(_), "i") | (Value::Text(_), "t") | (Value::Bytes(_), "b") => value.clone(),
                        _ => Value::Null,
                    };
                    let args = [id.into(), pick("i"), pick("t"), pick("b")];
                    tx.execute("insert into kind (id, i, t, b) values ($1, $2, $3, $4)", &args)?;
                    tx.row("select i, t, b from kind where id = $1", &[id.into()])?.ok_or(StoreError::ManyRows(0))
                }
            })
            .await?;
        let (int, text, bytes) = (row.opt_int(0)?, row.opt_text(1)?, row.opt_bytes(2)?);
        match value {
            Value::Int(value) => assert_eq!((int, text, bytes), (Some(value), None, None)),
            Value::Text(value) => assert_eq!((int, text, bytes), (None, Some(value.as_str()), None)),
            Value::Bytes(value) => assert_eq!((int, text, bytes), (None, None, Some(value.as_slice()))),
            Value::Bool(_) | Value::Null => unreachable!("not in the table"),
        }
    }
    Ok(())
}

async fn booleans_are_tested_as_such(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let (on, off) = store
        .write(|tx| -> Result<_, StoreError> {
            tx.execute("create table switch (id bigint primary key, flag boolean not null default false)", &[])?;
            tx.execute("insert into switch (id, flag) values (1, $1), (2, $2)", &[true.into(), false.into()])?;
            tx.execute("insert into switch (id) values (3)", &[])?;
            let on = tx.rows("select id, flag from switch where flag", &[])?;
            let off = tx.rows("select id, flag from switch where not flag order by id", &[])?;
            Ok((on, off))
        })
        .await?;
    assert_eq!((on.len(), on[0].int(0)?, on[0].bool(1)?), (1, 1, true));
    assert_eq!((off.len(), off[1].int(0)?, off[1].bool(1)?), (2, 3, false));
    Ok(())
}

async fn a_sum_is_cast_to_a_bigint(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let sum = store
        .write(|tx| -> Result<_, StoreError> {
            tx.execute("insert into jar (id, coins) values (1, 10), (2, 20)", &[])?;
            let sql = "select cast(coalesce(sum(coins), 0) as bigint), count(*) from jar";
            tx.row(sql, &[])?.ok_or(StoreError::ManyRows(0))
        })
        .await?;
    assert_eq!((sum.int(0)?, sum.int(1)?), (30, 2));
    Ok(())
}

async fn identities_count_up(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let ids = store
        .write(|tx| -> Result<Vec<i64>, StoreError> {
            tx.execute("create table happening (sequence {identity}, what text not null)", &[])?;
            let sql = "insert into happening (what) values ('a'), ('b') returning sequence";
            tx.rows(sql, &[])?.iter().map(|row| row.int(0)).collect()
        })
        .await?;
    assert_eq!(ids, [1, 2]);
    Ok(())
}

async fn listings_are_built_at_run_time(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    crate::database::put(&store, 1, 10).await?;
    for filters in 0..200 {
        let found = store
            .read(move |tx| -> Result<usize, StoreError> {
                let mut sql = String::from("select id from jar where coins = $1");
                let mut args = vec![Value::Int(10)];
                for number in 0..filters % 150 {
                    args.push(Value::Int(1));
                    sql.push_str(&format!(" and id = ${}", number + 2));
                }
                sql.push_str(" limit 50");
                Ok(tx.rows_dynamic(&sql, &args)?.len())
            })
            .await?;
        assert_eq!(found, 1);
    }
    Ok(())
}

async fn one_row_means_one_row(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    crate::database::put(&store, 1, 10).await?;
    crate::database::put(&store, 2, 10).await?;
    let error = store.read(|tx| tx.row("select id from jar", &[])).await.unwrap_err();
    assert!(matches!(error, StoreError::ManyRows(2)), "{error}");
    Ok(())
}

async fn the_database_tells_the_time(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let row = store.read(|tx| tx.row("select {now_ms}", &[])).await.map_err(anyhow::Error::from)?;
    let now = row.map(|row| row.int(0)).transpose()?.unwrap_or_default();
    let here = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis();
    assert!(here.abs_diff(now.try_into()?) < 60_000, "{now} {here}");
    Ok(())
}

async fn a_statement_with_the_wrong_number_of_arguments_is_refused(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    for args in [vec![], vec![Value::Int(1), Value::Int(2)]] {
        let result = store.read(move |tx| tx.rows("select id from jar where id = $1", &args)).await;
        assert!(result.is_err());
    }
    Ok(())
}
