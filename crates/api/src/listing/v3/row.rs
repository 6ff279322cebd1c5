//! One request as a line of a table for books.

use std::fmt::Write;

use domain::api_key::ApiKey;
use domain::facts::{Feature, RequestType};
use domain::money::{Amount, OutOfRange, UsdMicros};
use domain::request::State;
use domain::subject::Purpose;
use store::listing::Listed;
use store::records::{Direction, Record};

use crate::listing::figures::{Figures, Priced, View};
use crate::listing::filter::same_integrator;
use crate::wire::iso;

/// The names of the columns. New ones come at the end.
pub(crate) const HEADER: &str = "id,orderId,parentId,status,failReason,refundFailReason,requestType,features,createdAt,updatedAt,\
user,recipient,originChainId,currencyInSymbol,currencyInAddress,amountIn,amountInFormatted,amountInUsd,\
destinationChainId,currencyOutSymbol,currencyOutAddress,amountOut,amountOutFormatted,amountOutUsd,\
feeCurrencySymbol,executionFee,platformFee,appFee,sponsored,executionFeeUsd,platformFeeUsd,appFeeUsd,sponsoredUsd,\
depositTxHash,depositGasWei,fillTxHash,fillGasWei,refundTxHash,refundCurrencySymbol,refundAmountFormatted,\
apiKeyName,referrer";

/// None only if a currency of the request is no longer configured.
pub(crate) fn row(listed: &Listed, view: View<'_>, owner: Option<&ApiKey>) -> Option<String> {
    let figures = Figures::of(&listed.request.quote, view)?;
    render(listed, &figures, owner).ok()
}

fn render(listed: &Listed, figures: &Figures<'_>, owner: Option<&ApiKey>) -> Result<String, OutOfRange> {
    let request = &listed.request;
    let (ask, amounts) = (&request.quote.ask, &request.quote.figures);
    let mut line = Line::default();
    about(&mut line, listed);
    let deposited = listed.deposit.filter(|_| request.quote.origin_swap.is_none()).map(|deposit| deposit.amount);
    let filled = listed.payments.iter().find(|payment| payment.purpose == Purpose::Fill);
    let delivered = filled.filter(|_| request.quote.destination_swap.is_none()).map(|payment| payment.amount);
    // Money that did not arrive is no output.
    let output = match request.state {
        State::Refunding | State::Refunded | State::Failed => Amount::ZERO,
        _ => delivered.unwrap_or(amounts.output),
    };
    line.number(ask.origin.chain.0);
    line.amount(figures.origin, deposited.unwrap_or(amounts.input))?;
    line.number(ask.destination.chain.0);
    line.amount(figures.destination, output)?;
    fees(&mut line, listed, figures)?;
    transactions(&mut line, listed, figures);
    let own = listed.key.as_ref().zip(owner).filter(|(key, owner)| same_integrator(owner, key));
    line.text(own.map_or("", |(key, _)| key.name.as_str()));
    line.text(own.and(ask.referrer.as_deref()).unwrap_or_default());
    Ok(line.end())
}

fn about(line: &mut Line, listed: &Listed) {
    let request = &listed.request;
    let ended_badly = matches!(request.state, State::Refunded | State::Failed);
    let reason = request.fail_reason.map_or("UNKNOWN", |reason| reason.as_str());
    let quoted = Feature::quoted(&request.quote).into_iter();
    let features: Vec<_> = quoted.chain(listed.fast_filled.then_some(Feature::FastFill)).map(Feature::as_str).collect();
    line.text(&request.id.to_string());
    line.text(&request.order_id.to_string());
    line.text(&request.parent.map(|id| id.to_string()).unwrap_or_default());
    line.text(request.state.status());
    line.text(if ended_badly { reason } else { "" });
    line.text(request.refund_fail_reason.map_or("", |reason| reason.as_str()));
    line.text(RequestType::of(&request.quote).as_str());
    line.text(&features.join(" "));
    line.text(&iso(listed.created_at));
    line.text(&iso(request.updated_at));
    line.text(request.quote.ask.user.text());
    line.text(request.quote.ask.recipient.text());
}

