//! The signature step of a quote: typed data as wallets sign it, and where the signature goes.

use alloy_primitives::{Address, B256, Bytes, U256};
use domain::quote::Quote;
use serde::Serialize;
use serde_json::{Value, json};
use solver::gasless::permits::Kind;
use solver::gasless::{Call3Value, PERMIT2, Permit, RelayerWitness};
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SignatureData)]
pub(crate) struct SignatureData {
    sign: TypedData,
    post: PermitPost,
}

/// Typed data (EIP-712).
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TypedData)]
pub(crate) struct TypedData {
    signature_kind: &'static str,
    #[schema(value_type = Object)]
    domain: Value,
    #[schema(value_type = Object)]
    types: Value,
    primary_type: &'static str,
    #[schema(value_type = Object)]
    value: Value,
}

/// Where the signature goes, as the query's `signature`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PermitPost)]
pub(crate) struct PermitPost {
    endpoint: &'static str,
    method: &'static str,
    body: PermitRef,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PermitRef)]
pub(crate) struct PermitRef {
    /// `eip3009` or `permit2`.
    kind: &'static str,
    #[schema(value_type = String)]
    request_id: B256,
    /// `bridge`, `swap` or, on the same chain, `user-swap`.
    api: &'static str,
}

impl SignatureData {
    pub(super) fn new(permit: &Permit, quote: &Quote) -> Self {
        let traded = quote.origin_swap.is_some() || quote.destination_swap.is_some();
        let api = match (&quote.terms, traded) {
            (None, _) => "user-swap",
            (Some(_), true) => "swap",
            (Some(_), false) => "bridge",
        };
        let body = PermitRef { kind: Kind::of(permit).as_str(), request_id: quote.id.0, api };
        let post = PermitPost { endpoint: "/execute/permits", method: "POST", body };
        Self { sign: TypedData::new(permit, quote.ask.origin.chain.0), post }
    }
}

impl TypedData {
    fn new(permit: &Permit, chain_id: u64) -> Self {
        match permit {
            Permit::Authorization { domain, signed, token, .. } => Self {
                signature_kind: "eip712",
                domain: json!({
                    "name": domain.name, "version": domain.version, "chainId": chain_id, "verifyingContract": token,
                }),
                types: json!({ "ReceiveWithAuthorization": members(&[
                    ("from", "address"), ("to", "address"), ("value", "uint256"), ("validAfter", "uint256"),
                    ("validBefore", "uint256"), ("nonce", "bytes32"),
                ]) }),
                primary_type: "ReceiveWithAuthorization",
                value: json!({
                    "from": signed.from, "to": signed.to, "value": text(signed.value),
                    "validAfter": text(signed.validAfter), "validBefore": text(signed.validBefore),
                    "nonce": signed.nonce,
                }),
            },
            Permit::Permit2 { signed, .. } => Self {
                signature_kind: "eip712",
                domain: json!({ "name": "Permit2", "chainId": chain_id, "verifyingContract": PERMIT2 }),
                types: permit2_types(),
                primary_type: "PermitBatchWitnessTransferFrom",
                value: json!({
                    "permitted": signed.permitted.iter()
                        .map(|it| json!({ "token": it.token, "amount": text(it.amount) })).collect::<Vec<_>>(),
                    "spender": signed.spender, "nonce": text(signed.nonce), "deadline": text(signed.deadline),
                    "witness": witness(&signed.witness),
                }),
            },
        }
    }
}

fn witness(witness: &RelayerWitness) -> Value {
    let RelayerWitness { relayer, refundTo, nftRecipient, metadata, call3Values } = witness;
    let calls: Vec<Value> = call3Values.iter().map(call).collect();
    json!({
        "relayer": relayer, "refundTo": refundTo, "nftRecipient": nftRecipient, "metadata": metadata,
        "call3Values": calls,
    })
}

fn call(call: &Call3Value) -> Value {
    let (target, data): (&Address, &Bytes) = (&call.target, &call.callData);
    json!({ "target": target, "allowFailure": call.allowFailure, "value": text(call.value), "callData": data })
}

fn permit2_types() -> Value {
    json!({
        "PermitBatchWitnessTransferFrom": members(&[
            ("permitted", "TokenPermissions[]"), ("spender", "address"), ("nonce", "uint256"), ("deadline", "uint256"),
            ("witness", "RelayerWitness"),
        ]),
        "TokenPermissions": members(&[("token", "address"), ("amount", "uint256")]),
        "RelayerWitness": members(&[
            ("relayer", "address"), ("refundTo", "address"), ("nftRecipient", "address"), ("metadata", "bytes"),
            ("call3Values", "Call3Value[]"),
        ]),
        "Call3Value": members(&[
            ("target", "address"), ("allowFailure", "bool"), ("value", "uint256"), ("callData", "bytes"),
        ]),
    })
}

fn members(members: &[(&str, &str)]) -> Vec<Value> {
    members.iter().map(|(name, kind)| json!({ "name": name, "type": kind })).collect()
}

/// Wallets read numbers of any size as text.
fn text(number: U256) -> String {
    number.to_string()
}
