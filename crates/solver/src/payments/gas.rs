//! Gas of a payment: one rule, read by the quote, the sponsor, the refund and the transaction itself.
//!
//! A fill is sent with the limit that is charged for, a tenth above the estimate of the whole fill. There is no slack
//! beyond it that a recipient's code or a caller's calls could burn at our cost.

use alloy::primitives::Address;
use domain::catalog::FillGas;
use domain::money::Amount;
use domain::quote::{Call, Quote, QuoteOptions, Swap};
use market::Snapshot;

/// The gas of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gas {
    /// The limit of the transaction, which is also what is charged for.
    pub limit: u64,
    /// Bytes of calldata beyond those of a transfer.
    pub bytes: usize,
}

impl Gas {
    /// The cost at a snapshot's fees, in the chain's native currency.
    pub fn cost(self, snapshot: &Snapshot) -> Amount {
        snapshot.cost_with_data(self.limit, self.bytes)
    }
}

/// The shapes a payment takes. `tried` is the gas that the whole payment took when it was tried before it was promised.
#[derive(Clone, Copy, Debug)]
pub enum Shape<'a> {
    /// Native currency straight to a wallet.
    NativeToWallet,
    /// Native currency through the router to a contract.
    NativeToContract { tried: Option<u64> },
    /// A token from the treasury.
    Token,
    /// A trade, native currency beside the output, or calls.
    Routed { tried: Option<u64>, calls: &'a [Call], pools: usize },
}

impl<'a> Shape<'a> {
    /// The shape of a quote's fill through this trade, as it is paid to a recipient that is a contract or not.
    pub fn of(quote: &'a Quote, swap: Option<&Swap>, to_contract: bool) -> Self {
        let tried = quote.ask.options.tried_gas;
        if is_routed(quote) {
            let pools = pools(swap);
            // The fill was tried through the quoted pools.
            let more = u64::try_from(pools.saturating_sub(self::pools(quote.destination_swap.as_ref())));
            let more = POOL_GAS.saturating_mul(more.unwrap_or(u64::MAX));
            let tried = tried.map(|tried| tried.saturating_add(more));
            return Self::Routed { tried, calls: &quote.ask.options.calls, pools };
        }
        let native = quote.terms.as_ref().is_some_and(|terms| terms.payout.address.packed() == Some(Address::ZERO));
        Self::transfer(native, to_contract, tried)
    }

    pub const fn transfer(native: bool, to_contract: bool, tried: Option<u64>) -> Self {
        match (native, to_contract) {
            (true, true) => Self::NativeToContract { tried },
            (true, false) => Self::NativeToWallet,
            (false, _) => Self::Token,
        }
    }
}

/// The gas of a payment of this shape. An estimate is the word of one node: it counts from `least` where it is made,
/// and the call that is sent from `least` of its own bytes.
pub fn of(gas: FillGas, shape: Shape<'_>) -> Gas {
    let (estimate, bytes) = match shape {
        Shape::NativeToWallet => (gas.native_typical, 0),
        Shape::NativeToContract { tried } => (tried.unwrap_or(gas.contract_typical), 0),
        Shape::Token => (gas.erc20_typical, 0),
        Shape::Routed { tried, calls, pools } => (routed(gas, tried, pools), routed_bytes(calls)),
    };
    Gas { limit: estimate.saturating_add(estimate / 10).min(MAX_FILL_GAS), bytes }
}

/// The gas below which no node takes a transaction with these bytes: before its first instruction, and at least for the
/// bytes (EIP-7623). One with less would block its lane.
pub fn least(data: &[u8], authorizations: usize) -> u64 {
    let zeros = data.iter().filter(|byte| **byte == 0).count() as u64;
    let tokens = (data.len() as u64).saturating_sub(zeros).saturating_mul(4).saturating_add(zeros);
    let intrinsic = tokens.saturating_mul(4).saturating_add((authorizations as u64).saturating_mul(25_000));
    intrinsic.max(tokens.saturating_mul(10)).saturating_add(21_000)
}

/// Bytes of the calldata of a sweep.
const SWEEP_BYTES: usize = 228;

/// The cost of sweeping a deposit address into the depository, in the chain's native currency: what the quote of an
/// address, its sponsor and everything that goes back after a sweep are charged.
pub fn sweep_cost(snapshot: &Snapshot, native: bool) -> Amount {
    snapshot.cost_with_data(sweep(native), SWEEP_BYTES)
}

