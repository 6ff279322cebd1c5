//! Listings of requests: the filters that callers send, pages of what they match, and a record's two views.

mod cursor;
mod figures;
mod filter;
mod filters;
mod lookup;
mod members;
mod open;
mod parameters;
mod search;
#[cfg(test)]
mod tests;
mod v2;
mod v3;

pub use cursor::CursorKey;
pub(crate) use filter::status_names;
pub use open::OpenAnswers;
pub(crate) use v2::{__path_requests_v2, requests_v2};
pub(crate) use v3::{
    __path_requests_v3, __path_requests_v3_csv, __path_requests_v3_stream, requests_v3, requests_v3_csv,
    requests_v3_stream,
};
