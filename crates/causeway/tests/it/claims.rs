//! App balances are withdrawn by their wallets: signed for once, paid once whatever happens, and booked when it is final.

use std::path::Path;

use alloy::primitives::{Address, B256, U256, eip191_hash_message};
use anyhow::{Context, Result, ensure};
use causeway::served::Served;
use causeway::service::Service;
use devnet::Account;
use evm::LocalSigner;
use futures::future::{join_all, try_join_all};
use serde_json::{Value, json};
use store::Store;

use crate::audit::{audit, differences, planted};
use crate::fast_fill::{Integrator, integrator};
use crate::funding::{balance, credited, tagged};
use crate::fuzz::Rng;
use crate::harness::{Engine, Harness, WAIT_TIMEOUT, ask, blocks_pass, eventually, new_account, request_id, take_away};
use crate::process::{causeway, serve};

const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;
const USDC: u64 = 1_000_000;

fn usdc(harness: &Harness) -> Address {
    harness.chain("base").token("USDC").address
}

/// What an owner asks for: a part to somebody, or all of it.
fn body(harness: &Harness, recipient: Address, amount: Option<u64>) -> Value {
    let mut body = json!({ "chainId": BASE, "currency": usdc(harness), "recipient": recipient });
    if let Some(amount) = amount {
        body["amount"] = json!(amount.to_string());
    }
    body
}

async fn asked(harness: &Harness, wallet: Address, body: &Value) -> Result<Value> {
    let (code, answer) = harness.post(&format!("/app-fees/{wallet:#x}/claim"), body).await?;
    ensure!(code == 200, "{answer}");
    Ok(answer)
}

/// Does what the step says, as a client would.
async fn post(harness: &Harness, step: &Value, signature: &str) -> Result<(u16, Value)> {
    let post = &step["steps"][0]["items"][0]["data"]["post"];
    ensure!(post["method"] == "POST" && post["body"]["kind"] == "claim", "{step}");
    let endpoint = post["endpoint"].as_str().context("endpoint")?;
    harness.post(&format!("{endpoint}?signature={signature}"), &post["body"]).await
}

/// The wallet's signature over the 32 bytes of a claim's id.
fn sign(account: &Account, step: &Value) -> Result<String> {
    let sign = &step["steps"][0]["items"][0]["data"]["sign"];
    ensure!(sign["signatureKind"] == "eip191", "{sign}");
    let id: B256 = sign["message"].as_str().context("message")?.parse()?;
    let signer = LocalSigner::from_hex(&account.private_key.to_string()).unwrap();
    Ok(format!("0x{}", alloy::hex::encode(signer.sign_digest(eip191_hash_message(id)).as_bytes())))
}

/// Asks, signs and posts.
pub async fn claim(harness: &Harness, by: &Account, recipient: Address, amount: Option<u64>) -> Result<Value> {
    let step = asked(harness, by.address, &body(harness, recipient, amount)).await?;
    let (code, answer) = post(harness, &step, &sign(by, &step)?).await?;
    ensure!(code == 200 && answer["message"].is_string(), "{answer}");
    Ok(step)
}

async fn listed(harness: &Harness, wallet: Address) -> Result<Vec<Value>> {
    let (code, body) = harness.get(&format!("/app-fees/{wallet:#x}/claims")).await?;
    ensure!(code == 200, "{body}");
    Ok(body["claims"].as_array().context("claims")?.clone())
}

/// Waits until the newest claim of a wallet stands like this.
pub async fn becomes(harness: &Harness, wallet: Address, status: &str) -> Result<Value> {
    let newest = || async { anyhow::Ok(listed(harness, wallet).await?.into_iter().next().unwrap_or_default()) };
    let waited = eventually("the claim's status", || async { anyhow::Ok(newest().await?["status"] == status) }).await;
    let last: Value = newest().await?;
    waited.with_context(|| last.to_string())?;
    Ok(last)
}

async fn arrived(harness: &Harness, recipient: Address) -> Result<u64> {
    Ok(harness.chain("base").balance(usdc(harness), recipient).await?.to())
}

/// A wallet with a balance and no key of ours.
async fn funded(harness: &Harness, micros: u64) -> Result<Account> {
    let base = harness.chain("base");
    let wallet = base.fresh_user().await?;
    base.send(wallet.private_key, usdc(harness), U256::ZERO, tagged(harness, micros, Address::ZERO)).await?;
    credited(harness, wallet.address, &micros.to_string()).await?;
    Ok(wallet)
}

