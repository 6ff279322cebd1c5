//! A request's currencies and prices, as both views of its record read them.

use alloy_primitives::Address;
use domain::account::Account;
use domain::catalog::{Catalog, Chain};
use domain::ids::ChainId;
use domain::money::{Amount, OutOfRange, Price, Signed, UsdMicros};
use domain::quote::Quote;

use crate::wire::{AmountBody, Rendered, Shown};

/// The configuration that records are shown with.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub catalog: &'a Catalog,
    pub rendered: &'a Rendered,
}

/// A currency and its price when the request was quoted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Priced<'a> {
    pub currency: Shown<'a>,
    pub price: Price,
}

impl<'a> Priced<'a> {
    pub(super) fn amount(self, amount: Amount) -> Result<AmountBody<'a>, OutOfRange> {
        Ok(AmountBody::new(self.currency, amount, self.usd(amount)?))
    }

    pub(super) fn at_least(self, amount: Amount, minimum: Amount) -> Result<AmountBody<'a>, OutOfRange> {
        Ok(AmountBody::with_minimum(self.currency, amount, self.usd(amount)?, minimum))
    }

    pub(super) fn usd(self, amount: Amount) -> Result<UsdMicros, OutOfRange> {
        self.price.usd_floor(amount, self.currency.decimals)
    }

    pub(super) fn usd_signed(self, amount: Signed) -> Result<UsdMicros, OutOfRange> {
        self.price.usd_signed(amount, self.currency.decimals)
    }
}

/// The four currencies of a request, and the native ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures<'a> {
    pub origin: Priced<'a>,
    pub deposit: Priced<'a>,
    pub payout: Priced<'a>,
    pub destination: Priced<'a>,
    pub origin_native: Priced<'a>,
    pub destination_native: Priced<'a>,
    pub origin_chain: &'a Chain,
    view: View<'a>,
}

impl<'a> Figures<'a> {
    /// None only if a currency of the quote is no longer configured.
    pub(super) fn of(quote: &Quote, view: View<'a>) -> Option<Self> {
        let View { catalog, rendered } = view;
        let (ask, terms, prices) = (&quote.ask, quote.terms.as_ref(), &quote.figures.prices);
        let (origin_chain, destination_chain) =
            (catalog.chain(ask.origin.chain)?, catalog.chain(ask.destination.chain)?);
        let priced = |chain: &'a Chain, address: &Account, price| {
            Some(Priced { currency: rendered.of(chain.currency(address)?)?, price })
        };
        let deposit = terms.map_or(&ask.origin.address, |terms| &terms.deposit.address);
        let payout = terms.map_or(&ask.destination.address, |terms| &terms.payout.address);
        Some(Self {
            origin: priced(origin_chain, &ask.origin.address, prices.origin)?,
            deposit: priced(origin_chain, deposit, prices.deposit)?,
            payout: priced(destination_chain, payout, prices.payout)?,
            destination: priced(destination_chain, &ask.destination.address, prices.destination)?,
            origin_native: priced(origin_chain, &origin_chain.native.address, prices.origin_native)?,
            destination_native: priced(
                destination_chain,
                &destination_chain.native.address,
                prices.destination_native,
            )?,
            origin_chain,
            view,
        })
    }

    /// The native currency of one of its two chains.
    pub(super) fn native(&self, chain: ChainId) -> Option<Priced<'a>> {
        [self.origin_native, self.destination_native].into_iter().find(|it| it.currency.chain == chain)
    }

    /// A currency by its address on a chain, with the price at which it was quoted. At a deposit address money may come on
    /// a chain that the quote knows nothing of: it has the quoted price of the same currency. None for one that was not
    /// quoted anywhere.
    pub(super) fn at(&self, chain: ChainId, address: Address) -> Option<Priced<'a>> {
        let all =
            [self.deposit, self.origin, self.payout, self.destination, self.origin_native, self.destination_native];
        let own = all.iter().find(|it| it.currency.chain == chain && it.currency.evm_address() == address);
        if let Some(own) = own {
            return Some(*own);
        }
        let currency = self.view.catalog.chain(chain)?.token(address)?;
        let same = all.iter().find(|it| it.currency.id == currency.id)?;
        Some(Priced { currency: self.view.rendered.of(currency)?, price: same.price })
    }
}
