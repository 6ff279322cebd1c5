//! Integrators pay for their users: fees sponsored, rates fixed, app fees earned, and the balance right to the unit.

use alloy::primitives::{Address, U256};
use anyhow::{Context, Result, ensure};
use devnet::Account;
use domain::api_key::ApiKeyId;
use domain::ids::OrderId;
use evm::calldata;
use futures::future::try_join_all;
use serde_json::{Value, json};
use store::Store;

use crate::audit::agrees;
use crate::fast_fill::count;
use crate::funding::{balance, credited, tagged};
use crate::harness::{
    Engine, Harness, INVENTORY, amount, ask, blocks_pass, creeping, eventually, execute, new_account, operator,
    request_id, take_away,
};
use crate::keys;
use crate::reorg::ends_before_it_is_final;

const ARBITRUM: u64 = 42161;
const BASE: u64 = 8453;
const OPTIMISM: u64 = 10;

/// The base fee, kept constant: the cost of a fill is then the quoted one.
const BASE_FEE: u64 = 10_000_000;

/// An integrator with a key, a wallet linked to it and a balance.
struct Integrator {
    key: String,
    wallet: Account,
}

impl Integrator {
    async fn new(harness: &Harness) -> Result<Self> {
        let (id, key) = keys::create(harness, &[])?;
        let wallet = harness.chain("base").fresh_user().await?;
        let (id, linked): (ApiKeyId, Address) = (id.parse()?, wallet.address);
        let store = Store::open(&causeway::assemble::database(&harness.config)?)?;
        store.write(move |tx| store::keys::set_wallet(tx, id, linked)).await?;
        store.close().await;
        Ok(Self { key, wallet })
    }

    async fn fund(&self, harness: &Harness, micros: u64) -> Result<()> {
        let base = harness.chain("base");
        let usdc = base.token("USDC").address;
        base.send(self.wallet.private_key, usdc, U256::ZERO, tagged(harness, micros, Address::ZERO)).await?;
        credited(harness, self.wallet.address, &micros.to_string()).await?;
        Ok(())
    }

    async fn ask(&self, harness: &Harness, body: &Value) -> Result<(u16, Value)> {
        let client = &harness.client;
        harness.served(client.post(harness.url("/quote/v2")).header("x-api-key", &self.key).json(body)).await
    }

    async fn quote(&self, harness: &Harness, body: &Value) -> Result<Value> {
        let (code, answer) = self.ask(harness, body).await?;
        ensure!(code == 200, "no quote: {answer}");
        Ok(answer)
    }

    async fn balance(&self, harness: &Harness) -> Result<i64> {
        let body = balance(harness, self.wallet.address).await?;
        Ok(body["amount"].as_str().context("amount")?.parse()?)
    }
}

/// Parses dollars with six decimals into millionths.
pub fn micros(usd: &Value) -> Result<i64> {
    Ok(usd.as_str().context("dollars")?.replace('.', "").parse()?)
}

/// The sponsored fees in units of the balance, at the given price of their currency: rounded up.
pub fn charged(quote: &Value, answer: i64) -> Result<i64> {
    let units: i64 = quote["fees"]["subsidized"]["amount"].as_str().context("amount")?.parse()?;
    Ok((units * answer + 99_999_999) / 100_000_000)
}

pub async fn still_gas(harness: &Harness) -> Result<()> {
    for chain in &harness.devnet.chains {
        chain.set_base_fee(BASE_FEE);
        blocks_pass(chain, 3).await?;
    }
    Ok(())
}

