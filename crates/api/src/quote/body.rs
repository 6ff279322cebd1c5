//! The body of a quote request: every member, checked, as an `Ask`.
//!
//! Members we do not know are ignored. Members that would change where money goes and are not offered are refused.

use alloy_primitives::{Address, Bytes, U256};
use domain::account::{Account, NotAnAccount, Vm};
use domain::catalog::Catalog;
use domain::deposit_address::{AddressAsk, Kind};
use domain::fees::AppFee;
use domain::ids::ChainId;
use domain::money::{Amount, UsdMicros};
use domain::quote::{Ask, Call, CurrencyKey, End, FORCE_REFUND, PermitAsk, QuoteOptions, Trade};
use domain::venue;
use serde::Deserialize;
use serde_json::Value;
use solver::QuoteError;
use utoipa::ToSchema;

use crate::caller::Caller;
use crate::error::ApiError;
use crate::json::Object;
use crate::quote::sponsor;

/// The request for a quote. Members we do not know are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QuoteBody {
    /// The sender on the origin chain; on the venue an account index.
    user: String,
    /// Who receives the output; the user unless said. Required where the two chains write addresses differently: an
    /// account index on the venue.
    recipient: Option<String>,
    origin_chain_id: u64,
    destination_chain_id: u64,
    /// The zero address is the native currency.
    origin_currency: String,
    destination_currency: String,
    /// Smallest units: of the input, or of the output where the trade type fixes that.
    amount: String,
    /// `EXACT_INPUT` unless said, `EXACT_OUTPUT` or `EXPECTED_OUTPUT`.
    trade_type: Option<String>,
    /// Calls that the router makes on the destination with what arrives.
    #[schema(value_type = Option<Vec<TxBody>>)]
    txs: Option<Vec<Object<TxBody>>>,
    /// The most gas those calls may take.
    #[schema(minimum = 1)]
    txs_gas_limit: Option<u64>,
    /// Where refunds go; the user unless said.
    refund_to: Option<String>,
    /// Basis points, as text.
    #[schema(value_type = Option<String>)]
    slippage_tolerance: Option<Value>,
    /// Checked, and without effect: no order is filled after its deadline.
    #[schema(value_type = Option<String>)]
    late_payment_slippage_tolerance: Option<Value>,
    referrer: Option<String>,
    referrer_address: Option<String>,
    /// False for a plain transfer to the depository with the order id appended.
    explicit_deposit: Option<bool>,
    /// Seconds after which the deposit is refunded instead of filled.
    ttl: Option<u32>,
    /// Adds the solver's signature of the order.
    include_protocol_data: Option<bool>,
    /// Fees for integrators, in basis points of the input.
    #[schema(value_type = Option<Vec<AppFeeBody>>)]
    app_fees: Option<Vec<Object<AppFeeBody>>>,
    /// Delivers some of the destination's gas currency beside the output.
    topup_gas: Option<bool>,
    /// Worth of it, in millionths of a dollar.
    topup_gas_amount: Option<String>,
    /// The rest of buying an exact output stays with the solver.
    enable_true_exact_output: Option<bool>,
    /// Lets a trade through that loses much to the pools.
    override_price_impact: Option<bool>,
    /// The origin currency must be depositable as it is.
    disable_origin_swaps: Option<bool>,
    force_solver_execution: Option<bool>,
    /// Gas of a smart account beside the deposit, as a number or as its text, where `POST /execute` is to submit it: our
    /// gas is in the fees then.
    #[schema(value_type = Option<u64>)]
    origin_gas_overhead: Option<Value>,
    subsidize_fees: Option<bool>,
    sponsored_fee_components: Option<Vec<String>>,
    /// The most that the sponsor pays, in millionths of a dollar.
    max_subsidization_amount: Option<String>,
    /// `input:output`, for stablecoins, with `subsidizeFees`.
    fixed_rate: Option<String>,
    #[schema(value_type = Option<Vec<Object>>)]
    authorization_list: Option<Vec<Value>>,
    /// The deposit is a plain transfer to an address of its own, which any wallet or exchange can make.
    use_deposit_address: Option<bool>,
    /// The address is for this order and its exact amount. Otherwise it can be paid at again and again, and each deposit
    /// is priced by itself.
    strict: Option<bool>,
    /// Whom deposits at an open address name where `refundTo` is absent. It is never refunded to.
    recovery_address: Option<String>,
    /// The user signs instead of sending a transaction, and a relayer of ours sends it: needs no gas.
    use_permit: Option<bool>,
    /// Seconds for which the signature is good; 600 unless said.
    #[schema(minimum = 60, maximum = 3600)]
    permit_expiry: Option<u64>,
}

