//! The index that a page is found by.
//!
//! Postgres knows how often values occur. SQLite does not: it takes any index whose first column is given, however many
//! requests share the value. So the best column leads, by what such columns usually hold, and the others are kept from
//! their indexes. No index serves alternatives; they are asked one by one.

use super::condition::{Column, Condition, Number, Sql};
use crate::{StoreError, Value};

/// Alternatives that are asked one by one, each for a whole page.
const MAX_ALTERNATIVES: usize = 8;

/// How few requests an index on this condition leaves to look at; a lower number is fewer. None where there is no such
/// index, or where it has another order than the page and holds too much to sort.
fn rank(condition: &Condition, sort: Number) -> Option<u8> {
    let in_order = sort == Number::CreatedAt;
    match condition {
        Condition::Is(Column::Id | Column::OrderId, _) => Some(0),
        Condition::Is(Column::Parent, _) => Some(1),
        Condition::Is(Column::DepositAddress, _) | Condition::Tx(..) => Some(2),
        Condition::Is(Column::Account, _) => Some(3),
        Condition::Is(Column::Recipient, _) => Some(4),
        Condition::Is(Column::Key, _) => Some(5),
        Condition::Is(Column::FailReason, _) => Some(6),
        Condition::Blocks { .. } => condition.is_few_blocks().then_some(7),
        // Most requests end well.
        Condition::Is(Column::State, state) if *state == Value::from("success") => in_order.then_some(10),
        Condition::Is(Column::State, _) => in_order.then_some(8),
        Condition::Is(Column::OriginChain | Column::DestinationChain, _) => in_order.then_some(9),
        Condition::All(parts) => parts.iter().filter_map(|part| rank(part, sort)).min(),
        Condition::Any(_)
        | Condition::Not(_)
        | Condition::Is(..)
        | Condition::Empty(_)
        | Condition::Between(..)
        | Condition::Features(_)
        | Condition::HasTx(_)
        | Condition::OriginBlocks { .. } => None,
    }
}

/// The same condition without conjunctions in conjunctions and alternatives of one.
fn flat(condition: &Condition) -> Condition {
    match condition {
        Condition::All(parts) => {
            let parts = parts.iter().map(flat).flat_map(|part| match part {
                Condition::All(parts) => parts,
                part => vec![part],
            });
            single(parts.collect()).unwrap_or_else(Condition::All)
        }
        Condition::Any(parts) => {
            let parts = parts.iter().map(flat).flat_map(|part| match part {
                Condition::Any(parts) => parts,
                part => vec![part],
            });
            single(parts.collect()).unwrap_or_else(Condition::Any)
        }
        other => other.clone(),
    }
}

fn single(mut parts: Vec<Condition>) -> Result<Condition, Vec<Condition>> {
    match (parts.len(), parts.pop()) {
        (1, Some(part)) => Ok(part),
        (_, last) => Err(parts.into_iter().chain(last).collect()),
    }
}

fn conjuncts(condition: Condition) -> Vec<Condition> {
    match condition {
        Condition::All(parts) => parts,
        other => vec![other],
    }
}

/// Conditions of which at least one holds where this one does: several where it is best to ask for the members of an
/// alternative one by one, as for a user who is sender or recipient.
pub(super) fn alternatives(condition: &Condition, sort: Number) -> Vec<Condition> {
    let parts = conjuncts(flat(condition));
    let worst = |part: &Condition| match part {
        Condition::Any(either) if either.len() <= MAX_ALTERNATIVES => {
            either.iter().map(|it| rank(it, sort)).collect::<Option<Vec<_>>>()?.into_iter().max()
        }
        _ => None,
    };
    let split = parts.iter().enumerate().filter_map(|(at, part)| Some((worst(part)?, at))).min();
    let leading = parts.iter().filter_map(|part| rank(part, sort)).min();
    match split {
        Some((worst, at)) if leading.is_none_or(|leading| worst < leading) => {
            let Condition::Any(either) = &parts[at] else { return vec![Condition::All(parts)] };
            let one = |it: &Condition| {
                let mut parts = parts.clone();
                parts[at] = it.clone();
                flat(&Condition::All(parts))
            };
            either.iter().map(one).collect()
        }
        _ => vec![Condition::All(parts)],
    }
}

