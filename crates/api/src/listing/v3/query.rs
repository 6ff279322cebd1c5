//! The query of `GET /requests/v3`: its parameters, as a listing.

use alloy_primitives::B256;
use domain::api_key::ApiKey;
use domain::facts::Feature;
use domain::ids::{ChainId, RequestId};
use domain::request::State;
use domain::venue;
use serde::Deserialize;
use store::listing::{Column, Condition, Number, Sort, TxRole};
use utoipa::IntoParams;

use crate::error::ApiError;
use crate::listing::filter::{Filter, Reader, about, account, bad, hash, hidden};
use crate::listing::filters::Groups;
use crate::listing::lookup::Lookup;
use crate::listing::parameters::{decimal, flag, limit, list, ordered, range, seconds, whole};
use crate::listing::search::Search;

/// All parameters are optional; those at the top level must all hold.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", default)]
#[into_params(parameter_in = Query)]
pub(crate) struct V3Query {
    /// The size of a page: 1 to 50, 20 unless said.
    #[param(value_type = Option<u16>)]
    limit: Option<String>,
    /// The cursor of the page before.
    continuation: Option<String>,
    /// Adds the number of all matches, which takes its time.
    #[param(value_type = Option<bool>)]
    include_total: Option<String>,
    /// The sender.
    user: Option<String>,
    /// A request's or an order's id, an address of a sender, of a recipient or to deposit at, or the hash of any
    /// transaction.
    term: Option<String>,
    id: Option<String>,
    order_id: Option<String>,
    deposit_tx_hash: Option<String>,
    fill_tx_hash: Option<String>,
    refund_tx_hash: Option<String>,
    #[param(value_type = Option<u64>)]
    origin_chain_id: Option<String>,
    #[param(value_type = Option<u64>)]
    destination_chain_id: Option<String>,
    /// In either direction. Without effect where one of the two above is given.
    #[param(value_type = Option<u64>)]
    chain_id: Option<String>,
    /// Ids of private chains to list as well, separated by commas.
    private_chains_to_include: Option<String>,
    deposit_address: Option<String>,
    recipient: Option<String>,
    /// `success`, `failure`, `refund`, `pending` or `depositing`.
    status: Option<String>,
    fail_reason: Option<String>,
    refund_fail_reason: Option<String>,
    /// One key or several, separated by commas: their texts or their ids.
    api_key: Option<String>,
    /// Needs `apiKey`, with keys of the caller's own.
    referrer: Option<String>,
    /// `Bridge`, `Crosschain Swap`, `Same-chain Swap`, `Send`, `Wrap`, `Unwrap` or `Call`, in any case.
    request_type: Option<String>,
    #[param(value_type = Option<u64>)]
    currency_in_chain_id: Option<String>,
    #[param(value_type = Option<u64>)]
    currency_out_chain_id: Option<String>,
    currency_in_address: Option<String>,
    currency_out_address: Option<String>,
    /// In any case, on every chain.
    currency_in_symbol: Option<String>,
    currency_out_symbol: Option<String>,
    /// `createdAt` unless said, `updatedAt` or `amountUsd`.
    sort_by: Option<String>,
    /// `asc` or `desc`; unless said `desc` for times and `asc` for `amountUsd`.
    sort_direction: Option<String>,
    /// Unix seconds, of the creation, or of the last change where that is sorted by.
    #[param(value_type = Option<u64>)]
    start_timestamp: Option<String>,
    #[param(value_type = Option<u64>)]
    end_timestamp: Option<String>,
    /// Of any transaction; of the origin's alone where `originChainId` is given.
    #[param(value_type = Option<u64>)]
    start_block: Option<String>,
    #[param(value_type = Option<u64>)]
    end_block: Option<String>,
    /// Of the input, in dollars.
    #[param(value_type = Option<f64>)]
    amount_usd_min: Option<String>,
    #[param(value_type = Option<f64>)]
    amount_usd_max: Option<String>,
    /// Of all app fees together, in dollars.
    #[param(value_type = Option<f64>)]
    app_fees_amount_usd_min: Option<String>,
    #[param(value_type = Option<f64>)]
    app_fees_amount_usd_max: Option<String>,
    /// Seconds from deposit to fill.
    #[param(value_type = Option<f64>)]
    fill_time_min: Option<String>,
    #[param(value_type = Option<f64>)]
    fill_time_max: Option<String>,
    /// At least one of these, separated by commas: `gasless_execution`, `gasless_swap`, `fast_fill`, `gas_top_up`,
    /// `fixed_rate`, `app_fees`, `deposit_address`.
    features: Option<String>,
    /// Adds members that only a request's own integrator sees.
    #[param(value_type = Option<bool>)]
    include_authenticated_data: Option<String>,
    /// With `id`: also the requests of deposits that named its order without paying for it.
    #[param(value_type = Option<bool>)]
    include_child_requests: Option<String>,
    /// A JSON array of groups. One of them must hold; within a group, all members. A value is text, a number, an array
    /// for any of several, or null for none; `not:` before a name turns it round.
    filters: Option<String>,
}

