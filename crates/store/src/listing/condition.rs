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
    DepositAddress,
}

impl Column {
    const fn name(self) -> &'static str {
        match self {
            Self::Id => "request.request_id",
            Self::OrderId => "request.order_id",
            Self::Parent => "request.parent_id",
            Self::Account => "request.account",
            Self::Recipient => "request.recipient",
            Self::OriginChain => "request.origin_chain",
            Self::DestinationChain => "request.destination_chain",
            Self::CurrencyIn => "request.currency_in",
            Self::CurrencyOut => "request.currency_out",
            Self::State => "request.state",
            Self::FailReason => "request.fail_reason",
            Self::RefundFailReason => "request.refund_fail_reason",
            Self::RequestType => "request.request_type",
            Self::Key => "request.key_id",
            Self::Referrer => "request.referrer",
            Self::DepositAddress => "request.deposit_address",
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
            Self::CreatedAt => "request.created_at",
            Self::UpdatedAt => "request.updated_at",
            Self::AmountUsd => "request.amount_usd",
            Self::AppFeesUsd => "request.app_fees_usd",
            Self::FillMillis => "request.fill_millis",
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
    /// A transaction of the user's in these blocks, both included, of whichever chain.
    OriginBlocks {
        from: Option<u64>,
        to: Option<u64>,
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

    /// A few blocks of one chain, which are looked up. For more, the requests are walked and each is asked.
    pub(super) fn is_few_blocks(&self) -> bool {
        const FEW_BLOCKS: u64 = 10_000;
        let Self::Blocks { from: Some(from), to: Some(to), chain: Some(_) } = self else { return false };
        to.saturating_sub(*from) <= FEW_BLOCKS
    }
}

/// Text and arguments of a statement that grows.
#[derive(Debug, Default)]
pub(super) struct Sql {
    pub(super) text: String,
    pub(super) args: Vec<Value>,
    /// The statement is about events `e` of requests: state and time of change are the event's.
    pub(super) of_events: bool,
    /// Columns are kept from their indexes, where another part of the statement has a better one.
    pub(super) off_index: bool,
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

    fn column(&self, column: Column) -> String {
        let name = if self.of_events && column == Column::State { "e.state" } else { column.name() };
        format!("{}{name}", self.off())
    }

    /// The fragment before a column that is kept from its indexes.
    const fn off(&self) -> &'static str {
        if self.off_index { "{off_index}" } else { "" }
    }

    fn number(&self, number: Number) -> &'static str {
        if self.of_events && number == Number::UpdatedAt { "e.at" } else { number.name() }
    }

