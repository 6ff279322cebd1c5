//! Webhooks against receivers that behave and receivers that do not. No chain is needed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say so at once")]
#![expect(clippy::disallowed_methods, reason = "tests read the clock")]
#![allow(unreachable_pub, reason = "a test binary exports nothing")]

mod delivery;
mod gone;
mod hostile;
mod log;
mod receiver;
mod rotation;
mod tls;
mod verification;
mod verify_example;
mod world;
