//! A condition on requests, as SQL for either engine. Values travel as arguments, never in the text.

use alloy_primitives::B256;
use domain::ids::ChainId;

use crate::{StoreError, Value};

/// A column that is compared for equality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Id,
    OrderId,
    Parent,
    Account,
    Recipient,
    OriginChain,
    DestinationChain,
    CurrencyIn,
    CurrencyOut,
    State,
    FailReason,
    RefundFailReason,
    RequestType,
    Key,
    Referrer,
}

impl Column {
    const fn name(self) -> &'static str {
        match self {
            Self::Id => "request_id",
            Self::OrderId => "order_id",
            Self::Parent => "parent_id",
            Self::Account => "account",
            Self::Recipient => "recipient",
            Self::OriginChain => "origin_chain",
            Self::DestinationChain => "destination_chain",
            Self::CurrencyIn => "currency_in",
            Self::CurrencyOut => "currency_out",
            Self::State => "state",
            Self::FailReason => "fail_reason",
            Self::RefundFailReason => "refund_fail_reason",
            Self::RequestType => "request_type",
            Self::Key => "key_id",
            Self::Referrer => "referrer",
        }
    }
}

/// A column with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    CreatedAt,
    UpdatedAt,
    AmountUsd,
    AppFeesUsd,
    FillMillis,
}

impl Number {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::CreatedAt => "created_at",
            Self::UpdatedAt => "updated_at",
            Self::AmountUsd => "amount_usd",
            Self::AppFeesUsd => "app_fees_usd",
            Self::FillMillis => "fill_millis",
        }
    }
}

/// The part that a transaction plays in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxRole {
    Any,
    Deposit,
    Fill,
    Refund,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    All(Vec<Self>),
    Any(Vec<Self>),
    /// Where the inner condition is false or about a field that is empty.
    Not(Box<Self>),
    Is(Column, Value),
    Empty(Column),
    /// Both ends included.
    Between(Number, Option<i64>, Option<i64>),
    /// At least one of these bits is set.
    Features(i64),
    Tx(TxRole, B256),
    HasTx(TxRole),
    /// A transaction in these blocks, both included, of one chain where one is given. Only the user's transactions
    /// count there.
    Blocks {
        from: Option<u64>,
        to: Option<u64>,
        chain: Option<ChainId>,
    },
}

impl Condition {
    pub const ALWAYS: Self = Self::All(Vec::new());
    pub const NEVER: Self = Self::Any(Vec::new());

    pub fn is(column: Column, value: impl Into<Value>) -> Self {
        Self::Is(column, value.into())
    }

    pub fn negated(self) -> Self {
        Self::Not(Box::new(self))
    }
}

/// Text and arguments of a statement that grows.
#[derive(Debug, Default)]
pub(super) struct Sql {
    pub(super) text: String,
    pub(super) args: Vec<Value>,
}

impl Sql {
    /// Adds an argument and returns its name in the text.
    pub(super) fn arg(&mut self, value: impl Into<Value>) -> String {
        self.args.push(value.into());
        format!("${}", self.args.len())
    }

    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(super) fn condition(&mut self, condition: &Condition) -> Result<(), StoreError> {
        match condition {
            Condition::All(parts) => self.join(parts, " and ", "(1 = 1)"),
            Condition::Any(parts) => self.join(parts, " or ", "(1 = 0)"),
            Condition::Not(inner) => {
                self.push("not coalesce(");
                self.condition(inner)?;
                self.push(", 1 = 0)");
                Ok(())
            }
            Condition::Is(column, value) => {
                let arg = self.arg(value.clone());
                self.push(&format!("{} = {arg}", column.name()));
                Ok(())
            }
            Condition::Empty(column) => {
                self.push(&format!("{} is null", column.name()));
                Ok(())
            }
            Condition::Between(number, from, to) => {
                self.push("(1 = 1");
                for (bound, sign) in [(from, ">="), (to, "<=")] {
                    if let Some(bound) = bound {
                        let arg = self.arg(*bound);
                        self.push(&format!(" and {} {sign} {arg}", number.name()));
                    }
                }
                self.push(")");
                Ok(())
            }
            Condition::Features(bits) => {
                let arg = self.arg(*bits);
                self.push(&format!("features & {arg} <> 0"));
                Ok(())
            }
            Condition::Tx(role, hash) => {
                let arg = self.arg(*hash);
                self.push("request_id in (select t.request_id from transaction_record t where t.tx_hash = ");
                self.push(&format!("{arg}{})", played(*role)));
                Ok(())
            }
            Condition::HasTx(role) => {
                self.push("exists (select 1 from transaction_record t where t.request_id = request.request_id");
                self.push(&format!("{})", played(*role)));
                Ok(())
            }
            Condition::Blocks { from, to, chain } => self.blocks(*from, *to, *chain),
        }
    }

    fn join(&mut self, parts: &[Condition], between: &str, none: &str) -> Result<(), StoreError> {
        if parts.is_empty() {
            self.push(none);
            return Ok(());
        }
        self.push("(");
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                self.push(between);
            }
            self.condition(part)?;
        }
        self.push(")");
        Ok(())
    }

    fn blocks(&mut self, from: Option<u64>, to: Option<u64>, chain: Option<ChainId>) -> Result<(), StoreError> {
        self.push("exists (select 1 from transaction_record t where t.request_id = request.request_id");
        if let Some(chain) = chain {
            let arg = self.arg(Value::try_from(chain.0)?);
            self.push(&format!(" and t.direction = 'in' and t.chain_id = {arg}"));
        }
        for (bound, sign) in [(from, ">="), (to, "<=")] {
            if let Some(bound) = bound {
                let arg = self.arg(Value::try_from(bound)?);
                self.push(&format!(" and t.block_number {sign} {arg}"));
            }
        }
        self.push(")");
        Ok(())
    }
}

/// The part that the transaction `t` plays. The payment says whether a transaction of ours is a fill; all others of ours
/// give something back.
fn played(role: TxRole) -> &'static str {
    match role {
        TxRole::Any => "",
        TxRole::Deposit => " and t.direction = 'in'",
        TxRole::Fill => {
            " and t.direction = 'out' and exists (select 1 from payment p where p.request_id = t.request_id \
             and p.tx_hash = t.tx_hash and p.purpose = 'fill')"
        }
        TxRole::Refund => {
            " and t.direction = 'out' and not exists (select 1 from payment p where p.request_id = t.request_id \
             and p.tx_hash = t.tx_hash and p.purpose = 'fill')"
        }
    }
}
