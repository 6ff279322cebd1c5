//! The pages: each loads, then renders.

pub(crate) mod balance;
mod holdings;
pub(crate) mod keys;
pub(crate) mod live;
pub(crate) mod operator;
pub(crate) mod overview;
pub(crate) mod request;
pub(crate) mod requests;
mod summary;
pub(crate) mod transfer;
pub(crate) mod views;
pub(crate) mod webhooks;
