//! The operator's commands with the venue: recovery of an old backup, the audit of both books, the doctor, and the
//! repayment of fills.

use std::process::Output;

use alloy::primitives::{Address, B256, U256};
use anyhow::{Context, Result, ensure};
use causeway::config::VenueConfig;
use causeway::local;
use devnet::{Chain, NewAccount};
use domain::venue::AccountIndex;
use serde_json::Value;
use store::{StoreError, Tx};

use super::{FEE, SOLVER, Stage, USER, VENUE};
use crate::audit::{audit, differences, planted};
use crate::harness::{Engine, blocks_pass, eventually, execute, new_account, request_id};
use crate::process::{causeway, recover, serve};
use crate::repayment;
use crate::restore::{is_refused, restore};

/// Runs a command while this thread answers as the venue.
async fn run(words: &[&str], config: &std::path::Path) -> Result<Output> {
    let mut command = causeway();
    command.args(words).arg("--config").arg(config);
    Ok(tokio::task::spawn_blocking(move || command.output()).await??)
}

/// The doctor's findings about the venue, with another configuration of it.
async fn doctor(stage: &Stage, name: &str, change: impl FnOnce(&mut VenueConfig)) -> Result<String> {
    let mut config = stage.harness.config.clone();
    change(config.venue.as_mut().context("a venue")?);
    let folder = stage.harness.folder.path().join(name);
    std::fs::create_dir_all(&folder)?;
    let output = run(&["doctor"], &local::write(&config, &folder)?).await?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let about =
        said.split_once("chain venue").with_context(|| format!("nothing about the venue: {said}"))?.1.to_owned();
    ensure!(output.status.success() || said.contains("FAIL"), "{said}");
    Ok(about)
}

/// The balances of everybody whom the service has paid.
struct Balances<'a> {
    stage: &'a Stage,
    chains: [&'a Chain; 2],
    user: Address,
    recipient: Address,
}

impl Balances<'_> {
    async fn read(&self) -> Result<(u64, u64, U256, U256)> {
        let [base, optimism] = self.chains;
        Ok((
            self.stage.balance(&self.stage.user)?,
            self.stage.balance(&self.stage.solver)?,
            base.balance(base.token("USDC").address, self.user).await?,
            optimism.balance(optimism.token("USDC").address, self.recipient).await?,
        ))
    }
}

/// A deposit, a withdrawal and a return are unknown to the backup, and so are a deposit and a withdrawal whose quotes
/// it does not even have.
#[tokio::test]
async fn a_restored_backup_pays_nobody_again_on_the_venue() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let harness = &stage.harness;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (toml, backup) = (harness.folder.path().join("dev.toml"), harness.folder.path().join("backup.db"));
    let (user, recipient) = (base.fresh_user().await?, new_account().address);
    let usdc = base.token("USDC").address.to_string();
    let into = stage.deposit(&user.address.to_string(), &usdc, "50000000");
    let out_of = stage.withdrawal(20_000_000, &recipient.to_string());

    // The backup holds a quote of each direction, and none of their transfers.
    let service = harness.serve().await?;
    let known = [harness.quote(&into).await?, harness.quote(&out_of).await?];
    service.stop().await?;
    std::fs::copy(harness.folder.path().join("causeway.db"), &backup)?;
    let service = harness.serve().await?;
    let unknown = [harness.quote(&into).await?, harness.quote(&out_of).await?];
    for [deposit, withdrawal] in [&known, &unknown] {
        execute(base, deposit, &user).await?;
        harness.wait_for(request_id(deposit), "success").await?;
        stage.withdraw(withdrawal).await?;
        harness.wait_for(request_id(withdrawal), "success").await?;
    }
    let had = stage.balance(&stage.user)?;
    stage.send(stage.transfer(5_000_000, B256::ZERO)?).await?;
    stage.user_has(had - FEE).await?;
    service.stop().await?;
    let balances = Balances { stage: &stage, chains: [base, optimism], user: user.address, recipient };
    let paid = balances.read().await?;

    restore(harness, &backup)?;
    let served = serve(&toml, None)?;
    is_refused(harness, VENUE).await?;
    blocks_pass(base, 20).await?;
    ensure!(balances.read().await? == paid, "paid again from an old database");
    let said = doctor(&stage, "old", |_| ()).await?;
    ensure!(
        said.contains("has used 3 nonces, and the database knows 0") && said.contains("causeway recover"),
        "{said}"
    );
    ensure!(served.terminate().await?.success());

    let recovered = recover(&toml).await?;
    ensure!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
    let said = String::from_utf8_lossy(&recovered.stdout);
    let line = said.lines().find(|line| line.starts_with("venue:")).unwrap_or_default();
    ensure!(line.contains("imported 3 payments, 0 transactions"), "{said}");
    let served = serve(&toml, None)?;
    harness.wait_until_served().await?;
    for quote in &known {
        harness.wait_for(request_id(quote), "success").await?;
    }
    stage.rounds_pass().await?;
    blocks_pass(base, 20).await?;
    blocks_pass(optimism, 6).await?;
    ensure!(balances.read().await? == paid, "paid or returned again after recovery");
    // And it works again.
    let quote = harness.quote(&into).await?;
    execute(base, &quote, &user).await?;
    stage.is_filled(&quote, paid.0).await?;
    ensure!(served.terminate().await?.success());
    let findings = audit(harness).await?.0;
    ensure!(of_venue(&findings).all(|check| check["different"] == 0), "{findings:#}");
    ensure!(of_venue(&findings).count() == 4, "{findings:#}");
    Ok(())
}

