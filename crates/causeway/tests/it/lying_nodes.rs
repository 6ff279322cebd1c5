//! Nodes that lie about money, among others that do not: nothing is paid, credited or voided for the lie, honest
//! transfers through the same nodes are filled, and the alarm names the node.

use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes, U256};
use anyhow::{Context, Result, ensure};
use causeway::config::{Config, EndpointConfig, Text};
use causeway::service::Service;
use devnet::{Account, Chain, Devnet, FalseWord, Fault, FaultProxy, Forgery};
use evm::account_tag::tag;
use evm::contracts::PriceFeed;
use evm::topics::NATIVE_DEPOSIT;
use serde_json::Value;

use crate::funding::{balance, credited, tagged};
use crate::harness::{Engine, Harness, amount, ask, eventually, execute, new_account, request_id};

const BASE: u64 = 8453;
const ARBITRUM: u64 = 42161;
const ONE_ETHER: u64 = 1_000_000_000_000_000_000;

/// A second endpoint of a chain, for one test alone: others do not hear its forgeries.
pub async fn endpoint(chain: &Chain) -> Result<FaultProxy> {
    FaultProxy::start(chain.rpc_url.clone(), chain.ws_url.clone()).await
}

pub fn configured(proxy: &FaultProxy) -> EndpointConfig {
    EndpointConfig { http: Text::Plain(proxy.rpc_url.to_string()), ws: Some(Text::Plain(proxy.ws_url.to_string())) }
}

/// A service whose nodes on one chain are an honest one and these.
async fn beside(chain: u64, others: &[&FaultProxy], change: impl FnOnce(&mut Config)) -> Result<(Harness, Service)> {
    let harness = Harness::with(Engine::Sqlite, |config| {
        for it in config.chains.iter_mut().filter(|it| it.id == chain) {
            it.endpoints.truncate(1);
            it.endpoints.extend(others.iter().map(|proxy| configured(proxy)));
        }
        change(config);
    })
    .await?;
    let service = harness.serve().await?;
    Ok((harness, service))
}

/// A transfer of ether from base to arbitrum.
async fn quoted(harness: &Harness, user: Address, recipient: Address, value: u64) -> Result<Value> {
    let (from, to) = ((BASE, Address::ZERO), (ARBITRUM, Address::ZERO));
    harness.quote(&ask(user, recipient, from, to, U256::from(value))).await
}

/// A transfer that nobody lies about is filled.
async fn honest_transfer(harness: &Harness) -> Result<()> {
    let (base, arbitrum) = (harness.chain("base"), harness.chain("arbitrum"));
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let quote = quoted(harness, user.address, recipient, ONE_ETHER / 100).await?;
    execute(base, &quote, &user).await?;
    harness.wait_for(request_id(&quote), "success").await?;
    ensure!(arbitrum.balance(Address::ZERO, recipient).await? == amount(&quote["details"]["currencyOut"]["amount"]));
    Ok(())
}

/// A transaction that does nothing, for a lie to be told about.
async fn nothing(chain: &Chain, sender: &Account) -> Result<()> {
    chain.send(sender.private_key, sender.address, U256::ZERO, Bytes::new()).await?;
    Ok(())
}

async fn chain_report(harness: &Harness, chain: u64) -> Result<Value> {
    let (_, lives) = harness.get("/lives").await?;
    let chains = lives["report"]["chains"].as_array().cloned().unwrap_or_default();
    chains.into_iter().find(|it| it["id"] == chain).context("a chain that is served")
}

/// The alarm names the node, on `/lives` and as a metric.
async fn alarm_names(harness: &Harness, chain: u64, liar: &FaultProxy) -> Result<()> {
    let host = format!("127.0.0.1:{}", liar.rpc_url.port().context("a port")?);
    eventually("the node is named", || async {
        let named = chain_report(harness, chain).await?["nodes"].as_str().is_some_and(|said| said.contains(&host));
        let metrics = harness.client.get(harness.url("/metrics")).send().await?.text().await?;
        let counter = format!("evm_node_contradictions_total{{chain=\"{chain}\",node=\"{host}\"}}");
        let count = metrics.lines().find_map(|line| line.strip_prefix(&counter)?.trim().parse::<u64>().ok());
        Ok(named && count.is_some_and(|count| count > 0))
    })
    .await
}

fn order(quote: &Value) -> Result<B256> {
    Ok(quote["protocol"]["v2"]["orderId"].as_str().context("an order")?.parse()?)
}