/// The body of a quote chooses the sponsored fees, their cap and a rate.
#[tokio::test]
async fn a_sponsor_chooses_the_fees_it_pays() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (usdt, usdc) = (base.token("USDT").address, optimism.token("USDC").address);
    let (rich, poor) = (Integrator::new(&harness).await?, Integrator::new(&harness).await?);
    rich.fund(&harness, 10_000_000).await?;
    let user = new_account().address;
    let mut plain = ask(user, user, (BASE, usdt), (OPTIMISM, usdc), U256::from(100_000_000u64));
    plain["appFees"] = json!([{ "recipient": new_account().address, "fee": "20" }]);
    plain["subsidizeFees"] = json!(true);
    let with = |member: &str, value: Value| {
        let mut body = plain.clone();
        body[member] = value;
        body
    };
    eventually_sponsored(&harness, &rich, &plain).await?;
    let all = ["execution", "swap", "relay", "app", "rent"];
    for (asked, selected) in [
        (json!(null), &all[..4]),
        (json!(["relay"]), &all[2..3]),
        (json!(["app", "execution", "app"]), &["execution", "app"]),
    ] {
        let quote = rich.quote(&harness, &with("sponsoredFeeComponents", asked)).await?;
        let quoted = &quote["feeSponsorship"]["quoted"];
        ensure!(quoted["selectedComponents"] == json!(selected) && quoted["capHit"] == false, "{quoted}");
        let mut sum = 0;
        for name in all {
            let bucket = &quoted["components"][name];
            let [total, paid, rest] = ["total", "sponsored", "userPays"].map(|part| micros(&bucket[part]["amountUsd"]));
            let (total, paid, rest) = (total?, paid?, rest?);
            ensure!(bucket["selected"] == selected.contains(&name) && total == paid + rest, "{name}: {bucket}");
            // The user bears what a pool takes off our rate.
            let whole = paid == total || name == "swap" && paid < total;
            ensure!(if selected.contains(&name) { whole } else { paid == 0 }, "{name}: {bucket}");
            sum += paid;
        }
        ensure!(quote["feeSponsorship"].get("notSponsoredReason").is_none(), "{quoted}");
        ensure!(sum > 0 && sum == micros(&quote["fees"]["subsidized"]["amountUsd"])?, "{quoted}");
    }
    let capped = rich.quote(&harness, &with("maxSubsidizationAmount", json!("25000"))).await?;
    let quoted = &capped["feeSponsorship"]["quoted"];
    ensure!(quoted["capHit"] == true && quoted["maxSubsidizationAmount"] == "25000", "{quoted}");
    ensure!(micros(&quoted["sponsoredTotal"]["amountUsd"])? == 25_000, "{quoted}");
    let (code, refused) = rich.ask(&harness, &with("sponsoredFeeComponents", json!(["gas"]))).await?;
    ensure!(code == 400 && refused["errorCode"] == "INVALID_PARAMETERS", "{refused}");

    // A rate holds from either end, and needs somebody who stands for it.
    for (trade, input, output) in [
        ("EXACT_INPUT", "100000000", "99960000"),
        ("EXACT_OUTPUT", "100040017", "100000000"),
        ("EXPECTED_OUTPUT", "100040017", "100000000"),
    ] {
        let mut fixed = with("fixedRate", json!("1:0.9996"));
        fixed["tradeType"] = json!(trade);
        let (code, refused) = poor.ask(&harness, &fixed).await?;
        ensure!(code == 400 && refused["errorCode"] == "SPONSOR_BALANCE_TOO_LOW", "{trade}: {refused}");
        let details = rich.quote(&harness, &fixed).await?["details"].clone();
        let figures = (&details["currencyIn"]["amount"], &details["currencyOut"]["amount"]);
        ensure!(figures == (&json!(input), &json!(output)) && details["isFixedRate"] == true, "{trade}: {details}");
    }
    let mut fixed = with("fixedRate", json!("1:1"));
    fixed["originCurrency"] = json!(Address::ZERO);
    let (code, refused) = rich.ask(&harness, &fixed).await?;
    ensure!(code == 400 && refused["errorCode"] == "UNSUPPORTED_CURRENCY", "{refused}");
    service.stop().await
}

