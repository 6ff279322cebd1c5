//! `POST /currencies/v2` and `GET /currencies/trending`: the currencies that can be moved.
//!
//! The catalogue is what the operator configured. Nothing is looked up elsewhere, so every currency found here can be
//! quoted.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::response::IntoResponse;
use domain::account::Account;
use domain::catalog::{Catalog, Chain, Currency};
use domain::ids::ChainId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::App;
use crate::chains::{CACHING, is_listed};
use crate::error::{ApiError, ErrorBody};
use crate::json::{Answer, ApiJson};
use crate::wire::{CurrencyBody, vm_type};

/// A search for currencies. Every member narrows the answer, none is required, and those we do not know are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SearchBody {
    /// Chains to look on; none or an empty list means all that are listed.
    chain_ids: Option<Vec<u64>>,
    /// Part of a symbol or of a name, or a whole address, in any case.
    term: Option<String>,
    address: Option<String>,
    /// Equal for the same asset on different chains, such as `usdc`.
    currency_id: Option<String>,
    /// Currencies by place, each written `chainId:address`.
    tokens: Option<Vec<String>>,
    /// From 1 to 100, 20 unless said.
    #[schema(minimum = 1, maximum = 100, default = 20)]
    limit: Option<u64>,
    /// Adds the same assets on the other listed chains.
    include_all_chains: Option<bool>,
    /// Only what a deposit address can take: currencies that the solver holds, where there are deposit addresses.
    deposit_address_only: Option<bool>,
    /// Changes nothing: the whole catalogue is the default list.
    #[expect(dead_code, reason = "read so that its type is checked and documented")]
    default_list: Option<bool>,
    /// Changes nothing: every currency in the catalogue is verified.
    #[expect(dead_code, reason = "read so that its type is checked and documented")]
    verified: Option<bool>,
    /// Changes nothing: there is nowhere else to search.
    #[expect(dead_code, reason = "read so that its type is checked and documented")]
    use_external_search: Option<bool>,
}

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 100;

/// Every entry is compared with the whole catalogue.
const MAX_ENTRIES: usize = 1_000;

/// A currency and the kind of machine it lives on.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Token)]
pub(crate) struct Token<'a> {
    #[serde(flatten)]
    currency: CurrencyBody<'a>,
    vm_type: &'static str,
}

impl<'a> Token<'a> {
    fn new(chain: &Chain, currency: &'a Currency) -> Self {
        Self { currency: currency.into(), vm_type: vm_type(chain.vm) }
    }
}

/// A search, checked for form. Texts are not empty.
#[derive(Debug)]
struct Search {
    chains: BTreeSet<ChainId>,
    term: Option<String>,
    address: Option<String>,
    currency_id: Option<String>,
    tokens: Vec<(ChainId, String)>,
    limit: usize,
    include_all_chains: bool,
    deposit_address_only: bool,
}

impl SearchBody {
    fn into_search(self) -> Result<Search, ApiError> {
        let limit = self.limit.map_or(Some(DEFAULT_LIMIT), |limit| usize::try_from(limit).ok());
        let limit = limit.filter(|limit| (1..=MAX_LIMIT).contains(limit));
        let filled = |text: Option<String>| text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        Ok(Search {
            chains: few("chainIds", self.chain_ids)?.into_iter().map(ChainId).collect(),
            term: filled(self.term),
            address: filled(self.address),
            currency_id: filled(self.currency_id),
            tokens: few("tokens", self.tokens)?.iter().map(|token| place(token)).collect::<Result<_, _>>()?,
            limit: limit.ok_or_else(|| problem("limit", format!("must be from 1 to {MAX_LIMIT}")))?,
            include_all_chains: self.include_all_chains == Some(true),
            deposit_address_only: self.deposit_address_only == Some(true),
        })
    }
}

fn problem(field: &'static str, problem: String) -> ApiError {
    ApiError::Parameter { field, problem }
}