/// Long enough for blocks so far to be final and rescanned.
async fn until_final(harness: &Harness, chain: &Chain) -> Result<()> {
    let finality = harness.config.chains.iter().find(|it| it.id == chain.id).context("a chain")?.finality_blocks;
    harness.let_pass(chain, finality + 8).await
}

/// The liar tells of a deposit that never was, and the thief is not paid.
async fn invents_a_deposit(harness: &Harness, liar: &FaultProxy) -> Result<()> {
    let (base, arbitrum) = (harness.chain("base"), harness.chain("arbitrum"));
    let (thief, recipient) = (base.fresh_user().await?, new_account().address);
    let quote = quoted(harness, thief.address, recipient, ONE_ETHER).await?;
    let (value, order) = (U256::from(ONE_ETHER), order(&quote)?);
    let forgery = Forgery::native_deposit(thief.address, harness.depository, NATIVE_DEPOSIT, value, order);
    liar.faults.update(|fault| fault.forgeries.push(forgery));
    nothing(base, &thief).await?;
    honest_transfer(harness).await?;
    alarm_names(harness, BASE, liar).await?;
    until_final(harness, base).await?;
    honest_transfer(harness).await?;
    ensure!(harness.status(request_id(&quote)).await?["status"] == "waiting", "the lie was believed");
    ensure!(arbitrum.balance(Address::ZERO, recipient).await?.is_zero(), "the lie was paid for");
    Ok(())
}

#[tokio::test]
async fn a_deposit_that_one_node_invents_is_not_paid() -> Result<()> {
    let liar = endpoint(Devnet::shared().await.chain("base")).await?;
    let (harness, service) = beside(BASE, &[&liar], |_| ()).await?;
    invents_a_deposit(&harness, &liar).await?;
    service.stop().await
}

/// A node that is dead leaves the honest one and the liar: transfers that both show go on.
#[tokio::test]
async fn with_one_node_dead_and_one_lying_honest_transfers_go_on() -> Result<()> {
    let base = Devnet::shared().await.chain("base");
    let (dead, liar) = (endpoint(base).await?, endpoint(base).await?);
    let (harness, service) = beside(BASE, &[&dead, &liar], |_| ()).await?;
    for fault in [Fault { reset: true, ..Fault::default() }, Fault { stall: true, ..Fault::default() }] {
        dead.faults.set(fault);
        honest_transfer(&harness).await?;
    }
    invents_a_deposit(&harness, &liar).await?;
    service.stop().await
}

#[tokio::test]
async fn a_transfer_to_the_treasury_that_one_node_invents_is_not_credited() -> Result<()> {
    let base = Devnet::shared().await.chain("base");
    let liar = endpoint(base).await?;
    let (harness, service) = beside(BASE, &[&liar], |_| ()).await?;
    let (usdc, treasury, million) = (base.token("USDC").address, harness.treasury.address, 1_000_000_000_000u64);
    let (thief, other) = (base.fresh_user().await?, base.fresh_user().await?);
    let (token, native, honest) = (new_account().address, new_account().address, new_account().address);
    liar.faults.update(|fault| {
        fault.forgeries.push(Forgery::token_funding(thief.address, usdc, treasury, U256::from(million), tag(token)));
        fault.forgeries.push(Forgery::native_funding(other.address, treasury, U256::from(ONE_ETHER), tag(native)));
    });
    nothing(base, &thief).await?;
    nothing(base, &other).await?;
    let user = base.fresh_user().await?;
    base.send(user.private_key, usdc, U256::ZERO, tagged(&harness, 7_000_000, honest)).await?;
    // The honest transfer is credited by the same two nodes, once it is final; the invented ones came before it.
    credited(&harness, honest, "7000000").await?;
    alarm_names(&harness, BASE, &liar).await?;
    until_final(&harness, base).await?;
    for account in [token, native] {
        ensure!(balance(&harness, account).await?["amount"] == "0", "the lie was credited");
    }
    honest_transfer(&harness).await?;
    service.stop().await
}

