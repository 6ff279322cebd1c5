//! Names of the venue's transactions: kept by their key, once.

use domain::venue::tx_key;
use store::{StoreError, Tx, venue_txs};

use crate::database::Database;

crate::on_both_engines! {
    a_venue_transaction_keeps_its_own_name
}

async fn a_venue_transaction_keeps_its_own_name(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let unit = |tx: &mut Tx<'_>| {
        let (one, other) = (tx_key(&[1; 40]), tx_key(&[2; 40]));
        venue_txs::note(tx, one, "01")?;
        // The first name stands: a key is the hash of one name.
        venue_txs::note(tx, one, "02")?;
        assert_eq!(venue_txs::digest(tx, one)?.as_deref(), Some("01"));
        assert_eq!(venue_txs::digest(tx, other)?, None);
        Ok::<_, StoreError>(())
    };
    store.write(unit).await?;
    Ok(())
}
