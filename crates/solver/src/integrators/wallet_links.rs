//! Links between wallets and API keys: the holder of both proves it by a signature that costs nothing.
//!
//! The signed message names the service, the key, the wallet and an expiry, and is good once. A contract wallet is
//! asked on the chain where app balances live and nowhere else: on another chain its address may be somebody else's.

use std::time::Duration;

use alloy::primitives::{Address, Bytes, hex};
use domain::api_key::ApiKeyId;
use domain::time::Timestamp;
use evm::{ChainError, Nodes};
use store::wallet_links::WalletLink;
use store::{Store, StoreError, wallet_links};

/// Time for which a message can be signed.
const SIGNABLE_FOR: Duration = Duration::from_secs(600);
/// Bytes of the longest signature: more than any contract wallet needs.
pub const MAX_SIGNATURE: usize = 4 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("ask for a message first: there is none for this wallet, or it has expired or was used")]
    NothingAsked,
    #[error("not a signature of this wallet over the message")]
    NotSigned,
    #[error("the chain could not be asked whether the wallet's contract signed")]
    Chain(#[source] ChainError),
    #[error("store")]
    Store(#[from] StoreError),
}

/// The message that the wallet signs. A published client signs a message as raw bytes if `0x` and 64 hexadecimal digits
/// stand anywhere in it, so the nonce is written in groups.
pub fn message(service: &str, link: &WalletLink) -> String {
    let nonce: Vec<String> = link.nonce.chunks(4).map(hex::encode).collect();
    format!(
        "{service} asks to link this wallet to an API key.\n\n\
         The holder of the key will be able to spend this wallet's app balance on fees and fast fills. It cannot withdraw \
         it. Signing this costs nothing.\n\n\
         Service: {service}\n\
         Key: {}\n\
         Wallet: {}\n\
         Nonce: {}\n\
         Expires: {} (Unix seconds)",
        link.key,
        link.wallet,
        nonce.join(" "),
        link.expires_at.secs()
    )
}

/// Begins a link: an earlier message for this key is void.
pub async fn ask(
    store: &Store,
    key: ApiKeyId,
    wallet: Address,
    random: fn(&mut [u8]),
    now: Timestamp,
) -> Result<WalletLink, StoreError> {
    let mut nonce = [0u8; 32];
    random(&mut nonce);
    let link = WalletLink { key, wallet, nonce: nonce.into(), expires_at: now.plus(SIGNABLE_FOR) };
    store.write(move |tx| wallet_links::put(tx, &link)).await?;
    Ok(link)
}

/// Completes a link, if the wallet has signed. `nodes` are those of the chain where app balances live.
pub async fn accept(
    store: &Store,
    service: &str,
    key: ApiKeyId,
    wallet: Address,
    signature: Bytes,
    nodes: Option<&Nodes>,
    now: Timestamp,
) -> Result<(), LinkError> {
    let link = store.read(move |tx| wallet_links::find(tx, key, wallet, now)).await?.ok_or(LinkError::NothingAsked)?;
    let message = message(service, &link);
    let mut signed = evm::signed_by_key(wallet, &message, &signature);
    if let (false, Some(nodes)) = (signed, nodes) {
        signed = evm::signed_by_contract(nodes, wallet, &message, signature).await.map_err(LinkError::Chain)?;
    }
    if !signed {
        return Err(LinkError::NotSigned);
    }
    let linked = store.write(move |tx| wallet_links::accept(tx, &link, now)).await?;
    if linked { Ok(()) } else { Err(LinkError::NothingAsked) }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::B256;

    use super::*;

    #[test]
    fn no_signer_takes_the_message_for_raw_bytes() {
        let link = WalletLink {
            key: ApiKeyId::new([1; 10]),
            wallet: Address::repeat_byte(0xab),
            nonce: B256::repeat_byte(0xcd),
            expires_at: Timestamp::from_secs(1_790_000_600),
        };
        let text = message("https://api.causeway.example", &link);
        let digits = |part: &str| part.bytes().take_while(u8::is_ascii_hexdigit).count();
        assert!(text.match_indices("0x").all(|(at, _)| digits(&text[at + 2..]) < 64), "{text}");
        // All of the nonce is in it: without, one signature would be good for every link.
        assert_eq!(text.matches("cdcdcdcd").count(), 8, "{text}");
    }
}