fn of_venue(findings: &Value) -> impl Iterator<Item = &Value> {
    findings["checks"].as_array().into_iter().flatten().filter(|check| check["chain"] == "venue")
}

/// The deposit of a fill on the venue reaches the treasury on its origin, the money of a withdrawal is in the account
/// by itself, and the audit finds each row that says otherwise.
#[tokio::test]
async fn fills_on_the_venue_are_repaid_and_audited() -> Result<()> {
    let stage = Stage::with(Engine::Sqlite, false, repayment::repaid).await?;
    let harness = &stage.harness;
    repayment::name_allocator(harness).await?;
    let (base, treasury) = (harness.chain("base"), harness.treasury.address);
    let usdc = base.token("USDC").address;
    let user = base.fresh_user().await?;
    let (had, theirs, ours) =
        (base.balance(usdc, treasury).await?, stage.balance(&stage.user)?, stage.balance(&stage.solver)?);
    let service = harness.serve().await?;
    let quote = harness.quote(&stage.deposit(&user.address.to_string(), &usdc.to_string(), "50000000")).await?;
    execute(base, &quote, &user).await?;
    let promised = stage.is_filled(&quote, theirs).await?;
    let withdrawn = harness.quote(&stage.withdrawal(20_000_000, &new_account().address.to_string())).await?;
    stage.withdraw(&withdrawn).await?;
    harness.wait_for(request_id(&withdrawn), "success").await?;
    ensure!(stage.balance(&stage.solver)? == ours - promised + 20_000_000, "the account has what was withdrawn");
    eventually("the deposit of the fill is repaid", || async {
        let held = base.balance(usdc, harness.depository).await?;
        Ok(held.is_zero() && base.balance(usdc, treasury).await? == had + U256::from(50_000_000u64))
    })
    .await?;
    blocks_pass(base, 8).await?;
    stage.rounds_pass().await?;
    service.stop().await?;
    let (findings, content) = audit(harness).await?;
    ensure!(content, "{:#?}", differences(&findings));
    let compared: Vec<_> = of_venue(&findings).map(|check| check["compared"].as_u64()).collect();
    ensure!(compared == [Some(1), Some(1), Some(1), Some(2)], "{findings:#}");

    for (what, forge) in forgeries() {
        let found = planted(harness, forge).await?;
        ensure!(found.iter().any(|text| text.contains(what)), "{what}: {found:#?}");
    }
    // A transfer that has just arrived may be listed before it is applied: it is noted, and an old one is a difference.
    planted(harness, |tx| one(tx, "delete from deposit where chain_id = 3586256")).await?;
    let findings = audit(harness).await?.0;
    ensure!(findings.to_string().contains("from account 100001 is not in the database yet"), "{findings:#}");
    Ok(())
}

