//! Permits. Whoever has signed one can make its relay fail: the gas is ours, and nothing must be paid for it. Whoever
//! sees the relay on its way has all of the permit: it must be of no use to them.

use std::time::{Duration, Instant};

use alloy::primitives::{Address, B256, Bytes, Signature, U256};
use alloy::signers::SignerSync;
use alloy::sol;
use alloy::sol_types::{SolCall, SolStruct};
use anyhow::{Context, Result};
use devnet::{Account, Chain};
use evm::calldata;
use evm::contracts::{ApprovalProxy, Permit3009, ReceiveWithAuthorization, RelayerWitness};
use evm::permits::PERMIT2;
use harness::permit_domain;
use serde_json::{Value, json};

use super::hands::Hands;
use super::{Attempt, Trick};
use crate::chaos::permits::{EXPIRY_SECS, Permitted, Signed, approve, request_of};
use crate::chaos::quoted::Call;
use crate::chaos::sends::Sends;

/// Fifty dollars, of a thousand.
const AMOUNT: u64 = 50_000_000;
const HAD: u64 = 1_000_000_000;
/// As much as a relay may take.
const GAS_LIMIT: u64 = 300_000;
/// The wait for a fill, and for a relay among the transactions on their way.
const WATCH_TIMEOUT: Duration = Duration::from_secs(12);
const POLL_INTERVAL: Duration = Duration::from_millis(150);
/// Much shorter than a block.
const WATCH_INTERVAL: Duration = Duration::from_millis(15);

sol! {
    struct TransferWithAuthorization {
        address from;
        address to;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
    }

    struct CancelAuthorization {
        address authorizer;
        bytes32 nonce;
    }

    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external;
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external;
    function cancelAuthorization(address authorizer, bytes32 nonce, uint8 v, bytes32 r, bytes32 s) external;
    function invalidateUnorderedNonces(uint256 wordPos, uint256 mask) external;
}

/// One half of the permits is of Permit2.
fn symbol(attempt: &Attempt) -> &'static str {
    if attempt.coin { "USDT" } else { "USDC" }
}

/// The adversary signs its own permits, and copies another's.
fn signer(attempt: &Attempt) -> &Account {
    if attempt.trick == Trick::CopiedRelay { &attempt.second } else { &attempt.main }
}

/// Gives the signer its tokens; one of Permit2 has approved it.
pub(super) async fn prepare(attempt: &Attempt, chain: &Chain, sends: &Sends<'_>) -> Result<()> {
    let (user, token) = (signer(attempt), chain.token(symbol(attempt)).address);
    chain.set_token_balance(token, user.address, U256::from(HAD)).await?;
    if attempt.coin {
        approve(sends, attempt.origin, user, token).await?;
    }
    Ok(())
}

/// A permit under a quote, signed and not posted. None if there is no quote.
async fn sign(hands: &Hands<'_>) -> Result<Option<Signed>> {
    let (attempt, user, symbol) = (hands.attempt, signer(hands.attempt), symbol(hands.attempt));
    let mut ask = hands.ask(symbol, symbol, U256::from(AMOUNT));
    (ask["user"], ask["usePermit"], ask["permitExpiry"]) = (json!(user.address), json!(true), json!(EXPIRY_SECS));
    let Some((quote, order)) = hands.quote(&ask).await? else { return Ok(None) };
    let signed = Signed::new(&quote, user)?;
    // Its own nonce and tokens are the adversary's to spend elsewhere.
    let spends = matches!(attempt.trick, Trick::SpentNonce | Trick::MovedAway);
    attempt.deeds().permit = Some(Permitted {
        label: format!("a permit of {:?}", attempt.trick),
        order,
        chain: attempt.origin,
        destination: attempt.destination,
        from: symbol,
        to: symbol,
        amount: U256::from(AMOUNT),
        user: user.address,
        recipient: attempt.recipient.address,
        had: (!spends).then_some(U256::from(HAD)),
        deadline: signed.deadline(),
        raw_call: false,
        taken: false,
        refusals: Vec::new(),
    });
    Ok(Some(signed))
}

fn note(hands: &Hands<'_>, answer: Option<(u16, Value)>) {
    let mut deeds = hands.attempt.deeds();
    deeds.refused |= !matches!(answer, Some((200, _)));
    if let Some(permit) = &mut deeds.permit {
        permit.note(answer);
    }
}