fn few<T>(field: &'static str, entries: Option<Vec<T>>) -> Result<Vec<T>, ApiError> {
    let entries = entries.unwrap_or_default();
    if entries.len() > MAX_ENTRIES {
        return Err(problem(field, format!("must have at most {MAX_ENTRIES} entries")));
    }
    Ok(entries)
}

/// Callers list what a wallet holds on any chain, so the address is not read yet: on a chain we do not serve it may have
/// any form.
fn place(token: &str) -> Result<(ChainId, String), ApiError> {
    let place = token.split_once(':').and_then(|(chain, address)| Some((ChainId(chain.parse().ok()?), address.into())));
    place.ok_or_else(|| problem("tokens", "each must be a chain id, a colon and an address".to_owned()))
}

impl Search {
    fn find<'a>(&self, catalog: &'a Catalog) -> Vec<Token<'a>> {
        let found: Vec<_> = self.reach(catalog).filter(|&(chain, currency)| self.matches(chain, currency)).collect();
        let ids: BTreeSet<&str> = found.iter().map(|(_, currency)| currency.id.as_str()).collect();
        let found = if self.include_all_chains {
            self.reach(catalog).filter(|(_, currency)| ids.contains(currency.id.as_str())).collect()
        } else {
            found
        };
        found.into_iter().take(self.limit).map(|(chain, currency)| Token::new(chain, currency)).collect()
    }

    /// Every currency of the listed chains and of the private ones named by the caller, who therefore knows of them.
    fn reach<'a>(&self, catalog: &'a Catalog) -> impl Iterator<Item = (&'a Chain, &'a Currency)> {
        let named = |chain: &Chain| {
            self.chains.contains(&chain.id) || self.tokens.iter().any(|(token_chain, _)| *token_chain == chain.id)
        };
        let chains = catalog.chains().iter().filter(move |chain| is_listed(chain) || named(chain));
        chains.flat_map(|chain| chain.currencies().map(move |currency| (chain, currency)))
    }

    fn matches(&self, chain: &Chain, currency: &Currency) -> bool {
        let is = |address: &str| Account::parse(chain.vm, address).is_ok_and(|address| address == currency.address);
        let within = |term: &str, text: &str| text.to_lowercase().contains(&term.to_lowercase());
        let is_called = |term: &str| within(term, &currency.symbol) || within(term, &currency.name) || is(term);
        let takes = currency.held && chain.deposit_address_factory.is_some();
        (self.chains.is_empty() || self.chains.contains(&chain.id))
            && (takes || !self.deposit_address_only)
            && (self.tokens.is_empty() || self.tokens.iter().any(|(id, address)| *id == chain.id && is(address)))
            && self.term.as_deref().is_none_or(is_called)
            && self.address.as_deref().is_none_or(is)
            && self.currency_id.as_deref().is_none_or(|id| currency.id.eq_ignore_ascii_case(id))
    }
}

/// Finds currencies.
#[utoipa::path(
    post,
    path = "/currencies/v2",
    request_body = SearchBody,
    responses(
        (status = 200, description = "The currencies found, in the order of the catalogue", body = Vec<Token>),
        (status = 400, description = "Not a search", body = ErrorBody),
    )
)]
pub(crate) async fn search(app: State<App>, ApiJson(body): ApiJson<SearchBody>) -> Result<Answer, ApiError> {
    Answer::of(&body.into_search()?.find(&app.catalog))
}

/// Suggests currencies: the first of the catalogue, because the operator orders it by what is wanted most.
#[utoipa::path(
    get,
    path = "/currencies/trending",
    responses((status = 200, description = "The currencies", body = Vec<Token>))
)]
pub(crate) async fn trending(app: State<App>) -> Result<impl IntoResponse, ApiError> {
    let listed = app.catalog.chains().iter().filter(|chain| is_listed(chain));
    let currencies = listed.flat_map(|chain| chain.currencies().map(move |currency| Token::new(chain, currency)));
    let answer = Answer::of(&currencies.take(DEFAULT_LIMIT).collect::<Vec<_>>())?;
    Ok(([(CACHE_CONTROL, CACHING)], answer))
}
