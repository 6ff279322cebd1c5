//! The perpetuals venue as the rules see it: account indexes, assets, routes, memos and the states of its transactions.
//!
//! No wire shapes and no signatures: those are the crate `venue`. Numbers here are the venue's own limits, so a value
//! that exists can be signed.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::{Address, B256, hex, keccak256};

use crate::account::{Account, NotAnAccount, Vm};
use crate::ids::{ChainId, NotAnId, OrderId};

/// The service's id of the venue. The venue's own signing id is another (304, or 300 on its test network).
pub const CHAIN: ChainId = ChainId(3_586_256);

/// JSON numbers above this lose digits in clients that keep them as doubles.
pub const MAX_JSON_INTEGER: u64 = (1 << 53) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutOfVenueRange {
    #[error("must be a venue account index, from 0 to {}", AccountIndex::MAX)]
    Account,
    #[error("must be a venue asset index, from 1 to {}", Asset::MAX)]
    Asset,
    #[error("must be a route type: 0 for perps, 1 for spot")]
    Route,
    #[error("must be an amount from 1 to {}", Units::MAX)]
    Units,
    #[error("must be a transaction status, from 0 to 5")]
    Status,
}

/// An account of the venue. The decimal index is its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountIndex(u64);

impl AccountIndex {
    pub const MAX: u64 = (1 << 48) - 2;
    /// Sub-accounts begin here; an index below is a wallet's main account.
    const FIRST_SUB_ACCOUNT: u64 = 1 << 47;

    pub fn new(index: u64) -> Result<Self, OutOfVenueRange> {
        (index <= Self::MAX).then_some(Self(index)).ok_or(OutOfVenueRange::Account)
    }

    pub fn get(self) -> u64 {
        self.0
    }

    pub fn is_sub_account(self) -> bool {
        self.0 >= Self::FIRST_SUB_ACCOUNT
    }

    /// The index behind an account of the venue, as `user`, `recipient` and `refundTo` give it. A currency is no
    /// account: the two share their form and not their range.
    pub fn of(account: &Account) -> Result<Self, OutOfVenueRange> {
        let bytes = <[u8; 16]>::try_from(account.bytes()).map_err(|_| OutOfVenueRange::Account)?;
        u64::try_from(u128::from_be_bytes(bytes)).map_err(|_| OutOfVenueRange::Account).and_then(Self::new)
    }

    pub fn account(self) -> Account {
        Account::parse(Vm::Venue, &self.to_string()).expect("an index is a venue account")
    }

    /// The 20 bytes that rows know the account by.
    pub fn packed(self) -> Address {
        Address::left_padding_from(&self.0.to_be_bytes())
    }

    /// The account behind 20 bytes of a row of the venue.
    pub fn unpacked(packed: Address) -> Result<Self, OutOfVenueRange> {
        Account::unpacked(Vm::Venue, packed).ok_or(OutOfVenueRange::Account).and_then(|account| Self::of(&account))
    }
}

impl fmt::Display for AccountIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for AccountIndex {
    type Err = OutOfVenueRange;

    /// Decimal digits without a sign and without leading zeros: one index has one form.
    fn from_str(text: &str) -> Result<Self, OutOfVenueRange> {
        decimal(text).ok_or(OutOfVenueRange::Account).and_then(Self::new)
    }
}

fn decimal(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain)
}

/// The 32 bytes that rows know a transaction of the venue by. Its own hash has 40; `venue_tx` keeps both.
pub fn tx_key(hash: &[u8; 40]) -> B256 {
    keccak256(hash)
}

/// The same from the text of such a hash: 80 digits, before which some clients put `0x`. None for any other text.
pub fn tx_key_of(text: &str) -> Option<B256> {
    let mut bytes = [0; 40];
    let digits = text.strip_prefix("0x").unwrap_or(text);
    (digits.len() == 80 && hex::decode_to_slice(digits, &mut bytes).is_ok()).then(|| tx_key(&bytes))
}

