//! The pages: each loads, then renders.

pub(crate) mod actions;
pub(crate) mod balance;
mod holdings;
pub(crate) mod keys;
pub(crate) mod live;
pub(crate) mod operator;
pub(crate) mod overview;
mod pay_address;
pub(crate) mod request;
mod request_table;
pub(crate) mod requests;
mod solvency;
mod summary;
pub(crate) mod transfer;
mod transfer_form;
pub(crate) mod views;
pub(crate) mod webhooks;
