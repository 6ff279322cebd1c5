//! `GET /requests/{id}/signature`: the solver's word on what a request is, for whoever shows it to a third party.

use alloy_primitives::{Address, B256, U256, eip191_hash_message, hex, keccak256};
use axum::Json;
use axum::extract::State;
use domain::account::Account;
use domain::ids::RequestId;
use serde::Serialize;
use store::requests::{self, Request};
use utoipa::ToSchema;

use crate::App;
use crate::error::{ApiError, Coded, CodedBody};
use crate::json::ApiPath;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AttestationResponse {
    request_data: RequestData,
    /// EIP-191, over the hash of the ABI encoding of the request id and the members above, in this order: id,
    /// originChainId, originUser, originCurrency, originAmount, destinationChainId, destinationUser.
    signature: String,
    /// Who signed.
    signer: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestData {
    origin_chain_id: u64,
    origin_user: String,
    origin_currency: String,
    origin_amount: String,
    /// Where the deposit goes: the depository.
    origin_transfer_destination: String,
    destination_chain_id: u64,
    destination_user: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AttestationV2Response {
    request_data: RequestDataV2,
    /// EIP-191, over the hash of the ABI encoding of the request id and the members above, in this order: id,
    /// originChainId, originUser, originCurrency, destinationChainId, destinationUser, destinationCurrency.
    signature: String,
    /// Who signed.
    signer: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AttestedRequestV2)]
pub(crate) struct RequestDataV2 {
    origin_chain_id: u64,
    origin_user: String,
    origin_currency: String,
    /// Where the deposit goes: the depository.
    origin_transfer_destination: String,
    destination_chain_id: u64,
    destination_user: String,
    destination_currency: String,
}

fn text(address: Address) -> String {
    format!("0x{}", hex::encode(address))
}

/// An account in one word, as every machine's fits.
fn word(account: &Account) -> B256 {
    B256::left_padding_from(account.bytes().get(..32).unwrap_or(account.bytes()))
}

fn number(n: u64) -> B256 {
    B256::from(U256::from(n))
}

/// The request that is named.
async fn attested(app: &App, id: &str) -> Result<Request, ApiError> {
    let id: RequestId = id.parse().map_err(|error: domain::ids::NotAnId| ApiError::Parameter {
        field: "requestId",
        problem: error.to_string(),
    })?;
    let request = app.store.read(move |tx| requests::find(tx, id)).await?;
    request.ok_or(ApiError::RequestNotFound)
}

/// Signature and signer.
fn sign(app: &App, words: [B256; 7]) -> Result<(String, String), ApiError> {
    let key = app.attestation_key.as_ref().ok_or(ApiError::NotOffered { field: "signature" })?;
    let digest = eip191_hash_message(keccak256(words.concat()));
    Ok((format!("0x{}", hex::encode(key.sign_digest(digest).as_bytes())), text(key.address())))
}

fn depository(app: &App, request: &Request) -> String {
    text(app.catalog.chain(request.quote.ask.origin.chain).map_or(Address::ZERO, |chain| chain.depository))
}

/// Signs what a request is.
#[utoipa::path(
    get,
    path = "/requests/{requestId}/signature",
    params(("requestId" = String, Path, description = "The request")),
    responses(
        (status = 200, description = "The request's data, signed", body = AttestationResponse),
        (status = 400, description = "Not a request id, or nothing is attested here", body = CodedBody),
        (status = 404, description = "No such request", body = CodedBody),
    )
)]
pub(crate) async fn signature(
    app: State<App>,
    id: Result<ApiPath, ApiError>,
) -> Result<Json<AttestationResponse>, Coded> {
    let ApiPath(id) = id?;
    let request = attested(&app, &id).await?;
    let (ask, input) = (&request.quote.ask, request.quote.figures.input);
    let (signature, signer) = sign(
        &app,
        [
            request.id.0,
            number(ask.origin.chain.0),
            word(&ask.user),
            word(&ask.origin.address),
            B256::from(input.units()),
            number(ask.destination.chain.0),
            word(&ask.recipient),
        ],
    )?;
    let request_data = RequestData {
        origin_chain_id: ask.origin.chain.0,
        origin_user: ask.user.to_string(),
        origin_currency: ask.origin.address.to_string(),
        origin_amount: input.to_string(),
        origin_transfer_destination: depository(&app, &request),
        destination_chain_id: ask.destination.chain.0,
        destination_user: ask.recipient.to_string(),
    };
    Ok(Json(AttestationResponse { request_data, signature, signer }))
}

/// Signs what a request is, with what arrives in place of how much is sent.
#[utoipa::path(
    get,
    path = "/requests/{requestId}/signature/v2",
    params(("requestId" = String, Path, description = "The request")),
    responses(
        (status = 200, description = "The request's data, signed", body = AttestationV2Response),
        (status = 400, description = "Not a request id, or nothing is attested here", body = CodedBody),
        (status = 404, description = "No such request", body = CodedBody),
    )
)]
pub(crate) async fn signature_v2(
    app: State<App>,
    id: Result<ApiPath, ApiError>,
) -> Result<Json<AttestationV2Response>, Coded> {
    let ApiPath(id) = id?;
    let request = attested(&app, &id).await?;
    let ask = &request.quote.ask;
    let (signature, signer) = sign(
        &app,
        [
            request.id.0,
            number(ask.origin.chain.0),
            word(&ask.user),
            word(&ask.origin.address),
            number(ask.destination.chain.0),
            word(&ask.recipient),
            word(&ask.destination.address),
        ],
    )?;
    let request_data = RequestDataV2 {
        origin_chain_id: ask.origin.chain.0,
        origin_user: ask.user.to_string(),
        origin_currency: ask.origin.address.to_string(),
        origin_transfer_destination: depository(&app, &request),
        destination_chain_id: ask.destination.chain.0,
        destination_user: ask.recipient.to_string(),
        destination_currency: ask.destination.address.to_string(),
    };
    Ok(Json(AttestationV2Response { request_data, signature, signer }))
}