async fn agrees(harness: &Harness) -> Result<()> {
    let (findings, content) = audit(harness).await?;
    ensure!(content, "{:#?}", differences(&findings));
    Ok(())
}

#[tokio::test]
async fn a_claim_is_paid_to_the_unit() -> Result<()> {
    let harness = Harness::new(Engine::Postgres).await?;
    let service = harness.serve().await?;
    let by = funded(&harness, 100 * USDC).await?;
    let (wallet, recipient) = (by.address, new_account().address);
    ensure!(listed(&harness, wallet).await?.is_empty());

    // What may not be.
    let good = body(&harness, recipient, Some(30_000_001));
    let path = format!("/app-fees/{wallet:#x}/claim");
    for (member, value, code) in [
        ("chainId", json!(10), "UNSUPPORTED_CHAIN"),
        ("chainId", json!(null), "INVALID_PARAMETERS"),
        ("currency", json!(Address::ZERO), "UNSUPPORTED_CURRENCY"),
        ("currency", json!("USDC"), "INVALID_ADDRESS"),
        ("recipient", json!("0x12"), "INVALID_ADDRESS"),
        ("recipient", json!(Address::ZERO), "INVALID_RECIPIENT"),
        ("recipient", json!(harness.treasury.address), "INVALID_RECIPIENT"),
        ("amount", json!("0"), "INVALID_PARAMETERS"),
        ("amount", json!("-1"), "INVALID_PARAMETERS"),
        ("amount", json!("1"), "AMOUNT_TOO_LOW"),
        ("amount", json!("100000001"), "INSUFFICIENT_FUNDS"),
        ("amount", json!(U256::MAX.to_string()), "INVALID_PARAMETERS"),
    ] {
        let mut bad = good.clone();
        bad[member] = value;
        let (status, answer) = harness.post(&path, &bad).await?;
        ensure!(status == 400 && answer["errorCode"] == code, "{bad}: {status} {answer}");
        ensure!(answer["message"].as_str().unwrap().starts_with(member), "{answer}");
    }
    ensure!(harness.post("/app-fees/0x12/claim", &good).await?.0 == 400);
    let (status, nobody) =
        harness.post(&format!("/app-fees/{recipient:#x}/claim"), &body(&harness, recipient, None)).await?;
    ensure!(status == 400 && nobody["errorCode"] == "INVALID_PARAMETERS", "{nobody}");

    // One signature step, over the claim's id.
    let step = asked(&harness, wallet, &good).await?;
    let (first, id) = (&step["steps"][0], step["steps"][0]["requestId"].clone());
    ensure!(step["steps"].as_array().unwrap().len() == 1 && first["id"] == "authorize" && first["kind"] == "signature");
    ensure!(
        first["items"][0]["status"] == "incomplete" && first["items"][0]["data"]["sign"]["message"] == id,
        "{first}"
    );
    ensure!(first["description"].as_str().unwrap().contains("30.000001 USDC"), "{first}");

    // Only the wallet's own signature over this very id.
    let other = asked(&harness, wallet, &good).await?;
    let wrong = [sign(&new_account(), &step)?, sign(&by, &other)?, "0x".to_owned(), "0x12".to_owned(), "x".to_owned()];
    for signature in &wrong {
        let (status, answer) = post(&harness, &step, signature).await?;
        let codes = ["INVALID_SIGNATURE", "INVALID_PARAMETERS"].map(Value::from);
        ensure!(status == 400 && codes.contains(&answer["errorCode"]), "{signature}: {answer}");
    }
    for (changed, code) in [
        (json!({ "kind": "permit2", "requestId": id }), "UNSUPPORTED_EXECUTION_TYPE"),
        (json!({ "requestId": id }), "INVALID_PARAMETERS"),
        (json!({ "kind": "claim" }), "INVALID_PARAMETERS"),
        (json!({ "kind": "claim", "requestId": "0x12" }), "INVALID_PARAMETERS"),
        (json!({ "kind": "claim", "requestId": B256::repeat_byte(9) }), "REQUEST_NOT_FOUND"),
    ] {
        let path = format!("/execute/permits?signature={}", sign(&by, &step)?);
        let (status, answer) = harness.post(&path, &changed).await?;
        ensure!(status == 400 && answer["errorCode"] == code, "{changed}: {answer}");
    }
    ensure!(balance(&harness, wallet).await?["availableBalanceUsd"] == 100.0, "a refusal set something aside");

    // What has expired is good no more.
    let expired = asked(&harness, wallet, &good).await?;
    let store = Store::open(&causeway::assemble::database(&harness.config)?)?;
    let old: B256 = expired["steps"][0]["requestId"].as_str().unwrap().parse()?;
    store.write(move |tx| tx.execute("update claim set expires_at = 1 where claim_id = $1", &[old.into()])).await?;
    store.close().await;
    let (status, answer) = post(&harness, &expired, &sign(&by, &expired)?).await?;
    ensure!(status == 400 && answer["errorCode"] == "SIGNATURE_EXPIRED", "{answer}");

    // Signed for, it is set aside at once, paid, and booked when that is final. Once.
    let (code, answer) = post(&harness, &step, &sign(&by, &step)?).await?;
    ensure!(code == 200 && answer["steps"] == json!([]), "{answer}");
    let body_after = balance(&harness, wallet).await?;
    ensure!(body_after["availableBalanceUsd"] == 69.999999, "{body_after}");
    let (status, again) = post(&harness, &step, &sign(&by, &step)?).await?;
    ensure!(status == 400 && again["errorCode"] == "ALREADY_PROCESSING", "{again}");
    let record = becomes(&harness, wallet, "success").await?;
    ensure!(record["claimId"] == id && record["recipient"] == json!(format!("{recipient:#x}")), "{record}");
    ensure!(
        record["currency"]["amount"] == "30000001" && record["currency"]["currency"]["symbol"] == "USDC",
        "{record}"
    );
    ensure!(record["wallet"] == json!(format!("{wallet:#x}")), "{record}");
    ensure!(record["createdAt"].as_str().is_some_and(|at| at.len() == 24 && at.ends_with('Z')), "{record}");
    ensure!(arrived(&harness, recipient).await? == 30_000_001);
    let hash: B256 = record["txHash"].as_str().context("txHash")?.parse()?;
    ensure!(harness.chain("base").receipt(hash).await?.status());
    credited(&harness, wallet, "69999999").await?;
    ensure!(post(&harness, &step, &sign(&by, &step)?).await?.0 == 400);

    // The rest, without saying how much, to the wallet itself.
    let had = arrived(&harness, wallet).await?;
    let whole = json!({ "chainId": BASE, "currency": usdc(&harness) });
    let step = asked(&harness, wallet, &whole).await?;
    ensure!(post(&harness, &step, &sign(&by, &step)?).await?.0 == 200);
    becomes(&harness, wallet, "success").await?;
    ensure!(arrived(&harness, wallet).await? == had + 69_999_999);
    let empty = balance(&harness, wallet).await?;
    ensure!(empty["amount"] == "0" && empty["availableBalanceUsd"] == 0.0, "{empty}");
    ensure!(harness.post(&path, &whole).await?.0 == 400, "there is nothing left");
    ensure!(arrived(&harness, recipient).await? == 30_000_001, "paid twice");

    // Page by page.
    let first = format!("/app-fees/{wallet:#x}/claims?limit=1");
    let (code, one) = harness.get(&first).await?;
    ensure!(code == 200 && one["claims"][0]["currency"]["amount"] == "69999999", "{one}");
    let next = format!("{first}&continuation={}", one["continuation"].as_str().context("continuation")?);
    let (_, two) = harness.get(&next).await?;
    ensure!(two["claims"][0]["claimId"] == id && two["continuation"] == Value::Null, "{two}");
    for bad in ["limit=0", "limit=51", "limit=x", "continuation=x", "continuation=-1"] {
        let (status, answer) = harness.get(&format!("/app-fees/{wallet:#x}/claims?{bad}")).await?;
        ensure!(status == 400 && answer["errorCode"] == "INVALID_PARAMETERS", "{bad}: {answer}");
    }
    service.stop().await?;
    agrees(&harness).await
}