/// A party of a transfer: the user, the recipient, or whoever is refunded. On the venue that is an account index in its
/// one form; currencies are parsed by `Account` alone.
pub fn party(vm: Vm, text: &str) -> Result<Account, NotAnAccount> {
    let account = Account::parse(vm, text)?;
    match vm {
        Vm::Venue => text.parse::<AccountIndex>().map(|_| account).map_err(|_| NotAnAccount::Venue),
        Vm::Evm | Vm::Svm => Ok(account),
    }
}

/// The recipient of a transfer: the one that is given, or the user. None where the user has no address on the
/// destination, because its addresses have another form.
pub fn recipient(user: &Account, origin: Vm, destination: Vm, given: Option<Account>) -> Option<Account> {
    given.or_else(|| (origin == destination).then(|| user.clone()))
}

/// An asset of the venue by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Asset(u8);

impl Asset {
    pub const MAX: u8 = 62;
    pub const ETH: Self = Self(1);
    pub const USDC: Self = Self(3);

    pub fn new(index: u64) -> Result<Self, OutOfVenueRange> {
        let index = u8::try_from(index).ok().filter(|index| (1..=Self::MAX).contains(index));
        index.map(Self).ok_or(OutOfVenueRange::Asset)
    }

    pub fn get(self) -> u8 {
        self.0
    }

    /// Decimal places of its smallest unit on the venue, which are not those of the token.
    pub fn decimals(self) -> u8 {
        if self == Self::USDC { 6 } else { 8 }
    }
}

/// The balance of an account that a transfer leaves or enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Route {
    Perps,
    Spot,
}

impl Route {
    pub fn new(number: u64) -> Result<Self, OutOfVenueRange> {
        match number {
            0 => Ok(Self::Perps),
            1 => Ok(Self::Spot),
            _ => Err(OutOfVenueRange::Route),
        }
    }

    pub fn get(self) -> u8 {
        match self {
            Self::Perps => 0,
            Self::Spot => 1,
        }
    }
}

/// An amount that one transfer can carry, in the asset's smallest unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Units(u64);

impl Units {
    pub const MAX: u64 = (1 << 60) - 1;

    pub fn new(units: u64) -> Result<Self, OutOfVenueRange> {
        (1..=Self::MAX).contains(&units).then_some(Self(units)).ok_or(OutOfVenueRange::Units)
    }

    pub fn get(self) -> u64 {
        self.0
    }
}

/// A balance that money arrives in: an asset, on a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holding {
    pub asset: Asset,
    pub route: Route,
}

impl Holding {
    /// The collateral of perpetuals, and the one currency of the venue that is offered.
    pub const COLLATERAL: Self = Self { asset: Asset::USDC, route: Route::Perps };

    /// The currency that a deposit into this balance is of. Every combination is of some currency: one that is not
    /// offered is a deposit of the wrong currency, and goes back.
    pub fn deposited_currency(self) -> Account {
        let index = if self == Self::COLLATERAL { 0 } else { self.asset.get() };
        Account::parse(Vm::Venue, &index.to_string()).expect("an asset index is a venue account")
    }

    /// The currency that a payment into this balance counts as, where it counts as one.
    pub fn paid_currency(self) -> Option<Account> {
        let counts = match (self.asset, self.route) {
            (Asset::USDC, Route::Perps | Route::Spot) | (Asset::ETH, Route::Spot) => true,
            (_, Route::Perps | Route::Spot) => false,
        };
        counts.then(|| self.deposited_currency())
    }

    /// The balance behind a currency of the venue that can be paid in.
    pub fn of_currency(currency: &Account) -> Option<Self> {
        let spot = |asset| Self { asset, route: Route::Spot };
        [Self::COLLATERAL, spot(Asset::USDC), spot(Asset::ETH)]
            .into_iter()
            .find(|holding| holding.deposited_currency() == *currency)
    }
}

/// The 32 bytes that name the order of a transfer. The venue's own signature does not cover them: only the text that
/// the wallet signs does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Memo(pub B256);

impl Memo {
    /// The order that the memo names. Wallets pad short texts with zeros, so a memo that ends in twelve of them is a
    /// remark and no id.
    pub fn order(self) -> Option<OrderId> {
        let remark = self.0[20..].iter().all(|byte| *byte == 0);
        (!remark).then_some(OrderId(self.0))
    }
}

