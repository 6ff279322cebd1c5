//! Deposit addresses: plain transfers to an address, which are swept into the depository and filled, or sent back.

use alloy::primitives::{Address, B256, U256};
use anyhow::{Context, Result, ensure};
use causeway::config::Config;
use devnet::{Account, Chain};
use evm::calldata;
use serde_json::{Value, json};

use crate::audit::agrees;
use crate::fast_fill::{Integrator, USDC, integrator};
use crate::harness::{Engine, Harness, amount, ask, balance_when, eventually, new_account, request_id};

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;
const DOLLAR: u64 = 1_000_000;
/// The native currency, and as `refundTo` of a deposit address: whoever has paid.
const SENTINEL: &str = "0x0000000000000000000000000000000000000000";

/// Blocks are final soon, and too little is waited for only a moment.
fn quick(config: &mut Config) {
    config.chains.iter_mut().for_each(|chain| chain.finality_blocks = 5);
    config.deposit_addresses.grace_secs = 2;
}

fn usdc(harness: &Harness) -> Address {
    harness.chain("base").token("USDC").address
}

/// The body of a quote of ten dollars at an address.
fn body(harness: &Harness, recipient: Address, changes: Value) -> Value {
    let there = harness.chain("optimism").token("USDC").address;
    let mut body =
        ask(new_account().address, recipient, (BASE, usdc(harness)), (OPTIMISM, there), U256::from(10 * USDC));
    body["useDepositAddress"] = json!(true);
    for (name, value) in changes.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    body
}

fn address(quote: &Value) -> Result<Address> {
    let step = &quote["steps"][0];
    ensure!(step["id"] == "deposit" && quote["steps"].as_array().is_some_and(|steps| steps.len() == 1), "{quote}");
    Ok(step["depositAddress"].as_str().context("a deposit address")?.parse()?)
}

/// Sends so many units of USDC to an address, as a wallet or an exchange would.
async fn pay(chain: &Chain, from: &Account, to: Address, units: u64) -> Result<B256> {
    let token = chain.token("USDC").address;
    let data = calldata::transfer(to, U256::from(units));
    Ok(chain.send(from.private_key, token, U256::ZERO, data).await?.transaction_hash)
}

/// Waits until a deposit that paid for nothing has gone back under its own request.
async fn child(harness: &Harness, request: &str, reason: &str, status: &str) -> Result<()> {
    eventually("the child has its end", || async {
        let answer = harness.status(request).await?;
        let mut returns = answer["returns"].as_array().into_iter().flatten();
        Ok(returns.any(|it| it["failReason"] == reason && it["status"] == status))
    })
    .await
}

async fn listed(harness: &Harness, by: &Integrator, query: &str) -> Result<Vec<Value>> {
    let call = harness.client.get(harness.url(&format!("/requests/v3?{query}"))).header("x-api-key", &by.key);
    let answer: Value = call.send().await?.json().await?;
    Ok(answer["requests"].as_array().context("a listing")?.clone())
}

/// The amount that somebody got back of what they lost on the way: gas comes off, and no more than a dollar of it.
fn is_back(got: U256, sent: u64) -> bool {
    got <= U256::from(sent) && got + U256::from(DOLLAR) > U256::from(sent)
}