/// A contract owns a balance and says for itself that it claims it, on the chain where balances live.
#[tokio::test]
async fn a_contract_claims_by_its_own_word() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let by = base.fresh_user().await?;
    // One that agrees to everything, and one that answers something else.
    for (code, accepted) in [("631626ba7e60e01b60005260206000f3", true), ("63deadbeef60e01b60005260206000f3", false)] {
        let (contract, recipient) = (new_account().address, new_account().address);
        base.set_code(contract, code.parse()?).await?;
        base.send(by.private_key, usdc(&harness), U256::ZERO, tagged(&harness, 5 * USDC, contract)).await?;
        credited(&harness, contract, "5000000").await?;
        let step = asked(&harness, contract, &body(&harness, recipient, None)).await?;
        let (status, answer) = post(&harness, &step, "0x01").await?;
        ensure!((status == 200) == accepted, "{answer}");
        if accepted {
            becomes(&harness, contract, "success").await?;
        }
        ensure!(arrived(&harness, recipient).await? == if accepted { 5 * USDC } else { 0 });
    }
    service.stop().await
}

/// What stands for fast fills and sponsored transfers cannot be claimed; two hundred claims at once get what there is.
async fn never_more_than_there_is(engine: Engine) -> Result<()> {
    let harness = Harness::new(engine).await?;
    let service = harness.serve().await?;
    let by: Integrator = integrator(&harness, 400).await?;
    let (wallet, recipient) = (by.wallet.address, new_account().address);
    let (user, there) = (harness.chain("base").fresh_user().await?, harness.chain("optimism").token("USDC").address);
    let quoted = ask(user.address, recipient, (BASE, usdc(&harness)), (OPTIMISM, there), U256::from(95 * USDC));
    let (code, quote) = by.post(&harness, "/quote/v2", &quoted).await?;
    ensure!(code == 200, "{quote}");
    ensure!(by.fast_fill(&harness, request_id(&quote)).await?.0 == 200);
    let path = format!("/app-fees/{wallet:#x}/claim");
    let (code, refused) = harness.post(&path, &body(&harness, recipient, Some(306 * USDC))).await?;
    ensure!(code == 400 && refused["errorCode"] == "INSUFFICIENT_FUNDS", "{refused}");

    let asks = (0..200).map(|_| async { asked(&harness, wallet, &body(&harness, recipient, Some(10 * USDC))).await });
    let steps = try_join_all(asks).await?;
    let calls = join_all(steps.iter().map(|step| async { post(&harness, step, &sign(&by.wallet, step)?).await })).await;
    let answers = calls.into_iter().collect::<Result<Vec<_>>>()?;
    let accepted = answers.iter().filter(|(code, _)| *code == 200).count();
    let low = |(code, body): &(u16, Value)| *code == 400 && body["errorCode"] == "INSUFFICIENT_FUNDS";
    ensure!(accepted == 30 && answers.iter().filter(|answer| low(answer)).count() == 170, "{accepted}");
    let left = balance(&harness, wallet).await?;
    ensure!(left["availableBalanceUsd"] == 5.0, "{left}");
    credited(&harness, wallet, "100000000").await?;
    ensure!(arrived(&harness, recipient).await? == 300 * USDC);
    service.stop().await?;
    agrees(&harness).await
}