/// Posts, and spends the nonce elsewhere.
pub(super) async fn spent_nonce(hands: &Hands<'_>) -> Result<()> {
    let Some(signed) = sign(hands).await? else { return Ok(()) };
    let call = if hands.attempt.coin { invalidated(&signed)? } else { used(hands, &signed)? };
    undercut(hands, &signed, call).await
}

/// Posts, and moves all of the tokens away, or leaves Permit2 without its allowance.
pub(super) async fn moved_away(hands: &Hands<'_>) -> Result<()> {
    let Some(signed) = sign(hands).await? else { return Ok(()) };
    let (attempt, token) = (hands.attempt, hands.origin().token(symbol(hands.attempt)).address);
    let data = if attempt.coin && attempt.choice.is_multiple_of(2) {
        calldata::approve(PERMIT2, U256::ZERO)
    } else {
        calldata::transfer(attempt.second.address, U256::from(HAD))
    };
    undercut(hands, &signed, (token, U256::ZERO, data)).await
}

/// Posts several times at once, and once more when the order is filled.
pub(super) async fn posted_twice(hands: &Hands<'_>) -> Result<()> {
    let Some(signed) = sign(hands).await? else { return Ok(()) };
    let post = || signed.post_until_taken(hands.api);
    let (first, second, third) = tokio::join!(post(), post(), post());
    [first, second, third].into_iter().for_each(|answer| note(hands, answer));
    let Some(request) = hands.attempt.deeds().permit.as_ref().map(|permit| permit.order.request.clone()) else {
        return Ok(());
    };
    let (path, until) = (format!("/intents/status/v3?requestId={request}"), Instant::now() + WATCH_TIMEOUT);
    while Instant::now() < until {
        if hands.api.get(&path).await.is_ok_and(|(_, answer)| answer["status"] == "success") {
            break;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    note(hands, post().await);
    Ok(())
}

/// Posts, and sends a call that is to be mined before the relay: behind the answer or, sometimes, beside the post.
async fn undercut(hands: &Hands<'_>, signed: &Signed, call: Call) -> Result<()> {
    let tx = hands.sends.sign_ahead(hands.attempt.origin, &hands.attempt.main, call, GAS_LIMIT)?;
    if hands.attempt.choice.is_multiple_of(4) {
        let (answer, ()) = tokio::join!(signed.post(hands.api), hands.sends.send(tx));
        note(hands, answer);
    } else {
        note(hands, signed.post(hands.api).await);
        hands.sends.send(tx).await;
    }
    Ok(())
}

/// Marks the permit's nonce as used, in Permit2.
fn invalidated(signed: &Signed) -> Result<Call> {
    let nonce: U256 = text(signed.value(), "nonce")?.parse()?;
    let mask = U256::from(1u8) << (nonce & U256::from(0xffu8)).to::<usize>();
    Ok((PERMIT2, U256::ZERO, invalidateUnorderedNoncesCall { wordPos: nonce >> 8, mask }.abi_encode().into()))
}

/// Uses the authorization's nonce up: by a cancellation, or for another authorization of a single unit.
fn used(hands: &Hands<'_>, signed: &Signed) -> Result<Call> {
    let (attempt, value, domain) = (hands.attempt, signed.value(), permit_domain(&signed.step)?);
    let (main, nonce) = (&attempt.main, text(value, "nonce")?.parse::<B256>()?);
    let (from, unit, before) = (main.address, U256::ONE, text(value, "validBefore")?.parse::<U256>()?);
    let by = |digest: B256| anyhow::Ok(parts(&main.signer().sign_hash_sync(&digest)?));
    let data = match attempt.choice % 3 {
        0 => {
            let signed = CancelAuthorization { authorizer: from, nonce };
            let (v, r, s) = by(signed.eip712_signing_hash(&domain))?;
            cancelAuthorizationCall { authorizer: from, nonce, v, r, s }.abi_encode()
        }
        1 => {
            let (to, start) = (attempt.app.address, U256::ZERO);
            let signed =
                TransferWithAuthorization { from, to, value: unit, validAfter: start, validBefore: before, nonce };
            let (v, r, s) = by(signed.eip712_signing_hash(&domain))?;
            transferring(from, to, unit, (start, before), nonce, (v, r, s)).abi_encode()
        }
        _ => {
            // The payee brings it: here the user itself.
            let (to, start) = (from, U256::ZERO);
            let signed =
                ReceiveWithAuthorization { from, to, value: unit, validAfter: start, validBefore: before, nonce };
            let (v, r, s) = by(signed.digest(&domain))?;
            receiving(from, to, unit, (start, before), nonce, (v, r, s)).abi_encode()
        }
    };
    Ok((hands.origin().token("USDC").address, U256::ZERO, data.into()))
}

fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str> {
    value[name].as_str().with_context(|| format!("a permit without {name}"))
}

type Parts = (u8, B256, B256);

fn parts(signature: &Signature) -> Parts {
    (27 + u8::from(signature.v()), signature.r().into(), signature.s().into())
}

fn transferring(
    from: Address,
    to: Address,
    value: U256,
    (after, before): (U256, U256),
    nonce: B256,
    (v, r, s): Parts,
) -> transferWithAuthorizationCall {
    transferWithAuthorizationCall { from, to, value, validAfter: after, validBefore: before, nonce, v, r, s }
}

fn receiving(
    from: Address,
    to: Address,
    value: U256,
    (after, before): (U256, U256),
    nonce: B256,
    (v, r, s): Parts,
) -> receiveWithAuthorizationCall {
    receiveWithAuthorizationCall { from, to, value, validAfter: after, validBefore: before, nonce, v, r, s }
}

/// Watches for the relay of somebody else's permit, and brings everything that is in it before it is mined.
pub(super) async fn copied_relay(hands: &Hands<'_>) -> Result<()> {
    let Some(signed) = sign(hands).await? else { return Ok(()) };
    let copied = async {
        let Some((relayer, data)) = watch(hands).await? else { return Ok(false) };
        for call in copies(hands.origin(), relayer, data) {
            let tx = hands.sends.sign_ahead(hands.attempt.origin, &hands.attempt.main, call, GAS_LIMIT)?;
            hands.sends.send(tx).await;
        }
        anyhow::Ok(true)
    };
    let (answer, copied) = tokio::join!(signed.post_until_taken(hands.api), copied);
    note(hands, answer);
    hands.attempt.deeds().refused |= !copied?;
    Ok(())
}

/// The relayer and the calldata of the victim's relay, as the node shows its transactions on their way.
async fn watch(hands: &Hands<'_>) -> Result<Option<(Address, Bytes)>> {
    let Some(request) = hands.attempt.deeds().permit.as_ref().map(Permitted::relay).transpose()? else {
        return Ok(None);
    };
    let until = Instant::now() + WATCH_TIMEOUT;
    while Instant::now() < until {
        let pool: Value = hands.origin().rpc("txpool_content", json!([])).await?;
        let senders = pool["pending"].as_object().into_iter().flat_map(|senders| senders.values());
        for tx in senders.filter_map(Value::as_object).flat_map(|of_sender| of_sender.values()) {
            let input: Bytes = serde_json::from_value(tx["input"].clone())?;
            if request_of(&input) == Some(request) {
                return Ok(Some((serde_json::from_value(tx["from"].clone())?, input)));
            }
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
    Ok(None)
}

/// The relay itself, and of an authorization the calls of the token that it is made of.
fn copies(chain: &Chain, relayer: Address, data: Bytes) -> Vec<Call> {
    let proxy = chain.contracts.approval_proxy;
    let mut calls = vec![(proxy, U256::ZERO, data.clone())];
    let Ok(relay) = ApprovalProxy::permit3009TransferAndMulticallCall::abi_decode(&data) else { return calls };
    let nonce = RelayerWitness {
        relayer,
        refundTo: relay.refundTo,
        nftRecipient: relay.nftRecipient,
        metadata: relay.metadata,
        call3Values: relay.calls,
    }
    .hash();
    for (permit, token) in relay.permits.into_iter().zip(relay.tokens) {
        let Permit3009 { from, value, validAfter, validBefore, v, r, s } = permit;
        let times = (validAfter, validBefore);
        let received = receiving(from, proxy, value, times, nonce, (v, r, s)).abi_encode();
        let transferred = transferring(from, proxy, value, times, nonce, (v, r, s)).abi_encode();
        calls.extend([received, transferred].map(|data| (token, U256::ZERO, data.into())));
    }
    calls
}
