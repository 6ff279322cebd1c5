//! The contents of one SQLite transaction, kept until the transaction is known to be on disk.

use super::quote_insert::PendingQuote;
use super::unit::Unit;
use crate::StoreError;

#[derive(Default)]
pub(crate) struct Batch {
    units: Vec<Box<dyn Unit>>,
    /// The number of `units` that have run.
    ran: usize,
    committed: usize,
    quotes: Vec<PendingQuote>,
    /// The outcomes of the `quotes` that were tried.
    tried: Vec<Result<(), StoreError>>,
}

impl Batch {
    pub(crate) fn of_unit(unit: Box<dyn Unit>) -> Self {
        Self { units: vec![unit], ..Self::default() }
    }

    pub(crate) fn of_quote(quote: PendingQuote) -> Self {
        Self { quotes: vec![quote], ..Self::default() }
    }

    fn of_quotes(quotes: Vec<PendingQuote>) -> Self {
        Self { quotes, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.units.len() + self.quotes.len()
    }

    pub(crate) fn units(&self) -> usize {
        self.units.len()
    }

    pub(crate) fn quotes(&self) -> usize {
        self.quotes.len()
    }

    pub(crate) fn add_unit(&mut self, unit: Box<dyn Unit>) {
        self.units.push(unit);
    }

    pub(crate) fn next_unit(&mut self) -> Option<&mut dyn Unit> {
        let unit = self.units.get_mut(self.ran)?;
        Some(unit.as_mut())
    }

    pub(crate) fn ran(&mut self, committed: bool) {
        self.ran += 1;
        self.committed += usize::from(committed);
    }

    pub(crate) fn add_quote(&mut self, quote: PendingQuote) {
        self.quotes.push(quote);
    }

    pub(crate) fn next_quote(&mut self) -> Option<&mut PendingQuote> {
        self.quotes.get_mut(self.tried.len())
    }

    pub(crate) fn tried(&mut self, result: Result<(), StoreError>) {
        self.tried.push(result);
    }

    pub(crate) fn committed_units(&self) -> usize {
        self.committed
    }

    pub(crate) fn committed_quotes(&self) -> usize {
        self.tried.iter().filter(|result| result.is_ok()).count()
    }

    /// Answers every caller with its result; the commit is on disk, or the statement at fault holds the reason.
    pub(crate) fn answer(self) {
        for unit in self.units {
            unit.answer(Ok(()));
        }
        for (quote, result) in self.quotes.into_iter().zip(self.tried) {
            quote.answer(result);
        }
    }

    pub(crate) fn fail(self, error: &StoreError) {
        for unit in self.units {
            unit.answer(Err(error.clone()));
        }
        for quote in self.quotes {
            quote.answer(Err(error.clone()));
        }
    }

    /// Smaller batches, as if nothing had been tried: money first, each unit by itself, then the quotes in halves, so
    /// that one that spoils the batch is found in a few commits.
    pub(crate) fn split(self) -> impl Iterator<Item = Self> {
        let mut quotes = self.quotes;
        let half = quotes.split_off(quotes.len() / 2);
        let halves = [quotes, half].into_iter().filter(|quotes| !quotes.is_empty());
        self.units.into_iter().map(Self::of_unit).chain(halves.map(Self::of_quotes))
    }
}