/// The query, read.
#[derive(Debug)]
pub(crate) struct Asked {
    pub search: Search,
    pub limit: u16,
    pub continuation: Option<String>,
    pub total: bool,
    pub authenticated: bool,
}

impl V3Query {
    pub(crate) async fn read(self, lookup: Lookup<'_>, caller: &ApiKey) -> Result<Asked, ApiError> {
        let groups = self.filters.as_deref().map(Groups::parse).transpose()?.unwrap_or_default();
        let named = list(self.api_key.as_deref());
        let keys = lookup.keys(named.iter().chain(groups.keys())).await?;
        let reader = Reader { catalog: lookup.catalog, keys: &keys, caller: Some(caller) };
        let sort = self.sort()?;
        let mut all = vec![groups.condition(&reader, &named, &self.not_waiting())?];
        self.equalities(&reader, &named, &mut all)?;
        self.ranges(sort, &mut all)?;
        all.extend(hidden(lookup.catalog, &list(self.private_chains_to_include.as_deref()))?);
        let ids = self.ids().chain(groups.ids()).collect();
        Ok(Asked {
            search: Search { condition: Condition::All(all), ids, sort },
            limit: limit(self.limit.as_deref())?,
            total: flag("includeTotal", self.include_total.as_deref())?,
            authenticated: flag("includeAuthenticatedData", self.include_authenticated_data.as_deref())?,
            continuation: self.continuation.filter(|text| !text.is_empty()),
        })
    }

    /// Refuses the parameters of pages and orders, where everything is sent in an order of its own.
    pub(crate) fn refuse_order(&self) -> Result<(), ApiError> {
        if self.sort_direction.is_some() {
            return Err(bad("sortDirection", "not here: events come in the order of their steps"));
        }
        self.refuse_paging()
    }

    /// Refuses the parameters of pages, where everything is sent.
    pub(crate) fn refuse_paging(&self) -> Result<(), ApiError> {
        let paging =
            [("limit", &self.limit), ("continuation", &self.continuation), ("includeTotal", &self.include_total)];
        match paging.into_iter().find(|(_, value)| value.is_some()) {
            Some((field, _)) => Err(bad(field, "not here: everything that matches is sent")),
            None => Ok(()),
        }
    }

    fn sort(&self) -> Result<Sort, ApiError> {
        let by = match self.sort_by.as_deref() {
            None | Some("createdAt") => Number::CreatedAt,
            Some("updatedAt") => Number::UpdatedAt,
            Some("amountUsd") => Number::AmountUsd,
            Some(_) => return Err(bad("sortBy", "must be createdAt, updatedAt or amountUsd")),
        };
        let descending = match self.sort_direction.as_deref() {
            None => by != Number::AmountUsd,
            Some("asc") => false,
            Some("desc") => true,
            Some(_) => return Err(bad("sortDirection", "must be asc or desc")),
        };
        Ok(Sort { by, descending })
    }

    fn equalities(&self, reader: &Reader<'_>, keys: &[String], all: &mut Vec<Condition>) -> Result<(), ApiError> {
        let sided = self.origin_chain_id.is_some() || self.destination_chain_id.is_some();
        let values = [
            (Filter::OrderId, &self.order_id),
            (Filter::User, &self.user),
            (Filter::Recipient, &self.recipient),
            (Filter::DepositAddress, &self.deposit_address),
            (Filter::DepositTx, &self.deposit_tx_hash),
            (Filter::FillTx, &self.fill_tx_hash),
            (Filter::RefundTx, &self.refund_tx_hash),
            (Filter::OriginChain, &self.origin_chain_id),
            (Filter::DestinationChain, &self.destination_chain_id),
            (Filter::Chain, if sided { &None } else { &self.chain_id }),
            (Filter::Status, &self.status),
            (Filter::FailReason, &self.fail_reason),
            (Filter::RefundFailReason, &self.refund_fail_reason),
            (Filter::Referrer, &self.referrer),
            (Filter::RequestType, &self.request_type),
            (Filter::CurrencyInChain, &self.currency_in_chain_id),
            (Filter::CurrencyOutChain, &self.currency_out_chain_id),
            (Filter::CurrencyInAddress, &self.currency_in_address),
            (Filter::CurrencyOutAddress, &self.currency_out_address),
            (Filter::CurrencyInSymbol, &self.currency_in_symbol),
            (Filter::CurrencyOutSymbol, &self.currency_out_symbol),
        ];
        for (filter, value) in values {
            if let Some(text) = value {
                all.push(reader.condition(filter, text)?);
            }
        }
        if let Some(text) = &self.id {
            all.push(self.of_id(reader, text)?);
        }
        if let Some(text) = &self.term {
            all.push(term(text)?);
        }
        if self.api_key.is_some() {
            let any = keys.iter().map(|text| reader.condition(Filter::ApiKey, text));
            all.push(Condition::Any(any.collect::<Result<_, _>>()?));
        }
        if self.referrer.is_some() {
            reader.check_referrer(keys)?;
        }
        Ok(())
    }

