//! The amounts, from either end: what arrives for what is paid in, or what has to be paid in for what arrives.

use crate::money::{Amount, Ratio};
use crate::quote::{Bound, Swap, Trade};
use crate::swap::Offer;

use super::Refusal;
use super::inputs::Pricing;
use super::split::Split;

/// The reserve for a pool to move before an exact output is bought, where the caller does not say.
pub(crate) const EXACT_OUTPUT_HEADROOM_BPS: u16 = 50;
/// How often it is asked again what the origin's pools take of a deposit that a sponsor makes good.
const LOSS_ROUNDS: u8 = 3;

#[derive(Debug)]
pub(crate) struct Solved {
    pub input: Amount,
    pub deposit: Amount,
    pub split: Split,
    /// Where all of the input is sold it is bound to the deposit: how much less would do is worked out for promises
    /// only.
    pub origin_swap: Option<Swap>,
    pub origin_loss: Amount,
    pub destination_swap: Option<Swap>,
    pub paid: Amount,
    pub output: Amount,
    pub minimum: Amount,
    pub slippage_bps: u16,
}

impl Pricing<'_> {
    pub(crate) fn solve(&self) -> Result<Solved, Refusal> {
        let amount = self.ask.amount;
        let pools = self.rates.origin_swap.is_some() || self.rates.destination_swap.is_some();
        match self.ask.trade {
            Trade::ExactInput => self.forward(amount),
            Trade::ExpectedOutput if pools => {
                let paid = self.buy_output(amount)?.map_or(amount, |offer| offer.amount);
                let deposit = self.deposit_for(paid, Amount::ZERO)?;
                let input = self.buy_deposit(deposit)?.map_or(deposit, |offer| offer.amount);
                self.forward(input)
            }
            Trade::ExpectedOutput | Trade::ExactOutput => self.backward(amount),
        }
    }

    /// From what is paid in to what arrives.
    fn forward(&self, input: Amount) -> Result<Solved, Refusal> {
        let dry = Refusal::InsufficientLiquidity;
        let sold = self.rates.origin_swap.map(|market| market.sell(input).ok_or_else(|| self.no_offer(input)));
        let sold = sold.transpose()?;
        let deposit = sold.as_ref().map_or(input, |offer| offer.amount);
        let origin_loss = self.origin_loss(input, deposit)?;
        let mut split = self.split(deposit, origin_loss)?;
        let sell = |paid: Amount| self.rates.destination_swap.map(|market| market.sell(paid).ok_or(dry)).transpose();
        let mut paid = split.exchanged.mul_floor(self.rate)?;
        if paid.is_zero() {
            return Err(self.too_low(&split));
        }
        let mut bought = sell(paid)?;
        if let (Some(offer), true) = (&bought, self.counts_losses()) {
            // The sponsor's part is estimated at the loss to the pools without it.
            let loss = origin_loss.checked_add(self.destination_loss(paid, offer.amount)?)?;
            split = self.split(deposit, loss)?;
            paid = split.exchanged.mul_floor(self.rate)?;
            bought = sell(paid)?;
        }
        let output = bought.as_ref().map_or(paid, |offer| offer.amount);
        if output.is_zero() {
            return Err(self.too_low(&split));
        }
        let pools = sold.is_some() || bought.is_some();
        let slippage_bps = match self.ask.options.fixed_rate {
            Some(_) => 0,
            None => self.ask.slippage_bps.unwrap_or(self.pair.slippage_bps(self.terms, pools)),
        };
        let kept = 10_000u16.checked_sub(slippage_bps).ok_or(Refusal::OutOfRange)?;
        let minimum = output.mul_floor(Ratio::bps(kept))?;
        self.check_impact(sold.is_some().then_some((input, deposit)), bought.is_some().then_some((paid, output)))?;
        let swap = |offer: Offer, input, output, least| Swap {
            path: offer.path,
            input,
            output,
            bound: Bound::LeastOutput(least),
        };
        Ok(Solved {
            origin_swap: sold.map(|offer| swap(offer, input, deposit, deposit)),
            origin_loss,
            destination_swap: bought.map(|offer| swap(offer, paid, output, minimum)),
            input,
            deposit,
            split,
            paid,
            output,
            minimum,
            slippage_bps,
        })
    }

    /// The user's own trade. Where all of the input is sold, it is bound to the least deposit that still brings the
    /// minimum: below it the user's own transaction reverts, and nothing has to be sent back.
    pub(crate) fn bounded_origin_swap(&self, solved: &Solved) -> Result<Option<Swap>, Refusal> {
        let Some(mut swap) = solved.origin_swap.clone() else { return Ok(None) };
        if let Bound::LeastOutput(least) = &mut swap.bound {
            let part = Ratio::new(solved.minimum.units(), solved.output.units())?;
            let enough = self.deposit_for(solved.paid.mul_ceil(part)?, solved.origin_loss);
            *least = enough.unwrap_or(solved.deposit).min(solved.deposit);
        }
        Ok(Some(swap))
    }

    /// From what arrives to what has to be paid in.
    fn backward(&self, output: Amount) -> Result<Solved, Refusal> {
        let headroom = Ratio::bps_more(self.ask.slippage_bps.unwrap_or(EXACT_OUTPUT_HEADROOM_BPS));
        let bought = self.buy_output(output)?;
        // A pool may move before the fill; what is left over of this goes to the recipient. Wrapping stays at par.
        let most = |offer: &Offer| {
            if offer.path.is_wrapping() { Ok(offer.amount) } else { offer.amount.mul_ceil(headroom) }
        };
        let paid = bought.as_ref().map_or(Ok(output), most)?;
        let destination_loss = match &bought {
            Some(offer) => self.destination_loss(offer.amount, output)?,
            None => Amount::ZERO,
        };
        let mut loss = destination_loss;
        let mut deposit = self.deposit_for(paid, loss)?;
        let mut sold = self.buy_deposit(deposit)?;
        let mut origin_loss = Amount::ZERO;
        // The more the sponsor makes good the less is sold, and the less the pools take: what is left of that is soon
        // dust.
        for _ in 0..LOSS_ROUNDS {
            let Some(offer) = sold.as_ref().filter(|_| self.counts_losses()) else { break };
            origin_loss = self.origin_loss(offer.amount, deposit)?;
            loss = destination_loss.checked_add(origin_loss)?;
            deposit = self.deposit_for(paid, loss)?;
            sold = self.buy_deposit(deposit)?;
        }
        let split = self.split(deposit, loss)?;
        let input = sold.as_ref().map_or(deposit, |offer| offer.amount);
        self.check_impact(
            sold.is_some().then_some((input, deposit)),
            bought.as_ref().map(|offer| (offer.amount, output)),
        )?;
        let swap = |offer: Offer, output, most| Swap {
            path: offer.path,
            input: offer.amount,
            output,
            bound: Bound::MostInput(most),
        };
        // An exact output has nothing to lose on the destination: its whole budget is for what is paid in.
        let exact = self.ask.trade == Trade::ExactOutput;
        let slippage_bps = match self.ask.slippage_bps {
            _ if self.ask.options.fixed_rate.is_some() => 0,
            Some(bps) => bps,
            None if exact && sold.is_none() && bought.is_none() => 0,
            None if exact => EXACT_OUTPUT_HEADROOM_BPS,
            None => self.pair.slippage_bps(self.terms, false),
        };
        let kept = 10_000u16.checked_sub(if exact { 0 } else { slippage_bps }).ok_or(Refusal::OutOfRange)?;
        Ok(Solved {
            input,
            deposit,
            split,
            origin_swap: sold.map(|offer| most(&offer).map(|most| swap(offer, deposit, most))).transpose()?,
            origin_loss,
            destination_swap: bought.map(|offer| swap(offer, output, paid)),
            paid,
            output,
            minimum: output.mul_floor(Ratio::bps(kept))?,
            slippage_bps,
        })
    }

    fn buy_output(&self, output: Amount) -> Result<Option<Offer>, Refusal> {
        let market = self.rates.destination_swap;
        market.map(|market| market.buy(output).ok_or(Refusal::InsufficientLiquidity)).transpose()
    }

    fn buy_deposit(&self, deposit: Amount) -> Result<Option<Offer>, Refusal> {
        let market = self.rates.origin_swap;
        market.map(|market| market.buy(deposit).ok_or(Refusal::InsufficientLiquidity)).transpose()
    }
}