/// A sponsor that pays nothing is not said to pay, and why it does not is.
#[tokio::test]
async fn a_sponsor_that_pays_nothing_says_why() -> Result<()> {
    let harness = Harness::new(Engine::Sqlite).await?;
    let service = harness.serve().await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (usdt, usdc, here) = (base.token("USDT").address, optimism.token("USDC").address, base.token("USDC").address);
    let (rich, poor) = (Integrator::new(&harness).await?, Integrator::new(&harness).await?);
    rich.fund(&harness, 10_000_000).await?;
    let user = new_account().address;
    let mut plain = ask(user, user, (BASE, usdt), (OPTIMISM, usdc), U256::from(100_000_000u64));
    plain["subsidizeFees"] = json!(true);
    let with = |member: &str, value: Value| {
        let mut body = plain.clone();
        body[member] = value;
        body
    };
    let mut stays = ask(user, user, (BASE, usdt), (BASE, here), U256::from(100_000_000u64));
    stays["subsidizeFees"] = json!(true);
    eventually_sponsored(&harness, &rich, &plain).await?;
    for (by, body, reason) in [
        (&rich, with("sponsoredFeeComponents", json!([])), "NO_COMPONENTS"),
        (&rich, with("maxSubsidizationAmount", json!("0")), "CAP_TOO_LOW"),
        (&rich, stays, "SAME_CHAIN"),
        (&poor, plain.clone(), "SPONSOR_BALANCE_TOO_LOW"),
    ] {
        let quote = by.quote(&harness, &body).await?;
        let told = &quote["feeSponsorship"];
        ensure!(told["notSponsoredReason"] == reason, "{reason}: {told}");
        ensure!(told["quoted"]["selectedComponents"] == json!([]), "{reason}: {told}");
        let buckets = told["quoted"]["components"].as_object().context("components")?;
        ensure!(buckets.values().all(|bucket| bucket["selected"] == false), "{reason}: {told}");
        ensure!(quote["fees"]["subsidized"]["amount"] == "0", "{reason}: {told}");
        let lost = -micros(&quote["details"]["totalImpact"]["usd"])?;
        let pays = micros(&told["userPaysTotal"]["amountUsd"])?;
        ensure!((lost - pays).abs() <= 20, "{reason}: the user loses {lost} and is said to pay {pays}");
    }
    service.stop().await
}