    fn of_id(&self, reader: &Reader<'_>, text: &str) -> Result<Condition, ApiError> {
        let it = reader.condition(Filter::Id, text)?;
        if !flag("includeChildRequests", self.include_child_requests.as_deref())? {
            return Ok(it);
        }
        let child = Condition::is(Column::Parent, hash("id", text)?);
        Ok(Condition::Any(vec![it, child]))
    }

    fn ranges(&self, sort: Sort, all: &mut Vec<Condition>) -> Result<(), ApiError> {
        let time = if sort.by == Number::UpdatedAt { Number::UpdatedAt } else { Number::CreatedAt };
        seconds(all, time, self.start_timestamp.as_deref(), self.end_timestamp.as_deref())?;
        let numbers = [
            (Number::AmountUsd, "amountUsdMin", &self.amount_usd_min, "amountUsdMax", &self.amount_usd_max, 6),
            (
                Number::AppFeesUsd,
                "appFeesAmountUsdMin",
                &self.app_fees_amount_usd_min,
                "appFeesAmountUsdMax",
                &self.app_fees_amount_usd_max,
                6,
            ),
            (Number::FillMillis, "fillTimeMin", &self.fill_time_min, "fillTimeMax", &self.fill_time_max, 3),
        ];
        for (number, low, from, high, to, decimals) in numbers {
            let (from, to) = (decimal(low, from.as_deref(), decimals)?, decimal(high, to.as_deref(), decimals)?);
            range(all, low, number, from, to)?;
        }
        let from = whole("startBlock", self.start_block.as_deref())?.map(i64::unsigned_abs);
        let to = whole("endBlock", self.end_block.as_deref())?.map(i64::unsigned_abs);
        ordered("startBlock", from, to)?;
        if from.is_some() || to.is_some() {
            let chain = self.origin_chain_id.as_deref().and_then(|text| text.parse().ok()).map(ChainId);
            all.push(Condition::Blocks { from, to, chain });
        }
        if let Some(text) = &self.features {
            let bit = |name: &str| {
                let names = || Feature::ALL.map(Feature::as_str).join(", ");
                let feature = Feature::parse(name).ok_or_else(|| bad("features", format!("must be of {}", names())))?;
                Ok::<_, ApiError>(feature.bit())
            };
            let bits = text.split(',').map(|name| bit(name.trim())).collect::<Result<Vec<i64>, _>>()?;
            all.push(Condition::Features(bits.into_iter().fold(0, |sum, bit| sum | bit)));
        }
        Ok(())
    }

    /// Requests that wait for a deposit are shown to those who name them.
    fn not_waiting(&self) -> Condition {
        let known = [&self.id, &self.order_id, &self.deposit_address, &self.term];
        if known.iter().any(|text| text.is_some()) {
            return Condition::ALWAYS;
        }
        Condition::is(Column::State, State::Waiting.as_str()).negated()
    }

    fn ids(&self) -> impl Iterator<Item = B256> {
        let ids = [&self.id, &self.order_id, &self.term];
        ids.into_iter().flatten().filter_map(|text| text.parse::<RequestId>().ok()).map(|RequestId(id)| id)
    }
}

fn term(text: &str) -> Result<Condition, ApiError> {
    if let Ok(RequestId(id)) = text.parse() {
        return Ok(Condition::Any(vec![
            Condition::is(Column::Id, id),
            Condition::is(Column::OrderId, id),
            Condition::Tx(TxRole::Any, id),
        ]));
    }
    if let Some(tx) = venue::tx_key_of(text) {
        return Ok(Condition::Tx(TxRole::Any, tx));
    }
    Ok(about(&account("term", text)?))
}
