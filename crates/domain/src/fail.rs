//! Why a request failed or was refunded: outcomes recorded on a request, not errors of an operation.
//!
//! `N/A`, the sixty-ninth value of the interface, is the absence of a reason and is written at the edge.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a known reason")]
pub struct UnknownReason;

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($variant,)*
        }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownReason;

            fn from_str(text: &str) -> Result<Self, UnknownReason> {
                Self::ALL.iter().copied().find(|reason| reason.as_str() == text).ok_or(UnknownReason)
            }
        }
    };
}

reasons! {
    /// Exactly the interface's list: a client matches on these texts.
    FailReason {
    Unknown = "UNKNOWN",
    Slippage = "SLIPPAGE",
    AmountTooLowToRefund = "AMOUNT_TOO_LOW_TO_REFUND",
    DepositAddressMismatch = "DEPOSIT_ADDRESS_MISMATCH",
    DepositChainMismatch = "DEPOSIT_CHAIN_MISMATCH",
    IncorrectDepositCurrency = "INCORRECT_DEPOSIT_CURRENCY",
    DoubleSpend = "DOUBLE_SPEND",
    SolverCapacityExceeded = "SOLVER_CAPACITY_EXCEEDED",
    SolverBalanceTooLow = "SOLVER_BALANCE_TOO_LOW",
    DepositedAmountTooLowToFill = "DEPOSITED_AMOUNT_TOO_LOW_TO_FILL",
    NegativeNewAmountAfterFees = "NEGATIVE_NEW_AMOUNT_AFTER_FEES",
    NoQuotes = "NO_QUOTES",
    MissingRevertData = "MISSING_REVERT_DATA",
    ReverseSwapFailed = "REVERSE_SWAP_FAILED",
    GenerateSwapFailed = "GENERATE_SWAP_FAILED",
    TooLittleReceived = "TOO_LITTLE_RECEIVED",
    ExecutionReverted = "EXECUTION_REVERTED",
    NewCalldataIncludesHigherRentFee = "NEW_CALLDATA_INCLUDES_HIGHER_RENT_FEE",
    TransactionReverted = "TRANSACTION_REVERTED",
    TransactionTooLarge = "TRANSACTION_TOO_LARGE",
    OriginCurrencyMismatch = "ORIGIN_CURRENCY_MISMATCH",
    NoInternalSwapRoutesFound = "NO_INTERNAL_SWAP_ROUTES_FOUND",
    SwapUsesTooMuchGas = "SWAP_USES_TOO_MUCH_GAS",
    InsufficientFundsForRent = "INSUFFICIENT_FUNDS_FOR_RENT",
    SponsorBalanceTooLow = "SPONSOR_BALANCE_TOO_LOW",
    OrderExpired = "ORDER_EXPIRED",
    OrderIsCancelled = "ORDER_IS_CANCELLED",
    TransferFromFailed = "TRANSFER_FROM_FAILED",
    TransferFailed = "TRANSFER_FAILED",
    SignatureExpired = "SIGNATURE_EXPIRED",
    InvalidSignature = "INVALID_SIGNATURE",
    InsufficientNativeTokensSupplied = "INSUFFICIENT_NATIVE_TOKENS_SUPPLIED",
    TransferAmountExceedsAllowance = "TRANSFER_AMOUNT_EXCEEDS_ALLOWANCE",
    TransferAmountExceedsBalance = "TRANSFER_AMOUNT_EXCEEDS_BALANCE",
    InvalidSender = "INVALID_SENDER",
    AccountAbstractionInvalidNonce = "ACCOUNT_ABSTRACTION_INVALID_NONCE",
    AccountAbstractionSignatureError = "ACCOUNT_ABSTRACTION_SIGNATURE_ERROR",
    MarketplaceInexactFraction = "MARKETPLACE_INEXACT_FRACTION",
    TokenNotTransferable = "TOKEN_NOT_TRANSFERABLE",
    ZeroSellAmount = "ZERO_SELL_AMOUNT",
    MintNotActive = "MINT_NOT_ACTIVE",
    Erc1155TooManyRequested = "ERC_1155_TOO_MANY_REQUESTED",
    IncorrectPayment = "INCORRECT_PAYMENT",
    InvalidGasPrice = "INVALID_GAS_PRICE",
    PoolDexError = "POOL_DEX_ERROR",
    OrderAlreadyFilled = "ORDER_ALREADY_FILLED",
    MarketplaceInvalidFulfiller = "MARKETPLACE_INVALID_FULFILLER",
    InvalidSigner = "INVALID_SIGNER",
    MintQuantityExceedsMaxPerWallet = "MINT_QUANTITY_EXCEEDS_MAX_PER_WALLET",
    MintQuantityExceedsMaxSupply = "MINT_QUANTITY_EXCEEDS_MAX_SUPPLY",
    AggregatorInvalidTokenAccount = "AGGREGATOR_INVALID_TOKEN_ACCOUNT",
    InvalidNonce = "INVALID_NONCE",
    AccountAbstractionGasLimit = "ACCOUNT_ABSTRACTION_GAS_LIMIT",
    ContractPaused = "CONTRACT_PAUSED",
    SwapImpactTooHigh = "SWAP_IMPACT_TOO_HIGH",
    InsufficientPoolLiquidity = "INSUFFICIENT_POOL_LIQUIDITY",
    TtlExpired = "TTL_EXPIRED",
    DepositConfirmationTimeout = "DEPOSIT_CONFIRMATION_TIMEOUT",
    OrphanedDepositRefund = "ORPHANED_DEPOSIT_REFUND",
    GaslessPermitBalanceTooLow = "GASLESS_PERMIT_BALANCE_TOO_LOW",
    ManualAdminRefund = "MANUAL_ADMIN_REFUND",
    QuotedGasLimitExceeded = "QUOTED_GAS_LIMIT_EXCEEDED",
    DestinationTokenTransferRejected = "DESTINATION_TOKEN_TRANSFER_REJECTED",
    DepositReorged = "DEPOSIT_REORGED",
    BlockedWallet = "BLOCKED_WALLET",
    ProtocolDeadlineExpired = "PROTOCOL_DEADLINE_EXPIRED",
    TransactionNotIncluded = "TRANSACTION_NOT_INCLUDED",
    TransactionSubmissionFailed = "TRANSACTION_SUBMISSION_FAILED",
    }
}

reasons! {
    /// Why money that should have gone back did not.
    RefundFailReason {
    AmountTooLowToRefund = "AMOUNT_TOO_LOW_TO_REFUND",
    NegativeNewAmountAfterFees = "NEGATIVE_NEW_AMOUNT_AFTER_FEES",
    SwapCurrencyNotOnOrigin = "SWAP_CURRENCY_NOT_ON_ORIGIN",
    RefundRecipientIsVasp = "REFUND_RECIPIENT_IS_VASP",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_have_the_interface_s_length_and_read_back() {
        assert_eq!(FailReason::ALL.len() + 1, 69);
        assert_eq!(RefundFailReason::ALL.len(), 4);
        for reason in FailReason::ALL {
            assert_eq!(reason.as_str().parse(), Ok(*reason));
        }
        assert_eq!("N/A".parse::<FailReason>(), Err(UnknownReason));
    }
}
