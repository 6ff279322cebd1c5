//! `causeway doctor`: every check that can be made without sending a payment.

mod relayers;
mod venue;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use allocator::Allocator;
use alloy::primitives::{Address, B256, U256};
use alloy::sol_types::SolCall;
use anyhow::{Result, bail};
use domain::catalog::Currency;
use domain::deposit_address::{Factory, RouteKey};
use domain::ids::OrderId;
use domain::money::Amount;
use evm::contracts::{DepositAddressFactory, Depository, Erc20, PriceFeed, Router, SpendLimiter};
use evm::{At, NonceTag};
use solver::{ChainHandle, Solver};
use store::leases::{self, Kind};
use store::{Store, instances, lanes};

use crate::assemble;
use crate::config::{ChainConfig, Config};
use crate::env::{clock, system_env};
use crate::role::Role;

/// Prints each finding as it is made and counts the failures.
#[derive(Default)]
struct Findings {
    failures: u32,
}

impl Findings {
    fn ok(&self, what: impl std::fmt::Display) {
        println!("  ok    {what}");
    }

    fn warn(&self, what: impl std::fmt::Display, mend: &str) {
        println!("  warn  {what}\n        {mend}");
    }

    fn fail(&mut self, what: impl std::fmt::Display, mend: &str) {
        self.failures += 1;
        println!("  FAIL  {what}\n        {mend}");
    }
}

pub(crate) async fn run(path: &Path, role: Role) -> Result<()> {
    let mut findings = Findings::default();
    println!("configuration");
    let config = Config::load(path)?;
    findings.ok(path.display());
    check_factories(&findings, &config.chains);
    println!("database");
    let database = assemble::database(&config)?;
    let store = match Store::open(&database) {
        Ok(store) => {
            findings.ok(&database.url);
            Some(store)
        }
        Err(error) => {
            findings.fail(
                format!("{}: {}", database.url, solver::error::Chained(&error)),
                "check `database` in the configuration, then run `causeway migrate`",
            );
            None
        }
    };
    if let Some(store) = store {
        if !store.is_sqlite() {
            println!("processes");
            check_processes(&mut findings, &config, &store).await;
        }
        let parts = assemble::parts(&config, role, store, system_env())?;
        for (settings, handle) in config
            .chains
            .iter()
            .filter_map(|chain| Some((chain, parts.solver.chains.get(&domain::ids::ChainId(chain.id))?)))
        {
            println!("chain {} ({})", handle.chain.name, handle.id());
            check_chain(&mut findings, &parts, handle, settings).await;
        }
        if let Some(handle) = parts.solver.chains.get(&domain::venue::CHAIN) {
            println!("chain {} ({})", handle.chain.name, handle.id());
            venue::check(&mut findings, &parts.solver, handle).await;
        }
    }
    match findings.failures {
        0 => {
            println!("all is well");
            Ok(())
        }
        n => bail!("{n} things are wrong"),
    }
}

async fn check_chain(
    findings: &mut Findings,
    parts: &assemble::Parts,
    handle: &Arc<ChainHandle>,
    settings: &ChainConfig,
) {
    let (solver, allocator) = (&parts.solver, parts.allocator.as_ref());
    let hosts = handle.nodes.health().into_iter().map(|health| health.host);
    let mut answers = 0;
    for (host, answer) in hosts.zip(handle.nodes.chain_ids().await) {
        match answer {
            Ok(id) if id == handle.id().0 => {
                answers += 1;
                findings.ok(format!("node {host}"));
            }
            Ok(id) => findings.fail(format!("node {host} serves chain {id}"), "correct `endpoints` or `id`"),
            Err(error) => findings.fail(format!("node {host}: {error}"), "is it running, and reachable from here?"),
        }
    }
    match (handle.nodes.len(), answers) {
        (_, 0) => return,
        (1, _) => findings.warn(
            "there is one node: its word is money, and a lie of it is paid for",
            "add a second one to `endpoints`",
        ),
        (_, 1) => findings
            .fail("one node answers, and two have to show a deposit", "deposits wait until a second one is back"),
        _ => {}
    }
    if let Ok(head) = handle.nodes.head().await {
        let behind = clock().secs() - i64::try_from(head.time).unwrap_or(i64::MAX);
        if behind.abs() > 120 {
            let what = format!("the newest block is {behind} seconds away from this machine's clock");
            findings.warn(what, "set the clock, or find out why the chain stands still");
        } else {
            findings.ok(format!("head {} and clock agree within {} seconds", head.number, behind.abs()));
        }
    }
    check_contracts(findings, handle).await;
    if let Some(factory) = handle.chain.deposit_address_factory {
        check_factory(findings, handle, factory).await;
    }
    check_allocator(findings, allocator, handle, settings).await;
    check_feeds(findings, handle, settings).await;
    check_wallets(findings, solver, handle).await;
    relayers::check(findings, handle).await;
}

