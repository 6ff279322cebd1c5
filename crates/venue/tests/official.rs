//! Our hashes, texts and signatures against the venue's own signer. `vectors/generate.py` made the vectors.

use alloy_primitives::Address;
use serde::Deserialize;
use serde_json::Value;
use venue::{ApiKey, AuthToken, Digest, Network, PublicKey, SignedTransfer};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vectors {
    wallet: Address,
    keys: Vec<Pair>,
    transfers: Vec<Transfer>,
    refusals: Vec<Value>,
    tokens: Vec<Token>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pair {
    private_key: String,
    public_key: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Transfer {
    private_key: String,
    network: u32,
    #[serde(rename = "type")]
    kind: u8,
    info: String,
    hash: String,
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Token {
    private_key: String,
    token: String,
}

/// The vectors in the repository, or those in the file that this variable names.
const FRESH: &str = "CAUSEWAY_VENUE_VECTORS";

#[expect(clippy::disallowed_methods, reason = "a person or a script names fresh vectors")]
fn vectors() -> Vectors {
    let text = match std::env::var_os(FRESH) {
        Some(path) => std::fs::read_to_string(path).expect("the file of the vectors"),
        None => include_str!("vectors/official.json").to_owned(),
    };
    serde_json::from_str(&text).expect("the vectors are JSON")
}

fn key(text: &str) -> ApiKey {
    text.parse().expect("a figure of the vectors")
}

#[test]
fn official_pairs_are_pairs_of_ours() {
    for pair in vectors().keys {
        let key = key(&pair.private_key);
        assert_eq!(*key.public(), pair.public_key.parse::<PublicKey>().unwrap());
        assert_eq!(*key.expose(), pair.private_key);
    }
}

#[test]
fn official_transfers_have_our_hash_our_text_and_valid_signatures() {
    let vectors = vectors();
    assert!(vectors.transfers.len() > 50);
    for vector in &vectors.transfers {
        let network = Network(vector.network);
        let signed = SignedTransfer::from_json(&vector.info).unwrap();
        assert_eq!(vector.kind, 12);
        assert_eq!(signed.hash(network), vector.hash.parse::<Digest>().unwrap(), "{}", vector.info);
        assert_eq!(signed.transfer.wallet_text(network), vector.text);
        assert!(signed.is_signed_by(network, key(&vector.private_key).public()), "{}", vector.info);
        assert_eq!(signed.wallet(network), Some(vectors.wallet));
        // JSON that we write is what the official signer writes, to the byte.
        assert_eq!(signed.to_json(), vector.info);
    }
}

#[test]
fn a_changed_field_spoils_the_signatures_that_cover_it() {
    let vectors = vectors();
    for vector in vectors.transfers.iter().take(12) {
        let (network, public) = (Network(vector.network), *key(&vector.private_key).public());
        let signed = SignedTransfer::from_json(&vector.info).unwrap();
        let mut info: Value = serde_json::from_str(&vector.info).unwrap();
        for (member, value) in [("Amount", 7), ("USDCFee", 7), ("ToAccountIndex", 7), ("Nonce", 7), ("AssetIndex", 7)] {
            let before = std::mem::replace(&mut info[member], value.into());
            let changed = SignedTransfer::from_json(&info.to_string()).unwrap();
            info[member] = before;
            assert!(!changed.is_signed_by(network, &public), "{member}");
            assert_ne!(changed.wallet(network), Some(vectors.wallet), "{member}");
        }
        // Another expiry is a matter of the API key, another memo one of the wallet.
        info["ExpiredAt"] = 1.into();
        let later = SignedTransfer::from_json(&info.to_string()).unwrap();
        assert!(!later.is_signed_by(network, &public) && later.wallet(network) == Some(vectors.wallet));
        info["ExpiredAt"] = signed.transfer.expires_at.get().into();
        info["Memo"][31] = 255.into();
        let renamed = SignedTransfer::from_json(&info.to_string()).unwrap();
        let changed = renamed.transfer.memo != signed.transfer.memo;
        assert!(renamed.is_signed_by(network, &public));
        assert_eq!(renamed.wallet(network) == Some(vectors.wallet), !changed);
        // Nor is it good on another network.
        assert!(!signed.is_signed_by(Network(vector.network + 1), &public));
    }
}

#[test]
fn values_that_the_official_signer_refuses_are_refused() {
    let vectors = vectors();
    let template: Value = serde_json::from_str(&vectors.transfers[0].info).unwrap();
    assert!(vectors.refusals.len() > 10);
    for refusal in vectors.refusals {
        let (values, mut info) = (&refusal["values"], template.clone());
        for (name, member) in [
            ("amount", "Amount"),
            ("fee", "USDCFee"),
            ("to", "ToAccountIndex"),
            ("asset", "AssetIndex"),
            ("from_route", "FromRouteType"),
            ("to_route", "ToRouteType"),
            ("key_index", "ApiKeyIndex"),
            ("nonce", "Nonce"),
        ] {
            info[member] = values[name].clone();
        }
        assert!(SignedTransfer::from_json(&info.to_string()).is_err(), "{}: {values}", refusal["error"]);
    }
}

#[test]
fn official_tokens_verify_for_their_key_alone() {
    let vectors = vectors();
    let stranger = ApiKey::from_seed(b"stranger");
    assert!(vectors.tokens.len() > 20);
    for vector in vectors.tokens {
        let token: AuthToken = vector.token.parse().unwrap();
        assert!(token.verify(key(&vector.private_key).public()), "{}", vector.token);
        assert!(!token.verify(stranger.public()));
        assert_eq!(token.expose(), vector.token);
    }
}

#[test]
fn our_signatures_verify_like_the_official_ones() {
    for vector in vectors().transfers.iter().take(20) {
        let (network, key) = (Network(vector.network), key(&vector.private_key));
        let official = SignedTransfer::from_json(&vector.info).unwrap();
        let ours = SignedTransfer::new(official.transfer, network, &key, &[7; 32], None);
        assert!(ours.is_signed_by(network, key.public()));
        assert_eq!(ours.hash(network), official.hash(network));
    }
}

#[test]
fn json_that_is_no_transfer_is_refused() {
    let good = &vectors().transfers[0].info;
    let info = || serde_json::from_str::<Value>(good).unwrap();
    let changed = |member: &str, value: Value| {
        let mut info = info();
        info[member] = value;
        info.to_string()
    };
    for bad in [
        String::new(),
        "[]".to_owned(),
        changed("Memo", vec![1; 31].into()),
        changed("Memo", vec![1; 33].into()),
        changed("Memo", "0xab".into()),
        changed("Amount", 1.5.into()),
        changed("Amount", "1".into()),
        changed("Sig", "".into()),
        changed("L1Sig", "0x00".into()),
        changed("L2TxAttributes", serde_json::json!({ "4": 2 })),
        changed("L2TxAttributes", serde_json::json!({ "1": 5 })),
        changed("ExpiredAt", (1u64 << 48).into()),
        changed("Padding", "x".repeat(5_000).into()),
    ] {
        assert!(SignedTransfer::from_json(&bad).is_err(), "{}", &bad[..bad.len().min(200)]);
    }
    assert!(SignedTransfer::from_json(&changed("NewMember", 1.into())).is_ok());
}
