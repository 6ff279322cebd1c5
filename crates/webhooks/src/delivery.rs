//! Delivery: claims what is due, signs the exact bytes, posts them, records the attempt and schedules the next.
//!
//! An attempt is on record before it is made. A process that dies in between leaves a claim that ends with its
//! heartbeat, and the event is posted again, under the same id, by whoever finds it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy_primitives::B256;
use domain::api_key::ApiKeyId;
use domain::webhook::{AfterAttempt, Answer};
use metrics::{counter, histogram};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use store::sealing::MasterKey;
use store::webhooks::{self, Candidate, Claim, Claimed, Done, Due, EndpointId, SigningText, SwitchOff};
use store::{Store, StoreError, Tx};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::address::Policy;
use crate::client::{Client, Reply};
use crate::env::{Env, Settings};
use crate::payload;
use crate::recorder::{self, Ended, ROWS_PER_UNIT};
use crate::signature::{
    DELIVERY_HEADER, OTHER_SIGNATURE_HEADER, SEQUENCE_HEADER, SIGNATURE_HEADER, TEST_HEADER, TIMESTAMP_HEADER, sign,
};
use crate::slots::{SLOW_ANSWER_THRESHOLD, Slot, Slots};
use crate::target::Target;
use crate::throttle::Throttle;

/// How often the store is asked for deliveries that have become due, and how often for a while after there were some:
/// events of one transfer come one after the other.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
const BUSY_INTERVAL: Duration = Duration::from_millis(10);
const BUSY_FOR: Duration = Duration::from_secs(1);
/// Endpoints that are looked at in one read, and reads in one round.
const ENDPOINTS_PER_READ: i64 = 64;
const MAX_READS_PER_ROUND: usize = 64;
/// A claim outlives its attempt by this much.
const CLAIM_MARGIN: Duration = Duration::from_secs(15);
const GONE: &str = "the receiver answered 410";

#[derive(Debug)]
pub struct Deliverer {
    pub store: Store,
    pub master: Arc<MasterKey>,
    pub client: Client,
    pub settings: Settings,
    pub env: Env,
    /// Id of this process among those that serve the database.
    pub instance: String,
}

/// Posts under way, and where their results go.
struct Work {
    slots: Slots,
    throttle: Throttle,
    /// The end of the time for which more deliveries are expected.
    busy_until: Instant,
    tasks: TaskTracker,
    results: mpsc::Sender<Ended>,
    /// The last round met rows of a newer build.
    met_unreadable: bool,
}

/// Key texts by the key, and by the text that a delivery is signed with.
type Texts = BTreeMap<(ApiKeyId, B256), Vec<SigningText>>;

/// A delivery that is claimed, and what signs it.
struct Begun {
    candidate: Candidate,
    claimed: Claimed,
    texts: Vec<SigningText>,
}

