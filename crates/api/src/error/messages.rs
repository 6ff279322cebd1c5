//! The messages of refusals, with the names that members of a body have on the wire.

use domain::pricing::{Refusal, SolverOption};
use domain::quote::{End, Party};
use solver::QuoteError;
use solver::deposit_addresses::reindex::ReindexError;
use solver::gasless::execute::ExecuteError;
use solver::gasless::permits::PermitError;
use solver::integrators::claims::ClaimError;
use solver::integrators::fast_fill::FastFillError;

pub(crate) fn of_quote(error: &QuoteError) -> String {
    let field = match error {
        QuoteError::UnsupportedChain { end, .. } | QuoteError::ChainDisabled { end, .. } => match end {
            End::Origin => "originChainId",
            End::Destination => "destinationChainId",
        },
        QuoteError::InvalidCurrency { end, .. } => match end {
            End::Origin => "originCurrency",
            End::Destination => "destinationCurrency",
        },
        QuoteError::InvalidRecipient { party } | QuoteError::Blocked { party } => match party {
            Party::User => "user",
            Party::Recipient => "recipient",
            Party::RefundRecipient => "refundTo",
            Party::AppFeeRecipient => "appFees.recipient",
        },
        QuoteError::CallsRevert { .. } | QuoteError::CallsOnVenue => "txs",
        QuoteError::PlainDepositOfContract => "explicitDeposit",
        QuoteError::NoDepositAddresses { .. } => "useDepositAddress",
        QuoteError::NoPermits { .. } | QuoteError::GaslessUnsponsored => "usePermit",
        QuoteError::NeedsRefundRecipient => "refundTo",
        QuoteError::RecipientRefuses { .. } | QuoteError::RecipientRefused => "recipient",
        QuoteError::OriginSwapsDisabled => {
            return "originCurrency: it can only be deposited after a swap, and disableOriginSwaps forbids that"
                .to_owned();
        }
        QuoteError::CallsGas { needed } => {
            return format!("txs: the fill needs {needed} gas or more, which is more than txsGasLimit or we allow");
        }
        QuoteError::Refused(refusal) => return of_refusal(refusal),
        QuoteError::TooLow { fees } => {
            return format!("amount: its fees are {fees}, and it has to be more than they are");
        }
        QuoteError::Dust { .. } | QuoteError::BelowLeast { .. } => "amount",
        QuoteError::TooMuch { most } => {
            return format!(
                "Amount is higher than the available liquidity: at most {most} can be paid out at the moment"
            );
        }
        QuoteError::NoSpendLimiter { .. }
        | QuoteError::Node { .. }
        | QuoteError::Venue(_)
        | QuoteError::VenueQuota { .. }
        | QuoteError::Market(_)
        | QuoteError::Store(_) => {
            return error.to_string();
        }
    };
    format!("{field}: {error}")
}

pub(crate) fn of_reindex(error: &ReindexError) -> String {
    let field = match error {
        ReindexError::UnknownAddress => "depositAddress",
        ReindexError::OtherAddress => "targetChainId",
        ReindexError::InvalidCurrency => "currency",
        ReindexError::TooSoon | ReindexError::NodesFailed => return error.to_string(),
        ReindexError::Store(_) => return "internal error".to_owned(),
    };
    format!("{field}: {error}")
}

fn of_refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::NotOnSameChain(option) => {
            let field = match option {
                SolverOption::Calls => "txs",
                SolverOption::TopUp => "topupGas",
                SolverOption::FixedRate => "fixedRate",
            };
            format!("{field} needs a solver and is not offered on the same chain")
        }
        Refusal::ImpactTooHigh => format!("{refusal}; overridePriceImpact lets it through"),
        Refusal::CallValues => format!("txs: {refusal}"),
        Refusal::TopUpOfGas => format!("topupGas: {refusal}"),
        Refusal::AppFees => "appFees: the fees together must stay below the amount".to_owned(),
        Refusal::FixedRateUnsponsored => "fixedRate: needs subsidizeFees".to_owned(),
        Refusal::FixedRateDeviates => "fixedRate: more than 500 basis points away from the market".to_owned(),
        Refusal::FixedRateCurrency => "fixedRate: only between stablecoins that the solver holds".to_owned(),
        Refusal::AmountTooLow { .. }
        | Refusal::Dust
        | Refusal::NoRoute
        | Refusal::NothingToDo
        | Refusal::InsufficientLiquidity
        | Refusal::SponsorBalance
        | Refusal::OutOfRange => refusal.to_string(),
    }
}

pub(crate) fn of_fast_fill(error: &FastFillError) -> String {
    let field = match error {
        FastFillError::NotEligible(_) => "requestId",
        FastFillError::LessThanQuoted | FastFillError::MoreThanQuoted { .. } | FastFillError::NotFillable => {
            "solverInputCurrencyAmount"
        }
        FastFillError::OverMost { .. } | FastFillError::MostAboveAvailable { .. } => "maxFillAmountUsd",
        FastFillError::NotFound
        | FastFillError::InFlight
        | FastFillError::BalanceTooLow { .. }
        | FastFillError::Solver(_) => {
            return error.to_string();
        }
    };
    format!("{field}: {error}")
}

