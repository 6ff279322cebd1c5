//! Events of requests at a receiver: exactly those that are expected, in order, numbered from 1, and signed over their
//! raw bytes and over the body written again.

use std::sync::Mutex;

use anyhow::{Result, ensure};

use crate::harness::{Post, Receiver, eventually, found};

/// A receiver, and the events that each request should have told by now.
pub struct Sequences {
    receiver: Receiver,
    expected: Mutex<Vec<(String, Vec<&'static str>)>>,
}

impl Sequences {
    pub async fn start() -> Result<Self> {
        Ok(Self { receiver: Receiver::accepting().await?, expected: Mutex::default() })
    }

    pub fn url(&self) -> String {
        self.receiver.url("/hooks")
    }

    fn expect(&self, request: &str, events: &[&'static str]) {
        let mut expected = self.expected.lock().unwrap();
        expected.retain(|(id, _)| id != request);
        expected.push((request.to_owned(), events.to_vec()));
    }

    /// A request that tells nothing.
    pub fn silent(&self, request: &str) {
        self.expect(request, &[]);
    }

    /// Waits until a request has told as many events, and checks that they are these.
    pub async fn told(&self, request: &str, key: &str, expected: &[&'static str]) -> Result<Vec<Post>> {
        let count = expected.len();
        self.expect(request, expected);
        let in_time =
            eventually(&format!("{expected:?}"), || async { Ok(self.receiver.of(request).len() >= count) }).await;
        let events = self.receiver.of(request);
        // Says what came, if it was not enough.
        check(&events, expected)?;
        in_time?;
        ensure!(events.iter().all(|event| event.is_signed_by(key)), "{expected:?}: {events:?}");
        Ok(events)
    }

    /// Waits for a request of which nothing was expected yet, and returns its id.
    pub async fn another(&self) -> Result<String> {
        found("another request is told of", || async {
            let expected = self.expected.lock().unwrap();
            let known = |id: &str| expected.iter().any(|(request, _)| request == id);
            Ok(self.receiver.posts().iter().map(Post::request).find(|id| !known(id)))
        })
        .await
    }

    /// Nothing came beside what was expected. The service has ended, and so nothing comes after it.
    pub fn are_all(&self) -> Result<()> {
        let expected = self.expected.lock().unwrap();
        for (request, events) in expected.iter() {
            check(&self.receiver.of(request), events)?;
        }
        let known: usize = expected.iter().map(|(_, events)| events.len()).sum();
        ensure!(self.receiver.count() == known, "{} posts, {known} expected", self.receiver.count());
        Ok(())
    }
}

fn check(events: &[Post], expected: &[&str]) -> Result<()> {
    let told: Vec<_> = events.iter().map(|event| (event.sequence(), event.status())).collect();
    let numbered: Vec<_> = (1u64..).map(Some).zip(expected.iter().map(|status| (*status).to_owned())).collect();
    ensure!(told == numbered, "{told:?}, and not {expected:?}");
    Ok(())
}
