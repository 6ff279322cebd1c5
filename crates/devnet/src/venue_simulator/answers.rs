//! The JSON of answers. The venue's own client library is strict: every member it lists has to be there.

use domain::venue::{AccountIndex, Asset, Route};
use serde_json::{Value, json};

use super::NETWORK;
use super::accounts::Holder;
use super::book::{Book, Tx};

/// Decimal text of units.
pub(super) fn decimal(units: u64, decimals: u8) -> String {
    let scale = 10u64.pow(decimals.into());
    format!("{}.{:0width$}", units / scale, units % scale, width = usize::from(decimals))
}

pub(super) fn status(now: u64) -> Value {
    json!({ "status": 1, "network_id": NETWORK.0, "timestamp": now / 1_000 })
}

fn symbol(asset: Asset) -> String {
    match asset {
        Asset::ETH => "ETH".to_owned(),
        Asset::USDC => "USDC".to_owned(),
        other => format!("ASSET{}", other.get()),
    }
}

/// Members that both forms of an account have.
fn basic(index: AccountIndex, holder: &Holder) -> Value {
    let collateral = decimal(holder.balance(Asset::USDC, Route::Perps), Asset::USDC.decimals());
    json!({
        "code": 0,
        "account_type": u8::from(index.is_sub_account()),
        "account_trading_mode": 0,
        "index": index.get(),
        "l1_address": holder.wallet,
        "cancel_all_time": 0,
        "total_order_count": 0,
        "total_isolated_order_count": 0,
        "pending_order_count": 0,
        "available_balance": collateral,
        "status": 1,
        "collateral": collateral,
        "transaction_time": 0,
    })
}

fn detailed(index: AccountIndex, holder: &Holder) -> Value {
    let mut account = basic(index, holder);
    let collateral = account["collateral"].clone();
    let assets: Vec<Value> = holder
        .held(Route::Spot)
        .map(|(asset, units)| {
            json!({
                "symbol": symbol(asset),
                "asset_id": asset.get(),
                "balance": decimal(units, asset.decimals()),
                "locked_balance": decimal(0, asset.decimals()),
                "margin_balance": decimal(0, asset.decimals()),
                "margin_mode": "disabled",
                "multiplier": "1",
            })
        })
        .collect();
    let more = json!({
        "account_index": index.get(),
        "name": "",
        "description": "",
        "can_invite": false,
        "referral_points_percentage": "",
        "positions": [],
        "assets": assets,
        "total_asset_value": collateral,
        "cross_asset_value": collateral,
        "pool_info": {
            "status": 0,
            "operator_fee": "0",
            "min_operator_share_rate": "0",
            "total_shares": 0,
            "operator_shares": 0,
            "annual_percentage_yield": 0,
            "daily_returns": [],
            "share_prices": [],
            "sharpe_ratio": 0,
            "strategies": [],
        },
        "shares": [],
        "created_at": 0,
        "can_rfq": false,
        "cross_initial_margin_requirement": "0",
        "cross_maintenance_margin_requirement": "0",
        "can_rfq_market_ids": [],
        "metadata": { "color": "" },
        "agent_enabled": false,
    });
    if let (Some(account), Value::Object(more)) = (account.as_object_mut(), more) {
        account.extend(more);
    }
    account
}

pub(super) fn accounts(list: &[(AccountIndex, &Holder)]) -> Value {
    let accounts: Vec<Value> = list.iter().map(|(index, holder)| detailed(*index, holder)).collect();
    json!({ "code": 200, "total": accounts.len(), "accounts": accounts, "next_cursor": "" })
}

pub(super) fn sub_accounts(list: &[(AccountIndex, &Holder)]) -> Value {
    let wallet = list.first().map(|(_, holder)| holder.wallet);
    let accounts: Vec<Value> = list.iter().map(|(index, holder)| basic(*index, holder)).collect();
    json!({ "code": 200, "l1_address": wallet, "sub_accounts": accounts })
}

/// All keys of an account, or one.
pub(super) fn api_keys(index: AccountIndex, holder: &Holder, only: Option<u8>) -> Value {
    let keys = holder.keys.iter().filter(|(key, _)| only.is_none_or(|only| key.get() == only));
    let keys = keys.map(|(key_index, key)| {
        json!({
            "account_index": index.get(),
            "api_key_index": key_index.get(),
            "nonce": key.next_nonce,
            "public_key": key.public.to_string(),
            "transaction_time": 0,
        })
    });
    json!({ "code": 200, "api_keys": keys.collect::<Vec<_>>() })
}

pub(super) fn transaction(place: usize, tx: &Tx, book: &Book) -> Value {
    let transfer = &tx.signed.transfer;
    let wallet = book.account(transfer.from).ok().map(|holder| holder.wallet);
    let committed = if tx.moved_at > tx.queued_at { tx.moved_at } else { 0 };
    json!({
        "code": 200,
        "hash": tx.hash.to_string(),
        "type": 12,
        "info": tx.info,
        "event_info": "{}",
        "status": tx.status.get(),
        "transaction_index": place,
        "l1_address": wallet,
        "account_index": transfer.from.get(),
        "nonce": transfer.nonce.get(),
        "expire_at": transfer.expires_at.get(),
        "block_height": place + 1,
        "queued_at": tx.queued_at,
        "executed_at": committed,
        "sequence_index": place,
        "parent_hash": "",
        "api_key_index": transfer.key_index.get(),
        "transaction_time": tx.queued_at * 1_000,
        "committed_at": committed,
        "verified_at": 0,
    })
}

/// A line of an account's history. The memo is not part of it.
pub(super) fn history_row(place: usize, tx: &Tx, account: AccountIndex, book: &Book) -> Value {
    let transfer = &tx.signed.transfer;
    let wallet = |index| book.account(index).ok().map(|holder| holder.wallet);
    let kind = match (transfer.from == account, transfer.to == account) {
        (true, true) => "L2SelfTransfer",
        (true, false) => "L2TransferOutflow",
        (false, _) => "L2TransferInflow",
    };
    let route = |route| if route == Route::Perps { "perps" } else { "spot" };
    json!({
        "id": place.to_string(),
        "amount": decimal(transfer.amount.get(), transfer.asset.decimals()),
        "timestamp": tx.queued_at,
        "type": kind,
        "from_l1_address": wallet(transfer.from),
        "to_l1_address": wallet(transfer.to),
        "from_account_index": transfer.from.get(),
        "to_account_index": transfer.to.get(),
        "tx_hash": tx.hash.to_string(),
        "asset_id": transfer.asset.get(),
        "fee": decimal(transfer.usdc_fee.get(), Asset::USDC.decimals()),
        "from_route": route(transfer.from_route),
        "to_route": route(transfer.to_route),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_written_with_all_their_places() {
        for (units, decimals, text) in
            [(0, 6, "0.000000"), (1, 6, "0.000001"), (1_500_000, 6, "1.500000"), (123_456_789, 8, "1.23456789")]
        {
            assert_eq!(decimal(units, decimals), text);
        }
    }
}
