//! Payments that became void lately.

use alloy_primitives::Address;
use domain::ids::ChainId;
use domain::money::Amount;
use domain::time::Timestamp;

use crate::{StoreError, Tx, Value};

/// Currencies and amounts of payments on a chain that became void after a time.
pub fn void_since(
    tx: &mut Tx<'_>,
    chain: ChainId,
    after: Timestamp,
    most: i64,
) -> Result<Vec<(Address, Amount)>, StoreError> {
    tx.rows(
        "select currency, amount from payment where chain_id = $1 and state = 'void' and updated_at > $2
         order by updated_at limit $3",
        &[chain.0.try_into()?, after.into(), Value::Int(most)],
    )?
    .iter()
    .map(|row| Ok((row.address(0)?, row.amount(1)?)))
    .collect()
}
