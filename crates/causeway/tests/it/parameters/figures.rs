//! Figures of a quote add up, to the last digit that is shown, for random bodies and uneven prices.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{BASE, Fixture, OPTIMISM, micros, with};
use crate::fuzz::Rng;
use crate::harness::{Harness, eventually, new_account};

const QUOTES: usize = 400;
const CURRENCIES: [&str; 6] = ["ETH", "WETH", "USDC", "USDT", "DAI", "TAIL"];

/// Signed smallest units.
fn signed(amount: &Value) -> Result<i128> {
    amount["amount"].as_str().context("amount")?.parse().with_context(|| amount.to_string())
}

/// Every amount, at any depth.
fn amounts<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(members) => {
            if members.contains_key("amountFormatted") {
                found.push(value);
            }
            members.values().for_each(|value| amounts(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| amounts(value, found)),
        _ => {}
    }
}

/// The smallest unit, shifted: no trailing zeros but one digit behind the point, never a negative zero.
fn check_formats(quote: &Value) -> Result<()> {
    let mut found = Vec::new();
    amounts(quote, &mut found);
    ensure!(found.len() >= 13, "{quote}");
    for it in found {
        let (units, text) = (it["amount"].as_str().unwrap(), it["amountFormatted"].as_str().unwrap());
        let decimals = usize::try_from(it["currency"]["decimals"].as_u64().unwrap())?;
        let (sign, digits) = units.strip_prefix('-').map_or(("", units), |digits| ("-", digits));
        let padded = format!("{digits:0>width$}", width = decimals + 1);
        let (whole, fraction) = padded.split_at(padded.len() - decimals);
        let fraction = fraction.trim_end_matches('0');
        let expected = format!("{sign}{whole}.{}", if fraction.is_empty() { "0" } else { fraction });
        ensure!(text == expected && units != "-0", "{text} is not {expected}: {it}");
        micros(&it["amountUsd"])?;
        ensure!(
            it["minimumAmount"].as_str().is_some_and(|least| least.bytes().all(|b| b.is_ascii_digit() || b == b'-'))
        );
        for member in ["symbol", "name", "address"] {
            ensure!(it["currency"][member].as_str().is_some_and(|text| !text.is_empty()), "{it}");
        }
        ensure!(it["currency"]["metadata"]["isNative"].is_boolean(), "{it}");
    }
    Ok(())
}

fn check_identities(quote: &Value) -> Result<()> {
    let (details, fees) = (&quote["details"], &quote["fees"]);
    let usd = |member: &str| micros(&details["expandedPriceImpact"][member]["usd"]);
    let total = micros(&details["totalImpact"]["usd"])?;
    let parts = usd("swap")? + usd("execution")? + usd("relay")? + usd("app")? + usd("sponsored")?;
    ensure!(parts == total, "the parts are {parts}, the whole {total}");
    let (input, output) = (micros(&details["currencyIn"]["amountUsd"])?, micros(&details["currencyOut"]["amountUsd"])?);
    ensure!(total == output - input, "{total} {output} {input}");
    let fee = |member: &str| micros(&fees[member]["amountUsd"]);
    ensure!(fee("relayer")? == fee("relayerGas")? + fee("relayerService")?, "{fees}");
    ensure!(signed(&fees["relayer"])? == signed(&fees["relayerGas"])? + signed(&fees["relayerService"])?, "{fees}");
    ensure!(micros(&details["swapImpact"]["usd"])? == total + fee("relayer")? + fee("app")?, "{quote}");
    ensure!(usd("app")? == -fee("app")? && usd("sponsored")? == fee("subsidized")?, "{quote}");
    ensure!(usd("execution")? <= 0 && -usd("execution")? >= fee("relayerGas")?, "{quote}");
    for impact in ["totalImpact", "swapImpact"] {
        let percent = details[impact]["percent"].as_str().context("percent")?;
        let part = i128::from(micros(&details[impact]["usd"])?);
        // Rounded half away from zero.
        let whole = u128::try_from(input.max(1))?;
        let size = (2 * 10_000 * part.unsigned_abs() + whole) / (2 * whole);
        let sign = if part < 0 && size > 0 { "-" } else { "" };
        ensure!(percent == format!("{sign}{}.{:02}", size / 100, size % 100), "{impact}: {percent} {part}");
    }
    Ok(())
}