impl From<OrderId> for Memo {
    fn from(order: OrderId) -> Self {
        Self(order.0)
    }
}

impl fmt::Display for Memo {
    /// `0x` and 64 digits, the form that the venue's signer takes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(hex::Buffer::<32, true>::new().format(&self.0))
    }
}

impl FromStr for Memo {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        text.parse::<OrderId>().map(|id| Self(id.0))
    }
}

/// The states of a venue transaction, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TxStatus {
    Pending,
    Queued,
    Committed,
    Executed,
    Failed,
    Rejected,
}

/// The meaning of a status for money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may still be paid or fail.
    Open,
    Paid,
    /// It never paid and never will.
    Void,
}

impl TxStatus {
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Queued, Self::Committed, Self::Executed, Self::Failed, Self::Rejected];

    pub fn new(number: u64) -> Result<Self, OutOfVenueRange> {
        let at = usize::try_from(number).ok().and_then(|at| Self::ALL.get(at));
        at.copied().ok_or(OutOfVenueRange::Status)
    }

    pub fn get(self) -> u8 {
        match self {
            Self::Pending => 0,
            Self::Queued => 1,
            Self::Committed => 2,
            Self::Executed => 3,
            Self::Failed => 4,
            Self::Rejected => 5,
        }
    }

    pub fn standing(self) -> Standing {
        match self {
            Self::Pending | Self::Queued => Standing::Open,
            Self::Committed | Self::Executed => Standing::Paid,
            Self::Failed | Self::Rejected => Standing::Void,
        }
    }
}

/// The transfer that a withdrawal asks its user to sign: the parameters of the step's action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferAction {
    pub to: AccountIndex,
    pub holding: Holding,
    pub amount: Units,
    /// In units of USDC, charged on top of the amount.
    pub usdc_fee: u64,
    pub memo: Memo,
}

