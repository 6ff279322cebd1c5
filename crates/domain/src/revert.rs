//! Reasons for which a contract reverted, in the interface's words.
//!
//! The one table that turns prose and error names into a [`FailReason`]. The text comes from contracts that anyone
//! may have written: it explains a failure to a reader and decides nothing.

use std::fmt;

use crate::fail::FailReason;

/// How a transaction failed on its chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revert {
    /// In words.
    Said(String),
    /// One of the checks a compiler writes.
    Panic(u64),
    /// By an error with a name we know, and its arguments.
    Named {
        name: &'static str,
        arguments: Vec<String>,
    },
    /// By an error we have no name for; these are its first bytes.
    Unnamed([u8; 4]),
    /// Without a word.
    Silent,
    OutOfGas,
    /// It went through and answered `false`, which moves nothing.
    AnsweredFalse,
}

/// The purpose of the failed transaction: the same silence means different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A transfer of a token, and nothing else.
    TokenTransfer,
    /// Native currency to somebody.
    NativeTransfer,
    /// A trade on the way.
    Trade,
    /// Calls that the user asked for.
    Calls,
}

/// Longer texts are cut: a contract may say a whole book.
const MAX_TEXT_LEN: usize = 200;

impl Revert {
    pub fn said(text: &str) -> Self {
        let printable = text.chars().filter(|letter| !letter.is_control());
        let text: String = printable.take(MAX_TEXT_LEN).collect();
        if text.trim().is_empty() { Self::Silent } else { Self::Said(text) }
    }

    pub fn reason(&self, deed: Deed) -> FailReason {
        let known = match self {
            Self::Said(words) => known(words),
            Self::Named { name, .. } => known(name),
            Self::Panic(_) | Self::Unnamed(_) | Self::Silent | Self::OutOfGas | Self::AnsweredFalse => None,
        };
        match (known, self, deed) {
            (Some(reason), ..) => reason,
            (None, Self::OutOfGas, Deed::Calls) => FailReason::QuotedGasLimitExceeded,
            (None, Self::OutOfGas, Deed::Trade) => FailReason::SwapUsesTooMuchGas,
            (None, _, Deed::TokenTransfer) => FailReason::DestinationTokenTransferRejected,
            (None, Self::Silent, _) => FailReason::MissingRevertData,
            (None, _, Deed::NativeTransfer | Deed::Trade | Deed::Calls) => FailReason::ExecutionReverted,
        }
    }
}

impl fmt::Display for Revert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(words) => f.write_str(words),
            Self::Panic(code) => write!(f, "panic {code:#04x}: {}", panic(*code)),
            Self::Named { name, arguments } => write!(f, "{name}({})", arguments.join(", ")),
            Self::Unnamed([a, b, c, d]) => write!(f, "custom error 0x{a:02x}{b:02x}{c:02x}{d:02x}"),
            Self::Silent => f.write_str("reverted without data"),
            Self::OutOfGas => f.write_str("out of gas"),
            Self::AnsweredFalse => f.write_str("the token answered false"),
        }
    }
}

/// The codes of Solidity.
const fn panic(code: u64) -> &'static str {
    match code {
        0x01 => "assertion failed",
        0x11 => "arithmetic overflow or underflow",
        0x12 => "division by zero",
        0x21 => "no such member of an enum",
        0x22 => "badly encoded storage",
        0x31 => "pop of an empty array",
        0x32 => "array index out of bounds",
        0x41 => "too much memory",
        0x51 => "call of a function that was never set",
        _ => "unknown code",
    }
}

