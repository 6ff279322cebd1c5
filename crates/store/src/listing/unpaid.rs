//! Quotes that nobody has acted on. They are no requests yet, and are listed only to those who know their id.

use domain::catalog::Catalog;
use domain::facts::Facts;
use domain::ids::{OrderId, RequestId};

use super::condition::{Column, Condition, Number};
use super::record::Listed;
use crate::requests::{self, Request};
use crate::{StoreError, Tx, Value};

/// The quote with this id as its request's or its order's, where the condition holds for it.
pub fn unpaid(
    tx: &mut Tx<'_>,
    id: alloy_primitives::B256,
    condition: &Condition,
    catalog: &Catalog,
) -> Result<Option<Listed>, StoreError> {
    let found = tx.row("select request_id from quote where request_id = $1 or order_id = $1", &[id.into()])?;
    let Some(row) = found else { return Ok(None) };
    let Some(request) = requests::find(tx, row.request_id(0)?)? else { return Ok(None) };
    let facts = Facts::of(&request.quote, catalog);
    let it = Unpaid { request: &request, facts: &facts };
    if !it.fits(condition) {
        return Ok(None);
    }
    Ok(Some(Listed {
        created_at: request.quote.created_at,
        records: Vec::new(),
        deposit: None,
        payments: Vec::new(),
        outcome: None,
        fast_filled: false,
        request,
    }))
}

struct Unpaid<'a> {
    request: &'a Request,
    facts: &'a Facts,
}

impl Unpaid<'_> {
    fn fits(&self, condition: &Condition) -> bool {
        match condition {
            Condition::All(parts) => parts.iter().all(|part| self.fits(part)),
            Condition::Any(parts) => parts.iter().any(|part| self.fits(part)),
            Condition::Not(inner) => !self.fits(inner),
            Condition::Is(column, value) => self.value(*column) == *value,
            Condition::Empty(column) => self.value(*column) == Value::Null,
            Condition::Between(number, from, to) => {
                let Some(value) = self.number(*number) else { return from.is_none() && to.is_none() };
                from.is_none_or(|from| from <= value) && to.is_none_or(|to| value <= to)
            }
            Condition::Features(bits) => self.facts.features.iter().any(|feature| feature.bit() & bits != 0),
            // It has no transaction.
            Condition::Tx(..) | Condition::HasTx(_) | Condition::Blocks { .. } => false,
        }
    }

    fn value(&self, column: Column) -> Value {
        let Facts { user, recipient, currency_in, currency_out, referrer, .. } = self.facts;
        let chain = |chain: domain::ids::ChainId| Value::try_from(chain.0).unwrap_or(Value::Null);
        let (RequestId(id), OrderId(order)) = (self.request.id, self.request.order_id);
        match column {
            Column::Id => id.into(),
            Column::OrderId => order.into(),
            Column::Account => user.into(),
            Column::Recipient => recipient.into(),
            Column::OriginChain => chain(self.facts.origin),
            Column::DestinationChain => chain(self.facts.destination),
            Column::CurrencyIn => currency_in.into(),
            Column::CurrencyOut => currency_out.into(),
            Column::State => self.request.state.as_str().into(),
            Column::RequestType => self.facts.request_type.as_str().into(),
            Column::Key => self.facts.key.map(|key| key.to_string()).into(),
            Column::Referrer => referrer.as_ref().into(),
            Column::Parent | Column::FailReason | Column::RefundFailReason => Value::Null,
        }
    }

    fn number(&self, number: Number) -> Option<i64> {
        match number {
            Number::CreatedAt => Some(self.request.quote.created_at.millis()),
            Number::UpdatedAt => Some(self.request.updated_at.millis()),
            Number::AmountUsd => Some(self.facts.amount.0),
            Number::AppFeesUsd => Some(self.facts.app_fees.0),
            Number::FillMillis => None,
        }
    }
}
