//! A page that could not be made, as a page that says why.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use store::StoreError;
use tracing::error;

use crate::layout;

/// The cause of a failed call. Causes of our own go to the log, never to the reader.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("sign in first")]
    SignIn,
    #[error("There is nothing here, or it belongs to another account.")]
    NotFound,
    #[error("{0}")]
    Forbidden(&'static str),
    #[error("{0}")]
    Bad(String),
    /// A refusal by the service's own routes, in their words.
    #[error("{message}")]
    Refused { status: StatusCode, message: String },
    #[error("Something went wrong on our side.")]
    Store(#[from] StoreError),
    #[error("Something went wrong on our side.")]
    Internal(&'static str),
}

impl Failure {
    pub(crate) fn bad(problem: impl Into<String>) -> Self {
        Self::Bad(problem.into())
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::SignIn => StatusCode::UNAUTHORIZED,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::Bad(_) => StatusCode::BAD_REQUEST,
            Self::Refused { status, .. } => *status,
            Self::Store(_) | Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match &self {
            Self::SignIn => return Redirect::to("/dashboard/sign-in").into_response(),
            Self::Store(cause) => error!(error = cause as &dyn std::error::Error, "a page could not be made"),
            Self::Internal(cause) => error!(cause, "a page could not be made"),
            Self::NotFound | Self::Forbidden(_) | Self::Bad(_) | Self::Refused { .. } => {}
        }
        (self.status(), layout::problem(self.status(), &self.to_string())).into_response()
    }
}