/// A call on the destination, made by the router.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = DestinationCall)]
pub(crate) struct TxBody {
    to: Option<String>,
    /// Smallest units of the gas currency, in decimal or hexadecimal digits.
    value: Option<String>,
    data: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AppFee)]
pub(crate) struct AppFeeBody {
    recipient: String,
    /// Basis points, as text.
    fee: String,
}

/// The longest referrer: it is stored with every quote.
const MAX_REFERRER: usize = 128;
const MAX_CALLS: usize = 16;
/// Of all calls together: they are stored, hashed and sent.
const MAX_CALL_DATA: usize = 4 * 1024;
const MAX_APP_FEES: usize = 8;
const DEFAULT_PERMIT_SECS: u64 = 600;
const PERMIT_SECS: std::ops::RangeInclusive<u32> = 60..=3_600;
const MAX_RELAYED_GAS: u64 = 2_000_000;
const DEFAULT_TOP_UP: UsdMicros = UsdMicros(2_000_000);
const MAX_TOP_UP: UsdMicros = UsdMicros(100_000_000);

fn bad(field: &'static str, problem: impl Into<String>) -> ApiError {
    ApiError::Parameter { field, problem: problem.into() }
}

impl QuoteBody {
    pub(crate) fn wants_signature(&self) -> bool {
        self.include_protocol_data == Some(true)
    }

