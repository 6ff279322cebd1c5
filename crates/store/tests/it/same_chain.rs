//! Same-chain transactions with an app fee, until they are booked.

use alloy_primitives::B256;
use domain::ids::{ChainId, RequestId};
use domain::same_chain_tx::State;
use store::same_chain::{self, SameChainId};
use store::{StoreError, Tx};

use crate::database::Database;

crate::on_both_engines! {
    a_transaction_is_booked_once_whatever_a_reorg_takes_away
}

const CHAIN: ChainId = ChainId(1);
const REQUEST: RequestId = RequestId(B256::repeat_byte(1));
const TX: B256 = B256::repeat_byte(2);
const FIRST: SameChainId = SameChainId(0);

async fn a_transaction_is_booked_once_whatever_a_reorg_takes_away(database: Database) -> anyhow::Result<()> {
    let store = database.open().await?;
    let unit = |tx: &mut Tx<'_>| {
        let ripe = |tx: &mut Tx<'_>| same_chain::ripe(tx, CHAIN, 20, FIRST, 10);
        same_chain::put(tx, REQUEST, CHAIN, TX, 8)?;
        let (id, _) = ripe(tx)?[0];
        assert_eq!(same_chain::lock(tx, id)?, Some((REQUEST, State::Seen)));
        assert!(same_chain::gone_above(tx, CHAIN, 7)?);
        assert_eq!(same_chain::lock(tx, id)?, Some((REQUEST, State::Gone)));
        assert_eq!(ripe(tx)?, []);
        same_chain::book(tx, id, None)?;
        assert_eq!(same_chain::lock(tx, id)?, Some((REQUEST, State::Gone)), "it is in no block");
        same_chain::put(tx, REQUEST, CHAIN, TX, 9)?;
        assert_eq!(ripe(tx)?, [(id, TX)], "another block has it");
        same_chain::book(tx, id, None)?;
        assert!(!same_chain::gone_above(tx, CHAIN, 8)?, "the caller hears of it");
        same_chain::put(tx, REQUEST, CHAIN, TX, 10)?;
        assert_eq!(same_chain::lock(tx, id)?, Some((REQUEST, State::Booked)));
        assert_eq!(ripe(tx)?, []);
        Ok::<_, StoreError>(())
    };
    store.write(unit).await?;
    store.close().await;
    Ok(())
}