/// Lists the live processes and the leaders.
async fn check_processes(findings: &mut Findings, config: &Config, store: &Store) {
    let read = |tx: &mut store::Tx<'_>| Ok::<_, store::StoreError>((instances::alive(tx)?, leases::all(tx)?));
    let (alive, leases) = match store.read(read).await {
        Ok(seen) => seen,
        Err(error) => return findings.fail(solver::error::Chained(&error), "is the database healthy?"),
    };
    for process in alive {
        findings.ok(format!("{} is alive, with role {}", process.name, process.role));
    }
    let wanted = |kind| kind == Kind::Worker || config.allocator.is_some();
    for lease in leases.into_iter().filter(|lease| wanted(lease.kind)) {
        let (kind, epoch) = (lease.kind.name(), lease.epoch);
        let last = lease.name.unwrap_or_else(|| "nobody".to_owned());
        if lease.held && lease.expired_millis.is_none() {
            findings.ok(format!("{last} is the {kind}, epoch {epoch}"));
        } else {
            let mend = format!("start a process with `--role {kind}` or `--role all`");
            findings.warn(format!("there is no {kind}; the last was {last}, epoch {epoch}"), &mend);
        }
    }
}

async fn check_contracts(findings: &mut Findings, handle: &ChainHandle) {
    let chain = &handle.chain;
    let contracts = [
        ("depository", chain.depository),
        ("router", chain.router),
        ("approval proxy", chain.approval_proxy),
        ("multicall3", chain.multicall3),
    ];
    let optional = [
        ("spend limiter", chain.spend_limiter),
        ("deposit address factory", chain.deposit_address_factory),
        ("swap router", chain.dex.map(|dex| dex.swap_router)),
    ];
    let optional = optional.into_iter().filter_map(|(name, address)| Some((name, address?)));
    let tokens = chain.tokens.iter().map(|token| (token.symbol.as_str(), token.address.evm().unwrap_or_default()));
    for (name, address) in contracts.into_iter().chain(optional).chain(tokens).collect::<Vec<_>>() {
        match handle.nodes.code(address, At::Latest).await {
            Ok(code) if !code.is_empty() => findings.ok(format!("{name} {address}")),
            Ok(_) => findings.fail(format!("{name} {address} has no code"), "correct its address in the configuration"),
            Err(error) => findings.fail(format!("{name} {address}: {error}"), "is the node healthy?"),
        }
    }
    let call = Depository::allocatorCall {}.abi_encode().into();
    match handle.nodes.call(chain.depository, call, At::Latest).await {
        Ok(answer) if answer.len() == 32 => {
            findings.ok(format!("the depository's allocator is {}", Address::from_slice(&answer[12..])));
        }
        _ => findings.fail("the depository does not name its allocator", "is it the right contract?"),
    }
    let call = Router::requireBalanceCall { token: Address::ZERO, amount: U256::ZERO }.abi_encode().into();
    if handle.nodes.call(chain.router, call, At::Latest).await.is_err() {
        let mend = "deploy the router of this build, and the approval proxy and spend limiter that name it";
        findings.fail("the router is an older one, which cannot check balances or take the value of a payment", mend);
    }
}