type Forgery = fn(&mut Tx<'_>) -> Result<(), StoreError>;

fn one(tx: &mut Tx<'_>, sql: &'static str) -> Result<(), StoreError> {
    assert_eq!(tx.execute(sql, &[])?, 1, "{sql}");
    Ok(())
}

/// The findings of the audit, each with the statement that forges its row.
fn forgeries() -> Vec<(&'static str, Forgery)> {
    vec![
        ("its transaction is another one", |tx| {
            one(tx, "update payment set amount = '1' where chain_id = 3586256 and purpose = 'fill'")
        }),
        ("is no such transfer on the venue", |tx| one(tx, "update deposit set amount = '5' where chain_id = 3586256")),
        ("the venue has used", |tx| one(tx, "update lane set next_nonce = next_nonce - 1 where chain_id = 3586256")),
        ("it is void and its transaction has paid", |tx| {
            one(tx, "update payment set state = 'void' where chain_id = 3586256 and purpose = 'fill'")
        }),
    ]
}

/// The venue has used a nonce of ours and lists nothing for it: the transfer failed, which the venue's list does not
/// say. The recovery ends with an error, and goes on when a person knows that it paid nobody.
#[tokio::test]
async fn nonces_without_a_listed_transfer_are_a_persons_to_judge() -> Result<()> {
    let stage = Stage::with(Engine::Sqlite, false, |config| {
        if let Some(venue) = &mut config.venue {
            venue.unlisted_secs = 1;
        }
    })
    .await?;
    let harness = &stage.harness;
    let base = harness.chain("base");
    let (toml, backup) = (harness.folder.path().join("dev.toml"), harness.folder.path().join("backup.db"));
    let (user, usdc) = (base.fresh_user().await?, base.token("USDC").address);
    let service = harness.serve().await?;
    let quote = harness.quote(&stage.deposit(&user.address.to_string(), &usdc.to_string(), "50000000")).await?;
    service.stop().await?;
    std::fs::copy(harness.folder.path().join("causeway.db"), &backup)?;
    let service = harness.serve().await?;
    stage.simulator.faults.update(|fault| fault.fail_sends = true);
    execute(base, &quote, &user).await?;
    harness.wait_for(request_id(&quote), "refund").await?;
    service.stop().await?;
    stage.simulator.faults.clear();
    let paid = (base.balance(usdc, user.address).await?, stage.balance(&stage.user)?);

    restore(harness, &backup)?;
    let refused = run(&["recover"], &toml).await?;
    let said = String::from_utf8_lossy(&refused.stderr);
    ensure!(!refused.status.success() && said.contains("--unlisted-have-failed"), "{said}");
    // The lease of the one before it may still stand for a moment.
    eventually("the recovery goes on", || async {
        Ok(run(&["recover", "--unlisted-have-failed"], &toml).await?.status.success())
    })
    .await?;
    let served = serve(&toml, None)?;
    harness.wait_until_served().await?;
    harness.wait_for(request_id(&quote), "refund").await?;
    stage.rounds_pass().await?;
    ensure!((base.balance(usdc, user.address).await?, stage.balance(&stage.user)?) == paid, "paid or refunded again");
    ensure!(served.terminate().await?.success());
    Ok(())
}

/// Each thing that can be wrong with the venue is named, with what helps.
#[tokio::test]
async fn the_doctor_names_what_is_wrong_with_the_venue() -> Result<()> {
    let stage = Stage::new(Engine::Sqlite).await?;
    let index = AccountIndex::new(SOLVER + 1)?;
    let account = stage.simulator.open(NewAccount { index, wallet: new_account(), pays_fees: false, collateral: 0 })?;
    let without_money = local::venue(&stage.simulator, &account, stage.harness.folder.path())?;
    let (good, nobody, other, low, empty) = tokio::try_join!(
        doctor(&stage, "good", |_| ()),
        doctor(&stage, "nobody", |venue| venue.account = 5),
        doctor(&stage, "other", |venue| venue.account = USER),
        doctor(&stage, "low", |venue| venue.target = Some(3_000_000)),
        doctor(&stage, "empty", |venue| *venue = without_money),
    )?;
    ensure!(!good.contains("FAIL") && good.contains("it can pay 1000000.0 USDC"), "{good}");
    ensure!(nobody.contains("FAIL  there is no account 5") && nobody.contains("correct `venue.account`"), "{nobody}");
    ensure!(other.contains("FAIL  the wallet key is that of"), "{other}");
    ensure!(other.contains(&format!("FAIL  the key is not key 3 of account {USER}")), "{other}");
    ensure!(low.contains("warn  account 722011 can pay only 1000000.0 of the 3000000.0 USDC"), "{low}");
    ensure!(empty.contains("FAIL  account 722012 has no USDC that it can pay"), "{empty}");
    stage.simulator.faults.update(|fault| fault.down = true);
    let down = doctor(&stage, "down", |_| ()).await?;
    ensure!(down.contains("FAIL  the venue answers with status 503") && down.contains("`venue.url`"), "{down}");
    stage.simulator.faults.update(|fault| (fault.down, fault.clock_offset_millis) = (false, 120_000));
    let ahead = doctor(&stage, "ahead", |_| ()).await?;
    ensure!(ahead.contains("FAIL  the venue's clock is 1") && ahead.contains("set the clock"), "{ahead}");
    stage.simulator.faults.clear();
    Ok(())
}
