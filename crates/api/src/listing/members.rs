//! Members of a record that both of its views have.

pub(super) mod fees;
pub(super) mod platform;
pub(super) mod protocol;
pub(super) mod route;
pub(super) mod txs;