/// Checks that deposit addresses are derived here as the factory derives them, that its depository is ours, and that
/// every wallet may sweep open ones. A wrong factory would have users pay addresses that nobody can sweep.
async fn check_factory(findings: &mut Findings, handle: &ChainHandle, factory: Address) {
    let read = async |call: Vec<u8>| {
        let answer = handle.nodes.call(factory, call.into(), At::Latest).await.unwrap_or_default();
        if answer.len() == 32 { B256::from_slice(&answer) } else { B256::ZERO }
    };
    let depository = Address::from_word(read(DepositAddressFactory::DEPOSITORYCall {}.abi_encode()).await);
    if depository != handle.chain.depository {
        let what = format!("the deposit address factory {factory} deposits in {depository}");
        findings.fail(what, "deploy a factory for this depository, or correct `contracts.deposit_address_factory`");
    }
    // Any parameters will do.
    let (word, depositor, ours) = (B256::repeat_byte(0x5a), Address::repeat_byte(0xa5), Factory::new(factory));
    let strict = DepositAddressFactory::computeDepositAddressCall { orderId: word, depositor }.abi_encode();
    let open = DepositAddressFactory::computeOpenDepositAddressCall { routeKey: word }.abi_encode();
    let derived = [ours.strict(OrderId(word), depositor), ours.open(RouteKey(word))];
    if [read(strict).await, read(open).await].map(Address::from_word) == derived {
        findings.ok("deposit addresses are derived as the factory derives them");
    } else {
        let mend = "it is not the contract of this build; correct `contracts.deposit_address_factory`";
        findings.fail(format!("the deposit address factory {factory} derives other addresses"), mend);
    }
    for wallet in handle.addresses() {
        let call = DepositAddressFactory::operatorsCall { account: wallet }.abi_encode();
        if read(call).await != B256::with_last_byte(1) {
            let what = format!("wallet {wallet} may not sweep open deposit addresses");
            findings.warn(what, "let the factory's owner call `setOperator` for it");
        }
    }
}

/// Warns where the factories of chains differ: an address that is paid on the wrong chain is then out of reach.
fn check_factories(findings: &Findings, chains: &[ChainConfig]) {
    let factories: BTreeSet<_> = chains.iter().filter_map(|chain| chain.contracts.deposit_address_factory).collect();
    if factories.len() > 1 {
        let what = format!("there are {} factories of deposit addresses", factories.len());
        findings.warn(what, "deploy one at the same address everywhere, so that its deposit addresses are the same");
    }
}

/// Checks that deposits on this chain can be paid out: the depository's allocator, the quorum of nodes and the caps.
async fn check_allocator(
    findings: &mut Findings,
    allocator: Option<&Allocator>,
    handle: &ChainHandle,
    settings: &ChainConfig,
) {
    let Some(allocator) = allocator else {
        let mend = "set `[allocator]` to have the treasury repaid out of the depository";
        return findings.warn("no allocator key: deposits stay in the depository", mend);
    };
    let Some(payout_chain) = allocator.payout_chain(handle.id()) else { return };
    let call = Depository::allocatorCall {}.abi_encode().into();
    let named = handle.nodes.call(handle.chain.depository, call, At::Latest).await.unwrap_or_default();
    if named.len() != 32 || Address::from_slice(&named[12..]) != allocator.address() {
        let what = format!("`allocator.key` is that of {}, whom the depository does not name", allocator.address());
        findings.fail(what, "correct the key, or let the depository's owner name it");
    }
    match payout_chain.nodes.quorum_header(payout_chain.quorum, handle.settings.finality).await {
        Ok(head) => {
            findings.ok(format!("{} nodes agree on final block {}", payout_chain.quorum, head.number));
            if let Err(error) = payout_chain
                .nodes
                .quorum_balance(payout_chain.quorum, handle.chain.depository, At::Hash(head.hash))
                .await
            {
                let mend = "the allocator needs nodes that keep the state of final blocks (`allocator_endpoints`)";
                let what = format!("the state of final block {}: {error}", head.number);
                // A freshly loaded local chain has only the state of blocks mined since.
                if settings.local { findings.warn(what, mend) } else { findings.fail(what, mend) }
            }
        }
        Err(error) => findings.fail(error, "no payout is signed until they agree; look at `allocator_endpoints`"),
    }
    for currency in handle.chain.held() {
        if !currency.address.evm().is_some_and(|address| payout_chain.caps.contains_key(&address)) {
            let what = format!("{} has no cap, so deposits in it are not paid out", currency.symbol);
            findings.warn(what, "list it in `allocator.caps`");
        }
    }
}

async fn check_feeds(findings: &mut Findings, handle: &ChainHandle, settings: &ChainConfig) {
    let native = (settings.native.symbol.as_str(), &settings.native.feed);
    let tokens = settings.tokens.iter().filter_map(|token| Some((token.symbol.as_str(), token.feed.as_ref()?)));
    let now = handle.nodes.head().await.map_or(0, |head| head.time);
    for (symbol, feed) in std::iter::once(native).chain(tokens).collect::<Vec<_>>() {
        let call = PriceFeed::latestRoundDataCall {}.abi_encode().into();
        let answer = handle.nodes.call(feed.address, call, At::Latest).await.ok();
        let round = answer.and_then(|answer| PriceFeed::latestRoundDataCall::abi_decode_returns(&answer).ok());
        let Some(round) = round else {
            findings.fail(format!("the feed of {symbol} does not answer"), "correct `feed.address`");
            continue;
        };
        let age = now.saturating_sub(u64::try_from(round.updatedAt).unwrap_or(0));
        if age > feed.max_age_secs {
            let what = format!("the feed of {symbol} is {age} seconds old");
            findings.fail(what, "raise `feed.max_age_secs` if the feed is known to be this slow");
        } else {
            findings.ok(format!("feed of {symbol}, {age} seconds old"));
        }
    }
}