/// One of everything, at random; most of it can be quoted.
fn random(fixture: &Fixture, rng: &mut Rng) -> Value {
    let (from, to) = (*rng.pick(&CURRENCIES), *rng.pick(&CURRENCIES));
    let trade = *rng.pick(&["EXACT_INPUT", "EXACT_INPUT", "EXACT_OUTPUT", "EXPECTED_OUTPUT"]);
    let fixed = if trade == "EXACT_INPUT" { from } else { to };
    // Between a dollar and a few hundred.
    let dollars = 1_000_000 + rng.below(400_000_000) as u128;
    let amount = match fixed {
        "ETH" | "WETH" => dollars * 1_000_000_000_000 / 3_123 + rng.below(1_000) as u128,
        "TAIL" => dollars * 50_000_000_000_000 + rng.below(1_000) as u128,
        "DAI" => dollars * 1_000_000_000_000 + rng.below(1_000) as u128,
        _ => dollars,
    };
    let (here, there) = *rng.pick(&[(BASE, OPTIMISM), (OPTIMISM, BASE), (BASE, 42161), (BASE, BASE)]);
    let mut body = with(
        &fixture.ask(from, to, &amount.to_string()),
        json!({ "originChainId": here, "destinationChainId": there, "tradeType": trade }),
    );
    body["recipient"] = json!(new_account().address);
    if rng.below(3) == 0 {
        let fee = |rng: &mut Rng| json!({ "recipient": fixture.user, "fee": rng.below(300).to_string() });
        body["appFees"] = json!([fee(rng), fee(rng)]);
    }
    if rng.below(4) == 0 && to != "ETH" && here != there {
        body["topupGas"] = json!(true);
        body["topupGasAmount"] = json!((1 + rng.below(3_000_000)).to_string());
    }
    if rng.below(3) == 0 {
        body["slippageTolerance"] = json!(rng.below(1_000).to_string());
    }
    body
}

/// Prices divide nothing evenly, and the inventory rewards one direction and charges the other.
#[tokio::test]
async fn the_figures_of_a_quote_add_up() -> Result<()> {
    let harness = Harness::isolated(|config| {
        config.fees.rebalance_bps = 10;
        for (chain, whole) in config.chains.iter_mut().zip([100_000_000, 1_000, 0]) {
            let usdc = chain.tokens.iter_mut().find(|token| token.symbol == "USDC").unwrap();
            usdc.target = (whole > 0).then_some(whole);
        }
    })
    .await?;
    for chain in &harness.devnet.chains {
        for (symbol, answer) in
            [("ETH", 312_345_678_901), ("USDC", 99_970_123), ("USDT", 100_031_337), ("DAI", 99_999_999)]
        {
            chain.set_price(symbol, answer).await?;
        }
    }
    let fixture = Fixture::on(harness).await?;
    eventually("the prices are known", || async {
        let quote = fixture.quote(&fixture.ask("ETH", "ETH", "1000000000000000000")).await?;
        Ok(quote["details"]["currencyIn"]["amountUsd"] == "3123.456789")
    })
    .await?;
    let seed = std::env::var("CAUSEWAY_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0xadd) | 1;
    println!("seed {seed}");
    let (mut rng, mut quoted, mut rewarded) = (Rng(seed), 0, 0);
    for _ in 0..QUOTES {
        let body = random(&fixture, &mut rng);
        let (code, quote) = fixture.served("/quote/v2", &body).await?;
        ensure!(code == 200 || code == 400, "{code} {quote} for {body}");
        if code == 200 {
            quoted += 1;
            rewarded += usize::from(quote["fees"]["relayerService"]["amount"].as_str().unwrap().starts_with('-'));
            check_formats(&quote).with_context(|| body.to_string())?;
            check_identities(&quote).with_context(|| format!("{body}: {quote}"))?;
        }
    }
    ensure!(quoted > QUOTES / 2 && rewarded > 0, "only {quoted} of {QUOTES} could be quoted, {rewarded} with a reward");

    // A feed that stands still takes its currency out of the market, and no other.
    let optimism = fixture.harness.chain("optimism");
    optimism.freeze_price("USDC", 1).await?;
    eventually("the frozen feed is noticed", || async {
        let (code, answer) = fixture.answer(&fixture.plain()).await?;
        Ok(code == 503 && answer["errorCode"] == "PRICE_FETCH_FAILED")
    })
    .await?;
    fixture.refused(&fixture.ask("ETH", "USDC", "100000000000000000"), 503, "PRICE_FETCH_FAILED", "price").await?;
    fixture.quote(&fixture.ask("USDC", "ETH", "25000000")).await?;
    optimism.freeze_price("USDC", 0).await?;
    eventually("it is back", || async { Ok(fixture.answer(&fixture.plain()).await?.0 == 200) }).await?;
    fixture.close().await
}