pub(crate) fn of_claim(error: &ClaimError) -> String {
    let field = match error {
        ClaimError::OtherChain(_) => "chainId",
        ClaimError::OtherCurrency(_) => "currency",
        ClaimError::Recipient => "recipient",
        ClaimError::WalletBlocked => return "wallet: this address is not served".to_owned(),
        ClaimError::RecipientBlocked => return "recipient: this address is not served".to_owned(),
        ClaimError::AmountOutOfRange
        | ClaimError::NothingAvailable
        | ClaimError::TooLittle(_)
        | ClaimError::BalanceTooLow { .. } => "amount",
        ClaimError::NotAsked | ClaimError::Expired | ClaimError::Used => "requestId",
        ClaimError::NotSigned | ClaimError::Chain(_) => "signature",
        ClaimError::NotOffered | ClaimError::Solver(_) => return error.to_string(),
    };
    format!("{field}: {error}")
}

pub(crate) fn of_execute(error: &ExecuteError) -> String {
    let field = match error {
        ExecuteError::UnsupportedChain(_) => "data.chainId",
        ExecuteError::Target => "data.to",
        ExecuteError::OtherChain(_) => "requestId",
        ExecuteError::Unpaid => {
            return "executionOptions.subsidizeFees: the gas is nobody's: quote with originGasOverhead, or set subsidizeFees"
                .to_owned();
        }
        ExecuteError::NoDeposit
        | ExecuteError::Reverts { .. }
        | ExecuteError::OperationFails
        | ExecuteError::TooLong { .. }
        | ExecuteError::TooMuchGas { .. } => "data.data",
        ExecuteError::Authorizations => "data.authorizationList",
        ExecuteError::Permit(PermitError::NotFound | PermitError::InFlight) => "requestId",
        ExecuteError::Permit(error) => return error.to_string(),
    };
    format!("{field}: {error}")
}

pub(crate) fn of_permit(error: &PermitError) -> String {
    let field = match error {
        PermitError::NotAsked => "kind",
        PermitError::InFlight | PermitError::Paused | PermitError::Busy | PermitError::GasTooDear => "requestId",
        PermitError::Expired
        | PermitError::NotSigned
        | PermitError::NonceUsed
        | PermitError::BalanceTooLow { .. }
        | PermitError::AllowanceTooLow { .. }
        | PermitError::Reverts { .. } => "signature",
        PermitError::NotFound
        | PermitError::Blocked
        | PermitError::SponsorBalance { .. }
        | PermitError::SponsorGone
        | PermitError::NotNow
        | PermitError::Chain(_)
        | PermitError::Solver(_) => return error.to_string(),
    };
    format!("{field}: {error}")
}

#[cfg(test)]
mod tests {
    use domain::ids::ChainId;

    use super::*;

    #[test]
    fn a_refusal_names_the_member_it_is_about() {
        for (error, message) in [
            (
                QuoteError::UnsupportedChain { end: End::Origin, chain: ChainId(7) },
                "originChainId: chain 7 is not supported",
            ),
            (
                QuoteError::ChainDisabled { end: End::Destination, chain: ChainId(7) },
                "destinationChainId: 7 takes no transfers at the moment",
            ),
            (
                QuoteError::InvalidCurrency { end: End::Destination, chain: ChainId(7) },
                "destinationCurrency: not a currency of chain 7",
            ),
            (QuoteError::InvalidRecipient { party: Party::RefundRecipient }, "refundTo: this address cannot receive"),
            (QuoteError::Blocked { party: Party::AppFeeRecipient }, "appFees.recipient: this address is not served"),
            (Refusal::CallValues.into(), "txs: the values of the calls exceed the output"),
            (Refusal::TopUpOfGas.into(), "topupGas: the output is already the gas currency"),
            (
                Refusal::ImpactTooHigh.into(),
                "the trade would lose too much to the pools; overridePriceImpact lets it through",
            ),
            (
                Refusal::NotOnSameChain(SolverOption::TopUp).into(),
                "topupGas needs a solver and is not offered on the same chain",
            ),
            (Refusal::NoRoute.into(), "no route between these currencies"),
        ] {
            assert_eq!(of_quote(&error), message);
        }
        assert_eq!(
            of_fast_fill(&FastFillError::LessThanQuoted),
            "solverInputCurrencyAmount: less than was quoted, for a request that another key asked for"
        );
        assert_eq!(of_claim(&ClaimError::Used), "requestId: this claim was signed for already");
        assert_eq!(
            of_execute(&ExecuteError::TooLong { most: 5 }),
            "data.data: its bytes and authorizations alone take more gas than the 5 that are relayed"
        );
        assert_eq!(of_execute(&ExecuteError::Authorizations), "data.authorizationList: the chain does not take them");
        assert_eq!(of_claim(&ClaimError::NothingAvailable), "amount: nothing is available");
    }
}
