//! One transaction to several nodes that each say something else.

use std::time::Duration;

use alloy::primitives::keccak256;
use evm::{Refusal, SendOutcome};

use crate::scripted::{LONG_TIMEOUT, Reply, Scripted, hash, nodes, result};

const RAW: &[u8] = &[2, 1, 0];
const SEND: &str = "eth_sendRawTransaction";

#[tokio::test]
async fn each_endpoint_has_its_own_outcome() {
    let accepts = Scripted::start(|_, _| result(hash(1))).await;
    let knows = Scripted::start(|_, _| Reply::Error(-32000, "already known")).await;
    let refuses = Scripted::start(|_, _| Reply::Error(-32000, "nonce too low: next nonce 5, tx nonce 3")).await;
    let fails = Scripted::start(|_, _| Reply::Status(502)).await;
    let limits = Scripted::start(|_, _| Reply::Error(-32005, "rate limit")).await;
    let nodes = nodes(&[&accepts, &knows, &refuses, &fails, &limits], LONG_TIMEOUT);

    let mut calls = 0;
    let sent = nodes.send_raw(RAW, |_| calls += 1).await;
    assert_eq!((sent.hash, calls), (keccak256(RAW), 1));
    assert!(matches!(
        &sent.outcomes[..],
        [
            SendOutcome::Accepted,
            SendOutcome::AlreadyKnown,
            SendOutcome::Refused(Refusal::NonceTooLow),
            SendOutcome::Failed(_),
            SendOutcome::Failed(_),
        ]
    ));
    assert!(sent.is_held() && sent.nonce_is_used());
    assert_eq!(sent.refusal(), None);
}

#[tokio::test]
async fn a_refusal_by_all_is_the_answer() {
    let refuses = || Scripted::start(|_, _| Reply::Error(-32000, "insufficient funds for gas * price + value"));
    let (one, two) = (refuses().await, refuses().await);
    let sent = nodes(&[&one, &two], LONG_TIMEOUT).send_raw(RAW, |_| ()).await;
    assert_eq!((sent.is_held(), sent.refusal()), (false, Some(&Refusal::InsufficientFunds)));
}

#[tokio::test]
async fn a_silent_endpoint_does_not_hold_up_the_lane() {
    let (accepts, silent) =
        (Scripted::start(|_, _| result(hash(1))).await, Scripted::start(|_, _| Reply::Silence).await);
    // The timeout is far away: returning at all shows that the silent endpoint was not waited for.
    let nodes = nodes(&[&silent, &accepts], Duration::from_secs(3_600));
    let mut first = None;
    let sent = tokio::time::timeout(LONG_TIMEOUT, nodes.send_raw(RAW, |outcome| first = Some(outcome.is_held())))
        .await
        .unwrap();
    assert!(matches!(&sent.outcomes[..], [SendOutcome::Unanswered, SendOutcome::Accepted]));
    assert_eq!(first, Some(true));
    silent.until_asked(SEND, 1).await;
}

#[tokio::test]
async fn a_send_goes_on_when_its_caller_hangs_up() {
    let (one, two) = (Scripted::start(|_, _| Reply::Silence).await, Scripted::start(|_, _| Reply::Silence).await);
    let nodes = nodes(&[&one, &two], LONG_TIMEOUT);
    {
        let send = nodes.send_raw(RAW, |_| ());
        tokio::pin!(send);
        // One poll is enough to start the send; then the caller is gone.
        assert!(futures::poll!(&mut send).is_pending());
    }
    one.until_asked(SEND, 1).await;
    two.until_asked(SEND, 1).await;
}