/// Adds the conditions to a statement, with one of them on its index.
pub(super) fn conjunction(sql: &mut Sql, condition: &Condition, sort: Number) -> Result<(), StoreError> {
    let parts = conjuncts(flat(condition));
    let leader = parts.iter().enumerate().filter_map(|(at, part)| Some((rank(part, sort)?, at))).min();
    for (at, part) in parts.iter().enumerate() {
        sql.push(" and ");
        sql.off_index = leader.is_none_or(|(_, leader)| leader != at);
        sql.condition(part)?;
    }
    sql.off_index = false;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(condition: &Condition, sort: Number) -> Vec<String> {
        let one = |condition: &Condition| {
            let mut sql = Sql::default();
            conjunction(&mut sql, condition, sort).unwrap();
            sql.text.trim_start_matches(" and ").replace("request.", "").replace("{off_index}", "+")
        };
        alternatives(condition, sort).iter().map(one).collect()
    }

    #[test]
    fn the_narrowest_column_leads_and_alternatives_are_asked_one_by_one() {
        let is = |column, value: &str| Condition::is(column, value);
        let user = is(Column::Account, "a");
        let at = is(Column::DepositAddress, "d");
        let success = is(Column::State, "success");
        let failure = is(Column::State, "failed");
        let from = Condition::Is(Column::OriginChain, Value::Int(1));
        let to = Condition::Is(Column::DestinationChain, Value::Int(1));
        let kind = is(Column::RequestType, "Send");
        let either = Condition::Any(vec![from.clone(), to.clone()]);
        let age = Number::CreatedAt;
        for (condition, sort, expected) in [
            (Condition::ALWAYS, age, vec![""]),
            (Condition::All(vec![success.clone(), user.clone()]), age, vec!["+state = $1 and account = $2"]),
            (Condition::All(vec![user.clone(), at.clone()]), age, vec!["+account = $1 and deposit_address = $2"]),
            (Condition::Any(vec![user.clone(), at.clone()]), age, vec!["account = $1", "deposit_address = $1"]),
            (Condition::All(vec![success.clone(), from.clone()]), age, vec!["+state = $1 and origin_chain = $2"]),
            (Condition::All(vec![failure.clone(), from.clone()]), age, vec!["state = $1 and +origin_chain = $2"]),
            (Condition::All(vec![kind.clone(), from.clone()]), age, vec!["+request_type = $1 and origin_chain = $2"]),
            // Sorted by something else, a broad index would have to be sorted.
            (failure.clone(), Number::UpdatedAt, vec!["+state = $1"]),
            (user.clone(), Number::UpdatedAt, vec!["account = $1"]),
            (either.clone(), age, vec!["origin_chain = $1", "destination_chain = $1"]),
            (either.clone(), Number::AmountUsd, vec!["(+origin_chain = $1 or +destination_chain = $2)"]),
            (
                Condition::All(vec![either.clone(), user.clone()]),
                age,
                vec!["(+origin_chain = $1 or +destination_chain = $2) and account = $3"],
            ),
            // Groups of one are no alternatives, and each of several has its own index.
            (Condition::Any(vec![Condition::All(vec![Condition::Any(vec![user.clone()])])]), age, vec!["account = $1"]),
            (
                Condition::Any(vec![user.clone(), Condition::All(vec![failure.clone(), kind.clone()])]),
                age,
                vec!["account = $1", "state = $1 and +request_type = $2"],
            ),
            (Condition::Any(vec![user.clone(), kind]), age, vec!["(+account = $1 or +request_type = $2)"]),
        ] {
            assert_eq!(text(&condition, sort), expected, "{condition:?} by {sort:?}");
        }
    }
}
