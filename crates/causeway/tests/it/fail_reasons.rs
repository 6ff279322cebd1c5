//! The page of fail reasons agrees with the list of the interface and with the code.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use domain::fail::{FailReason, RefundFailReason};

/// The interface's own lists.
const LISTED: &str = "UNKNOWN, SLIPPAGE, AMOUNT_TOO_LOW_TO_REFUND, DEPOSIT_ADDRESS_MISMATCH, DEPOSIT_CHAIN_MISMATCH, \
    INCORRECT_DEPOSIT_CURRENCY, DOUBLE_SPEND, SOLVER_CAPACITY_EXCEEDED, SOLVER_BALANCE_TOO_LOW, \
    DEPOSITED_AMOUNT_TOO_LOW_TO_FILL, NEGATIVE_NEW_AMOUNT_AFTER_FEES, NO_QUOTES, MISSING_REVERT_DATA, \
    REVERSE_SWAP_FAILED, GENERATE_SWAP_FAILED, TOO_LITTLE_RECEIVED, EXECUTION_REVERTED, \
    NEW_CALLDATA_INCLUDES_HIGHER_RENT_FEE, TRANSACTION_REVERTED, TRANSACTION_TOO_LARGE, ORIGIN_CURRENCY_MISMATCH, \
    NO_INTERNAL_SWAP_ROUTES_FOUND, SWAP_USES_TOO_MUCH_GAS, INSUFFICIENT_FUNDS_FOR_RENT, SPONSOR_BALANCE_TOO_LOW, \
    ORDER_EXPIRED, ORDER_IS_CANCELLED, TRANSFER_FROM_FAILED, TRANSFER_FAILED, SIGNATURE_EXPIRED, INVALID_SIGNATURE, \
    INSUFFICIENT_NATIVE_TOKENS_SUPPLIED, TRANSFER_AMOUNT_EXCEEDS_ALLOWANCE, TRANSFER_AMOUNT_EXCEEDS_BALANCE, \
    INVALID_SENDER, ACCOUNT_ABSTRACTION_INVALID_NONCE, ACCOUNT_ABSTRACTION_SIGNATURE_ERROR, \
    MARKETPLACE_INEXACT_FRACTION, TOKEN_NOT_TRANSFERABLE, ZERO_SELL_AMOUNT, MINT_NOT_ACTIVE, \
    ERC_1155_TOO_MANY_REQUESTED, INCORRECT_PAYMENT, INVALID_GAS_PRICE, POOL_DEX_ERROR, ORDER_ALREADY_FILLED, \
    MARKETPLACE_INVALID_FULFILLER, INVALID_SIGNER, MINT_QUANTITY_EXCEEDS_MAX_PER_WALLET, \
    MINT_QUANTITY_EXCEEDS_MAX_SUPPLY, AGGREGATOR_INVALID_TOKEN_ACCOUNT, INVALID_NONCE, ACCOUNT_ABSTRACTION_GAS_LIMIT, \
    CONTRACT_PAUSED, SWAP_IMPACT_TOO_HIGH, INSUFFICIENT_POOL_LIQUIDITY, TTL_EXPIRED, DEPOSIT_CONFIRMATION_TIMEOUT, \
    ORPHANED_DEPOSIT_REFUND, GASLESS_PERMIT_BALANCE_TOO_LOW, MANUAL_ADMIN_REFUND, QUOTED_GAS_LIMIT_EXCEEDED, \
    DESTINATION_TOKEN_TRANSFER_REJECTED, DEPOSIT_REORGED, BLOCKED_WALLET, PROTOCOL_DEADLINE_EXPIRED, \
    TRANSACTION_NOT_INCLUDED, TRANSACTION_SUBMISSION_FAILED, N/A";
const LISTED_FOR_REFUNDS: &str = "AMOUNT_TOO_LOW_TO_REFUND, NEGATIVE_NEW_AMOUNT_AFTER_FEES, \
    SWAP_CURRENCY_NOT_ON_ORIGIN, REFUND_RECIPIENT_IS_VASP";

/// A row of the page.
struct Documented<'a> {
    value: &'a str,
    never: bool,
    /// Files of the code that the row names.
    files: Vec<&'a str>,
}

fn rows<'a>(page: &'a str, heading: &str) -> Result<Vec<Documented<'a>>> {
    let (_, section) = page.split_once(heading).context("the heading")?;
    let table = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let rows = table.take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        ensure!(cells.len() == 3, "{line}");
        let files = cells[2].split('`').filter(|part| part.ends_with(".rs")).collect();
        Ok(Documented { value: cells[0].trim_matches('`'), never: cells[1].starts_with("never"), files })
    });
    rows.collect()
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The sources, less the tests below them and the list itself.
fn sources() -> Result<String> {
    let mut folders: Vec<_> =
        ["domain", "solver", "allocator", "evm"].map(|name| crates().join(name).join("src")).into();
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") && path.file_stem().is_some_and(|it| it != "fail") {
                let source = std::fs::read_to_string(path)?;
                text += source.split("#[cfg(test)]").next().unwrap_or_default();
            }
        }
    }
    Ok(text)
}

/// Searches the sources for a value of one of the two lists. The names of both end in the same word, and the table of
/// revert reasons calls one of them `R`.
fn mentions(words: &BTreeSet<&str>, of: &str, variant: &str) -> bool {
    let (long, short) = (format!("{of}::{variant}"), format!("R::{variant}"));
    words.contains(long.as_str()) || (of == "FailReason" && words.contains(short.as_str()))
}

#[test]
fn the_page_of_fail_reasons_is_the_interfaces_list_and_the_codes() -> Result<()> {
    let page = include_str!("../../../../docs/fail-reasons.md");
    let sources = sources()?;
    let words = sources.split(|it: char| !it.is_alphanumeric() && it != ':').collect();
    let reasons = FailReason::ALL.iter().map(|reason| (reason.as_str(), format!("{reason:?}")));
    let refunds = RefundFailReason::ALL.iter().map(|reason| (reason.as_str(), format!("{reason:?}")));
    let lists = [
        ("## failReason", "FailReason", LISTED, reasons.collect::<Vec<_>>()),
        ("## refundFailReason", "RefundFailReason", LISTED_FOR_REFUNDS, refunds.collect()),
    ];
    for (heading, of, listed, coded) in lists {
        let rows = rows(page, heading)?;
        let listed: Vec<_> = listed.split(", ").collect();
        assert_eq!(rows.iter().map(|row| row.value).collect::<Vec<_>>(), listed);
        let values = coded.iter().map(|(value, _)| *value);
        assert_eq!(values.collect::<Vec<_>>(), listed.iter().copied().filter(|it| *it != "N/A").collect::<Vec<_>>());
        for (row, (value, variant)) in rows.iter().zip(&coded) {
            assert_eq!(row.never, !mentions(&words, of, variant), "is {value} produced or not?");
            assert_eq!(row.never, row.files.is_empty(), "{value}");
            for file in &row.files {
                assert!(crates().join(file).exists(), "{value}: {file}");
            }
        }
    }
    Ok(())
}
