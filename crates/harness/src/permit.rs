//! The signature step of a gasless quote, signed as a wallet does: from what is on the wire alone.

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::signers::SignerSync;
use alloy::sol_types::Eip712Domain;
use anyhow::{Context, Result, ensure};
use devnet::Account;
use evm::contracts::{
    Call3Value, PermitBatchWitnessTransferFrom, ReceiveWithAuthorization, RelayerWitness, TokenPermissions,
};
use evm::permits::PERMIT2;
use serde_json::Value;

fn number(value: &Value) -> Result<U256> {
    Ok(value.as_str().context("a number as text")?.parse()?)
}

fn word<T: std::str::FromStr>(value: &Value) -> Result<T>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    Ok(value.as_str().context("a text")?.parse()?)
}

/// The domain of a step's typed data.
pub fn permit_domain(step: &Value) -> Result<Eip712Domain> {
    let domain = &step["items"][0]["data"]["sign"]["domain"];
    let text = |name: &str| domain[name].as_str().map(|text| text.to_owned().into());
    let (chain, place) = (domain["chainId"].as_u64().context("a chain")?, word(&domain["verifyingContract"])?);
    Ok(Eip712Domain::new(text("name"), text("version"), Some(U256::from(chain)), Some(place), None))
}

/// The digest of a step's typed data.
fn digest(step: &Value) -> Result<B256> {
    let sign = &step["items"][0]["data"]["sign"];
    let (value, domain) = (&sign["value"], &sign["domain"]);
    ensure!(sign["signatureKind"] == "eip712", "{sign}");
    if sign["primaryType"] == "ReceiveWithAuthorization" {
        let signed = ReceiveWithAuthorization {
            from: word(&value["from"])?,
            to: word(&value["to"])?,
            value: number(&value["value"])?,
            validAfter: number(&value["validAfter"])?,
            validBefore: number(&value["validBefore"])?,
            nonce: word(&value["nonce"])?,
        };
        return Ok(signed.digest(&permit_domain(step)?));
    }
    let place: Address = word(&domain["verifyingContract"])?;
    ensure!(sign["primaryType"] == "PermitBatchWitnessTransferFrom" && place == PERMIT2, "{sign}");
    let witness = &value["witness"];
    let call = |call: &Value| {
        Ok(Call3Value {
            target: word(&call["target"])?,
            allowFailure: call["allowFailure"] == true,
            value: number(&call["value"])?,
            callData: word(&call["callData"])?,
        })
    };
    let permitted = &value["permitted"][0];
    let signed = PermitBatchWitnessTransferFrom {
        permitted: vec![TokenPermissions { token: word(&permitted["token"])?, amount: number(&permitted["amount"])? }],
        spender: word(&value["spender"])?,
        nonce: number(&value["nonce"])?,
        deadline: number(&value["deadline"])?,
        witness: RelayerWitness {
            relayer: word(&witness["relayer"])?,
            refundTo: word(&witness["refundTo"])?,
            nftRecipient: word(&witness["nftRecipient"])?,
            metadata: word(&witness["metadata"])?,
            call3Values: witness["call3Values"].as_array().context("calls")?.iter().map(call).collect::<Result<_>>()?,
        },
    };
    Ok(signed.digest(domain["chainId"].as_u64().context("a chain")?, PERMIT2))
}

/// The signature over a step's typed data, in hexadecimal.
pub fn sign_permit(by: &Account, step: &Value) -> Result<String> {
    let signature = by.signer().sign_hash_sync(&digest(step)?)?;
    Ok(Bytes::copy_from_slice(&signature.as_bytes()).to_string())
}