/// A fill whose receipt one node shows as failed has arrived. It is not void, its deposit is not refunded, and once the
/// nodes agree it is a success.
#[tokio::test]
async fn a_fill_that_one_node_shows_as_failed_is_not_void() -> Result<()> {
    let (base, arbitrum) = (Devnet::shared().await.chain("base"), Devnet::shared().await.chain("arbitrum"));
    let liar = endpoint(arbitrum).await?;
    let (harness, service) = beside(ARBITRUM, &[&liar], |_| ()).await?;
    let forgeries = harness.fillers.iter().map(|filler| Forgery::failed(filler.address)).collect();
    liar.faults.update(|fault| fault.forgeries = forgeries);
    let mut quotes = Vec::new();
    for _ in 0..2 {
        let (user, recipient) = (base.fresh_user().await?, new_account().address);
        let quote = quoted(&harness, user.address, recipient, ONE_ETHER / 100).await?;
        execute(base, &quote, &user).await?;
        let promised = amount(&quote["details"]["currencyOut"]["amount"]);
        let arrived = || async { Ok(arbitrum.balance(Address::ZERO, recipient).await? == promised) };
        eventually("the recipient is paid", arrived).await?;
        quotes.push((quote, user.address, base.balance(Address::ZERO, user.address).await?));
    }
    alarm_names(&harness, ARBITRUM, &liar).await?;
    until_final(&harness, arbitrum).await?;
    until_final(&harness, base).await?;
    for (quote, user, had) in &quotes {
        let status = harness.status(request_id(quote)).await?;
        ensure!(!["refund", "failure", "success"].iter().any(|end| status["status"] == *end), "{status}");
        ensure!(base.balance(Address::ZERO, *user).await? == *had, "the deposit was given back as well");
    }
    liar.faults.clear();
    for (quote, ..) in &quotes {
        harness.wait_for(request_id(quote), "success").await?;
    }
    service.stop().await
}

/// A deposit that one of two nodes hides waits. It is filled when both show it, without waiting for finality.
#[tokio::test]
async fn a_deposit_that_one_of_two_nodes_hides_waits_for_it() -> Result<()> {
    let base = Devnet::shared().await.chain("base");
    let liar = endpoint(base).await?;
    let (harness, service) = beside(BASE, &[&liar], |_| ()).await?;
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let quote = quoted(&harness, user.address, recipient, ONE_ETHER / 100).await?;
    liar.faults.update(|fault| fault.forgeries.push(Forgery::hidden(user.address)));
    execute(base, &quote, &user).await?;
    honest_transfer(&harness).await?;
    alarm_names(&harness, BASE, &liar).await?;
    ensure!(harness.status(request_id(&quote)).await?["status"] == "waiting", "one node was enough");
    liar.faults.clear();
    harness.wait_for(request_id(&quote), "success").await?;
    eventually("nothing is in doubt any more", || async { Ok(chain_report(&harness, BASE).await?["nodes"].is_null()) })
        .await?;
    service.stop().await
}

/// With the second of two nodes dead, deposits wait, and `/lives` says so. A small one may be filled by the word of the
/// other, where the operator says so.
#[tokio::test]
async fn with_the_second_node_dead_deposits_wait_but_small_ones_may_not() -> Result<()> {
    let base = Devnet::shared().await.chain("base");
    let dead = endpoint(base).await?;
    let small = |config: &mut Config| {
        for chain in &mut config.chains {
            chain.risk.one_node_usd = "100".to_owned();
            // Blocks of one node are walked as long as they could be taken back.
            chain.finality_blocks = 200;
        }
    };
    let (harness, service) = beside(BASE, &[&dead], small).await?;
    let user = base.fresh_user().await?;
    let (tiny, large) = (new_account().address, new_account().address);
    let tiny = quoted(&harness, user.address, tiny, ONE_ETHER / 100).await?;
    let large = quoted(&harness, user.address, large, ONE_ETHER / 10).await?;
    dead.faults.set(Fault { stall: true, ..Fault::default() });
    execute(base, &large, &user).await?;
    execute(base, &tiny, &user).await?;
    harness.wait_for(request_id(&tiny), "success").await?;
    let report = chain_report(&harness, BASE).await?;
    ensure!(report["nodes"].as_str().is_some_and(|said| said.contains("wait")), "{report}");
    ensure!(harness.status(request_id(&large)).await?["status"] == "waiting", "one node was enough");
    dead.faults.clear();
    harness.wait_for(request_id(&large), "success").await?;
    service.stop().await
}

