//! A listing that was asked for, and a page of it.

use alloy_primitives::B256;
use domain::catalog::Catalog;
use store::listing::{self, Condition, Listed, Listing, Position, Sort};
use store::{StoreError, Tx};

#[derive(Clone, Debug)]
pub(crate) struct Search {
    pub condition: Condition,
    /// Ids of requests or orders that the caller knows: only those are found before anybody has paid for them.
    pub ids: Vec<B256>,
    pub sort: Sort,
}

#[derive(Debug)]
pub(crate) struct Page {
    pub found: Vec<Listed>,
    /// The place of its last request, where there are more.
    pub last: Option<Position>,
}

impl Search {
    /// The requests after a place.
    pub(crate) fn page(
        &self,
        tx: &mut Tx<'_>,
        catalog: &Catalog,
        after: Option<Position>,
        limit: u16,
    ) -> Result<Page, StoreError> {
        // One more than is shown says whether there is another page.
        let more = limit.saturating_add(1);
        let (condition, sort) = (self.condition.clone(), self.sort);
        let positions = listing::page(tx, &Listing { condition, sort, after, limit: more })?;
        let mut all: Vec<(Position, Option<Listed>)> = positions.into_iter().map(|position| (position, None)).collect();
        let known = listing::by_id(tx, &self.ids, &self.condition, sort, catalog)?;
        let is_next = |place: Position| after.is_none_or(|after| sort.is_after(place, after));
        all.extend(known.into_iter().filter(|(place, _)| is_next(*place)).map(|(place, it)| (place, Some(it))));
        all.sort_by_key(|(place, _)| *place);
        if sort.descending {
            all.reverse();
        }
        let limit = usize::from(limit);
        let last = all.get(limit.saturating_sub(1)).filter(|_| all.len() > limit).map(|(place, _)| *place);
        all.truncate(limit);
        let mut found = Vec::with_capacity(all.len());
        for (place, known) in all {
            match known {
                Some(known) => found.push(known),
                None => found.extend(listing::listed(tx, place.id)?),
            }
        }
        Ok(Page { found, last })
    }

    /// The number of all that match, whichever page is shown.
    pub(crate) fn total(&self, tx: &mut Tx<'_>, catalog: &Catalog) -> Result<u64, StoreError> {
        let known = listing::by_id(tx, &self.ids, &self.condition, self.sort, catalog)?;
        Ok(listing::count(tx, &self.condition)?.saturating_add(known.len() as u64))
    }
}
