//! Refusals: a code of the venue and a sentence. The codes of nonces, accounts and transactions are the venue's; others
//! of its 21xxx range are ours.

use std::fmt;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: u64,
    pub(super) message: String,
}

pub(super) const INVALID_PARAM: u64 = 20_001;
pub(super) const ACCOUNT_NOT_FOUND: u64 = 21_100;
pub(super) const INVALID_NONCE: u64 = 21_104;
pub(super) const KEY_NOT_FOUND: u64 = 21_109;
pub(super) const INVALID_SIGNATURE: u64 = 21_120;
pub(super) const INVALID_WALLET_SIGNATURE: u64 = 21_121;
pub(super) const EXPIRED: u64 = 21_122;
pub(super) const BALANCE_TOO_LOW: u64 = 21_123;
pub(super) const FEE_TOO_LOW: u64 = 21_124;
pub(super) const REJECTED: u64 = 21_125;
pub(super) const UNAUTHORIZED: u64 = 21_126;
pub(super) const TRANSACTION_NOT_FOUND: u64 = 21_500;

impl Refusal {
    pub(super) fn new(code: u64, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string() }
    }

    pub(super) fn param(name: &str, message: impl fmt::Display) -> Self {
        Self::new(INVALID_PARAM, format!("invalid param: {name} {message}"))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = Json(json!({ "code": self.code, "message": self.message }));
        (StatusCode::BAD_REQUEST, body).into_response()
    }
}
