//! Webhooks of the run: a receiver that refuses some of them at first, and the verdict on what it got against what
//! happened.
//!
//! Every transfer is quoted with the integrator's key, so every kind of end is told. What happened is known from
//! outside, too: the books judge the status of each request by the chains, and here the last event has to be that
//! status, with no number missing before it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use domain::api_key::KeyText;
use harness::{Post, Receiver, judge};
use serde::Serialize;
use serde_json::{Value, json};

use super::api::Api;
use super::plan::{Kind, Transfer};
use super::traffic::Traffic;

const PATH: &str = "/hooks";
/// The setting of the service, as it is without configuration.
const ORDER_HOLD: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The longest time without progress.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Pages of the log that are read: more than the largest run fills.
const MAX_PAGES: usize = 5_000;

/// The number of posts by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct HookTally {
    /// Events that were accepted.
    pub events: usize,
    /// Posts of events that had been accepted before, each under its id.
    pub repeats: usize,
    /// Posts that the receiver refused.
    pub refused: usize,
}

#[derive(Debug)]
pub(crate) struct Hooks {
    receiver: Receiver,
}

/// Some deliveries are refused once, some three times.
fn answer(post: &Post, before: usize) -> u16 {
    let refusals = match post.id().parse::<u64>() {
        Ok(id) if id.is_multiple_of(40) => 3,
        Ok(id) if id.is_multiple_of(8) => 1,
        Ok(_) | Err(_) => 0,
    };
    if before < refusals { 503 } else { 204 }
}

impl Hooks {
    pub(crate) async fn start() -> Result<Self> {
        Ok(Self { receiver: Receiver::start(answer).await? })
    }

    /// Sets the endpoint of a key. The service runs.
    pub(crate) async fn listen(&self, api: &Api, key: &KeyText) -> Result<()> {
        let body = json!({ "url": self.receiver.url(PATH) });
        let (code, answer) = api.put("/webhooks/endpoint", key, &body).await?;
        ensure!(code == 200, "the webhook endpoint is refused: {answer}");
        Ok(())
    }

