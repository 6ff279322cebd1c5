//! A condition on one request that stands in memory, for requests whose facts are not in the columns. It must say what
//! the statement would: a test asks both.

use alloy_primitives::B256;
use domain::facts::{Facts, Feature};
use domain::ids::{ChainId, OrderId, RequestId};
use domain::subject::Purpose;

use super::condition::{Column, Condition, Number, TxRole};
use super::record::Listed;
use crate::Value;
use crate::records::{Direction, Record};

pub(super) struct Facing<'a> {
    pub listed: &'a Listed,
    pub facts: &'a Facts,
    pub fill_millis: Option<i64>,
}

impl Facing<'_> {
    pub(super) fn fits(&self, condition: &Condition) -> bool {
        match condition {
            Condition::All(parts) => parts.iter().all(|part| self.fits(part)),
            Condition::Any(parts) => parts.iter().any(|part| self.fits(part)),
            Condition::Not(inner) => !self.fits(inner),
            Condition::Is(column, value) => self.value(*column) == *value && *value != Value::Null,
            Condition::Empty(column) => self.value(*column) == Value::Null,
            Condition::Between(number, from, to) => {
                let Some(value) = self.number(*number) else { return from.is_none() && to.is_none() };
                from.is_none_or(|from| from <= value) && to.is_none_or(|to| value <= to)
            }
            Condition::Features(bits) => {
                let fast = self.listed.fast_filled.then_some(Feature::FastFill);
                self.facts.features.iter().chain(&fast).any(|feature| feature.bit() & bits != 0)
            }
            Condition::Tx(role, hash) => {
                let transfer = self.listed.deposit_address.as_ref().and_then(|address| address.deposit_tx);
                let is_deposit = matches!(role, TxRole::Any | TxRole::Deposit);
                self.hashes(*role).contains(hash) || (is_deposit && transfer == Some(*hash))
            }
            Condition::HasTx(role) => !self.hashes(*role).is_empty(),
            Condition::OriginBlocks { from, to } => {
                let counts = |record: &&Record| !record.gone && record.direction == Direction::In;
                self.listed.records().filter(counts).any(|record| is_in(record, *from, *to))
            }
            Condition::Blocks { from, to, chain } => {
                let of_chain =
                    |record: &Record, chain: ChainId| record.direction == Direction::In && record.chain == chain;
                let counts = |record: &&Record| !record.gone && chain.is_none_or(|chain| of_chain(record, chain));
                self.listed.records().filter(counts).any(|record| is_in(record, *from, *to))
            }
        }
    }

    fn hashes(&self, role: TxRole) -> Vec<B256> {
        let Listed { payments, void_txs, .. } = self.listed;
        let made = |counts: fn(Purpose) -> bool| {
            payments.iter().filter(move |payment| counts(payment.purpose)).filter_map(|payment| payment.tx)
        };
        let ours = || made(|_| true).chain(void_txs.iter().copied());
        let is_fill = |purpose: Purpose| purpose == Purpose::Fill;
        let of = |direction| self.listed.records().filter(move |it| it.direction == direction).map(|record| record.tx);
        match role {
            TxRole::Any => {
                let records = self.listed.records().map(|record| record.tx);
                records.chain(ours()).collect()
            }
            TxRole::Deposit => of(Direction::In).collect(),
            TxRole::Fill if self.facts.same_chain => of(Direction::In).collect(),
            TxRole::Fill => made(is_fill).collect(),
            TxRole::Refund => {
                let ours: Vec<B256> = ours().collect();
                made(Purpose::is_refund).chain(of(Direction::Out).filter(|tx| !ours.contains(tx))).collect()
            }
        }
    }

    fn value(&self, column: Column) -> Value {
        let Facts { user, recipient, currency_in, currency_out, referrer, .. } = self.facts;
        let request = &self.listed.request;
        let chain = |chain: ChainId| Value::try_from(chain.0).unwrap_or(Value::Null);
        let (RequestId(id), OrderId(order)) = (request.id, request.order_id);
        match column {
            Column::Id => id.into(),
            Column::OrderId => order.into(),
            Column::Parent => request.parent.into(),
            Column::Account => user.into(),
            Column::Recipient => recipient.into(),
            Column::OriginChain => chain(self.facts.origin),
            Column::DestinationChain => chain(self.facts.destination),
            Column::CurrencyIn => currency_in.into(),
            Column::CurrencyOut => currency_out.into(),
            Column::State => request.state.as_str().into(),
            Column::RequestType => self.facts.request_type.as_str().into(),
            Column::Key => self.facts.key.map(|key| key.to_string()).into(),
            Column::Referrer => referrer.as_ref().into(),
            Column::DepositAddress => self.listed.deposit_address.as_ref().map(|it| it.address).into(),
            Column::FailReason => request.fail_reason.map(|reason| reason.as_str()).into(),
            Column::RefundFailReason => request.refund_fail_reason.map(|reason| reason.as_str()).into(),
        }
    }

    pub(super) fn number(&self, number: Number) -> Option<i64> {
        match number {
            Number::CreatedAt => Some(self.listed.created_at.millis()),
            Number::UpdatedAt => Some(self.listed.request.updated_at.millis()),
            Number::AmountUsd => Some(self.facts.amount.0),
            Number::AppFeesUsd => Some(self.facts.app_fees.0),
            Number::FillMillis => self.fill_millis,
        }
    }
}

/// Whether a transaction is in these blocks, both included.
fn is_in(record: &Record, from: Option<u64>, to: Option<u64>) -> bool {
    from.is_none_or(|from| from <= record.block_number) && to.is_none_or(|to| record.block_number <= to)
}