/// Of what was charged where the outcome is known, else of what was quoted.
fn fees(line: &mut Line, listed: &Listed, figures: &Figures<'_>) -> Result<(), OutOfRange> {
    let quoted = &listed.request.quote.figures;
    let outcome = listed.outcome.as_ref();
    let app = match outcome {
        Some(outcome) => outcome.app_fees.iter().try_fold(Amount::ZERO, |sum, fee| sum.checked_add(fee.amount))?,
        None => quoted.fees.app_total()?,
    };
    let sponsorship = outcome.and_then(|outcome| outcome.sponsored.as_ref()).map(|it| &it.fees);
    let sponsored = sponsorship.or(quoted.sponsorship.as_ref()).map_or(Ok(Amount::ZERO), |it| it.sponsored_total())?;
    let all = [quoted.fees.execution()?, quoted.fees.relay, app, sponsored];
    line.text(&figures.deposit.currency.symbol);
    for fee in all {
        line.text(&fee.formatted(figures.deposit.currency.decimals));
    }
    for fee in all {
        line.usd(figures.deposit.usd(fee)?);
    }
    Ok(())
}

fn transactions(line: &mut Line, listed: &Listed, figures: &Figures<'_>) {
    let fill = |record: &&Record| {
        listed.payments.iter().any(|payment| payment.purpose == Purpose::Fill && payment.tx == Some(record.tx))
    };
    let stands = |record: &&Record| record.succeeded && !record.gone;
    let deposit = listed.records().filter(stands).find(|record| record.direction == Direction::In);
    let ours = || listed.records().filter(stands).filter(|record| record.direction == Direction::Out);
    let same_chain = deposit.filter(|_| listed.request.quote.terms.is_none());
    for record in [deposit, ours().find(fill).or(same_chain)] {
        line.text(&record.map(|record| listed.tx_text(record.tx)).unwrap_or_default());
        line.text(&record.and_then(|record| record.fee).map(|fee| fee.to_string()).unwrap_or_default());
    }
    let refund = ours().find(|record| !fill(record));
    line.text(&refund.map(|record| listed.tx_text(record.tx)).unwrap_or_default());
    let back = listed.payments.iter().find(|payment| payment.purpose.is_refund() && payment.tx.is_some());
    let back = back.and_then(|it| Some((figures.at(it.chain, it.currency)?, it.amount)));
    line.text(back.as_ref().map_or("", |(priced, _)| priced.currency.symbol.as_str()));
    line.text(&back.map(|(priced, amount)| amount.formatted(priced.currency.decimals)).unwrap_or_default());
}

#[derive(Debug, Default)]
struct Line(String);

impl Line {
    /// Text of others is made harmless: a spreadsheet takes a field that begins with one of these for a formula.
    fn text(&mut self, text: &str) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\'']) && text.parse::<i128>().is_err();
        let quoted = formula || text.contains([',', '"', '\n', '\r']);
        if !quoted {
            self.0.push_str(text);
            return;
        }
        self.0.push('"');
        self.0.push_str(if formula { "'" } else { "" });
        self.0.push_str(&text.replace('"', "\"\""));
        self.0.push('"');
    }

    fn number(&mut self, number: u64) {
        self.text(&number.to_string());
    }

    fn usd(&mut self, usd: UsdMicros) {
        self.text(usd.digits().as_str());
    }

    fn amount(&mut self, priced: Priced<'_>, amount: Amount) -> Result<(), OutOfRange> {
        self.text(&priced.currency.symbol);
        self.text(priced.currency.address.text());
        self.text(&amount.to_string());
        self.text(&amount.formatted(priced.currency.decimals));
        self.usd(priced.usd(amount)?);
        Ok(())
    }

    fn end(mut self) -> String {
        let _ = write!(self.0, "\r\n");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_can_be_read_back_and_is_no_formula() {
        for (text, field) in [
            ("shop", "shop"),
            ("a,b", "\"a,b\""),
            ("say \"7\"", "\"say \"\"7\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("=cmd|' /C calc'!A0", "\"'=cmd|' /C calc'!A0\""),
            ("@sum", "\"'@sum\""),
            ("-5", "-5"),
            ("'quoted", "\"''quoted\""),
        ] {
            let mut line = Line("x".to_owned());
            line.text(text);
            assert_eq!(line.end(), format!("x,{field}\r\n"));
        }
    }
}
