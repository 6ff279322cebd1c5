//! Signatures of a wallet over a message: by its key (EIP-191), or by its contract's word (EIP-1271).

use alloy::primitives::{Address, B256, Bytes, Signature, eip191_hash_message};
use alloy::sol;
use alloy::sol_types::SolCall;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::{At, ChainError, Nodes};

sol! {
    function isValidSignature(bytes32 hash, bytes signature) returns (bytes4 magic);
}

/// The answer of a contract that accepts a signature.
const MAGIC: [u8; 4] = [0x16, 0x26, 0xba, 0x7e];

/// True when the wallet's own key signed the message. No node is asked.
pub fn signed_by_key(wallet: Address, message: impl AsRef<[u8]>, signature: &[u8]) -> bool {
    let signature = Signature::from_raw(signature).ok();
    let digest = eip191_hash_message(message);
    let signer = signature.and_then(|signature| signature.recover_address_from_prehash(&digest).ok());
    signer == Some(wallet)
}

/// True when the contract at the wallet's address accepts the signature, on this chain.
pub async fn signed_by_contract(
    nodes: &Nodes,
    wallet: Address,
    message: impl AsRef<[u8]>,
    signature: Bytes,
) -> Result<bool, ChainError> {
    signed_by_contract_over(nodes, wallet, eip191_hash_message(message), signature).await
}

/// The same over a digest that the caller computed.
pub fn signed_by_contract_over(
    nodes: &Nodes,
    wallet: Address,
    hash: B256,
    signature: Bytes,
) -> BoxFuture<'_, Result<bool, ChainError>> {
    async move {
        if nodes.code(wallet, At::Latest).await?.is_empty() {
            return Ok(false);
        }
        let call = isValidSignatureCall { hash, signature };
        match nodes.call(wallet, call.abi_encode().into(), At::Latest).await {
            Ok(answer) => Ok(answer.len() == 32 && answer[..4] == MAGIC && answer[4..].iter().all(|byte| *byte == 0)),
            // The call reverted, or there is no such contract.
            Err(error) if error.refusal().is_some() => Ok(false),
            Err(error) => Err(error),
        }
    }
    .boxed()
}
