//! Reading bodies and queries, with errors that name the field; and writing large answers.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::ApiError;

mod bytes;
mod figure;
mod object;
mod problem;

pub(crate) use bytes::bytes;
pub(crate) use figure::{Figure, amount};
pub(crate) use object::Object;

/// The largest body any route takes.
pub(crate) const MAX_BODY: usize = 256 * 1024;

/// The longest path and query together: longer than any that a client of ours has.
pub(crate) const MAX_URI: usize = 8 * 1024;

#[derive(Debug)]
pub(crate) struct ApiJson<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for ApiJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        if !request.headers().get(header::CONTENT_TYPE).is_some_and(is_json) {
            return Err(ApiError::Body("Content-Type: must be application/json".to_owned()));
        }
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => ApiError::BodyTooLarge { most: MAX_BODY },
            _ => ApiError::Body("the body did not arrive whole".to_owned()),
        })?;
        // The path to each member is followed only where one does not fit and has to be named: following it takes as
        // long as reading the body.
        let body = serde_json::from_slice::<Object<T>>(&bytes);
        body.map(|Object(body)| Self(body)).map_err(|_| ApiError::Body(problem::of_body::<T>(&bytes)))
    }
}

fn is_json(kind: &HeaderValue) -> bool {
    if kind == "application/json" {
        return true;
    }
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

#[derive(Debug)]
pub(crate) struct ApiQuery<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for ApiQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(query)) => Ok(Self(query)),
            Err(rejection) => Err(ApiError::Body(problem::of_query(&inner(&rejection)))),
        }
    }
}

/// The one parameter of a path.
#[derive(Debug)]
pub(crate) struct ApiPath(pub String);

impl<S: Send + Sync> FromRequestParts<S> for ApiPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(text)) => Ok(Self(text)),
            Err(_) => Err(ApiError::Body("the path has bytes that are not text".to_owned())),
        }
    }
}

/// More than a quote takes.
const INITIAL_CAPACITY: usize = 16 * 1024;

/// A large answer, written into enough room at once: `axum::Json` begins with 128 bytes and copies as it grows, which
/// was half of what rendering a quote took.
#[derive(Debug)]
pub(crate) struct Answer(Vec<u8>);

impl Answer {
    pub(crate) fn of(body: &impl Serialize) -> Result<Self, ApiError> {
        let mut text = Vec::with_capacity(INITIAL_CAPACITY);
        bytes::write(&mut text, body).map_err(|_| ApiError::Internal)?;
        Ok(Self(text))
    }

    #[cfg(test)]
    pub(crate) fn value(&self) -> serde_json::Value {
        serde_json::from_slice(&self.0).expect("an answer is JSON")
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], self.0).into_response()
    }
}

/// The cause without the framework's preamble.
fn inner(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}