#[tokio::test]
async fn many_claims_at_once_never_exceed_the_balance_sqlite() -> Result<()> {
    never_more_than_there_is(Engine::Sqlite).await
}

#[tokio::test]
async fn many_claims_at_once_never_exceed_the_balance_postgres() -> Result<()> {
    never_more_than_there_is(Engine::Postgres).await
}

/// A reorg takes the payment away: it goes out again, and is booked once. A payment that fails is credited back.
#[tokio::test]
async fn a_claim_survives_a_reorg_and_one_that_fails_is_credited_back() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = harness.serve().await?;
    let base = harness.chain("base");
    let by = funded(&harness, 50 * USDC).await?;
    let (wallet, recipient) = (by.address, new_account().address);
    blocks_pass(base, 8).await?;
    claim(&harness, &by, recipient, Some(20 * USDC)).await?;
    eventually("it is mined", || async { Ok(arrived(&harness, recipient).await? == 20 * USDC) }).await?;
    eventually("its hash is told", || async { Ok(listed(&harness, wallet).await?[0]["txHash"].is_string()) }).await?;
    let hash: B256 = listed(&harness, wallet).await?[0]["txHash"].as_str().context("txHash")?.parse()?;
    take_away(base, hash).await?;
    becomes(&harness, wallet, "success").await?;
    credited(&harness, wallet, "30000000").await?;
    ensure!(arrived(&harness, recipient).await? == 20 * USDC, "not paid once");

    // The treasury is emptied under the payment.
    let inventory = base.balance(usdc(&harness), harness.treasury.address).await?;
    base.pause_mining().await;
    claim(&harness, &by, recipient, None).await?;
    base.set_token_balance(usdc(&harness), harness.treasury.address, U256::ZERO).await?;
    base.resume_mining().await;
    let failed = becomes(&harness, wallet, "failure").await?;
    ensure!(failed["currency"]["amount"] == "30000000", "{failed}");
    let body = balance(&harness, wallet).await?;
    ensure!(body["amount"] == "30000000" && body["availableBalanceUsd"] == 30.0, "{body}");
    // And can be claimed again.
    base.set_token_balance(usdc(&harness), harness.treasury.address, inventory).await?;
    blocks_pass(base, 3).await?;
    claim(&harness, &by, recipient, None).await?;
    becomes(&harness, wallet, "success").await?;
    credited(&harness, wallet, "0").await?;
    ensure!(arrived(&harness, recipient).await? == 50 * USDC);
    service.stop().await?;
    agrees(&harness).await?;
    lies_are_found(&harness).await
}