impl TransferAction {
    /// None where a number would lose digits on its way through a client.
    pub fn new(to: AccountIndex, holding: Holding, amount: Units, usdc_fee: u64, order: OrderId) -> Option<Self> {
        let exact = amount.get() <= MAX_JSON_INTEGER && usdc_fee <= MAX_JSON_INTEGER;
        exact.then(|| Self { to, holding, amount, usdc_fee, memo: order.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_index_has_one_form_and_one_range() {
        for good in ["0", "1", "722011", "140737488355328", "281474976710654"] {
            let index = good.parse::<AccountIndex>().unwrap();
            assert_eq!((index.to_string(), AccountIndex::of(&index.account())), (good.to_owned(), Ok(index)));
        }
        for bad in
            ["", "-1", "+1", "01", "00", "281474976710655", "18446744073709551616", "0x1", "1.0", " 1", "1e3", "१"]
        {
            assert_eq!(bad.parse::<AccountIndex>(), Err(OutOfVenueRange::Account), "{bad}");
        }
        assert!(!AccountIndex(140_737_488_355_327).is_sub_account());
        assert!(AccountIndex(140_737_488_355_328).is_sub_account());
    }

    #[test]
    fn an_account_of_another_machine_or_above_the_range_is_no_index() {
        let wallet = Account::parse(Vm::Evm, "0xafde0c87685f1e800457b929986cd944e9d4a98c").unwrap();
        let large = Account::parse(Vm::Venue, "281474976710655").unwrap();
        assert_eq!(AccountIndex::of(&wallet), Err(OutOfVenueRange::Account));
        assert_eq!(AccountIndex::of(&large), Err(OutOfVenueRange::Account));
    }

    #[test]
    fn a_party_of_the_venue_is_an_account_index() {
        for (vm, text, ok) in [
            (Vm::Venue, "722011", true),
            (Vm::Venue, "281474976710655", false),
            (Vm::Venue, "007", false),
            (Vm::Venue, "0xafde0c87685f1e800457b929986cd944e9d4a98c", false),
            (Vm::Evm, "0xafde0c87685f1e800457b929986cd944e9d4a98c", true),
            (Vm::Evm, "722011", false),
        ] {
            assert_eq!(party(vm, text).is_ok(), ok, "{vm:?} {text}");
        }
    }

    #[test]
    fn a_recipient_is_needed_where_addresses_have_another_form() {
        let (user, wallet) = (AccountIndex(5).account(), Account::from(alloy_primitives::Address::ZERO));
        assert_eq!(recipient(&user, Vm::Venue, Vm::Evm, None), None);
        assert_eq!(recipient(&user, Vm::Venue, Vm::Evm, Some(wallet.clone())), Some(wallet.clone()));
        assert_eq!(recipient(&wallet, Vm::Evm, Vm::Evm, None), Some(wallet.clone()));
        assert_eq!(recipient(&wallet, Vm::Evm, Vm::Venue, None), None);
    }

    #[test]
    fn only_collateral_is_currency_zero() {
        let holding = |asset, route| Holding { asset: Asset::new(asset).unwrap(), route };
        for (asset, route, deposited, paid) in [
            (3, Route::Perps, "0", Some("0")),
            (3, Route::Spot, "3", Some("3")),
            (1, Route::Spot, "1", Some("1")),
            (1, Route::Perps, "1", None),
            (62, Route::Perps, "62", None),
        ] {
            let holding = holding(asset, route);
            assert_eq!(holding.deposited_currency().text(), deposited);
            assert_eq!(holding.paid_currency().as_ref().map(Account::text), paid);
        }
        let currency = |text| Account::parse(Vm::Venue, text).unwrap();
        assert_eq!(Holding::of_currency(&currency("0")), Some(Holding::COLLATERAL));
        assert_eq!(Holding::of_currency(&currency("3")), Some(holding(3, Route::Spot)));
        assert_eq!(Holding::of_currency(&currency("2")), None);
    }

    #[test]
    fn ranges_are_those_of_the_venue() {
        for (index, ok) in [(0, false), (1, true), (62, true), (63, false), (256 + 3, false)] {
            assert_eq!(Asset::new(index).is_ok(), ok, "asset {index}");
        }
        for (units, ok) in [(0, false), (1, true), ((1 << 60) - 1, true), (1 << 60, false), (u64::MAX, false)] {
            assert_eq!(Units::new(units).is_ok(), ok, "{units}");
        }
        assert!(Route::new(2).is_err() && TxStatus::new(6).is_err());
        for status in TxStatus::ALL {
            assert_eq!(TxStatus::new(status.get().into()), Ok(status));
        }
    }

    #[test]
    fn a_memo_names_an_order_unless_it_ends_like_a_remark() {
        let order: OrderId = format!("0x{}", "ab".repeat(32)).parse().unwrap();
        let memo = Memo::from(order);
        assert_eq!((memo.order(), memo.to_string()), (Some(order), order.to_string()));
        let mut remark = [7; 32];
        remark[20..].fill(0);
        assert_eq!(Memo(remark.into()).order(), None);
        remark[31] = 1;
        assert_eq!(Memo(remark.into()).order(), Some(OrderId(remark.into())));
    }

    #[test]
    fn committed_is_paid_and_only_failed_or_rejected_is_void() {
        let standings = TxStatus::ALL.map(TxStatus::standing);
        use Standing::{Open, Paid, Void};
        assert_eq!(standings, [Open, Open, Paid, Paid, Void, Void]);
    }

    #[test]
    fn a_hash_of_the_venue_is_read_with_or_without_its_prefix() {
        let text = "ab".repeat(40);
        assert!([&text, &format!("0x{text}")].into_iter().all(|it| tx_key_of(it) == Some(tx_key(&[0xab; 40]))));
        for other in ["", "0x", &text[2..], &"ab".repeat(32), &"zz".repeat(40), &format!("{text}00")] {
            assert_eq!(tx_key_of(other), None, "{other}");
        }
    }

    #[test]
    fn an_action_keeps_its_digits() {
        let (to, order) = (AccountIndex(722_011), OrderId(B256::repeat_byte(1)));
        let action = |amount, fee| TransferAction::new(to, Holding::COLLATERAL, Units(amount), fee, order);
        assert!(action(MAX_JSON_INTEGER, 3_000_000).is_some());
        assert!(action(MAX_JSON_INTEGER + 1, 0).is_none());
        assert!(action(1, MAX_JSON_INTEGER + 1).is_none());
    }
}
