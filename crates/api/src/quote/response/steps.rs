//! The steps of a quote: the transactions its user sends.

use alloy_primitives::{Address, B256, Bytes, U256};
use domain::money::{Amount, Signed};
use domain::venue::TransferAction;
use serde::Serialize;
use solver::{Quoted, Step, StepKind};
use utoipa::ToSchema;

use super::Currencies;
use super::signature::SignatureData;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepBody)]
pub(crate) struct StepBody<'a> {
    id: &'static str,
    action: &'static str,
    description: String,
    kind: &'static str,
    items: [Item<'a>; 1],
    #[serde(serialize_with = "crate::json::bytes")]
    #[schema(value_type = String)]
    request_id: B256,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The address to pay at; empty where none was asked for.
    deposit_address: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Item)]
pub(crate) struct Item<'a> {
    status: &'static str,
    data: StepData<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<Check>,
}

/// A transaction to send; typed data to sign and post; or, from the venue, an action to sign and send to it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = StepData)]
pub(crate) enum StepData<'a> {
    Transaction(TransactionData<'a>),
    Action(ActionData),
    Signature(SignatureData),
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ActionData)]
pub(crate) struct ActionData {
    action: Action,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Action)]
pub(crate) struct Action {
    /// Always `transfer`.
    #[serde(rename = "type")]
    kind: &'static str,
    parameters: TransferParameters,
}

/// Numbers are JSON numbers, below 2^53.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TransferParameters)]
pub(crate) struct TransferParameters {
    /// The solver's account.
    to_account_index: u64,
    asset_index: u8,
    from_route_type: u8,
    to_route_type: u8,
    /// Smallest units.
    amount: u64,
    /// The venue's own fee, charged on top, in smallest units of USDC.
    usdc_fee: u64,
    /// The request's id.
    memo: String,
}

impl From<TransferAction> for ActionData {
    fn from(action: TransferAction) -> Self {
        let TransferAction { to, holding, amount, usdc_fee, memo } = action;
        let parameters = TransferParameters {
            to_account_index: to.get(),
            asset_index: holding.asset.get(),
            from_route_type: holding.route.get(),
            to_route_type: holding.route.get(),
            amount: amount.get(),
            usdc_fee,
            memo: memo.to_string(),
        };
        Self { action: Action { kind: "transfer", parameters } }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TransactionData)]
pub(crate) struct TransactionData<'a> {
    from: &'a str,
    #[serde(serialize_with = "crate::json::bytes")]
    #[schema(value_type = String)]
    to: Address,
    #[serde(serialize_with = "crate::json::bytes")]
    #[schema(value_type = String)]
    data: &'a Bytes,
    #[serde(serialize_with = "crate::json::amount")]
    #[schema(value_type = String)]
    value: Amount,
    chain_id: u64,
    #[serde(serialize_with = "crate::json::amount")]
    #[schema(value_type = String)]
    max_fee_per_gas: Amount,
    #[serde(serialize_with = "crate::json::amount")]
    #[schema(value_type = String)]
    max_priority_fee_per_gas: Amount,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Check {
    endpoint: String,
    method: &'static str,
}

pub(super) fn step_body<'a>(step: &'a Step, quoted: &'a Quoted, currencies: &Currencies<'a>) -> StepBody<'a> {
    let (quote, origin) = (&quoted.quote, currencies.origin);
    let id = quote.id;
    let data = match (step.action, &step.permit) {
        (Some(action), _) => StepData::Action(action.into()),
        (None, Some(permit)) => StepData::Signature(SignatureData::new(permit, quote)),
        (None, None) => StepData::Transaction(TransactionData {
            from: quote.ask.user.text(),
            to: step.to,
            data: &step.data,
            value: step.value,
            chain_id: origin.chain.0,
            max_fee_per_gas: Amount::new(U256::from(step.max_fee)),
            max_priority_fee_per_gas: Amount::new(U256::from(step.tip)),
        }),
    };
    let input = Signed::cost(quote.figures.input).scaled(origin.decimals);
    let (amount, of) = (input.as_str(), &origin.symbol);
    let (name, description) = match step.kind {
        StepKind::Approve => ("approve", format!("Allow the {of} you send to be taken")),
        StepKind::Deposit if quote.origin_swap.is_some() => {
            ("deposit", format!("Swap {amount} {of} for {} and deposit it for the transfer", currencies.deposit.symbol))
        }
        StepKind::Deposit if quoted.deposit_address.is_some() => {
            ("deposit", format!("Send {amount} {of} to the deposit address of the transfer"))
        }
        StepKind::Deposit => ("deposit", format!("Deposit {amount} {of} for the transfer")),
        StepKind::Swap => ("swap", format!("Exchange {amount} {of} for {}", currencies.destination.symbol)),
        StepKind::Send => ("send", format!("Send {amount} {of} to {}", quote.ask.recipient.text())),
        StepKind::Authorize => {
            let name = if quote.terms.is_some() { "authorize1" } else { "authorize2" };
            (name, format!("Sign to transfer {amount} {of} without gas"))
        }
    };
    let acts = step.kind != StepKind::Approve;
    let check = || Check { endpoint: format!("/intents/status/v3?requestId={id}"), method: "GET" };
    let signs = step.permit.is_some();
    StepBody {
        id: name,
        action: if signs { "Sign in your wallet" } else { "Confirm transaction in your wallet" },
        description,
        kind: if signs { "signature" } else { "transaction" },
        items: [Item { status: "incomplete", data, check: acts.then(check) }],
        request_id: id.0,
        deposit_address: acts
            .then(|| quoted.deposit_address.map_or_else(String::new, |address| format!("{address:#x}"))),
    }
}