    /// Waits until all that happened was told, or nothing more comes.
    pub(crate) async fn settle(
        &self,
        traffic: &Traffic<'_>,
        transfers: &[Transfer],
        key: &KeyText,
        wrong: &mut Vec<String>,
    ) -> Result<HookTally> {
        let (mut last, mut since) = (usize::MAX, Instant::now());
        loop {
            let (found, tally) = self.judge(traffic, transfers, key).await?;
            if found.is_empty() {
                return Ok(tally);
            }
            if found.len() != last {
                (last, since) = (found.len(), Instant::now());
            }
            if since.elapsed() > SETTLE_TIMEOUT {
                wrong.extend(found);
                return Ok(tally);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn judge(
        &self,
        traffic: &Traffic<'_>,
        transfers: &[Transfer],
        key: &KeyText,
    ) -> Result<(Vec<String>, HookTally)> {
        // The log first: what it shows as delivered has arrived by the time the posts are read.
        let log = log(traffic.api, key).await?;
        let posts = self.receiver.posts();
        let judged = judge(&posts, key.expose(), ORDER_HOLD);
        let mut wrong = judged.wrong;
        let tally = HookTally {
            events: judged.events.values().map(BTreeMap::len).sum(),
            repeats: judged.repeats,
            refused: judged.refused,
        };
        let told: BTreeMap<String, BTreeMap<u64, String>> =
            judged.events.into_iter().map(|((_, request), events)| (request, events)).collect();
        compare(&log, &told, &mut wrong);
        let mut requests: BTreeMap<String, Option<Kind>> = told.keys().map(|request| (request.clone(), None)).collect();
        for transfer in transfers {
            if let Some(order) = traffic.order(transfer.index) {
                requests.insert(order.request, Some(transfer.kind));
            }
        }
        let with_deposit = posts.iter().filter(|post| !is_empty(&post.data("inTxHashes"))).map(Post::request);
        let with_deposit: BTreeSet<String> = with_deposit.collect();
        for (request, kind) in requests {
            let (_, status) = traffic.api.get(&format!("/intents/status/v3?requestId={request}")).await?;
            if let Some(problem) = end(&status, told.get(&request), with_deposit.contains(&request)) {
                // Deposits that pay for nothing are requests of their own.
                let kind = kind.map_or_else(|| "a child".to_owned(), |kind| format!("{kind:?}"));
                wrong.push(format!("webhooks of {request} ({kind}): {problem}"));
            }
        }
        Ok((wrong, tally))
    }
}

/// One delivery in the service's log.
#[derive(Debug)]
struct Logged {
    request: String,
    sequence: u64,
    status: String,
    state: String,
}

/// All deliveries of a key, as its owner reads them.
async fn log(api: &Api, key: &KeyText) -> Result<Vec<Logged>> {
    let (mut all, mut continuation) = (Vec::new(), None::<String>);
    for _ in 0..MAX_PAGES {
        let more = continuation.map_or_else(String::new, |at| format!("&continuation={at}"));
        let (code, page) = api.get_as(key, &format!("/webhooks/deliveries?limit=50{more}")).await?;
        ensure!(code == 200, "no log of webhooks: {page}");
        for it in page["deliveries"].as_array().context("deliveries")? {
            let text = |name: &str| it[name].as_str().unwrap_or_default().to_owned();
            all.push(Logged {
                request: text("requestId"),
                sequence: it["sequence"].as_u64().context("a sequence")?,
                status: text("status"),
                state: text("state"),
            });
        }
        match page["continuation"].as_str() {
            Some(at) => continuation = Some(at.to_owned()),
            None => return Ok(all),
        }
    }
    bail!("the log of webhooks does not end")
}

/// Every delivery of the log has ended well and has arrived, and nothing else has.
fn compare(log: &[Logged], told: &BTreeMap<String, BTreeMap<u64, String>>, wrong: &mut Vec<String>) {
    for it in log {
        let arrived = told.get(&it.request).and_then(|events| events.get(&it.sequence));
        let name = format!("webhook {} of {}", it.sequence, it.request);
        match (it.state.as_str(), arrived) {
            ("delivered", Some(status)) if *status == it.status => {}
            ("delivered", Some(status)) => wrong.push(format!("{name}: it told {status}, and not {}", it.status)),
            ("delivered", None) => wrong.push(format!("{name}: it is said to be delivered, and never came")),
            (state, _) => wrong.push(format!("{name}: it is {state}")),
        }
    }
    let arrived: usize = told.values().map(BTreeMap::len).sum();
    if arrived != log.len() {
        wrong.push(format!("{arrived} webhooks arrived, and the log has {}", log.len()));
    }
}

fn is_empty(hashes: &Value) -> bool {
    hashes.as_array().is_none_or(Vec::is_empty)
}

/// The fault in the events of a request, by its status in the end. `with_deposit` says that one of them told the
/// hash of its deposit.
fn end(status: &Value, told: Option<&BTreeMap<u64, String>>, with_deposit: bool) -> Option<String> {
    let ended = status["status"].as_str().unwrap_or("unknown");
    let Some((numbers, last)) = told.and_then(|told| Some((told.keys().copied(), told.values().next_back()?))) else {
        return (ended != "waiting").then(|| format!("it is {ended}, and nothing was told"));
    };
    let numbers: Vec<u64> = numbers.collect();
    if numbers != (1..=numbers.len() as u64).collect::<Vec<_>>() {
        return Some(format!("the numbers told are {numbers:?}"));
    }
    if last != ended {
        return Some(format!("it is {ended}, and {last} was told last"));
    }
    // A fast fill is a success before its deposit has a hash, and tells it once there is one.
    if ended == "success" && !with_deposit && !is_empty(&status["inTxHashes"]) {
        return Some("the hash of its deposit was never told".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "cwk_test";

    /// A post with its number, its status and the seconds after which it came.
    fn post(id: u64, sequence: u64, status: &str, secs: u64, code: u16) -> Post {
        let body = format!(
            r#"{{"event":"request.status.updated","timestamp":5,"data":{{"status":"{status}","inTxHashes":[],"txHashes":[],"updatedAt":5,"originChainId":8453,"destinationChainId":10,"depositAddress":null,"requestId":"0x07","referrer":null,"details":null,"failReason":"N/A","refundFailReason":"N/A"}}}}"#
        );
        let signature = webhooks::signature::sign(KEY, "9", body.as_bytes());
        let mut headers = axum::http::HeaderMap::new();
        for (name, value) in [
            ("x-signature-timestamp", "9".to_owned()),
            ("x-signature-sha256", signature),
            ("x-webhook-id", id.to_string()),
            ("x-webhook-sequence", sequence.to_string()),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        let at = *BEGAN + Duration::from_secs(secs);
        Post { at, path: PATH.to_owned(), headers, body: body.into_bytes().into(), code }
    }

    static BEGAN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);

    #[test]
    fn repeats_are_counted_and_disorder_is_wrong() {
        let good = [
            post(1, 1, "pending", 0, 503),
            post(1, 1, "pending", 1, 204),
            post(1, 1, "pending", 2, 204),
            post(2, 2, "submitted", 3, 204),
            // Held up for long enough.
            post(3, 3, "success", 4, 503),
            post(4, 4, "success", 65, 204),
        ];
        let judged = judge(&good, KEY, ORDER_HOLD);
        assert_eq!((judged.wrong, judged.repeats, judged.refused), (vec![], 1, 2));
        for (posts, said) in [
            (vec![post(2, 2, "submitted", 0, 204), post(1, 1, "pending", 1, 204)], "came before number 1"),
            (vec![post(1, 1, "pending", 0, 503), post(2, 2, "success", 9, 204)], "came before number 1"),
            (vec![post(1, 1, "pending", 0, 204), post(1, 1, "success", 1, 204)], "another body"),
            (vec![post(1, 1, "pending", 0, 204), post(2, 1, "pending", 1, 204)], "another id"),
        ] {
            let judged = judge(&posts, KEY, ORDER_HOLD);
            assert!(judged.wrong.iter().any(|wrong| wrong.contains(said)), "{said}: {:?}", judged.wrong);
        }
        assert!(judge(&good[..1], "cwk_other", ORDER_HOLD).wrong[0].contains("signature"));
    }

    #[test]
    fn the_events_of_a_request_end_where_it_ended() {
        let told = |statuses: &[&str]| -> BTreeMap<u64, String> {
            (1..).zip(statuses.iter().map(|status| (*status).to_owned())).collect()
        };
        let ended = |status: &str| json!({ "status": status, "inTxHashes": [] });
        let deposited = json!({ "status": "success", "inTxHashes": ["0x01"] });
        assert_eq!(end(&ended("success"), Some(&told(&["pending", "success"])), false), None);
        assert_eq!(end(&deposited, Some(&told(&["submitted", "success", "success"])), true), None);
        assert_eq!(end(&ended("waiting"), None, false), None);
        for (status, told, said) in [
            (ended("success"), None, "nothing was told"),
            (ended("success"), Some(BTreeMap::new()), "nothing was told"),
            (ended("refund"), Some(told(&["pending", "success"])), "told last"),
            (ended("success"), Some(BTreeMap::from([(2, "success".to_owned())])), "numbers"),
            (deposited.clone(), Some(told(&["submitted", "success"])), "hash of its deposit"),
        ] {
            let found = end(&status, told.as_ref(), false);
            assert!(found.as_ref().is_some_and(|found| found.contains(said)), "{said}: {found:?}");
        }
    }

    #[test]
    fn the_log_and_the_posts_are_compared_both_ways() {
        let one = |sequence, status: &str, state: &str| Logged {
            request: "0x07".to_owned(),
            sequence,
            status: status.to_owned(),
            state: state.to_owned(),
        };
        let told = BTreeMap::from([("0x07".to_owned(), BTreeMap::from([(1, "pending".to_owned())]))]);
        for (log, count) in [
            (vec![one(1, "pending", "delivered")], 0),
            (vec![one(1, "pending", "due")], 1),
            (vec![one(1, "pending", "failed")], 1),
            (vec![one(1, "success", "delivered")], 1),
            // Not arrived, and one more than arrived.
            (vec![one(1, "pending", "delivered"), one(2, "success", "delivered")], 2),
            (vec![], 1),
        ] {
            let mut wrong = Vec::new();
            compare(&log, &told, &mut wrong);
            assert_eq!(wrong.len(), count, "{log:?}: {wrong:?}");
        }
    }
}
