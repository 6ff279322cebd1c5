//! Reading bodies and queries, with errors that name the field; and writing large answers.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::ApiError;

mod open;
mod serializer;
#[cfg(test)]
mod tests;
mod verbatim;
mod writer;

pub(crate) use verbatim::{Figure, WrittenJson, amount};

/// The largest body any route takes.
pub(crate) const MAX_BODY: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct ApiJson<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for ApiJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let plain = request.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
        let body = if plain { read(request, state).await } else { Json::<T>::from_request(request, state).await };
        body.map(|Json(body)| Self(body)).map_err(rejected)
    }
}

/// The path to each member is followed only where one does not fit and has to be named: following it takes as long as
/// reading the body.
async fn read<S: Send + Sync, T: DeserializeOwned>(request: Request, state: &S) -> Result<Json<T>, JsonRejection> {
    let bytes = Bytes::from_request(request, state).await?;
    serde_json::from_slice(&bytes).map(Json).or_else(|_| Json::from_bytes(&bytes))
}

fn rejected(rejection: JsonRejection) -> ApiError {
    match rejection {
        // Its text begins with the path of the member that does not fit.
        JsonRejection::JsonDataError(error) => ApiError::Body(inner(&error)),
        JsonRejection::JsonSyntaxError(error) => ApiError::Body(format!("not JSON: {}", inner(&error))),
        JsonRejection::BytesRejection(error) if error.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE => {
            ApiError::BodyTooLarge { most: MAX_BODY }
        }
        other => ApiError::Body(other.body_text()),
    }
}

#[derive(Debug)]
pub(crate) struct ApiQuery<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for ApiQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(query)) => Ok(Self(query)),
            Err(QueryRejection::FailedToDeserializeQueryString(error)) => Err(ApiError::Body(inner(&error))),
            Err(other) => Err(ApiError::Body(other.body_text())),
        }
    }
}

/// More than a quote takes.
const ROOM: usize = 16 * 1024;

/// A large answer, written into enough room at once: `axum::Json` begins with 128 bytes and copies as it grows, which
/// was half of what rendering a quote took.
#[derive(Debug)]
pub(crate) struct Answer(Vec<u8>);

impl Answer {
    pub(crate) fn of(body: &impl Serialize) -> Result<Self, ApiError> {
        writer::write(body, ROOM).map(Self).map_err(|_| ApiError::Internal)
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