/// Which words mean what. `Whole` ones are all that was said; `Part`s may stand anywhere. Only letters and digits
/// count, in lower case, so that an error's name and the sentence it replaced are one entry. The first match wins.
const TABLE: &[(Words, FailReason)] = {
    use FailReason as R;
    use Words::{Part, Whole};
    &[
        // Uniswap's routers and pools.
        (Whole("stf"), R::TransferFromFailed),
        (Whole("tf"), R::TransferFailed),
        (Whole("st"), R::TransferFailed),
        (Whole("ste"), R::TransferFailed),
        (Part("toolittlereceived"), R::TooLittleReceived),
        (Part("insufficientoutputamount"), R::TooLittleReceived),
        (Part("minreturnnotreached"), R::TooLittleReceived),
        (Part("toomuchrequested"), R::Slippage),
        (Part("excessiveinputamount"), R::Slippage),
        (Part("slippage"), R::Slippage),
        (Part("insufficientliquidity"), R::InsufficientPoolLiquidity),
        (Part("notenoughliquidity"), R::InsufficientPoolLiquidity),
        (Whole("as"), R::ZeroSellAmount),
        (Part("insufficientinputamount"), R::ZeroSellAmount),
        (Part("transactiontooold"), R::OrderExpired),
        (Part("uniswapv2routerexpired"), R::OrderExpired),
        (Part("transactiondeadlinepassed"), R::OrderExpired),
        (Whole("lok"), R::PoolDexError),
        (Whole("iia"), R::PoolDexError),
        (Whole("spl"), R::PoolDexError),
        (Whole("ai"), R::PoolDexError),
        (Whole("l"), R::PoolDexError),
        (Part("uniswapv2k"), R::PoolDexError),
        // Accounts that are contracts.
        (Part("aa25"), R::AccountAbstractionInvalidNonce),
        (Part("aa24"), R::AccountAbstractionSignatureError),
        (Part("aa34"), R::AccountAbstractionSignatureError),
        (Part("aa26"), R::AccountAbstractionGasLimit),
        (Part("aa40"), R::AccountAbstractionGasLimit),
        (Part("aa51"), R::AccountAbstractionGasLimit),
        (Part("aa95"), R::AccountAbstractionGasLimit),
        // Signatures and permits.
        (Part("signatureexpired"), R::SignatureExpired),
        (Part("expiredsignature"), R::SignatureExpired),
        (Part("expireddeadline"), R::SignatureExpired),
        (Part("permitexpired"), R::SignatureExpired),
        (Part("authorizationexpired"), R::SignatureExpired),
        (Part("invalidsigner"), R::InvalidSigner),
        (Part("invalidsignature"), R::InvalidSignature),
        (Part("badsignature"), R::InvalidSignature),
        (Part("invalidnonce"), R::InvalidNonce),
        (Part("invalidaccountnonce"), R::InvalidNonce),
        (Part("noncealreadyused"), R::InvalidNonce),
        (Part("authorizationalreadyused"), R::InvalidNonce),
        // Tokens.
        (Part("blacklist"), R::DestinationTokenTransferRejected),
        (Part("blocklist"), R::DestinationTokenTransferRejected),
        (Part("accountfrozen"), R::DestinationTokenTransferRejected),
        (Part("invalidreceiver"), R::DestinationTokenTransferRejected),
        (Part("transfertothezeroaddress"), R::DestinationTokenTransferRejected),
        (Part("nottransferable"), R::TokenNotTransferable),
        (Part("nontransferable"), R::TokenNotTransferable),
        (Part("soulbound"), R::TokenNotTransferable),
        (Part("exceedsallowance"), R::TransferAmountExceedsAllowance),
        (Part("insufficientallowance"), R::TransferAmountExceedsAllowance),
        (Part("exceedsbalance"), R::TransferAmountExceedsBalance),
        (Part("insufficientbalance"), R::TransferAmountExceedsBalance),
        (Part("transferfromfailed"), R::TransferFromFailed),
        (Part("transferfailed"), R::TransferFailed),
        (Part("failedtosendether"), R::TransferFailed),
        (Part("safeerc20"), R::TransferFailed),
        (Part("paused"), R::ContractPaused),
        (Part("enforcedpause"), R::ContractPaused),
        // Shops and mints.
        (Part("inexactfraction"), R::MarketplaceInexactFraction),
        (Part("invalidfulfiller"), R::MarketplaceInvalidFulfiller),
        (Part("orderalreadyfilled"), R::OrderAlreadyFilled),
        (Part("orderiscancelled"), R::OrderIsCancelled),
        (Part("ordercancelled"), R::OrderIsCancelled),
        (Part("orderexpired"), R::OrderExpired),
        (Part("invalidtime"), R::OrderExpired),
        (Part("insufficientnativetoken"), R::InsufficientNativeTokensSupplied),
        (Part("insufficientethersupplied"), R::InsufficientNativeTokensSupplied),
        (Part("exceedsmaxmintedperwallet"), R::MintQuantityExceedsMaxPerWallet),
        (Part("exceedsmaxperwallet"), R::MintQuantityExceedsMaxPerWallet),
        (Part("exceedsmaxsupply"), R::MintQuantityExceedsMaxSupply),
        (Part("maxsupplyexceeded"), R::MintQuantityExceedsMaxSupply),
        (Part("mintnotactive"), R::MintNotActive),
        (Part("salenotactive"), R::MintNotActive),
        (Part("saleisnotactive"), R::MintNotActive),
        (Part("toomanyrequested"), R::Erc1155TooManyRequested),
        (Part("incorrectpayment"), R::IncorrectPayment),
        (Part("incorrectvalue"), R::IncorrectPayment),
        (Part("zerosellamount"), R::ZeroSellAmount),
        (Part("invalidsender"), R::InvalidSender),
        // Ours: the spend limiter.
        (Whole("limitexceeded"), R::SolverCapacityExceeded),
        (Whole("notarrived"), R::TransferFromFailed),
    ]
};