/// The cost of bringing a deposit into the depository where that is ours to do: by a sweep, or by a relayer. None where
/// the user does it. `trades` says whether the currency is exchanged before it is deposited.
pub fn origin_cost(options: &QuoteOptions, snapshot: &Snapshot, native: bool, trades: bool) -> Option<Amount> {
    if options.deposit_address.is_some() {
        return Some(sweep_cost(snapshot, native));
    }
    let overhead = if options.permit.is_some() { Some(0) } else { options.relayed_gas };
    Some(snapshot.cost_with_data(relay(trades).saturating_add(overhead?), relay_bytes(trades)))
}

/// Gas of the first sweep of a deposit address, which also creates its contract.
const fn sweep(native: bool) -> u64 {
    if native { 90_000 } else { 115_000 }
}

/// The gas limit of a sweep: tokens differ, and none but listed ones are swept.
pub const fn sweep_limit(native: bool) -> u64 {
    if native { 130_000 } else { 250_000 }
}

/// Bytes of the calldata of a relayed deposit, with a trade before it and without.
const fn relay_bytes(trades: bool) -> usize {
    if trades { 3_200 } else { 1_600 }
}

/// Gas of a deposit that a relayer brings in by the user's signature.
const fn relay(trades: bool) -> u64 {
    if trades { 360_000 } else { 175_000 }
}

/// The gas limit of such a deposit, a quarter above the estimate: storage may change until it is mined. One node
/// says the estimate, so the limit is at least the gas that was measured and charged for: a lower one would have the
/// relay fail at our cost. `most` is the gas that it was estimated within.
pub fn relay_within(estimate: u64, trades: bool, most: u64) -> u64 {
    estimate.saturating_add(estimate / 4).max(relay(trades)).min(most)
}

/// The most gas of such a deposit: pools and tokens differ. What it takes beyond the charge is small beside the fees.
pub const fn relay_limit(trades: bool) -> u64 {
    relay(trades) + relay(trades) / 2
}

/// The gas limit of refunds, returns and excess: a smart wallet whose code was never read must get its money back.
pub const fn generous_limit(gas: FillGas, native_to_wallet: bool) -> u64 {
    if native_to_wallet { gas.native_limit } else { gas.erc20_limit }
}

/// True for a fill of more than one transfer: a trade, native currency beside the output, or calls.
pub fn is_routed(quote: &Quote) -> bool {
    quote.destination_swap.is_some() || quote.figures.top_up.is_some() || !quote.ask.options.calls.is_empty()
}

/// Gas of a routed fill. One without a trade takes what it took when it was tried; pools move, and may take more.
fn routed(gas: FillGas, tried: Option<u64>, pools: usize) -> u64 {
    let traded = POOL_GAS.saturating_mul(u64::try_from(pools).unwrap_or(u64::MAX));
    let usual = gas.routed_typical.saturating_add(traded);
    match tried {
        Some(tried) if pools == 0 => tried,
        Some(tried) => tried.max(usual),
        None => usual,
    }
}

fn routed_bytes(calls: &[Call]) -> usize {
    /// Encoded bytes of the spending, the trade, the check of its output, the gas top-up and the sweep.
    const AROUND: usize = 3_100;
    /// Encoded bytes of one call beside its data: its place in the list and its other fields.
    const CALL: usize = 224;
    let calls: usize = calls.iter().map(|call| CALL + call.data.len().div_ceil(32) * 32).sum();
    AROUND + calls
}

/// Pools that a fill with this trade goes through.
pub fn pools(swap: Option<&Swap>) -> usize {
    swap.map_or(0, |swap| swap.path.fees().len())
}

/// Gas of a trade on one pool.
const POOL_GAS: u64 = 150_000;

/// Largest gas limit of a fill. No chain takes a transaction with a larger one, which would block its lane for ever.
const MAX_FILL_GAS: u64 = 12_000_000;

#[cfg(test)]
mod tests {
    use alloy::primitives::{B256, U256};
    use domain::ids::OrderId;
    use domain::swap::Path;

    use alloy::primitives::Bytes;
    use evm::fills::{Fill, Funds};
    use evm::routed::{FromSpendLimiter, Message};
    use evm::swap::{self, Trade};

    use super::*;

    const GAS: FillGas = FillGas {
        native_limit: 0,
        erc20_limit: 0,
        native_typical: 22_280,
        erc20_typical: 70_000,
        contract_typical: 65_000,
        routed_typical: 150_000,
    };

