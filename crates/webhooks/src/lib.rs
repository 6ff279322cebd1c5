//! Outbound HTTP to integrators: endpoints, payload, signature, delivery.
//!
//! Events come from the store, where the step that made them also wrote what is to be delivered. Nothing here decides
//! about money, and nothing waits for a receiver but the task that posts to it.
//!
//! Modules import each other one way only, from the bottom of this list to its top: `env`, [`address`], [`target`],
//! [`resolver`], [`client`], [`signature`], [`payload`], [`endpoints`], `slots`, `recorder`, `throttle`, [`delivery`],
//! `upkeep`, and `tasks`, which runs all of it.

pub mod address;
pub mod client;
pub mod delivery;
pub mod endpoints;
mod env;
pub mod payload;
mod recorder;
pub mod resolver;
pub mod signature;
mod slots;
pub mod target;
mod tasks;
mod throttle;
mod upkeep;

pub use endpoints::Endpoints;
pub use env::{Env, MAX_POSTS_PER_ENDPOINT, Settings};
pub use tasks::run;