/// Fund by calldata, a sponsored transfer with an app fee, and fixed rates at three market prices: the integrator
/// loses, breaks even and earns.
#[tokio::test]
async fn an_integrator_pays_and_earns_to_the_unit() -> Result<()> {
    let harness = Harness::isolated(|_| ()).await?;
    let service = harness.serve().await?;
    still_gas(&harness).await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (usdc, usdt, there) = (base.token("USDC").address, base.token("USDT").address, optimism.token("USDC").address);
    let integrator = Integrator::new(&harness).await?;
    let user = base.fresh_user().await?;

    // Without a balance the user pays, and no fixed rate is given.
    let mut body = ask(user.address, user.address, (BASE, usdc), (OPTIMISM, there), U256::from(100_000_000u64));
    body["subsidizeFees"] = json!(true);
    let unpaid = integrator.quote(&harness, &body).await?;
    ensure!(unpaid["fees"]["subsidized"]["amount"] == "0", "{unpaid}");
    ensure!(unpaid["feeSponsorship"]["quoted"]["sponsoredTotal"]["amount"] == "0", "{unpaid}");
    body["fixedRate"] = json!("1:1");
    let (code, refused) = integrator.ask(&harness, &body).await?;
    ensure!(code == 400 && refused["errorCode"] == "SPONSOR_BALANCE_TOO_LOW", "{refused}");
    body.as_object_mut().unwrap().remove("fixedRate");

    integrator.fund(&harness, 10_000_000).await?;
    let mut expected = 10_000_000i64;

    // The sponsor pays all fees, the app's among them.
    let app = new_account().address;
    body["recipient"] = json!(new_account().address);
    body["appFees"] = json!([{ "recipient": app, "fee": "10" }]);
    let quote = eventually_sponsored(&harness, &integrator, &body).await?;
    ensure!(quote["details"]["currencyOut"]["amount"] == "100000000", "{quote}");
    ensure!(quote["details"]["expandedPriceImpact"]["sponsored"]["usd"] == quote["fees"]["subsidized"]["amountUsd"]);
    execute(base, &quote, &user).await?;
    harness.wait_for(request_id(&quote), "success").await?;
    expected -= micros(&quote["fees"]["subsidized"]["amountUsd"])?;
    credited(&harness, app, "100000").await?;
    credited(&harness, integrator.wallet.address, &expected.to_string()).await?;

    // A fixed rate, at three prices of the input.
    body.as_object_mut().unwrap().remove("appFees");
    body["originCurrency"] = json!(usdt);
    body["fixedRate"] = json!("1:0.9996");
    for (answer, sign) in [(99_940_000, -1), (99_960_000, 0), (100_000_000, 1)] {
        harness.set_price(base, "USDT", answer).await?;
        let recipient = new_account().address;
        body["recipient"] = json!(recipient);
        let quote = integrator.quote(&harness, &body).await?;
        ensure!(quote["details"]["isFixedRate"] == true && quote["details"]["currencyOut"]["amount"] == "99960000");
        ensure!(quote["details"]["currencyOut"]["minimumAmount"] == "99960000", "{quote}");
        let drift = micros(&quote["details"]["fixedRateFee"]["usd"])?;
        ensure!(drift.signum() == sign, "{answer}: {}", quote["details"]);
        execute(base, &quote, &user).await?;
        harness.wait_for(request_id(&quote), "success").await?;
        ensure!(optimism.balance(there, recipient).await? == U256::from(99_960_000u64));
        expected += drift - charged(&quote, answer)?;
        credited(&harness, integrator.wallet.address, &expected.to_string()).await?;
    }
    let body = balance(&harness, integrator.wallet.address).await?;
    ensure!(body["availableBalanceUsd"] == body["totalBalanceUsd"], "nothing is set aside any more: {body}");

    // The deviation guard, at the quote and again at the fill. The refund is paid out of the treasury.
    let inventory = U256::from(INVENTORY);
    base.set_token_balance(usdt, harness.treasury.address, inventory).await?;
    let approve = |filler: &Account| (usdt, evm::calldata::approve(filler.address, inventory));
    base.send_all(harness.treasury.private_key, harness.fillers.iter().map(approve).collect::<Vec<_>>()).await?;
    harness.set_price(base, "USDT", 100_000_000).await?;
    let mut far = ask(user.address, user.address, (BASE, usdt), (OPTIMISM, there), U256::from(100_000_000u64));
    (far["subsidizeFees"], far["fixedRate"]) = (json!(true), json!("1:0.99"));
    let quote = integrator.quote(&harness, &far).await?;
    harness.set_price(base, "USDT", 90_000_000).await?;
    let (code, refused) = integrator.ask(&harness, &far).await?;
    ensure!(code == 400 && refused["errorCode"] == "INVALID_FIXED_RATE", "{refused}");
    execute(base, &quote, &user).await?;
    let status = harness.wait_for(request_id(&quote), "refund").await?;
    ensure!(status["failReason"] == "SLIPPAGE", "{status}");
    ensure!(integrator.balance(&harness).await? == expected);
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// Quotes see a balance a moment after it is credited.
async fn eventually_sponsored(harness: &Harness, integrator: &Integrator, body: &Value) -> Result<Value> {
    eventually("quotes know of the balance", || async {
        Ok(integrator.quote(harness, body).await?["fees"]["subsidized"]["amount"] != "0")
    })
    .await?;
    integrator.quote(harness, body).await
}

/// Twenty deposits at once against a balance that covers one: one is filled, the others go back, and the balance never
/// falls below zero.
#[tokio::test]
async fn a_balance_that_covers_one_pays_for_one() -> Result<()> {
    const MANY: usize = 20;
    let harness = Harness::isolated(|_| ()).await?;
    let service = harness.serve().await?;
    still_gas(&harness).await?;
    let (base, optimism) = (harness.chain("base"), harness.chain("optimism"));
    let (usdc, there) = (base.token("USDC").address, optimism.token("USDC").address);
    let integrator = Integrator::new(&harness).await?;
    integrator.fund(&harness, 150_000).await?;
    let user = base.fresh_user().await?;
    let mut body =
        ask(user.address, new_account().address, (BASE, usdc), (OPTIMISM, there), U256::from(100_000_000u64));
    // A tenth of a dollar more than the market gives, on each.
    (body["subsidizeFees"], body["fixedRate"]) = (json!(true), json!("1:1.001"));
    let first = integrator.quote(&harness, &body).await?;
    let cost = micros(&first["fees"]["subsidized"]["amountUsd"])? - micros(&first["details"]["fixedRateFee"]["usd"])?;
    ensure!((100_000..150_000).contains(&cost) && 2 * cost > 150_000, "{cost}");
    let quotes = try_join_all((0..MANY).map(|_| integrator.quote(&harness, &body))).await?;
    let approve = evm::calldata::approve(harness.depository, U256::MAX);
    base.send(user.private_key, usdc, U256::ZERO, approve).await?;
    let deposits = quotes.iter().map(|quote| {
        let items = crate::harness::transactions(quote).unwrap();
        let deposit = items.into_iter().next_back().unwrap();
        (deposit.to, deposit.data)
    });
    base.send_all(user.private_key, deposits.collect::<Vec<_>>()).await?;
    let mut filled = 0;
    for quote in &quotes {
        let request = request_id(quote);
        eventually("it ends", || async {
            let status = harness.status(request).await?;
            let left = integrator.balance(&harness).await?;
            ensure!(left >= 0, "the balance fell to {left}");
            Ok(status["status"] == "success" || status["status"] == "refund")
        })
        .await?;
        let status = harness.status(request).await?;
        filled += usize::from(status["status"] == "success");
        ensure!(status["status"] == "success" || status["failReason"] == "SPONSOR_BALANCE_TOO_LOW", "{status}");
    }
    ensure!(filled == 1, "{filled} were filled");
    credited(&harness, integrator.wallet.address, &(150_000 - cost).to_string()).await?;
    let recipient: Address = body["recipient"].as_str().unwrap().parse()?;
    ensure!(optimism.balance(there, recipient).await? == amount(&first["details"]["currencyOut"]["amount"]));
    service.stop().await?;
    agrees(&harness).await.map(drop)
}

/// The deposit of a sponsored transfer is taken back after the fill and stays away until its order has ended: that is
/// our loss, and the sponsor pays nothing for it. When a deposit comes after all, the sponsor pays as promised.
#[tokio::test]
async fn a_loss_is_not_the_sponsors_until_it_is_made_good() -> Result<()> {
    let harness = Harness::isolated(ends_before_it_is_final).await?;
    let service = harness.serve().await?;
    let integrator = Integrator::new(&harness).await?;
    integrator.fund(&harness, 5_000_000).await?;
    let (arbitrum, base) = (harness.chain("arbitrum"), harness.chain("base"));
    let (user, recipient) = (arbitrum.fresh_user().await?, new_account().address);
    blocks_pass(arbitrum, 2).await?;
    let value = U256::from(15_000_000_000_000_000u64);
    let mut body = ask(user.address, recipient, (ARBITRUM, Address::ZERO), (BASE, Address::ZERO), value);
    body["subsidizeFees"] = json!(true);
    let quote = eventually_sponsored(&harness, &integrator, &body).await?;
    let deposit = execute(arbitrum, &quote, &user).await?;
    creeping(arbitrum, harness.wait_for(request_id(&quote), "success")).await?;
    take_away(arbitrum, deposit).await?;

    let harness = &harness;
    let is = |state: &'static str| async move {
        Ok(operator(harness, "/operator/losses").await?.1["losses"][0]["state"] == state)
    };
    let open_holds = || count(&service, "select count(*) from ledger_hold where state = 'open'");
    eventually("the deposit is missed", || is("missing")).await?;
    ensure!(open_holds().await? == 1);
    arbitrum.advance_time(std::time::Duration::from_secs(1_000)).await?;
    harness.finalise(arbitrum).await?;
    eventually("the loss is booked", || is("booked")).await?;
    ensure!(open_holds().await? == 0 && integrator.balance(harness).await? == 5_000_000);
    agrees(harness).await?;

    let order: OrderId = quote["protocol"]["v2"]["orderId"].as_str().context("orderId")?.parse()?;
    let again = calldata::deposit_native(user.address, order);
    arbitrum.send(user.private_key, harness.depository, value, again).await?;
    eventually("the loss is reversed", || is("recovered")).await?;
    harness.finalise(arbitrum).await?;
    eventually("the sponsor pays", || async { Ok(integrator.balance(harness).await? < 5_000_000) }).await?;
    let story = harness.trace(request_id(&quote)).await?["feeSponsorship"].take();
    let paid: i64 = story["actual"]["sponsorPayment"]["amount"].as_str().context("a payment")?.parse()?;
    ensure!(paid > 0 && integrator.balance(harness).await? == 5_000_000 - paid, "{story}");
    ensure!(base.balance(Address::ZERO, recipient).await? == amount(&quote["details"]["currencyOut"]["amount"]));
    agrees(harness).await?;
    service.stop().await
}
