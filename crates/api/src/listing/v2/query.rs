//! The query of `GET /requests/v2`: its parameters, as a listing.

use alloy_primitives::B256;
use domain::api_key::ApiKey;
use domain::ids::{ChainId, RequestId};
use domain::request::State;
use serde::Deserialize;
use store::listing::{Column, Condition, Number, Sort, TxRole};
use utoipa::IntoParams;

use crate::error::ApiError;
use crate::listing::filter::{Filter, Reader, about, account, bad, hash, hidden, tx_hash};
use crate::listing::lookup::Lookup;
use crate::listing::parameters::{flag, limit, list, ordered, seconds, whole};
use crate::listing::search::Search;

/// All parameters are optional, and must all hold.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", default)]
#[into_params(parameter_in = Query)]
pub(crate) struct V2Query {
    /// The size of a page: 1 to 50, 20 unless said.
    #[param(value_type = Option<u16>)]
    limit: Option<String>,
    /// The cursor of the page before.
    continuation: Option<String>,
    /// The sender, the recipient, or the deposit address.
    user: Option<String>,
    /// The hash of any transaction, on either chain.
    hash: Option<String>,
    #[param(value_type = Option<u64>)]
    origin_chain_id: Option<String>,
    #[param(value_type = Option<u64>)]
    destination_chain_id: Option<String>,
    /// Ids of private chains to list as well, separated by commas.
    private_chains_to_include: Option<String>,
    id: Option<String>,
    order_id: Option<String>,
    /// Adds `orderData`; without its output while the request is under way, unless it is the caller's own.
    #[param(value_type = Option<bool>)]
    include_order_data: Option<String>,
    /// Unix seconds, of the creation.
    #[param(value_type = Option<u64>)]
    start_timestamp: Option<String>,
    #[param(value_type = Option<u64>)]
    end_timestamp: Option<String>,
    /// Of the user's transactions on the origin.
    #[param(value_type = Option<u64>)]
    start_block: Option<String>,
    #[param(value_type = Option<u64>)]
    end_block: Option<String>,
    /// In either direction, as text. Without effect where one of the two sides is given.
    #[param(example = "8453")]
    chain_id: Option<String>,
    /// The referrer of the quote.
    referrer: Option<String>,
    deposit_address: Option<String>,
    /// With `id` or `depositAddress`: also the requests of deposits that named its order without paying for it.
    #[param(value_type = Option<bool>)]
    include_child_requests: Option<String>,
    /// Adds members that only a request's own integrator sees.
    #[param(value_type = Option<bool>)]
    include_authenticated_data: Option<String>,
    /// `success`, `failure`, `refund`, `pending` or `depositing`.
    status: Option<String>,
    /// One key: its text or its id.
    api_key: Option<String>,
    /// `createdAt` unless said, or `updatedAt`.
    sort_by: Option<String>,
    /// `asc` or `desc`, which it is unless said.
    sort_direction: Option<String>,
}

/// The query, read.
#[derive(Debug)]
pub(crate) struct Asked {
    pub search: Search,
    pub limit: u16,
    pub continuation: Option<String>,
    pub authenticated: bool,
    pub order_data: bool,
}

impl V2Query {
    pub(crate) async fn read(self, lookup: Lookup<'_>, caller: Option<&ApiKey>) -> Result<Asked, ApiError> {
        let keys = lookup.keys(self.api_key.iter()).await?;
        let reader = Reader { catalog: lookup.catalog, keys: &keys, caller };
        let sort = self.sort()?;
        let mut all = vec![self.not_waiting()];
        self.equalities(&reader, &mut all)?;
        // Times are those of the creation, whatever is sorted by.
        seconds(&mut all, Number::CreatedAt, self.start_timestamp.as_deref(), self.end_timestamp.as_deref())?;
        all.extend(self.blocks()?);
        all.extend(hidden(lookup.catalog, &list(self.private_chains_to_include.as_deref()))?);
        Ok(Asked {
            search: Search { condition: Condition::All(all), ids: self.ids().collect(), sort },
            limit: limit(self.limit.as_deref())?,
            authenticated: flag("includeAuthenticatedData", self.include_authenticated_data.as_deref())?,
            order_data: flag("includeOrderData", self.include_order_data.as_deref())?,
            continuation: self.continuation.filter(|text| !text.is_empty()),
        })
    }

    fn sort(&self) -> Result<Sort, ApiError> {
        let by = match self.sort_by.as_deref() {
            None | Some("createdAt") => Number::CreatedAt,
            Some("updatedAt") => Number::UpdatedAt,
            Some(_) => return Err(bad("sortBy", "must be createdAt or updatedAt")),
        };
        let descending = match self.sort_direction.as_deref() {
            None | Some("desc") => true,
            Some("asc") => false,
            Some(_) => return Err(bad("sortDirection", "must be asc or desc")),
        };
        Ok(Sort { by, descending })
    }

    fn equalities(&self, reader: &Reader<'_>, all: &mut Vec<Condition>) -> Result<(), ApiError> {
        let sided = self.origin_chain_id.is_some() || self.destination_chain_id.is_some();
        let values = [
            (Filter::OrderId, &self.order_id),
            (Filter::DepositAddress, &self.deposit_address),
            (Filter::OriginChain, &self.origin_chain_id),
            (Filter::DestinationChain, &self.destination_chain_id),
            (Filter::Chain, if sided { &None } else { &self.chain_id }),
            (Filter::ApiKey, &self.api_key),
            (Filter::Referrer, &self.referrer),
            (Filter::Status, &self.status),
        ];
        for (filter, value) in values {
            if let Some(text) = value {
                all.push(reader.condition(filter, text)?);
            }
        }
        if let Some(text) = &self.user {
            all.push(about(&account("user", text)?));
        }
        if let Some(text) = &self.hash {
            all.push(Condition::Tx(TxRole::Any, tx_hash("hash", text)?));
        }
        let children = flag("includeChildRequests", self.include_child_requests.as_deref())?;
        if let Some(text) = &self.id {
            let it = reader.condition(Filter::Id, text)?;
            let child = || Ok::<_, ApiError>(Condition::is(Column::Parent, hash("id", text)?));
            all.push(if children { Condition::Any(vec![it, child()?]) } else { it });
        }
        Ok(())
    }

    /// Blocks are those of the user's transactions: of one chain where the origin is named, and else of any.
    fn blocks(&self) -> Result<Option<Condition>, ApiError> {
        let from = whole("startBlock", self.start_block.as_deref())?.map(i64::unsigned_abs);
        let to = whole("endBlock", self.end_block.as_deref())?.map(i64::unsigned_abs);
        ordered("startBlock", from, to)?;
        if from.is_none() && to.is_none() {
            return Ok(None);
        }
        let chain = self.origin_chain_id.as_deref().and_then(|text| text.parse().ok()).map(ChainId);
        Ok(Some(match chain {
            Some(_) => Condition::Blocks { from, to, chain },
            None => Condition::OriginBlocks { from, to },
        }))
    }

    /// Requests that wait for a deposit are shown to those who name them.
    fn not_waiting(&self) -> Condition {
        let known = [&self.id, &self.order_id, &self.deposit_address];
        if known.iter().any(|text| text.is_some()) {
            return Condition::ALWAYS;
        }
        Condition::is(Column::State, State::Waiting.as_str()).negated()
    }

    fn ids(&self) -> impl Iterator<Item = B256> {
        let ids = [&self.id, &self.order_id];
        ids.into_iter().flatten().filter_map(|text| text.parse::<RequestId>().ok()).map(|RequestId(id)| id)
    }
}