impl Deliverer {
    /// Delivers until the token ends; attempts that are under way then are finished.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let (results, recorder) = recorder::start(self.store.clone(), self.env.clock);
        let throttle = Throttle::new(self.settings.max_per_second);
        let tasks = TaskTracker::new();
        let mut work = Work {
            slots: Slots::default(),
            throttle,
            busy_until: Instant::now(),
            tasks,
            results,
            met_unreadable: false,
        };
        let (mut after, mut trouble) = (EndpointId(0), false);
        while !stop.is_cancelled() {
            match self.round(after, &mut work).await {
                Ok(next) => (after, trouble) = (next, false),
                Err(failure) => {
                    if !trouble {
                        warn!(error = &failure as &dyn std::error::Error, "cannot read what webhooks are due");
                    }
                    trouble = true;
                }
            }
            let busy = !trouble && Instant::now() < work.busy_until;
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(if busy { BUSY_INTERVAL } else { POLL_INTERVAL }) => {}
                () = work.slots.freed(), if !trouble => {}
            }
        }
        work.tasks.close();
        work.tasks.wait().await;
        drop(work);
        if let Err(failure) = recorder.await {
            error!(error = &failure as &dyn std::error::Error, "the recorder of webhooks has ended early");
        }
    }

    /// Begins as many posts as there are slots for, from an endpoint on. Returns the endpoint to go on after.
    async fn round(self: &Arc<Self>, mut after: EndpointId, work: &mut Work) -> Result<EndpointId, StoreError> {
        let mut unreadable = 0;
        for _ in 0..MAX_READS_PER_ROUND {
            let (rooms, hold, now) = (work.slots.rooms(), self.settings.order_hold, (self.env.clock)());
            let read = move |tx: &mut Tx<'_>| {
                webhooks::due(tx, after, ENDPOINTS_PER_READ, hold, now, |endpoint| rooms.of(endpoint))
            };
            let Due { mut candidates, gone, unreadable: skipped, next } =
                self.store.read::<_, StoreError>(read).await?;
            unreadable += skipped;
            // Whoever comes first takes the last slots: not always the same.
            let turn = usize::from(self.env.roll()) % candidates.len().max(1);
            candidates.rotate_left(turn);
            self.begin(candidates, work).await?;
            self.end_gone(gone).await?;
            after = next.unwrap_or(EndpointId(0));
            if next.is_none() {
                break;
            }
        }
        if unreadable > 0 && !work.met_unreadable {
            warn!(unreadable, "deliveries of webhooks that a newer build wrote are left to it");
        }
        work.met_unreadable = unreadable > 0;
        Ok(after)
    }

    /// Ends deliveries that have nothing to post any more, a few in a round.
    async fn end_gone(&self, mut gone: Vec<Claim>) -> Result<(), StoreError> {
        gone.truncate(ROWS_PER_UNIT);
        if gone.is_empty() {
            return Ok(());
        }
        warn!(count = gone.len(), "webhooks are given up: their events are gone");
        let now = (self.env.clock)();
        self.store.write(move |tx| webhooks::end_gone(tx, &gone, now)).await
    }

    /// Claims what there are slots for, a few in one unit, and starts a task for each.
    async fn begin(self: &Arc<Self>, candidates: Vec<Candidate>, work: &mut Work) -> Result<(), StoreError> {
        let slots = work.slots.clone();
        let with_slot =
            |candidate: Candidate| slots.take(candidate.endpoint, candidate.failed).map(|slot| (candidate, slot));
        let mut taken = candidates.into_iter().filter_map(with_slot).peekable();
        while taken.peek().is_some() {
            work.busy_until = Instant::now() + BUSY_FOR;
            let chunk: Vec<_> = taken.by_ref().take(work.throttle.group()).collect();
            tokio::time::sleep(work.throttle.turn(chunk.len(), Instant::now())).await;
            let texts = self.signing_texts(&chunk).await?;
            let claims: Vec<_> = chunk.iter().map(|(it, _)| Claim { id: it.id, seen: it.claim }).collect();
            let (instance, now) = (self.instance.clone(), (self.env.clock)());
            let ttl = self.settings.attempt_timeout + CLAIM_MARGIN;
            let claimed = self.store.write(move |tx| webhooks::claim(tx, &claims, &instance, ttl, now)).await?;
            for (candidate, slot) in chunk {
                let Some(claimed) = claimed.iter().find(|claimed| claimed.id == candidate.id).copied() else {
                    continue;
                };
                let texts = texts.get(&(candidate.key, candidate.text_hash)).cloned().unwrap_or_default();
                let begun = Begun { candidate, claimed, texts };
                work.tasks.spawn(self.clone().deliver(begun, slot, work.results.clone()));
            }
        }
        Ok(())
    }

    /// The texts that sign the deliveries of a group, in one read.
    async fn signing_texts(&self, group: &[(Candidate, Slot)]) -> Result<Texts, StoreError> {
        let wanted: BTreeSet<_> = group.iter().map(|(it, _)| (it.key, it.text_hash)).collect();
        let now = (self.env.clock)();
        let read = move |tx: &mut Tx<'_>| {
            let mut texts = Texts::new();
            for &(key, pinned) in &wanted {
                texts.insert((key, pinned), webhooks::signing_texts(tx, key, pinned, now)?);
            }
            Ok(texts)
        };
        self.store.read(read).await
    }

    /// One attempt, from the claim to its result.
    async fn deliver(
        self: Arc<Self>,
        Begun { candidate, claimed, texts }: Begun,
        slot: Slot,
        results: mpsc::Sender<Ended>,
    ) {
        let crash = self.env.crash;
        crash("webhook.claimed");
        let began = Instant::now();
        let reply = match self.prepare(&candidate, &texts) {
            Ok((target, headers, body)) => self.client.post(&target, headers, body).await,
            Err(why) => {
                error!(key.id = %candidate.key, endpoint = %candidate.endpoint_name, "a webhook cannot be sent: {why}");
                Reply::not_sent(why)
            }
        };
        crash("webhook.posted");
        let answer = match reply.code {
            Some(410) => Answer::Gone,
            _ if reply.is_accepted() => Answer::Accepted,
            _ => Answer::Refused,
        };
        slot.answered(answer == Answer::Accepted && began.elapsed() < SLOW_ANSWER_THRESHOLD);
        let (now, is_test) = ((self.env.clock)(), candidate.event.is_none());
        let after = self.settings.retries.after(answer, candidate.failed, is_test, now, self.env.roll());
        measure(answer, after, &reply);
        if answer == Answer::Gone {
            info!(key.id = %candidate.key, endpoint = %candidate.endpoint_name, "{GONE}: this target is switched off");
        }
        let done = Done {
            claimed,
            endpoint: candidate.endpoint,
            duration: reply.duration,
            code: reply.code,
            error: reply.error,
            body: reply.body,
            after,
            switch_off: (answer == Answer::Gone).then_some(SwitchOff { because: GONE, seen: candidate.sealed }),
        };
        // The recorder lives for as long as there is a sender.
        let _ = results.send((done, slot)).await;
    }

    /// The target, our headers and the body of an attempt, or the reason why there are none.
    fn prepare(&self, candidate: &Candidate, texts: &[SigningText]) -> Result<(Target, HeaderMap, Vec<u8>), String> {
        let (key, now) = (candidate.key, (self.env.clock)());
        let policy = Policy { allow_local: self.settings.allow_local };
        let target = Target::open(&candidate.sealed, key, &candidate.endpoint_name, &self.master, policy)
            .map_err(|error| error.to_string())?;
        let body = match &candidate.event {
            Some((request, posted)) => payload::body(*request, posted, candidate.at),
            None => payload::test_body(candidate.at),
        };
        let (own, other) = choose(texts, candidate).ok_or("the key is revoked")?;
        let open = |text: &SigningText| {
            let opened = self.master.open(&key.to_string(), &text.sealed);
            opened.map_err(|error| error.to_string())
        };
        let timestamp = now.millis().to_string();
        let mut headers = HeaderMap::new();
        let mut set = |name: &'static str, value: &str| {
            let value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
            headers.insert(HeaderName::from_static(name), value);
            Ok::<_, String>(())
        };
        set(TIMESTAMP_HEADER, &timestamp)?;
        set(SIGNATURE_HEADER, &sign(&open(own)?, &timestamp, &body))?;
        if let Some(other) = other {
            set(OTHER_SIGNATURE_HEADER, &sign(&open(other)?, &timestamp, &body))?;
        }
        set(DELIVERY_HEADER, &candidate.id.to_string())?;
        set(SEQUENCE_HEADER, &candidate.ordinal.to_string())?;
        if candidate.event.is_none() {
            set(TEST_HEADER, "true")?;
        }
        Ok((target, headers, body))
    }
}

