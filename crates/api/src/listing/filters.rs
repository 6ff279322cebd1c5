//! The grammar of `filters`: an array of groups, of which one must hold; within a group all must.

use alloy_primitives::B256;
use serde_json::{Map, Value as Json};
use store::listing::Condition;

use super::filter::{Filter, Reader, bad, hash};
use crate::error::ApiError;

/// Bounds: a statement has a length, and so has a caller's patience.
const MAX_GROUPS: usize = 20;
const MAX_KEYS: usize = 20;
const MAX_VALUES: usize = 50;
const MAX_VALUES_IN_ALL: usize = 200;

const FIELD: &str = "filters";

/// The groups as they came, checked for form.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups(Vec<Vec<Part>>);

/// One member of a group.
#[derive(Clone, Debug)]
struct Part {
    filter: Filter,
    negated: bool,
    /// None asks whether the field is empty.
    any_of: Option<Vec<String>>,
}

impl Groups {
    pub(super) fn parse(text: &str) -> Result<Self, ApiError> {
        let json: Json = serde_json::from_str(text).map_err(|_| bad(FIELD, "must be JSON"))?;
        let Json::Array(groups) = json else { return Err(bad(FIELD, "must be an array of groups")) };
        if groups.len() > MAX_GROUPS {
            return Err(bad(FIELD, format!("must have at most {MAX_GROUPS} groups")));
        }
        let group = |group: &Json| match group {
            Json::Object(members) => parts(members),
            _ => Err(bad(FIELD, "a group must be an object")),
        };
        let groups = groups.iter().map(group).collect::<Result<Vec<_>, _>>()?;
        let values = groups.iter().flatten().map(|part| part.any_of.as_ref().map_or(1, Vec::len));
        if values.sum::<usize>() > MAX_VALUES_IN_ALL {
            return Err(bad(FIELD, format!("must have at most {MAX_VALUES_IN_ALL} values in all")));
        }
        Ok(Self(groups))
    }

    /// The ids of requests and orders that it asks for.
    pub(super) fn ids(&self) -> impl Iterator<Item = B256> {
        let named = |part: &&Part| matches!(part.filter, Filter::Id | Filter::OrderId) && !part.negated;
        let texts = self.0.iter().flatten().filter(named).flat_map(|part| part.any_of.iter().flatten());
        texts.filter_map(|text| hash(FIELD, text).ok())
    }

    /// The texts of all API keys it names, to be looked up.
    pub(super) fn keys(&self) -> impl Iterator<Item = &String> {
        self.0
            .iter()
            .flatten()
            .filter(|part| part.filter == Filter::ApiKey)
            .flat_map(|part| part.any_of.iter().flatten())
    }

    /// `keys` are those of the top level, which stand beside every group's. `else_also` holds in every group that asks for
    /// no request by name.
    pub(super) fn condition(
        &self,
        reader: &Reader<'_>,
        keys: &[String],
        else_also: &Condition,
    ) -> Result<Condition, ApiError> {
        if self.0.is_empty() {
            return Ok(else_also.clone());
        }
        let group = |parts: &Vec<Part>| -> Result<Condition, ApiError> {
            if parts.iter().any(|part| part.filter == Filter::Referrer) {
                let own = parts.iter().filter(|part| part.filter == Filter::ApiKey && !part.negated);
                let own = own.flat_map(|part| part.any_of.iter().flatten());
                reader.check_referrer(&own.chain(keys).cloned().collect::<Vec<_>>())?;
            }
            let mut all = parts.iter().map(|part| part.condition(reader)).collect::<Result<Vec<_>, _>>()?;
            if !parts.iter().any(Part::names_request) {
                all.push(else_also.clone());
            }
            Ok(Condition::All(all))
        };
        self.0.iter().map(group).collect::<Result<_, _>>().map(Condition::Any)
    }
}

fn parts(members: &Map<String, Json>) -> Result<Vec<Part>, ApiError> {
    if members.len() > MAX_KEYS {
        return Err(bad(FIELD, format!("a group must have at most {MAX_KEYS} members")));
    }
    let part = |(name, value): (&String, &Json)| {
        let (negated, plain) = name.strip_prefix("not:").map_or((false, name.as_str()), |plain| (true, plain));
        let filter = Filter::named(plain).ok_or_else(|| bad(FIELD, format!("{name} is not a filter of groups")))?;
        Ok(Part { filter, negated, any_of: values(name, value)? })
    };
    members.iter().map(part).collect()
}

fn values(name: &str, value: &Json) -> Result<Option<Vec<String>>, ApiError> {
    let scalar = |value: &Json| match value {
        Json::String(text) => Ok(text.clone()),
        Json::Number(number) => Ok(number.to_string()),
        _ => Err(bad(FIELD, format!("{name} takes text, a number, null, or an array of them"))),
    };
    match value {
        Json::Null => Ok(None),
        Json::Array(list) if list.is_empty() || list.len() > MAX_VALUES => {
            Err(bad(FIELD, format!("{name} takes 1 to {MAX_VALUES} values")))
        }
        Json::Array(list) if list.contains(&Json::Null) => {
            Err(bad(FIELD, format!("{name} takes null alone, not among values")))
        }
        Json::Array(list) => list.iter().map(scalar).collect::<Result<_, _>>().map(Some),
        value => scalar(value).map(|text| Some(vec![text])),
    }
}

impl Part {
    fn names_request(&self) -> bool {
        let names = matches!(self.filter, Filter::Id | Filter::OrderId | Filter::DepositAddress);
        names && !self.negated && self.any_of.is_some()
    }

    fn condition(&self, reader: &Reader<'_>) -> Result<Condition, ApiError> {
        let condition = match &self.any_of {
            None => self.filter.empty(),
            Some(texts) => {
                Condition::Any(texts.iter().map(|text| reader.condition(self.filter, text)).collect::<Result<_, _>>()?)
            }
        };
        Ok(if self.negated { condition.negated() } else { condition })
    }
}