#[derive(Clone, Copy, Debug)]
enum Words {
    Whole(&'static str),
    Part(&'static str),
}

fn known(said: &str) -> Option<FailReason> {
    let said: String = said.chars().filter(char::is_ascii_alphanumeric).map(|it| it.to_ascii_lowercase()).collect();
    let matches = |words: &Words| match words {
        Words::Whole(words) => said == *words,
        Words::Part(words) => said.contains(words),
    };
    TABLE.iter().find(|(words, _)| matches(words)).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &str) -> FailReason {
        Revert::said(words).reason(Deed::Calls)
    }

    #[test]
    fn what_contracts_say_is_understood() {
        use FailReason::*;
        let table = [
            ("STF", TransferFromFailed),
            ("TF", TransferFailed),
            ("Too little received", TooLittleReceived),
            ("Too much requested", Slippage),
            ("UniswapV2Router: INSUFFICIENT_OUTPUT_AMOUNT", TooLittleReceived),
            ("LOK", PoolDexError),
            ("AS", ZeroSellAmount),
            ("Transaction too old", OrderExpired),
            ("ERC20: transfer amount exceeds balance", TransferAmountExceedsBalance),
            ("ERC20: insufficient allowance", TransferAmountExceedsAllowance),
            ("ERC20: transfer amount exceeds allowance", TransferAmountExceedsAllowance),
            ("Blacklistable: account is blacklisted", DestinationTokenTransferRejected),
            ("Pausable: paused", ContractPaused),
            ("AA25 invalid account nonce", AccountAbstractionInvalidNonce),
            ("TransferHelper::transferFrom: transferFrom failed", TransferFromFailed),
            ("Sale is not active", MintNotActive),
            ("nothing we know", ExecutionReverted),
            // Short words count only when they are all that was said.
            ("STFU", ExecutionReverted),
            ("lost", ExecutionReverted),
        ];
        for (words, reason) in table {
            assert_eq!(said(words), reason, "{words}");
        }
    }

    #[test]
    fn a_name_means_what_the_sentence_meant() {
        let named = |name| Revert::Named { name, arguments: Vec::new() }.reason(Deed::Trade);
        assert_eq!(named("ERC20InsufficientBalance"), FailReason::TransferAmountExceedsBalance);
        assert_eq!(named("LimitExceeded"), FailReason::SolverCapacityExceeded);
        assert_eq!(named("EnforcedPause"), FailReason::ContractPaused);
        assert_eq!(named("Reentrancy"), FailReason::ExecutionReverted);
    }

    #[test]
    fn silence_is_read_by_what_was_tried() {
        use FailReason::*;
        let table = [
            (Revert::Silent, Deed::TokenTransfer, DestinationTokenTransferRejected),
            (Revert::Silent, Deed::NativeTransfer, MissingRevertData),
            (Revert::Silent, Deed::Calls, MissingRevertData),
            (Revert::OutOfGas, Deed::Calls, QuotedGasLimitExceeded),
            (Revert::OutOfGas, Deed::Trade, SwapUsesTooMuchGas),
            (Revert::OutOfGas, Deed::NativeTransfer, ExecutionReverted),
            (Revert::AnsweredFalse, Deed::TokenTransfer, DestinationTokenTransferRejected),
            (Revert::Unnamed([1, 2, 3, 4]), Deed::Calls, ExecutionReverted),
            (Revert::Panic(0x11), Deed::Trade, ExecutionReverted),
        ];
        for (revert, deed, reason) in table {
            assert_eq!(revert.reason(deed), reason, "{revert} {deed:?}");
        }
    }

    #[test]
    fn words_are_shown_short_and_without_control_characters() {
        assert_eq!(Revert::said("a\u{7}b\n"), Revert::Said("ab".to_owned()));
        assert_eq!(Revert::said("\u{0}\n "), Revert::Silent);
        assert_eq!(Revert::said(&"é".repeat(500)).to_string().chars().count(), MAX_TEXT_LEN);
        assert_eq!(Revert::Panic(0x12).to_string(), "panic 0x12: division by zero");
        assert_eq!(Revert::Unnamed([0xc0, 0xff, 0xee, 1]).to_string(), "custom error 0xc0ffee01");
    }
}