async fn check_wallets(findings: &mut Findings, solver: &Solver, handle: &ChainHandle) {
    let chain = handle.id();
    let lanes = solver.store.read(move |tx| lanes::all(tx, chain)).await.unwrap_or_default();
    for wallet in handle.senders() {
        let balance = handle.nodes.balance(wallet, At::Latest).await.unwrap_or_default();
        let shown = Amount::new(balance).formatted(handle.chain.native.decimals);
        let symbol = &handle.chain.native.symbol;
        if balance < U256::from(10u64).pow(U256::from(15)) {
            findings.fail(format!("wallet {wallet} has {shown} {symbol}"), "send it native currency for gas and fills");
        } else if handle.settings.gas_levels.is_some_and(|levels| levels.is_low(Amount::new(balance))) {
            findings.warn(format!("wallet {wallet} has only {shown} {symbol}"), "`causeway topup` fills it up");
        } else {
            findings.ok(format!("wallet {wallet} has {shown} {symbol}"));
        }
        let ours = lanes.iter().find(|lane| lane.wallet == wallet);
        match handle.nodes.nonce(wallet, NonceTag::Latest).await {
            Ok(used) if used > ours.map_or(0, |lane| lane.next_nonce) => {
                let known = ours.map_or(0, |lane| lane.next_nonce);
                findings.fail(
                    solver::chain::follow::older_than_chain(chain.0, wallet, known, used),
                    "stop the service, run `causeway recover`, start it again",
                );
            }
            Ok(_) => {}
            Err(error) => findings.fail(format!("the nonce of {wallet}: {error}"), "is the node healthy?"),
        }
        if let Some(why) = ours.and_then(|lane| lane.quarantined.as_ref()) {
            findings.fail(format!("wallet {wallet} is quarantined: {why}"), "make sure nothing else uses its key");
        }
    }
    for token in handle.chain.tokens.iter().filter(|token| token.held) {
        let Some(address) = token.address.evm() else { continue };
        let read = async |call: Vec<u8>| {
            let answer = handle.nodes.call(address, call.into(), At::Latest).await.unwrap_or_default();
            if answer.len() == 32 { U256::from_be_slice(&answer) } else { U256::ZERO }
        };
        let held = read(Erc20::balanceOfCall { owner: handle.treasury }.abi_encode()).await;
        let shown = Amount::new(held).formatted(token.decimals);
        if held.is_zero() {
            findings.warn(format!("the treasury has no {}", token.symbol), "fills in it wait until it has");
        } else {
            findings.ok(format!("the treasury has {shown} {}", token.symbol));
        }
        for wallet in handle.addresses() {
            let allowance = read(Erc20::allowanceCall { owner: handle.treasury, spender: wallet }.abi_encode()).await;
            if allowance.is_zero() {
                let what = format!("wallet {wallet} may not move the treasury's {}", token.symbol);
                findings.warn(what, "approve it from the treasury for as much as it may have under way");
            }
            if let Some(spend_limiter) = handle.chain.spend_limiter {
                check_limit(findings, handle, spend_limiter, wallet, token).await;
            }
        }
    }
}

/// Checks what a wallet may still spend through the spend limiter: the limit shrinks with every fill made through it.
async fn check_limit(
    findings: &mut Findings,
    handle: &ChainHandle,
    spend_limiter: Address,
    filler: Address,
    token: &Currency,
) {
    let Some(address) = token.address.evm() else { return };
    let call = SpendLimiter::limitCall { treasury: handle.treasury, filler, token: address }.abi_encode();
    let answer = handle.nodes.call(spend_limiter, call.into(), At::Latest).await.unwrap_or_default();
    if answer.len() != 32 || U256::from_be_slice(&answer).is_zero() {
        let what = format!("wallet {filler} may not spend the treasury's {} through the spend limiter", token.symbol);
        findings
            .warn(what, "set its limit there from the treasury; swaps, calls and gas top-ups in it wait until then");
    }
}
