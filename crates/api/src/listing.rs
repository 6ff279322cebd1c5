//! Listings of requests: the filters that callers send, pages of what they match, and a record's two views.

mod cursor;
mod figures;
mod filter;
mod filters;
mod lookup;
mod search;
mod v3;

pub use cursor::CursorKey;
pub use v3::{__path_requests_v3, requests_v3};