    pub(super) fn condition(&mut self, condition: &Condition) -> Result<(), StoreError> {
        match condition {
            Condition::All(parts) => return self.join(parts, " and ", "(1 = 1)"),
            Condition::Any(parts) => return self.join(parts, " or ", "(1 = 0)"),
            Condition::Not(inner) => {
                self.push("not coalesce(");
                self.condition(inner)?;
                self.push(", 1 = 0)");
            }
            Condition::Is(column, value) => {
                let (name, arg) = (self.column(*column), self.arg(value.clone()));
                self.push(&format!("{name} = {arg}"));
            }
            Condition::Empty(column) => {
                let name = self.column(*column);
                self.push(&format!("{name} is null"));
            }
            Condition::Between(number, from, to) => {
                let name = self.number(*number);
                self.push("(1 = 1");
                self.bounds(name, *from, *to);
                self.push(")");
            }
            Condition::Features(bits) => {
                let arg = self.arg(*bits);
                self.push(&format!("(request.features & {arg}) <> 0"));
            }
            Condition::Tx(role, hash) => {
                let (off, arg) = (self.off(), self.arg(*hash));
                self.push(&format!("{off}request.request_id in ({})", with_tx(*role, &arg)));
            }
            Condition::HasTx(role) => self.push(&has_tx(*role)),
            Condition::Blocks { from, to, chain } => {
                self.push(&if condition.is_few_blocks() {
                    format!("{}request.request_id in (select t.request_id from transaction_record t where ", self.off())
                } else {
                    "exists (select 1 from transaction_record t where t.request_id = request.request_id and ".to_owned()
                });
                self.blocks(*from, *to, *chain)?;
            }
            Condition::OriginBlocks { from, to } => {
                self.push("exists (select 1 from transaction_record t where t.request_id = request.request_id ");
                self.push("and t.gone = 0 and t.direction = 'in'");
                self.block_bounds(*from, *to)?;
                self.push(")");
            }
        }
        Ok(())
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

    fn bounds(&mut self, name: &str, from: Option<i64>, to: Option<i64>) {
        for (bound, sign) in [(from, ">="), (to, "<=")] {
            if let Some(bound) = bound {
                let arg = self.arg(bound);
                self.push(&format!(" and {name} {sign} {arg}"));
            }
        }
    }

    fn blocks(&mut self, from: Option<u64>, to: Option<u64>, chain: Option<ChainId>) -> Result<(), StoreError> {
        self.push("t.gone = 0");
        if let Some(chain) = chain {
            let arg = self.arg(Value::try_from(chain.0)?);
            self.push(&format!(" and t.direction = 'in' and t.chain_id = {arg}"));
        }
        self.block_bounds(from, to)?;
        self.push(")");
        Ok(())
    }

    fn block_bounds(&mut self, from: Option<u64>, to: Option<u64>) -> Result<(), StoreError> {
        let bound = |bound: u64| i64::try_from(bound).map_err(|_| StoreError::OutOfRange("a block number"));
        self.bounds("t.block_number", from.map(bound).transpose()?, to.map(bound).transpose()?);
        Ok(())
    }
}

/// The purposes of [`Purpose::is_refund`](domain::subject::Purpose::is_refund).
const REFUNDS: &str = "('refund', 'return', 'excess', 'payout')";

/// The requests with this transaction in that part. Payments are known by their hash before a block holds them; the
/// payment also says whether a transaction of ours is a fill.
fn with_tx(role: TxRole, hash: &str) -> String {
    let deposits = "select t.request_id from transaction_record t where t.direction = 'in' and t.tx_hash = ";
    match role {
        TxRole::Any => format!(
            "select t.request_id from transaction_record t where t.tx_hash = {hash} \
             union all select p.request_id from payment p where p.tx_hash = {hash} union all {}",
            to_address(hash)
        ),
        TxRole::Deposit => format!("{deposits}{hash} union all {}", to_address(hash)),
        TxRole::Fill => format!(
            "select p.request_id from payment p where p.tx_hash = {hash} and p.purpose = 'fill' and p.state <> 'void' \
             union all select t.request_id from transaction_record t join request r on r.request_id = t.request_id \
             where t.tx_hash = {hash} and t.direction = 'in' and r.same_chain = 1"
        ),
        TxRole::Refund => format!(
            "select p.request_id from payment p where p.tx_hash = {hash} and p.purpose in {REFUNDS} \
             and p.state <> 'void' union all select t.request_id from transaction_record t where t.tx_hash = {hash} \
             and t.direction = 'out' and not exists (select 1 from payment q where q.request_id = t.request_id \
             and q.tx_hash = t.tx_hash)"
        ),
    }
}

/// The requests that a transfer to a deposit address paid for: by its sweep, by the transaction that brought the
/// sweep's deposit, or, while it was not swept, the one that the address was given out for.
fn to_address(hash: &str) -> String {
    format!(
        "select s.request_id from deposit_arrival a join deposit_sweep s on s.sweep_id = a.sweep_id \
         and s.reason is null where a.tx_hash = {hash} \
         union all select g.request_id from deposit_arrival a join deposit_address g on g.address = a.address \
         where a.tx_hash = {hash} and a.sweep_id is null \
         union all select t.request_id from deposit_arrival a join payment p on p.subject = a.sweep_id \
         and p.purpose = 'sweep' join transaction_record t on t.tx_hash = p.tx_hash and t.direction = 'in' \
         where a.tx_hash = {hash}"
    )
}

/// Whether a request has a transaction in that part.
fn has_tx(role: TxRole) -> String {
    let text = match role {
        TxRole::Any => {
            "(exists (select 1 from transaction_record t where t.request_id = request.request_id) \
             or exists (select 1 from payment p where p.request_id = request.request_id and p.tx_hash is not null))"
        }
        TxRole::Deposit => {
            "exists (select 1 from transaction_record t where t.request_id = request.request_id and t.direction = 'in')"
        }
        TxRole::Fill => {
            "(exists (select 1 from payment p where p.request_id = request.request_id and p.tx_hash is not null \
             and p.purpose = 'fill' and p.state <> 'void') or (request.same_chain = 1 and exists \
             (select 1 from transaction_record t where t.request_id = request.request_id and t.direction = 'in')))"
        }
        TxRole::Refund => {
            return format!(
                "(exists (select 1 from payment p where p.request_id = request.request_id and p.tx_hash is not null \
                 and p.purpose in {REFUNDS} and p.state <> 'void') or exists (select 1 from transaction_record t \
                 where t.request_id = request.request_id and t.direction = 'out' and not exists (select 1 \
                 from payment q where q.request_id = t.request_id and q.tx_hash = t.tx_hash)))"
            );
        }
    };
    text.to_owned()
}