    #[test]
    fn the_limit_is_the_estimate_and_a_tenth() {
        let limit = |shape| of(GAS, shape).limit;
        assert_eq!(limit(Shape::transfer(true, false, None)), 24_508);
        assert_eq!(limit(Shape::transfer(false, true, None)), 77_000);
        assert_eq!(limit(Shape::transfer(true, true, None)), 71_500);
        assert_eq!(limit(Shape::transfer(true, true, Some(43_000))), 47_300, "a contract that was tried");
        let routed = |tried, pools| limit(Shape::Routed { tried, calls: &[], pools });
        assert_eq!((routed(None, 0), routed(None, 1), routed(None, 2)), (165_000, 330_000, 495_000));
        assert_eq!((routed(Some(90_001), 0), routed(Some(90_000), 1)), (99_001, 330_000));
        assert_eq!((routed(Some(3_000_000), 1), routed(Some(u64::MAX), 0)), (3_300_000, MAX_FILL_GAS));
    }

    /// A node may say anything about the gas of a relay.
    #[test]
    fn the_estimate_of_a_relay_counts_from_what_was_measured() {
        let within = |estimate, trades| relay_within(estimate, trades, relay_limit(trades));
        let relayed = [0, 1, 140_000, 200_000, u64::MAX].map(|estimate| within(estimate, false));
        assert_eq!(relayed, [175_000, 175_000, 175_000, 250_000, 262_500]);
        assert_eq!([0, u64::MAX].map(|estimate| within(estimate, true)), [360_000, 540_000]);
    }

    #[test]
    fn the_least_gas_of_a_call_is_that_of_its_bytes() {
        // A transfer: 21,000, and its floor of ten for every token.
        assert_eq!(least(&[], 0), 21_000);
        assert_eq!(least(&[1; 100], 0), 21_000 + 100 * 40);
        assert_eq!(least(&[0; 100], 0), 21_000 + 100 * 10);
        assert_eq!(least(&[0; 100], 1), 21_000 + 100 * 4 + 25_000);
    }

    /// Every shape of a fill, with calls of every size: never fewer bytes are charged for than are sent.
    #[test]
    fn the_calldata_of_a_fill_is_not_underestimated() {
        let address = Address::repeat_byte;
        let spend_limiter =
            FromSpendLimiter { spend_limiter: address(1), treasury: address(2), token: address(3), amount: U256::MAX };
        let one = Path::new(vec![address(3), address(4)], vec![500]).unwrap();
        let two = Path::new(vec![address(3), address(5), address(4)], vec![500, 3_000]).unwrap();
        let bounds = [
            swap::Bound::ExactInput { input: U256::MAX, least_output: U256::MAX },
            swap::Bound::ExactOutput { output: U256::MAX, most_input: U256::MAX },
        ];
        let mut longest = 0;
        for path in [None, Some(&one), Some(&two)] {
            for (bound, native_in, native_out, size) in bounds.iter().flat_map(|bound| {
                let ends = [(false, false), (true, false), (false, true)];
                ends.into_iter().flat_map(move |(a, b)| [0, 1, 100, 4_000].map(|size| (bound, a, b, size)))
            }) {
                let data = Bytes::from(vec![7; size]);
                let wish = Call { to: address(9), value: Amount::ZERO, data: data.clone() };
                let call = Message { to: address(9), value: U256::ZERO, data };
                let (wanted, calls) = if size == 0 { (vec![], vec![]) } else { (vec![wish; 3], vec![call; 3]) };
                let trade = path.map(|path| Trade {
                    path,
                    native_in,
                    native_out,
                    bound: *bound,
                    dex: address(6),
                    wrapped: address(7),
                });
                let fill = Fill {
                    router: address(8),
                    funds: if native_in { Funds::Native(U256::MAX >> 1) } else { Funds::SpendLimiter(spend_limiter) },
                    trade,
                    recipient: address(10),
                    top_up: U256::from(1),
                    calls: &calls,
                    rest_to: address(11),
                };
                let sent = fill.message(OrderId(B256::ZERO)).data.len();
                let bytes = routed_bytes(&wanted);
                assert!(sent <= bytes, "{sent} bytes, and {bytes} are charged for");
                longest = longest.max(if size == 0 { sent } else { 0 });
            }
        }
        assert!(longest * 3 > 2 * 3_100, "more than half as much again is charged as there is: {longest}");
    }
}