/// A strict address: dust first, then the exact amount; a second payment goes back; both hashes find the request.
#[tokio::test]
async fn a_strict_address_is_paid_exactly_behind_dust_and_paid_again() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, quick).await?;
    let service = harness.serve().await?;
    let by = integrator(&harness, 100).await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (user, stranger) = (base.fresh_user().await?, base.fresh_user().await?);
    let (recipient, refund_to) = (new_account().address, new_account().address);
    let quote = harness.quote(&body(&harness, recipient, json!({ "strict": true, "refundTo": refund_to }))).await?;
    let (id, at) = (request_id(&quote), address(&quote)?);
    ensure!(harness.status(id).await?["depositAddress"]["depositAddressType"] == "strict");
    let exact = 10 * DOLLAR;
    // Dust does not end the order, whoever sends it.
    pay(base, &stranger, at, 7).await?;
    let paid = pay(base, &user, at, exact).await?;
    let done = harness.wait_for(id, "success").await?;
    let expected = amount(&quote["details"]["currencyOut"]["amount"]);
    ensure!(optimism.balance(optimism.token("USDC").address, recipient).await? == expected, "{done}");
    ensure!(base.balance(usdc(&harness), at).await?.is_zero());
    ensure!(base.balance(usdc(&harness), harness.depository).await? >= U256::from(exact + 7));
    let shown = &done["depositAddress"];
    ensure!(shown["depositTxHash"] == paid.to_string(), "{done}");
    ensure!(shown["depositor"] == format!("{:#x}", user.address), "{done}");
    let sweep = done["inTxHashes"][0].as_str().context("the sweep")?;
    ensure!(sweep != paid.to_string(), "{done}");
    // What comes after is a request of its own, which goes back.
    pay(base, &user, at, exact).await?;
    child(&harness, id, "DOUBLE_SPEND", "refund").await?;
    ensure!(is_back(base.balance(usdc(&harness), refund_to).await?, exact));
    ensure!(harness.status(id).await?["status"] == "success");
    for (query, least) in [
        (format!("depositAddress={at:#x}"), 2),
        (format!("depositTxHash={paid}"), 1),
        (format!("depositTxHash={sweep}"), 1),
        (format!("term={paid}"), 1),
        (format!("features=deposit_address&id={id}"), 1),
    ] {
        eventually("it is listed", || async {
            let found = listed(&harness, &by, &query).await?;
            Ok(found.len() >= least && found.iter().any(|record| record["id"] == id))
        })
        .await?;
    }
    let record = listed(&harness, &by, &format!("id={id}")).await?.into_iter().next().context("listed")?;
    let at_text = format!("{at:#x}");
    ensure!(record["depositAddress"]["type"] == "strict" && record["depositAddress"]["address"] == at_text, "{record}");
    ensure!(record["data"]["inTxs"][0]["txHash"] == sweep, "{record}");
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// More, less, another currency, and a stranger who sweeps what is only partly paid.
#[tokio::test]
async fn a_strict_address_is_paid_over_under_and_in_another_currency() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, quick).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let there = optimism.token("USDC").address;
    let user = base.fresh_user().await?;
    let strict = async || {
        let (recipient, refund_to) = (new_account().address, new_account().address);
        let asked = body(&harness, recipient, json!({ "strict": true, "refundTo": refund_to }));
        let quote = harness.quote(&asked).await?;
        let at = address(&quote)?;
        anyhow::Ok((quote, at, recipient, refund_to))
    };
    // More: filled as quoted, and the rest goes back.
    let (over, at, recipient, refund_to) = strict().await?;
    pay(base, &user, at, 30 * DOLLAR).await?;
    harness.wait_for(request_id(&over), "success").await?;
    let expected = amount(&over["details"]["currencyOut"]["amount"]);
    ensure!(optimism.balance(there, recipient).await? == expected);
    eventually("the excess is back", || async {
        Ok(is_back(base.balance(usdc(&harness), refund_to).await?, 20 * DOLLAR))
    })
    .await?;
    // Less: refunded when the rest has not come.
    let (under, at, recipient, refund_to) = strict().await?;
    pay(base, &user, at, 6 * DOLLAR).await?;
    let ended = harness.wait_for(request_id(&under), "refund").await?;
    ensure!(ended["failReason"] == "DEPOSITED_AMOUNT_TOO_LOW_TO_FILL", "{ended}");
    ensure!(is_back(base.balance(usdc(&harness), refund_to).await?, 6 * DOLLAR), "{ended}");
    ensure!(optimism.balance(there, recipient).await?.is_zero());
    // Another currency: native, of which anybody has some.
    let (other, at, _, refund_to) = strict().await?;
    let sent = U256::from(10u64).pow(U256::from(16));
    base.send(user.private_key, at, sent, Default::default()).await?;
    child(&harness, request_id(&other), "INCORRECT_DEPOSIT_CURRENCY", "refund").await?;
    let back = base.balance(Address::ZERO, refund_to).await?;
    ensure!(back < sent && back > sent * U256::from(9) / U256::from(10), "{back} of {sent}");
    ensure!(harness.status(request_id(&other)).await?["status"] == "waiting");
    // A stranger sweeps what is partly paid: that part goes back, and the order can still be paid.
    let (recipient, refund_to) = (new_account().address, new_account().address);
    let hundred = json!({ "strict": true, "refundTo": refund_to, "amount": (100 * DOLLAR).to_string() });
    let partly = harness.quote(&body(&harness, recipient, hundred)).await?;
    let at = address(&partly)?;
    let order = partly["protocol"]["v2"]["orderId"].as_str().context("an order")?.parse()?;
    let token = usdc(&harness);
    let factory = harness.config.chains[0].contracts.deposit_address_factory.context("a factory")?;
    // Less than a tenth, which is never swept before the order is over.
    pay(base, &user, at, 9 * DOLLAR).await?;
    let sweep = calldata::sweep(order, refund_to, token, B256::ZERO);
    let stranger = base.fresh_user().await?;
    base.send(stranger.private_key, factory, U256::ZERO, sweep).await?;
    child(&harness, request_id(&partly), "DEPOSITED_AMOUNT_TOO_LOW_TO_FILL", "refund").await?;
    ensure!(is_back(base.balance(token, refund_to).await?, 9 * DOLLAR));
    pay(base, &user, at, 100 * DOLLAR).await?;
    harness.wait_for(request_id(&partly), "success").await?;
    ensure!(optimism.balance(there, recipient).await? == amount(&partly["details"]["currencyOut"]["amount"]));
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// An exchange pays three times at an open address: each time is a transfer of its own. What cannot be quoted goes back.
#[tokio::test]
async fn an_open_address_is_paid_again_and_again() -> Result<()> {
    let harness = Harness::with(Engine::Postgres, |config| {
        quick(config);
        std::fs::write(config.folder.join("blocked.txt"), "# nobody yet\n").unwrap();
        config.screening.blocked = Some("blocked.txt".into());
    })
    .await?;
    let service = harness.serve().await?;
    let by = integrator(&harness, 100).await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let there = optimism.token("USDC").address;
    let (exchange, recipient, refund_to) = (base.fresh_user().await?, new_account().address, new_account().address);
    let asked = body(&harness, recipient, json!({ "refundTo": refund_to }));
    let (code, quote) = by.post(&harness, "/quote/v2", &asked).await?;
    ensure!(code == 200, "{quote}");
    let (id, at) = (request_id(&quote).to_owned(), address(&quote)?);
    let mut arrived = U256::ZERO;
    // Twenty-five first: a quote of its own, while the first one waits. Then the quoted ten, and the same again.
    for (turn, dollars) in [25, 10, 10].into_iter().enumerate() {
        let transfer = pay(base, &exchange, at, dollars * DOLLAR).await?;
        let least = arrived + U256::from((dollars - 2) * DOLLAR);
        arrived = balance_when(optimism, (there, recipient), "it was filled", |has| has > least).await?;
        ensure!((harness.status(&id).await?["status"] == "waiting") == (turn == 0), "payment {turn}");
        eventually("the transfer finds its request", || async {
            Ok(listed(&harness, &by, &format!("depositTxHash={transfer}")).await?.len() == 1)
        })
        .await?;
    }
    harness.wait_for(&id, "success").await?;
    let query = format!("depositAddress={at:#x}");
    eventually("all three are listed", || async {
        let records = listed(&harness, &by, &query).await?;
        Ok(records.len() == 3 && records.iter().all(|record| record["status"] == "success"))
    })
    .await?;
    let records = listed(&harness, &by, &query).await?;
    ensure!(records.iter().all(|record| record["depositAddress"]["type"] == "open"), "{records:?}");
    let first = records.iter().find(|record| record["id"] == id).context("the first request")?;
    let superseded = first["supersededByRequestId"].as_str().context("superseded")?;
    ensure!(records.iter().any(|record| record["id"] == superseded && superseded != id), "{records:?}");
    // The recipient is not served any more: what arrives goes back when it has waited long enough.
    std::fs::write(harness.folder.path().join("blocked.txt"), format!("{recipient}\n"))?;
    eventually("there is no quote", || async { Ok(harness.post("/quote/v2", &asked).await?.0 == 400) }).await?;
    pay(base, &exchange, at, 20 * DOLLAR).await?;
    child(&harness, &id, "NO_QUOTES", "refund").await?;
    ensure!(is_back(base.balance(usdc(&harness), refund_to).await?, 20 * DOLLAR));
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// Nobody to refund to, the sender as refund recipient, an exchange as sender, and money on another chain.
#[tokio::test]
async fn money_at_an_address_goes_back_to_whom_it_can() -> Result<()> {
    let vasp = new_account();
    let harness = Harness::with(Engine::Sqlite, |config| {
        quick(config);
        std::fs::write(config.folder.join("custodial.txt"), format!("{}\n", vasp.address)).unwrap();
        config.screening.custodial = Some("custodial.txt".into());
    })
    .await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let there = optimism.token("USDC").address;
    let user = base.fresh_user().await?;
    base.fund(vasp.address).await?;
    let strict = json!({ "strict": true, "refundTo": SENTINEL });
    // The sender of too little gets it back; an exchange does not.
    let mut ended = Vec::new();
    for from in [&user, &vasp] {
        let quote = harness.quote(&body(&harness, new_account().address, strict.clone())).await?;
        let had = base.balance(usdc(&harness), from.address).await?;
        pay(base, from, address(&quote)?, 6 * DOLLAR).await?;
        ended.push((quote, had));
    }
    let back = harness.wait_for(request_id(&ended[0].0), "refund").await?;
    let lost = ended[0].1 - base.balance(usdc(&harness), user.address).await?;
    ensure!(lost < U256::from(DOLLAR), "{lost} {back}");
    let kept = harness.wait_for(request_id(&ended[1].0), "failure").await?;
    ensure!(kept["refundFailReason"] == "REFUND_RECIPIENT_IS_VASP", "{kept}");
    // Without a refund recipient, too little stays where it is, and more is filled with it.
    let recipient = new_account().address;
    let open = harness.quote(&body(&harness, recipient, json!({}))).await?;
    let at = address(&open)?;
    pay(base, &user, at, 5).await?;
    harness.let_pass(base, 12).await?;
    ensure!(base.balance(usdc(&harness), at).await? == U256::from(5));
    ensure!(harness.status(request_id(&open)).await?["status"] == "waiting");
    pay(base, &user, at, 12 * DOLLAR).await?;
    eventually("both are filled", || async { Ok(optimism.balance(there, recipient).await? > U256::from(10 * DOLLAR)) })
        .await?;
    ensure!(base.balance(usdc(&harness), at).await?.is_zero());
    // The same address on another chain: found when somebody asks, and priced from there.
    let arbitrum = harness.chain("arbitrum");
    arbitrum.fund(user.address).await?;
    let before = optimism.balance(there, recipient).await?;
    pay(arbitrum, &user, at, 15 * DOLLAR).await?;
    harness.walked(arbitrum).await?;
    let reindex = json!({ "chainId": BASE, "depositAddress": at, "targetChainId": arbitrum.id });
    let (code, report) = harness.post("/transactions/deposit-address/reindex", &reindex).await?;
    ensure!(code == 200 && report["triggeredCurrencies"][0]["balance"] == "15000000", "{report}");
    let (code, again) = harness.post("/transactions/deposit-address/reindex", &reindex).await?;
    ensure!(code == 429, "{again}");
    eventually("it is filled from the other chain", || async {
        Ok(optimism.balance(there, recipient).await? > before + U256::from(13 * DOLLAR))
    })
    .await?;
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// Native currency by a plain transfer and out of a contract, which leaves no transaction to the address.
#[tokio::test]
async fn native_currency_is_found_by_transactions_and_by_balance() -> Result<()> {
    let harness = Harness::with(Engine::Sqlite, quick).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let user = base.fresh_user().await?;
    let price = U256::from(10u64).pow(U256::from(16));
    for by_contract in [false, true] {
        let recipient = new_account().address;
        let mut asked = body(&harness, recipient, json!({ "strict": true, "refundTo": user.address }));
        asked["originCurrency"] = json!(SENTINEL);
        asked["destinationCurrency"] = json!(SENTINEL);
        asked["amount"] = json!(price.to_string());
        let quote = harness.quote(&asked).await?;
        let at = address(&quote)?;
        ensure!(quote["steps"][0]["items"][0]["data"]["data"] == "0x", "{quote}");
        match by_contract {
            false => drop(base.send(user.private_key, at, price, Default::default()).await?),
            // As a contract's payment would leave it: a balance, and no transaction to the address.
            true => base.set_balance(at, price).await?,
        }
        let done = harness.wait_for(request_id(&quote), "success").await?;
        ensure!(
            optimism.balance(Address::ZERO, recipient).await? == amount(&quote["details"]["currencyOut"]["amount"])
        );
        ensure!(done["depositAddress"]["depositTxHash"].is_null() == by_contract, "{done}");
    }
    service.stop().await
}

/// The rules of the members of a quote, and the two routes, without a payment.
#[tokio::test]
async fn an_address_is_given_out_by_its_rules_and_looked_up() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let by = integrator(&harness, 1).await?;
    let refund_to = new_account().address;
    for (changes, code, error, said) in [
        (json!({ "strict": true }), 400, "INVALID_PARAMETERS", "refundTo"),
        (json!({ "tradeType": "EXACT_OUTPUT" }), 400, "INVALID_PARAMETERS", "tradeType"),
        (json!({ "txs": [{ "to": refund_to }] }), 400, "EXTRA_TXS_NOT_SUPPORTED", "txs"),
        (json!({ "sponsoredFeeComponents": ["execution"] }), 400, "INVALID_PARAMETERS", "sponsoredFeeComponents"),
        (json!({ "useDepositAddress": false, "strict": true }), 400, "INVALID_PARAMETERS", "strict"),
        (
            json!({ "useDepositAddress": false, "recoveryAddress": refund_to }),
            400,
            "INVALID_PARAMETERS",
            "recoveryAddress",
        ),
        (json!({ "recoveryAddress": SENTINEL }), 400, "INVALID_ADDRESS", "recoveryAddress"),
        (json!({ "destinationChainId": BASE }), 400, "UNSUPPORTED_EXECUTION_TYPE", "useDepositAddress"),
        (
            json!({ "originCurrency": harness.chain("base").token("TAIL").address }),
            400,
            "INVALID_INPUT_CURRENCY",
            "originCurrency",
        ),
    ] {
        let (status, answer) = harness.post("/quote/v2", &body(&harness, refund_to, changes.clone())).await?;
        ensure!(status == code && answer["errorCode"] == error, "{changes}: {status} {answer}");
        ensure!(answer["message"].as_str().is_some_and(|text| text.contains(said)), "{changes}: {answer}");
    }
    // Any address may ask, the zero address too.
    let strict = json!({ "strict": true, "refundTo": refund_to, "tradeType": "EXACT_OUTPUT", "user": SENTINEL });
    let quote = harness.quote(&body(&harness, refund_to, strict)).await?;
    let at = address(&quote)?;
    let deadline = quote["protocol"]["v2"]["orderData"]["output"]["deadline"].as_u64().context("a deadline")?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    ensure!(deadline > now + 170 * 86_400, "{deadline}");
    let find = async |query: String, key: Option<&str>| {
        let call = harness.client.get(harness.url(&format!("/deposit-addresses/v1?{query}")));
        let call = key.into_iter().fold(call, |call, key| call.header("x-api-key", key));
        let response = call.send().await?;
        anyhow::Ok((response.status().as_u16(), response.json::<Value>().await?))
    };
    let key = Some(by.key.as_str());
    for query in [format!("address={at:#x}"), format!("requestId={}", request_id(&quote))] {
        let (code, found) = find(query, key).await?;
        ensure!(code == 200 && found["depositAddress"] == format!("{at:#x}"), "{found}");
        ensure!(found["type"] == "strict" && found["requestId"] == request_id(&quote) && found["chainId"] == BASE);
        ensure!(found["refundTo"] == format!("{refund_to:#x}") && !found["currency"].is_null(), "{found}");
    }
    for (query, key, code) in [
        (format!("address={at:#x}"), None, 401),
        (format!("address={:#x}", new_account().address), key, 404),
        ("address=0x12".to_owned(), key, 400),
        (String::new(), key, 400),
    ] {
        let (status, answer) = find(query.clone(), key).await?;
        ensure!(status == code, "{query}: {status} {answer}");
    }
    for (changes, code) in [
        (json!({ "depositAddress": new_account().address }), 404),
        (json!({ "chainId": OPTIMISM }), 404),
        (json!({ "chainId": 1 }), 400),
        (json!({ "targetChainId": 1 }), 400),
        (json!({ "currency": new_account().address }), 400),
        (json!({}), 200),
        (json!({}), 429),
    ] {
        let mut asked = json!({ "chainId": BASE, "depositAddress": at });
        for (name, value) in changes.as_object().into_iter().flatten() {
            asked[name] = value.clone();
        }
        let (status, answer) = harness.post("/transactions/deposit-address/reindex", &asked).await?;
        ensure!(status == code, "{changes}: {status} {answer}");
    }
    service.stop().await
}
