//! The allocator, from its configuration, and the advice it is handed.

use std::collections::BTreeMap;
use std::sync::Arc;

use allocator::{Advice, Allocator, Cap, PayingVenue, PayoutChain};
use alloy::primitives::Address;
use anyhow::{Context, Result, ensure};
use domain::ids::ChainId;
use domain::money::Amount;
use domain::quote::Quote;
use solver::Solver;
use solver::payments::amount::{refund_cost, relay_cost, sweep_cost, wasted_gas};
use store::relays::Burnt;

use super::{nodes_at, signers};
use crate::config::{ChainConfig, Config};
use crate::role::Role;

pub(super) fn allocator(config: &Config, role: Role, solver: &Solver) -> Result<Option<Allocator>> {
    let Some(settings) = &config.allocator else {
        ensure!(role != Role::Allocator, "allocator: needed by --role allocator");
        return Ok(None);
    };
    let source = settings.key.as_ref().with_context(|| format!("allocator.key: needed by --role {role}"))?;
    let key = signers::key(config, source).context("allocator.key")?;
    let mut chains = BTreeMap::new();
    for chain in &config.chains {
        let id = ChainId(chain.id);
        let Some(handle) = solver.chains.get(&id) else { continue };
        let nodes = match &chain.allocator_endpoints[..] {
            [] => handle.nodes.clone(),
            own => nodes_at(config, chain, own).with_context(|| format!("chain {}", chain.name))?,
        };
        let payout_chain = PayoutChain {
            chain: handle.chain.clone(),
            quorum: settings.quorum_of(nodes.len(), chain.local),
            nodes,
            caps: caps(config, chain)?,
            finality: chain.finality_blocks,
            start_block: chain.start_block,
            wallets: handle.addresses(),
        };
        chains.insert(id, Arc::new(payout_chain));
    }
    Ok(Some(Allocator {
        key,
        terms: settings.terms()?,
        treasury: config.solver.treasury,
        order_key: solver.terms.solver,
        chains,
        venue: paying_venue(solver),
        store: solver.store.clone(),
        advice: advice(solver),
        env: allocator::Env { clock: solver.env.clock, crash: solver.env.crash },
    }))
}

/// The venue to read evidence from. It has no depository, and so no payouts.
fn paying_venue(solver: &Solver) -> Option<PayingVenue> {
    let handle = solver.chains.get(&domain::venue::CHAIN)?;
    let venue = handle.venue.as_ref()?;
    Some(PayingVenue {
        client: venue.client.clone(),
        chain: handle.chain.clone(),
        account: venue.account,
        finality_secs: handle.settings.finality,
    })
}

/// The allocator's caps on a chain, by currency. Empty without an allocator.
pub(super) fn caps(config: &Config, chain: &ChainConfig) -> Result<BTreeMap<Address, Cap>> {
    let Some(settings) = &config.allocator else { return Ok(BTreeMap::new()) };
    let native = (&chain.native.id, chain.native.decimals, Address::ZERO);
    let tokens = chain.tokens.iter().map(|token| (&token.id, token.decimals, token.address));
    let capped = std::iter::once(native).chain(tokens).filter_map(|(id, decimals, address)| {
        let cap = settings.caps.iter().find(|cap| cap.currency == *id)?;
        Some(cap.amounts(decimals).map(|cap| (address, cap)))
    });
    capped.collect()
}

/// Prices of the market and lists of the operator, as they stand when they are asked for.
fn advice(solver: &Solver) -> Advice {
    let (market, chains) = (solver.market.clone(), solver.chains.clone());
    let batch_worth = move |chain: ChainId, currency: Address, amount| {
        let price = market.latest(chain)?.price(currency).ok()?;
        price.usd_floor(amount, chains.get(&chain)?.chain.token(currency)?.decimals).ok()
    };
    let (market, chains) = (solver.market.clone(), solver.chains.clone());
    let cost = move |chain: ChainId, currency: Address| match (chains.get(&chain), market.latest(chain)) {
        (Some(handle), Some(snapshot)) => refund_cost(handle, &snapshot, currency, false),
        (None, _) | (_, None) => Ok(None),
    };
    let (market, chains) = (solver.market.clone(), solver.chains.clone());
    let swept = move |chain: ChainId, currency: Address| match (chains.get(&chain), market.latest(chain)) {
        (Some(handle), Some(snapshot)) => sweep_cost(handle, &snapshot, currency),
        (None, _) | (_, None) => Ok(None),
    };
    let (market, chains) = (solver.market.clone(), solver.chains.clone());
    let relayed =
        move |chain: ChainId, currency: Address, burnt: Burnt| match (chains.get(&chain), market.latest(chain)) {
            (Some(handle), Some(snapshot)) => relay_cost(handle, &snapshot, burnt, currency),
            (None, _) | (_, None) => Ok(None),
        };
    let (market, chains) = (solver.market.clone(), solver.chains.clone());
    let wasted = move |chain: ChainId, currency: Address, quote: &Quote, fees: &[(ChainId, Amount)]| {
        let (Some(handle), Some(snapshot)) = (chains.get(&chain), market.latest(chain)) else { return Ok(None) };
        let native = |chain| {
            let price = market.latest(chain)?.price(Address::ZERO).ok()?;
            Some((price, chains.get(&chain)?.chain.native.decimals))
        };
        wasted_gas(fees, quote, (handle, &snapshot), currency, native)
    };
    let (blocked, custodial) = (solver.screening.clone(), solver.screening.clone());
    Advice {
        batch_worth: Arc::new(batch_worth),
        refund_cost: Arc::new(cost),
        sweep_cost: Arc::new(swept),
        relay_cost: Arc::new(relayed),
        wasted: Arc::new(wasted),
        is_blocked: Arc::new(move |who| blocked.load().blocked.contains(&who)),
        is_custodial: Arc::new(move |who| custodial.load().custodial.contains(&who)),
    }
}