/// Each lie on top of the ones before.
async fn lies_are_found(harness: &Harness) -> Result<()> {
    const NEWEST: &str = "(select max(sequence) from claim where state = 'success')";
    let lies = [
        (
            "is set aside for it",
            "update claim set state = 'pending' where sequence = (select min(sequence) from claim)",
        ),
        ("0 is booked for it", "delete from ledger_entry where entry_id like 'paid:%' and amount = 30000000"),
        ("its payment is of", "update claim set amount = amount + 1 where sequence ="),
        ("and its claim is of", "update claim set wallet = recipient where sequence ="),
    ];
    for (what, sql) in lies {
        let sql = if sql.ends_with('=') { format!("{sql} {NEWEST}") } else { sql.to_owned() };
        let sql: &'static str = sql.leak();
        let found =
            planted(harness, move |tx| tx.execute(sql, &[]).map(|changed| assert_eq!(changed, 1, "{sql}"))).await?;
        ensure!(found.iter().any(|text| text.contains(what)), "{what}: {found:#?}");
    }
    Ok(())
}

/// A backup from before the claims: it pays none until it has recovered, and then knows what was paid to whom.
#[tokio::test]
async fn a_restored_backup_pays_no_claim_twice() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let toml = harness.folder.path().join("dev.toml");
    let (database, backup) = (harness.folder.path().join("causeway.db"), harness.folder.path().join("backup.db"));
    let service = harness.serve().await?;
    let by = funded(&harness, 100 * USDC).await?;
    let (wallet, recipient) = (by.address, new_account().address);
    // The backup knows what was asked for, and not that it was signed for.
    let known = asked(&harness, wallet, &body(&harness, recipient, Some(40 * USDC))).await?;
    service.stop().await?;
    std::fs::copy(&database, &backup)?;
    let service = harness.serve().await?;
    ensure!(post(&harness, &known, &sign(&by, &known)?).await?.0 == 200);
    becomes(&harness, wallet, "success").await?;
    // And nothing at all of this one.
    claim(&harness, &by, recipient, Some(50 * USDC)).await?;
    becomes(&harness, wallet, "success").await?;
    credited(&harness, wallet, "10000000").await?;
    service.stop().await?;

    restore(&harness, &backup)?;
    let served = serve(&toml, None)?;
    eventually("it refuses to pay", || async {
        let Ok((_, lives)) = harness.get("/lives").await else { return Ok(false) };
        Ok(lives.to_string().contains("causeway recover"))
    })
    .await?;
    // The old balance is there, and what it is spent on waits.
    let unlucky = new_account().address;
    claim(&harness, &by, unlucky, Some(10 * USDC)).await?;
    ensure!(post(&harness, &known, &sign(&by, &known)?).await?.0 == 200);
    blocks_pass(harness.chain("base"), 12).await?;
    ensure!(listed(&harness, wallet).await?.iter().all(|claim| claim["status"] == "pending"));
    ensure!(arrived(&harness, recipient).await? == 90 * USDC && arrived(&harness, unlucky).await? == 0);
    ensure!(served.terminate().await?.success());

    let recovered = causeway().args(["recover", "--config"]).arg(&toml).output()?;
    ensure!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
    let served = serve(&toml, None)?;
    harness.wait_until_served().await?;
    credited(&harness, wallet, "0").await?;
    let statuses: Vec<_> = listed(&harness, wallet).await?.iter().map(|claim| claim["status"].clone()).collect();
    ensure!(statuses == ["success", "success", "success"], "{statuses:?}");
    ensure!(arrived(&harness, recipient).await? == 90 * USDC && arrived(&harness, unlucky).await? == 10 * USDC);
    ensure!(served.terminate().await?.success());
    agrees(&harness).await
}

