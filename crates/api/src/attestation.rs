//! `GET /requests/{id}/signature`: the solver's word on what a request is, for whoever shows it to a third party.

use alloy_primitives::{Address, B256, U256, eip191_hash_message, hex, keccak256};
use axum::Json;
use axum::extract::{Path, State};
use domain::account::Account;
use domain::ids::RequestId;
use serde::Serialize;
use store::requests::{self, Request};
use utoipa::ToSchema;

use crate::App;
use crate::error::{ApiError, ApiResult, ErrorBody};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttestationResponse {
    request_data: RequestData,
    /// EIP-191, over the hash of the ABI encoding of the request id and the members above, in this order: id,
    /// originChainId, originUser, originCurrency, originAmount, destinationChainId, destinationUser.
    signature: String,
    /// Who signed.
    signer: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestData {
    origin_chain_id: u64,
    origin_user: String,
    origin_currency: String,
    origin_amount: String,
    /// Where the deposit goes: the depository.
    origin_transfer_destination: String,
    destination_chain_id: u64,
    destination_user: String,
}

/// An account in one word, as every machine's fits.
fn word(account: &Account) -> B256 {
    B256::left_padding_from(account.bytes().get(..32).unwrap_or(account.bytes()))
}

fn digest(request: &Request) -> B256 {
    let ask = &request.quote.ask;
    let number = |n: u64| B256::from(U256::from(n));
    let words = [
        request.id.0,
        number(ask.origin.chain.0),
        word(&ask.user),
        word(&ask.origin.address),
        B256::from(request.quote.figures.input.units()),
        number(ask.destination.chain.0),
        word(&ask.recipient),
    ];
    eip191_hash_message(keccak256(words.concat()))
}

/// Signs what a request is.
#[utoipa::path(
    get,
    path = "/requests/{requestId}/signature",
    params(("requestId" = String, Path, description = "The request")),
    responses(
        (status = 200, description = "What it is, signed", body = AttestationResponse),
        (status = 400, description = "Not a request id, or nothing is attested here", body = ErrorBody),
        (status = 404, description = "No such request", body = ErrorBody),
    )
)]
pub async fn signature(app: State<App>, Path(id): Path<String>) -> ApiResult<AttestationResponse> {
    let id: RequestId = id.parse().map_err(|error: domain::ids::NotAnId| ApiError::Parameter {
        field: "requestId",
        problem: error.to_string(),
    })?;
    let key = app.solver.attestation_key.as_ref().ok_or(ApiError::NotOffered { field: "signature" })?;
    let request = app.solver.store.read(move |tx| requests::find(tx, id)).await?;
    let request = request.ok_or(ApiError::RequestNotFound)?;
    let ask = &request.quote.ask;
    let depository = app.catalog.chain(ask.origin.chain).map_or(Address::ZERO, |chain| chain.depository);
    let text = |address: Address| format!("0x{}", hex::encode(address));
    Ok(Json(AttestationResponse {
        request_data: RequestData {
            origin_chain_id: ask.origin.chain.0,
            origin_user: ask.user.to_string(),
            origin_currency: ask.origin.address.to_string(),
            origin_amount: request.quote.figures.input.to_string(),
            origin_transfer_destination: text(depository),
            destination_chain_id: ask.destination.chain.0,
            destination_user: ask.recipient.to_string(),
        },
        signature: format!("0x{}", hex::encode(key.sign_digest(digest(&request)).as_bytes())),
        signer: text(key.address()),
    }))
}
