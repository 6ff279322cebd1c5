//! Gas of the user's own transactions, by their form: measured, and within a tenth of what they use.
//!
//! Half of a small transaction's gas depends on what was in storage before it. That is read in the background, as
//! users' balances are; until then the usual case is assumed.

/// A transaction of the user's, as far as its gas is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserTx {
    NativeDeposit,
    /// A token that the depository takes by its allowance.
    TokenDeposit,
    /// A token sent as it is.
    TokenTransfer,
    /// Native currency to a wallet, with data.
    NativeTransfer,
    /// By the wrapped token itself.
    Wrap,
    Unwrap,
    /// Calls of the router.
    Routed(Routed),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Routed {
    /// Tokens come in through the approval proxy.
    pub tokens_in: bool,
    pub pools: usize,
    /// The router wraps or unwraps by itself.
    pub wraps: bool,
    /// A pool's output is unwrapped and paid out.
    pub native_out: bool,
    pub fee: bool,
    pub deposits: bool,
}

/// An approval, by the allowance before and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    First,
    Changed,
    Reset,
}

/// The storage that a transaction meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// The receiver has had none of the token.
    pub first_balance: bool,
    /// The sender keeps none of it.
    pub last_balance: bool,
    /// A contract pays native currency to an address that has never been used.
    pub new_account: bool,
}

/// A balance that is written for the first time costs this much more than one that changes.
const FIRST_BALANCE: u64 = 17_100;
/// Given back for a balance that becomes zero.
const LAST_BALANCE: u64 = 4_800;
const NEW_ACCOUNT: u64 = 25_000;

pub const fn of_approval(approval: Approval) -> u64 {
    match approval {
        Approval::First => 46_300,
        Approval::Changed => 29_200,
        Approval::Reset => 25_000,
    }
}

pub fn of(form: UserTx, storage: Storage) -> u64 {
    let usual = match form {
        UserTx::NativeDeposit => 23_900,
        UserTx::TokenDeposit => 43_800,
        UserTx::TokenTransfer => 34_900,
        UserTx::NativeTransfer => 22_280,
        UserTx::Wrap => 28_450,
        UserTx::Unwrap => 35_800,
        UserTx::Routed(routed) => routed.gas(),
    };
    let more = [(storage.first_balance, FIRST_BALANCE), (storage.new_account, NEW_ACCOUNT)];
    let more: u64 = more.iter().filter(|(so, _)| *so).map(|(_, gas)| gas).sum();
    (usual + more).saturating_sub(if storage.last_balance { LAST_BALANCE } else { 0 })
}

impl Routed {
    fn gas(self) -> u64 {
        const ENTRY: u64 = 63_600;
        const TOKENS_IN: u64 = 38_200;
        const POOL: u64 = 76_000;
        const WRAPS: u64 = 9_600;
        const NATIVE_OUT: u64 = 55_000;
        const FEE: u64 = 21_000;
        const DEPOSITS: u64 = 65_000;
        let parts = [
            (self.tokens_in, TOKENS_IN),
            (self.wraps, WRAPS),
            (self.native_out, NATIVE_OUT),
            (self.fee, FEE),
            (self.deposits, DEPOSITS),
        ];
        let parts: u64 = parts.iter().filter(|(is_there, _)| *is_there).map(|(_, gas)| gas).sum();
        let pools = POOL.saturating_mul(u64::try_from(self.pools).unwrap_or(u64::MAX));
        (ENTRY + parts).saturating_add(pools)
    }
}