/// The text that signs a delivery, and the other that signs it too while the key changes from one to the other: the
/// current one for a delivery from before a rotation, the one before for a delivery after it.
fn choose<'a>(texts: &'a [SigningText], candidate: &Candidate) -> Option<(&'a SigningText, Option<&'a SigningText>)> {
    let current = texts.iter().find(|text| text.current)?;
    let own = texts.iter().find(|text| text.hash == candidate.text_hash).unwrap_or(current);
    let other = if own.current { texts.iter().find(|text| !text.current) } else { Some(current) };
    Some((own, other))
}

fn measure(answer: Answer, after: AfterAttempt, reply: &Reply) {
    let result = match (answer, after) {
        (Answer::Accepted, _) => "delivered",
        (_, AfterAttempt::GivenUp) => "given_up",
        (_, AfterAttempt::Again { .. } | AfterAttempt::Delivered) => "failed",
    };
    counter!("causeway_webhook_attempts_total", "result" => result).increment(1);
    histogram!("causeway_webhook_seconds").record(reply.duration);
}

#[cfg(test)]
mod tests {
    use domain::time::Timestamp;
    use domain::webhook::EndpointName;

    use super::*;

    fn candidate(pinned: u8) -> Candidate {
        Candidate {
            id: 1,
            claim: 0,
            endpoint: EndpointId(1),
            endpoint_name: EndpointName::default_name(),
            key: ApiKeyId::new([1; 10]),
            sealed: Vec::new(),
            text_hash: B256::repeat_byte(pinned),
            failed: 0,
            event: None,
            ordinal: 0,
            at: Timestamp::from_millis(0),
        }
    }

    #[test]
    fn an_event_is_signed_by_the_text_of_its_time_and_by_the_other_while_both_matter() {
        let text = |n: u8, current| SigningText { hash: B256::repeat_byte(n), sealed: Vec::new(), current };
        let (new, old) = (text(2, true), text(1, false));
        // Texts that the store gives, the text of the event, the signing ones.
        for (texts, pinned, expected) in [
            (vec![new.clone()], 2, Some((2, None))),
            (vec![new.clone(), old.clone()], 2, Some((2, Some(1)))),
            (vec![new.clone(), old.clone()], 1, Some((1, Some(2)))),
            // The text of the event is gone altogether.
            (vec![new.clone()], 9, Some((2, None))),
            (vec![], 1, None),
        ] {
            let chosen = choose(&texts, &candidate(pinned));
            let chosen = chosen.map(|(own, other)| (own.hash[0], other.map(|other| other.hash[0])));
            assert_eq!(chosen, expected, "{pinned}");
        }
    }
}