    pub(crate) fn into_ask(self, catalog: &Catalog, caller: &Caller) -> Result<Ask, ApiError> {
        self.refuse_what_is_not_offered()?;
        let (origin, destination) = (ChainId(self.origin_chain_id), ChainId(self.destination_chain_id));
        // An unknown chain is said first: without it no address can be read.
        for (end, chain) in [(End::Origin, origin), (End::Destination, destination)] {
            if catalog.chain(chain).is_none() {
                return Err(QuoteError::UnsupportedChain { end, chain }.into());
            }
        }
        if self.force_solver_execution == Some(true) && origin == destination {
            return Err(ApiError::NotOffered { field: "forceSolverExecution" });
        }
        let account = |field: &'static str, chain: ChainId, text: &str| {
            let vm = catalog.chain(chain).map_or(Vm::Evm, |chain| chain.vm);
            let read = Account::read(vm, text).and_then(|account| venue::party(vm, text).map(|_| account));
            read.map_err(|error| ApiError::Address { field, problem: error.to_string() })
        };
        let currency = |end: End, chain: ChainId, text: &str| {
            let field = match end {
                End::Origin => "originCurrency",
                End::Destination => "destinationCurrency",
            };
            let vm = catalog.chain(chain).map_or(Vm::Evm, |chain| chain.vm);
            match Account::read(vm, text) {
                Ok(address) => Ok(CurrencyKey { chain, address }),
                Err(error @ NotAnAccount::Checksum) => Err(ApiError::Address { field, problem: error.to_string() }),
                Err(_) => Err(ApiError::from(QuoteError::InvalidCurrency { end, chain })),
            }
        };
        let user = account("user", origin, &self.user)?;
        let recipient = self.recipient.as_deref().map(|text| account("recipient", destination, text)).transpose()?;
        let vm = |chain: ChainId| catalog.chain(chain).map_or(Vm::Evm, |chain| chain.vm);
        let recipient = venue::recipient(&user, vm(origin), vm(destination), recipient).ok_or_else(|| {
            let problem = "required: the user has no address on the destination".to_owned();
            ApiError::Address { field: "recipient", problem }
        })?;
        if let Some(text) = &self.referrer_address {
            account("referrerAddress", origin, text)?;
        }
        let amount = self.amount.parse::<Amount>().map_err(|error| bad("amount", error.to_string()))?;
        if amount.is_zero() {
            return Err(bad("amount", "must be more than zero"));
        }
        if self.referrer.as_ref().is_some_and(|referrer| referrer.len() > MAX_REFERRER) {
            return Err(bad("referrer", format!("must be at most {MAX_REFERRER} bytes")));
        }
        if self.ttl == Some(0) {
            return Err(bad("ttl", "must be more than zero"));
        }
        let trade = self.trade()?;
        if let Some(value) = &self.late_payment_slippage_tolerance {
            slippage("latePaymentSlippageTolerance", value)?;
        }
        let options = self.options(trade, caller)?;
        Ok(Ask {
            key: caller.key().map(|key| key.id),
            trade,
            refund_to: self.refund_to.as_deref().map(|text| account("refundTo", origin, text)).transpose()?,
            origin: currency(End::Origin, origin, &self.origin_currency)?,
            destination: currency(End::Destination, destination, &self.destination_currency)?,
            user,
            recipient,
            amount,
            slippage_bps: self
                .slippage_tolerance
                .as_ref()
                .map(|value| slippage("slippageTolerance", value))
                .transpose()?,
            referrer: self.referrer,
            explicit_deposit: self.explicit_deposit.unwrap_or(true),
            ttl_secs: self.ttl,
            options,
        })
    }

    fn trade(&self) -> Result<Trade, ApiError> {
        match self.trade_type.as_deref() {
            None | Some("EXACT_INPUT") => Ok(Trade::ExactInput),
            Some("EXACT_OUTPUT") => Ok(Trade::ExactOutput),
            Some("EXPECTED_OUTPUT") => Ok(Trade::ExpectedOutput),
            Some(_) => Err(bad("tradeType", "must be EXACT_INPUT, EXACT_OUTPUT or EXPECTED_OUTPUT")),
        }
    }

    fn options(&self, trade: Trade, caller: &Caller) -> Result<QuoteOptions, ApiError> {
        let asked = sponsor::Asked {
            subsidize: self.subsidize_fees == Some(true),
            components: self.sponsored_fee_components.as_deref(),
            cap: self.max_subsidization_amount.as_deref(),
            fixed_rate: self.fixed_rate.as_deref(),
        };
        let (sponsor, fixed_rate) = asked.read(caller)?;
        Ok(QuoteOptions {
            app_fees: self.app_fees()?,
            top_up: self.top_up()?,
            calls: self.calls(trade)?,
            tried_gas: self.calls_gas()?,
            true_exact_output: self.enable_true_exact_output == Some(true),
            no_origin_swap: self.disable_origin_swaps == Some(true),
            any_impact: self.override_price_impact == Some(true),
            sponsor,
            fixed_rate,
            force_refund: self.referrer.as_deref() == Some(FORCE_REFUND)
                && caller.key().is_some_and(|key| key.may_force_refund),
            deposit_address: self.deposit_address(trade)?,
            permit: self.permit()?,
            relayed_gas: self.relayed_gas()?,
        })
    }

    /// The rules of a deposit address that the rest of the body has to keep.
    fn deposit_address(&self, trade: Trade) -> Result<Option<AddressAsk>, ApiError> {
        let strict = self.strict == Some(true);
        let recovery = self.recovery_address.as_deref().filter(|text| !text.is_empty());
        if self.use_deposit_address != Some(true) {
            return match (strict, recovery) {
                (true, _) => Err(bad("strict", "needs useDepositAddress")),
                (false, Some(_)) => Err(bad("recoveryAddress", "needs useDepositAddress")),
                (false, None) => Ok(None),
            };
        }
        if self.origin_chain_id == self.destination_chain_id {
            return Err(ApiError::NotOffered { field: "useDepositAddress" });
        }
        if self.txs.as_ref().is_some_and(|txs| !txs.is_empty()) {
            return Err(ApiError::ExtraTxs { problem: "not with useDepositAddress" });
        }
        if strict && self.refund_to.is_none() {
            return Err(bad("refundTo", "required with strict"));
        }
        if !strict && trade == Trade::ExactOutput {
            return Err(bad("tradeType", "EXACT_OUTPUT at a deposit address needs strict"));
        }
        if self.sponsored_fee_components.is_some() {
            return Err(bad("sponsoredFeeComponents", "not with useDepositAddress"));
        }
        let account = |text: &str| {
            let problem = |problem: String| ApiError::Address { field: "recoveryAddress", problem };
            let address = evm_address(text).map_err(|error| problem(error.to_string()))?;
            if address.is_zero() { Err(problem("must not be the native currency".to_owned())) } else { Ok(address) }
        };
        let kind = if strict { Kind::Strict } else { Kind::Open };
        Ok(Some(AddressAsk { kind, recovery: recovery.map(account).transpose()? }))
    }

    /// The rules of a deposit by signature that the rest of the body has to keep.
    fn permit(&self) -> Result<Option<PermitAsk>, ApiError> {
        if self.use_permit != Some(true) {
            return match self.permit_expiry {
                Some(_) => Err(bad("permitExpiry", "needs usePermit")),
                None => Ok(None),
            };
        }
        if self.use_deposit_address == Some(true) {
            return Err(bad("usePermit", "not with useDepositAddress"));
        }
        let valid = self.permit_expiry.unwrap_or(DEFAULT_PERMIT_SECS);
        let valid = u32::try_from(valid).ok().filter(|secs| PERMIT_SECS.contains(secs));
        let problem = || bad("permitExpiry", "must be from 60 to 3600 seconds");
        Ok(Some(PermitAsk { valid_secs: valid.ok_or_else(problem)?, relayer: None }))
    }

    fn relayed_gas(&self) -> Result<Option<u64>, ApiError> {
        let Some(value) = given(self.origin_gas_overhead.as_ref()) else { return Ok(None) };
        let gas = value.as_u64().or_else(|| whole(value.as_str()?));
        let gas = gas.ok_or_else(|| bad("originGasOverhead", "must be a whole number"))?;
        if gas > MAX_RELAYED_GAS {
            return Err(bad("originGasOverhead", format!("must be at most {MAX_RELAYED_GAS}")));
        }
        if gas > 0 && (self.use_permit == Some(true) || self.use_deposit_address == Some(true)) {
            return Err(bad("originGasOverhead", "not with usePermit or useDepositAddress"));
        }
        Ok(Some(gas).filter(|gas| *gas > 0))
    }

    fn app_fees(&self) -> Result<Vec<AppFee>, ApiError> {
        let fees = self.app_fees.as_deref().unwrap_or_default();
        if fees.len() > MAX_APP_FEES {
            return Err(bad("appFees", format!("must be at most {MAX_APP_FEES}")));
        }
        let fee = |Object(fee): &Object<AppFeeBody>| {
            let recipient = evm_address(&fee.recipient);
            let bad_recipient = |problem| ApiError::Address { field: "appFees.recipient", problem };
            let recipient = recipient.map_err(|error| bad_recipient(error.to_string()))?;
            let bps = whole(&fee.fee).and_then(|bps| u16::try_from(bps).ok()).filter(|bps| *bps <= 10_000);
            let bps =
                bps.ok_or_else(|| bad("appFees.fee", "must be a whole number of basis points, 0 to 10000, as text"))?;
            Ok(AppFee { recipient, bps })
        };
        fees.iter().map(fee).collect()
    }

    fn top_up(&self) -> Result<Option<UsdMicros>, ApiError> {
        if self.topup_gas != Some(true) {
            return Ok(None);
        }
        let Some(text) = &self.topup_gas_amount else { return Ok(Some(DEFAULT_TOP_UP)) };
        let micros = whole(text).and_then(|micros| i64::try_from(micros).ok()).map(UsdMicros);
        let problem = "must be millionths of a dollar, more than 0 and at most 100000000";
        let micros = micros.filter(|micros| micros.0 > 0 && *micros <= MAX_TOP_UP);
        micros.map(Some).ok_or_else(|| bad("topupGasAmount", problem))
    }

    fn calls(&self, trade: Trade) -> Result<Vec<Call>, ApiError> {
        let txs = self.txs.as_deref().unwrap_or_default();
        if txs.is_empty() {
            return Ok(Vec::new());
        }
        if trade == Trade::ExpectedOutput {
            return Err(ApiError::ExtraTxs { problem: "not with EXPECTED_OUTPUT" });
        }
        if txs.len() > MAX_CALLS {
            return Err(bad("txs", format!("must be at most {MAX_CALLS}")));
        }
        let mut room = MAX_CALL_DATA;
        let call = |Object(tx): &Object<TxBody>| {
            let to = tx.to.as_deref().ok_or_else(|| bad("txs.to", "required"))?;
            let to = evm_address(to).map_err(|error| bad("txs.to", error.to_string()))?;
            let value = match tx.value.as_deref() {
                None => Amount::ZERO,
                Some(value) => units(value).ok_or_else(|| bad("txs.value", "must be a whole number"))?,
            };
            let data: Option<Bytes> = tx.data.as_deref().map_or(Some(Bytes::new()), |text| text.parse().ok());
            let data = data.ok_or_else(|| bad("txs.data", "must be hexadecimal"))?;
            let left = room.checked_sub(data.len());
            room = left.ok_or_else(|| bad("txs", format!("must have at most {MAX_CALL_DATA} bytes of data")))?;
            Ok(Call { to, value, data })
        };
        txs.iter().map(call).collect()
    }

    fn calls_gas(&self) -> Result<Option<u64>, ApiError> {
        match self.txs_gas_limit {
            Some(0) => Err(bad("txsGasLimit", "must be more than zero")),
            gas => Ok(gas),
        }
    }

    /// Each of these changes where money goes, so none is passed over in silence.
    fn refuse_what_is_not_offered(&self) -> Result<(), ApiError> {
        let list = |list: &Option<Vec<Value>>| list.as_ref().is_some_and(|list| !list.is_empty());
        let asked = [("authorizationList", list(&self.authorization_list))];
        match asked.into_iter().find(|(_, asked)| *asked) {
            Some((field, _)) => Err(ApiError::NotOffered { field }),
            None => Ok(()),
        }
    }
}

fn given(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

fn evm_address(text: &str) -> Result<Address, NotAnAccount> {
    Account::read(Vm::Evm, text)?.evm().ok_or(NotAnAccount::Evm)
}

/// A whole number as decimal text, without sign, fraction or leading zero.
pub(crate) fn whole(text: &str) -> Option<u64> {
    u64::try_from(text.parse::<Amount>().ok()?.units()).ok()
}

/// An amount in decimal or hexadecimal digits: wallets write a value in both ways.
fn units(text: &str) -> Option<Amount> {
    match text.strip_prefix("0x") {
        Some(digits) if (1..=64).contains(&digits.len()) => {
            let digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(digits)?;
            U256::from_str_radix(digits, 16).ok().map(Amount::new)
        }
        Some(_) => None,
        None => text.parse().ok(),
    }
}

fn slippage(field: &'static str, value: &Value) -> Result<u16, ApiError> {
    let text = value.as_str().unwrap_or_default();
    let digits = !text.is_empty() && text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&bps| digits && bps <= 10_000).ok_or(ApiError::Slippage { field })
}

#[cfg(test)]
mod tests;
