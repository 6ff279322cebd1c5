//! The terms of a stored quote's order.

use std::borrow::Cow;

use alloy_primitives::{Address, B256};
use domain::quote as rules;
use serde::Deserialize;

use super::super::text::Hex;
use super::ask::Place;

/// Written as a list, whose order never changes.
#[derive(Debug, Deserialize)]
pub struct Terms<'a> {
    deadline: u32,
    salt: Hex<B256>,
    solver: Hex<Address>,
    #[serde(borrow)]
    solver_chain: Cow<'a, str>,
    #[serde(borrow)]
    origin_chain: Cow<'a, str>,
    #[serde(borrow)]
    destination_chain: Cow<'a, str>,
    origin_router: Hex<Address>,
    destination_router: Hex<Address>,
    deposit: Place<'a>,
    payout: Place<'a>,
    exchange: bool,
}

as_list!(Terms<'_> {
    deadline,
    salt,
    solver,
    solver_chain,
    origin_chain,
    destination_chain,
    origin_router,
    destination_router,
    deposit,
    payout,
    exchange,
});

impl<'a> From<&'a rules::OrderTerms> for Terms<'a> {
    fn from(terms: &'a rules::OrderTerms) -> Self {
        let rules::OrderTerms {
            deadline,
            salt,
            solver,
            solver_chain,
            origin_chain,
            destination_chain,
            origin_router,
            destination_router,
            deposit,
            payout,
            exchange,
        } = terms;
        Self {
            deadline: *deadline,
            salt: Hex(*salt),
            solver: Hex(*solver),
            solver_chain: Cow::Borrowed(solver_chain),
            origin_chain: Cow::Borrowed(origin_chain),
            destination_chain: Cow::Borrowed(destination_chain),
            origin_router: Hex(*origin_router),
            destination_router: Hex(*destination_router),
            deposit: deposit.into(),
            payout: payout.into(),
            exchange: *exchange,
        }
    }
}

impl From<Terms<'_>> for rules::OrderTerms {
    fn from(terms: Terms<'_>) -> Self {
        Self {
            deadline: terms.deadline,
            salt: terms.salt.0,
            solver: terms.solver.0,
            solver_chain: terms.solver_chain.into_owned(),
            origin_chain: terms.origin_chain.into_owned(),
            destination_chain: terms.destination_chain.into_owned(),
            origin_router: terms.origin_router.0,
            destination_router: terms.destination_router.0,
            deposit: terms.deposit.into(),
            payout: terms.payout.into(),
            exchange: terms.exchange,
        }
    }
}