/// A price that one of two nodes makes up is nobody's. The chain is quoted at the last price that both showed, and not
/// at all once that is too old; when the nodes agree again, so is the chain.
#[tokio::test]
async fn a_price_that_one_of_two_nodes_invents_is_not_quoted() -> Result<()> {
    let base = Devnet::shared().await.chain("base");
    let liar = endpoint(base).await?;
    let (harness, service) = beside(BASE, &[&liar], |config| config.limits.market_max_age_secs = 4).await?;
    let (user, usdc) = (base.fresh_user().await?, harness.chain("arbitrum").token("USDC").address);
    let (from, to) = ((BASE, Address::ZERO), (ARBITRUM, usdc));
    let body = &ask(user.address, user.address, from, to, U256::from(ONE_ETHER / 10));
    let out = |quote: &Value| amount(&quote["details"]["currencyOut"]["amount"]);
    let honest = out(&harness.quote(body).await?);
    let is_honest = |quote: &Value| out(quote) < honest + honest / U256::from(10);
    let real = base.read(base.native_feed, &PriceFeed::latestRoundDataCall {}).await?.answer.into_raw();
    let price = FalseWord { real, told: real + real };
    liar.faults.update(|fault| fault.false_words.push(price));
    eventually("the last price that both showed is too old", || async {
        let (code, answer) = harness.post("/quote/v2", body).await?;
        ensure!(code != 200 || is_honest(&answer), "the lie was quoted: {answer}");
        Ok(code == 503)
    })
    .await?;
    alarm_names(&harness, BASE, &liar).await?;
    liar.faults.clear();
    ensure!(is_honest(&harness.quote(body).await?), "the lie was believed after all");
    honest_transfer(&harness).await?;
    service.stop().await
}

/// A liar about prices among three nodes is outvoted: the chain is quoted at the real price all along.
#[tokio::test]
async fn with_three_nodes_a_false_price_stops_nobody() -> Result<()> {
    let base = Devnet::shared().await.chain("base");
    let (third, liar) = (endpoint(base).await?, endpoint(base).await?);
    let (harness, service) = beside(BASE, &[&liar, &third], |config| config.limits.market_max_age_secs = 4).await?;
    let real = base.read(base.native_feed, &PriceFeed::latestRoundDataCall {}).await?.answer.into_raw();
    liar.faults.update(|fault| fault.false_words.push(FalseWord { real, told: real + real }));
    alarm_names(&harness, BASE, &liar).await?;
    let report = chain_report(&harness, BASE).await?;
    ensure!(report["nodes"].as_str().is_some_and(|said| said.contains("most nodes contradict")), "{report}");
    honest_transfer(&harness).await?;
    service.stop().await
}

/// The walk is at no block far beyond the head of the chain.
async fn is_not_led_ahead(harness: &Harness, chain: &Chain) -> Result<()> {
    for _ in 0..20 {
        let report = chain_report(harness, chain.id).await?;
        let (walked, head) = (report["block"].as_u64().unwrap_or_default(), chain.block_number().await?);
        ensure!(walked <= head + 8, "walked to {walked}, the head is {head}");
        ensure!(report["refusing"].is_null(), "{report}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// A node that announces blocks which do not exist, a few or very many beyond the head, leads us nowhere: while it
/// lies, when it is the only one that answers, and after it.
#[tokio::test]
async fn heads_that_one_node_invents_lead_nowhere() -> Result<()> {
    let base = Devnet::shared().await.chain("base");
    let (honest, liar) = (endpoint(base).await?, endpoint(base).await?);
    let alone = |config: &mut Config| {
        for chain in config.chains.iter_mut().filter(|chain| chain.id == BASE) {
            chain.endpoints.remove(0);
        }
    };
    let (harness, service) = beside(BASE, &[&honest, &liar], alone).await?;
    let invents = |ahead: u64| Fault { invented_heads: ahead, ..Fault::default() };
    for ahead in [5, 1_000_000] {
        liar.faults.set(invents(ahead));
        is_not_led_ahead(&harness, base).await?;
        honest_transfer(&harness).await?;
    }
    honest.faults.set(Fault { reset: true, ..Fault::default() });
    eventually("the walk waits for the other node", || async {
        let report = chain_report(&harness, BASE).await?;
        Ok(report["nodes"].as_str().is_some_and(|said| said.contains("too few nodes have the last 8 blocks")))
    })
    .await?;
    is_not_led_ahead(&harness, base).await?;
    honest.faults.clear();
    honest_transfer(&harness).await?;
    liar.faults.clear();
    until_final(&harness, base).await?;
    honest_transfer(&harness).await?;
    service.stop().await
}

/// With one node its word is money, and `/lives` says so.
#[tokio::test]
async fn with_one_node_its_word_is_money_and_lives_says_so() -> Result<()> {
    let (harness, service) = beside(BASE, &[], |_| ()).await?;
    let report = chain_report(&harness, BASE).await?;
    ensure!(report["oneNode"].as_str().is_some_and(|said| said.contains("one node")), "{report}");
    ensure!(chain_report(&harness, ARBITRUM).await?["oneNode"].is_null());
    honest_transfer(&harness).await?;
    service.stop().await
}