fn restore(harness: &Harness, backup: &Path) -> Result<()> {
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(harness.folder.path().join(format!("causeway.db{suffix}")));
    }
    std::fs::copy(backup, harness.folder.path().join("causeway.db"))?;
    Ok(())
}

/// What the crash test does for the point at which a claim is committed and nothing was sent.
pub async fn crash(harness: &Harness, mut first: Served, toml: &Path) -> Result<()> {
    harness.wait_until_served().await?;
    let by = funded(harness, 50 * USDC).await?;
    let (wallet, recipient) = (by.address, new_account().address);
    let step = asked(harness, wallet, &body(harness, recipient, Some(20 * USDC))).await?;
    // The process dies under the call.
    let signature = sign(&by, &step)?;
    ensure!(tokio::time::timeout(WAIT_TIMEOUT, post(harness, &step, &signature)).await?.is_err());
    ensure!(!first.wait_until_dead(WAIT_TIMEOUT).await?.success());
    let second = serve(toml, None)?;
    harness.wait_until_served().await?;
    becomes(harness, wallet, "success").await?;
    ensure!(post(harness, &step, &signature).await?.0 == 400, "signed for twice");
    blocks_pass(harness.chain("base"), 6).await?;
    ensure!(arrived(harness, recipient).await? == 20 * USDC);
    credited(harness, wallet, "30000000").await?;
    ensure!(second.terminate().await?.success());
    agrees(harness).await
}

/// Bodies nobody would send: every one is answered with what is wrong with it, and moves nothing.
#[tokio::test]
async fn whatever_is_sent_is_answered_in_order() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service: Service = harness.serve().await?;
    let by = funded(&harness, 5 * USDC).await?;
    let good = body(&harness, by.address, Some(3 * USDC));
    let step = asked(&harness, by.address, &good).await?;
    let permit = json!({ "kind": "claim", "requestId": step["steps"][0]["requestId"] });
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("0x"),
        json!("-0"),
        json!("9".repeat(5_000)),
        json!("claim\u{0}'; drop table claim; --"),
        json!([]),
        json!({ "a": [] }),
        json!("0x0000000000000000000000000000000000000000"),
    ];
    let mut rng = Rng(0x5eed);
    let client = &harness.client;
    for _ in 0..400 {
        let of_claim = rng.below(2) == 0;
        let mut sent = if of_claim { good.clone() } else { permit.clone() };
        let member = *rng.pick(&["chainId", "currency", "recipient", "amount", "kind", "requestId", "unheardOf", ""]);
        sent[member] = rng.pick(&values).clone();
        let mut text = sent.to_string().into_bytes();
        match rng.below(8) {
            0 => text.truncate(rng.below(text.len())),
            1 => text[..].fill(b'['),
            2 => {
                let at = rng.below(text.len());
                text[at] = 0xff;
            }
            _ => {}
        }
        let signature = *rng.pick(&["", "?signature=", "?signature=0x00", "?signature=%ff", "?signature=0xzz"]);
        let claim = format!("/app-fees/{:#x}/claim", by.address);
        let path = if of_claim { claim } else { format!("/execute/permits{signature}") };
        let call = client.post(harness.url(&path)).header("content-type", "application/json").body(text.clone());
        let response = call.send().await?;
        let (status, shown) = (response.status().as_u16(), String::from_utf8_lossy(&text).into_owned());
        let answer: Value = response.json().await?;
        if status == 200 {
            ensure!(of_claim, "{path} took {shown}");
            continue;
        }
        ensure!((400..500).contains(&status), "{path} {status} {answer} for {shown}");
        ensure!(answer["message"].is_string() && answer["errorCode"].is_string(), "{path} {answer} for {shown}");
    }
    ensure!(listed(&harness, by.address).await?.is_empty());
    ensure!(balance(&harness, by.address).await?["availableBalanceUsd"] == 5.0);
    service.stop().await
}
