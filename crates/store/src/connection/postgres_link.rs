//! One connection to Postgres with its prepared statements, reconnected after it is lost.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use postgres::Client;
use tracing::{info, warn};

use crate::error::PostgresFault;
use crate::options::Route;
use crate::tx::Statements;
use crate::{Options, StoreError};

/// A unit waits this long for a database that went away; during a longer outage, later units fail at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(50);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);

/// The purpose of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Session {
    Write,
    Read { limit: Duration },
    Audit,
}

impl Session {
    /// Reads are bounded by their limit and cannot write. A write is bounded too, so that a lock nobody releases does
    /// not hold a thread for ever, and a process that stalls in the middle of a unit does not keep its lease from the
    /// standbys. A commit that is answered is durable, whatever the server's settings.
    fn set_up(self) -> String {
        match self {
            Self::Write => "set statement_timeout = '30s'; \
                set idle_in_transaction_session_timeout = '5s'; \
                select set_config('synchronous_commit', 'on', false) \
                where current_setting('synchronous_commit') = 'off'"
                .to_owned(),
            Self::Read { limit } => format!(
                "set statement_timeout = {}; set default_transaction_read_only = on",
                limit.as_millis().clamp(1, 3_600_000)
            ),
            Self::Audit => "set statement_timeout = 0; set default_transaction_read_only = on".to_owned(),
        }
    }
}

pub(crate) struct Link {
    route: Route,
    session: Session,
    client: Option<Client>,
    statements: Statements,
    outage: Option<Outage>,
}

struct Outage {
    since: Instant,
    next_try: Instant,
    pause: Duration,
    last: PostgresFault,
}

impl Link {
    pub(crate) fn new(route: Route, session: Session) -> Self {
        Self { route, session, client: None, statements: Statements::default(), outage: None }
    }

    pub(crate) fn for_options(options: &Options) -> Result<Option<Self>, StoreError> {
        match &options.url {
            crate::DatabaseUrl::Postgres(url) => Ok(Some(Self::new(Route::new(url)?, Session::Write))),
            crate::DatabaseUrl::Sqlite(_) => Ok(None),
        }
    }

    /// Connects without retrying: for opening, where the operator is waiting.
    pub(crate) fn connect(&mut self) -> Result<&mut Client, StoreError> {
        let connected = self.route.connect().and_then(|mut client| {
            client.batch_execute(&self.session.set_up())?;
            Ok(client)
        });
        let client = connected.map_err(|error| StoreError::Unavailable(PostgresFault::from(&error)))?;
        self.statements = Statements::default();
        Ok(self.client.insert(client))
    }

    /// The connection, remade if it was lost, within [`CONNECT_TIMEOUT`] of losing it.
    pub(crate) fn connected(&mut self) -> Result<(&mut Client, &mut Statements), StoreError> {
        while self.client.is_none() {
            let now = Instant::now();
            if let Some(outage) = &self.outage
                && now < outage.next_try
            {
                if now.duration_since(outage.since) >= CONNECT_TIMEOUT {
                    return Err(StoreError::Unavailable(outage.last.clone()));
                }
                std::thread::sleep(outage.next_try - now);
            }
            match self.connect() {
                Ok(_) => {
                    if self.outage.take().is_some() {
                        info!("the database can be reached again");
                    }
                }
                Err(StoreError::Unavailable(fault)) => self.failed(fault),
                Err(other) => return Err(other),
            }
        }
        let client = self.client.as_mut().ok_or(StoreError::Closed)?;
        Ok((client, &mut self.statements))
    }

    fn failed(&mut self, last: PostgresFault) {
        let now = Instant::now();
        let (since, pause) = match &self.outage {
            Some(outage) => (outage.since, (outage.pause * 2).min(MAX_RETRY_DELAY)),
            None => {
                warn!(error = &last as &dyn std::error::Error, "the database cannot be reached");
                (now, FIRST_RETRY_DELAY)
            }
        };
        self.outage = Some(Outage { since, next_try: now + jittered(pause), pause, last });
    }

    /// Drops the connection; the next use makes another.
    pub(crate) fn lose(&mut self) {
        self.client = None;
    }
}

/// A pause between half and all of the given one, so that many who fail together do not come back together.
pub(crate) fn jittered(pause: Duration) -> Duration {
    let half = pause / 2;
    let random = RandomState::new().hash_one(0);
    let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).max(1);
    half + Duration::from_nanos(random % nanos)
}
