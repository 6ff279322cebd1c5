//! A lease in the hands of this process, and how its loss is noticed.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Kind, holds};
use crate::{StoreError, Tx};

/// The last beat that the database answered.
#[derive(Clone, Debug)]
pub(crate) struct Beat {
    pub number: u64,
    /// From then on this process counts as dead.
    pub good_until: tokio::time::Instant,
    /// The leases it holds, with their epochs.
    pub held: Vec<(Kind, i64)>,
}

/// Held by one process at a time. Its holder writes through [`crate::Store::under`].
#[derive(Clone, Debug)]
pub struct Lease {
    kind: Kind,
    epoch: i64,
    watched: Option<Watched>,
}

/// How the loss of a lease is noticed.
#[derive(Clone, Debug)]
struct Watched {
    beats: watch::Receiver<Beat>,
    /// Beats up to this number may have been made before it was taken.
    taken_after: u64,
    fence: Fence,
}

/// Says, at the beginning of a unit, whether its lease is still held.
#[derive(Clone, Debug)]
pub(crate) struct Fence {
    kind: Kind,
    epoch: i64,
    lost: Arc<watch::Sender<bool>>,
}

impl Fence {
    pub(crate) fn check(&self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        if holds(tx, self.kind, self.epoch)? {
            return Ok(());
        }
        // An epoch never comes back, so saying so more than once, or from a unit that runs again, is no less true.
        self.lost.send_replace(true);
        Err(StoreError::Fenced { lease: self.kind.name() })
    }
}

impl Lease {
    /// Just taken, by a process with these beats. Without any it is never lost.
    pub(crate) fn taken(kind: Kind, epoch: i64, beats: Option<&watch::Receiver<Beat>>) -> Self {
        let watched = beats.map(|beats| Watched {
            beats: beats.clone(),
            // The beat that is under way now may have looked before.
            taken_after: beats.borrow().number + 1,
            fence: Fence { kind, epoch, lost: Arc::new(watch::Sender::new(false)) },
        });
        Self { kind, epoch, watched }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    pub(crate) fn fence(&self) -> Option<Fence> {
        self.watched.as_ref().map(|watched| watched.fence.clone())
    }

    /// Resolves when another may hold it by now: a unit found that out, the beat did, or there was no beat in time.
    /// The waiting task must stop then. A lease of SQLite is never lost.
    pub async fn lost(&self) {
        let Some(watched) = &self.watched else { return std::future::pending().await };
        let (mut beats, mut fenced) = (watched.beats.clone(), watched.fence.lost.subscribe());
        loop {
            let beat = beats.borrow_and_update().clone();
            if beat.number > watched.taken_after && !beat.held.contains(&(self.kind, self.epoch)) {
                return;
            }
            tokio::select! {
                // Its other end is held by the lease itself.
                _ = fenced.wait_for(|lost| *lost) => return,
                changed = beats.changed() => if changed.is_err() { return },
                () = tokio::time::sleep_until(beat.good_until) => return,
            }
        }
    }
}
