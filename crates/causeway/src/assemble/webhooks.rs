//! The parts of webhooks: endpoints as callers change them, and the deliverer.

use std::sync::Arc;

use anyhow::Result;
use solver::Env;
use store::Store;
use webhooks::Endpoints;
use webhooks::address::Policy;
use webhooks::client::Client;
use webhooks::delivery::Deliverer;

use crate::config::Config;

fn env(env: Env) -> webhooks::Env {
    webhooks::Env { clock: env.clock, random: env.random, crash: env.crash }
}

pub fn endpoints(config: &Config, store: Store, outside: Env) -> Result<Endpoints> {
    Ok(Endpoints {
        store,
        master: config.master_key()?.map(Arc::new),
        policy: Policy { allow_local: config.webhooks.allow_local },
        env: env(outside),
    })
}

/// Posts events, in processes that have the master key. None without one: then there are no keys, and no endpoints.
pub fn deliverer(config: &Config, store: Store, outside: Env, instance: &str) -> Result<Option<Deliverer>> {
    let Some(master) = config.master_key()?.map(Arc::new) else { return Ok(None) };
    let settings = config.webhooks.settings();
    let client = Client::new(&settings)?;
    Ok(Some(Deliverer { store, master, client, settings, env: env(outside), instance: instance.to_owned() }))
}
