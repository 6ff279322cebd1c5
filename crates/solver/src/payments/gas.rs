//! Gas of a fill: one rule, read by the quote, the sponsor, the refund and the transaction itself.

use alloy::primitives::Address;
use domain::catalog::{Chain, FillGas};
use domain::quote::{Quote, QuoteOptions, Swap};

/// The shapes a fill takes.
#[derive(Clone, Copy, Debug)]
pub enum Shape<'a> {
    /// Native currency straight to a wallet.
    NativeToWallet,
    /// Native currency through the router to a contract, or a token from the treasury.
    Transfer,
    /// A trade, native currency beside the output, or calls.
    Routed { options: &'a QuoteOptions, pools: usize },
}

impl<'a> Shape<'a> {
    /// The shape of a quote's fill, as it is paid to a recipient that is a contract or not.
    pub fn of(quote: &'a Quote, to_contract: bool) -> Self {
        let native = quote.terms.as_ref().is_some_and(|terms| terms.payout.address.evm() == Some(Address::ZERO));
        if is_routed(quote) {
            let pools = pools(quote.destination_swap.as_ref());
            return Self::Routed { options: &quote.ask.options, pools };
        }
        Self::transfer(native, to_contract)
    }

    pub const fn transfer(native: bool, to_contract: bool) -> Self {
        if native && !to_contract { Self::NativeToWallet } else { Self::Transfer }
    }
}

/// Gas that a fill usually uses, and that is charged: units, and bytes of calldata beyond those of a transfer.
pub fn typical(gas: FillGas, shape: Shape<'_>) -> (u64, usize) {
    match shape {
        Shape::NativeToWallet => (gas.native_typical, 0),
        Shape::Transfer => (gas.erc20_typical, 0),
        Shape::Routed { options, pools } => routed(gas, options, pools),
    }
}

/// True for a fill of more than one transfer: a trade, native currency beside the output, or calls.
pub fn is_routed(quote: &Quote) -> bool {
    quote.destination_swap.is_some() || quote.figures.top_up.is_some() || !quote.ask.options.calls.is_empty()
}

/// Gas of a routed fill. More pools and calls take more.
fn routed(gas: FillGas, options: &QuoteOptions, pools: usize) -> (u64, usize) {
    /// Encoded bytes of the spending, the trade, the check of its output, the gas top-up and the sweep.
    const AROUND: usize = 3_100;
    /// Encoded bytes of one call beside its data: its place in the list and its other fields.
    const CALL: usize = 224;
    let traded = POOL_GAS.saturating_mul(u64::try_from(pools).unwrap_or(u64::MAX));
    let units = options.calls_gas.unwrap_or_default().max(gas.routed_typical.saturating_add(traded));
    let calls: usize = options.calls.iter().map(|call| CALL + call.data.len().div_ceil(32) * 32).sum();
    (units, AROUND + calls)
}

/// Pools that a fill with this trade goes through.
pub fn pools(swap: Option<&Swap>) -> usize {
    swap.map_or(0, |swap| swap.path.fees().len())
}

/// Gas of a trade on one pool.
const POOL_GAS: u64 = 150_000;

/// Largest gas limit of a fill. No chain takes a transaction with a larger one, which would block its lane for ever.
const MAX_FILL_GAS: u64 = 12_000_000;

/// Gas limit of a routed fill. It is generous: unused gas is free. Gas of the caller's calls was measured, and may
/// change a little.
pub fn routed_limit(chain: &Chain, quote: &Quote) -> u64 {
    let calls = quote.ask.options.calls_gas.unwrap_or_default();
    chain.fill_gas.routed_limit.saturating_add(calls.saturating_add(calls / 4)).min(MAX_FILL_GAS)
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{B256, U256};
    use domain::ids::OrderId;
    use domain::quote::Call;
    use domain::swap::Path;

    use alloy::primitives::Bytes;
    use domain::money::Amount;
    use evm::fills::{Fill, Funds};
    use evm::routed::{FromSpendLimiter, Message};
    use evm::swap::{self, Trade};

    use super::*;

    /// Every shape of a fill, with calls of every size: never fewer bytes are charged for than are sent.
    #[test]
    fn the_calldata_of_a_fill_is_not_underestimated() {
        let address = Address::repeat_byte;
        let spend_limiter =
            FromSpendLimiter { spend_limiter: address(1), treasury: address(2), token: address(3), amount: U256::MAX };
        let gas = FillGas {
            native_limit: 0,
            erc20_limit: 0,
            native_typical: 0,
            erc20_typical: 0,
            routed_limit: 0,
            routed_typical: 150_000,
        };
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
                let options = QuoteOptions { calls: wanted, ..QuoteOptions::default() };
                let (_, bytes) = routed(gas, &options, path.map_or(0, |path| path.fees().len()));
                assert!(sent <= bytes, "{sent} bytes, and {bytes} are charged for");
                longest = longest.max(if size == 0 { sent } else { 0 });
            }
        }
        assert!(longest * 3 > 2 * 3_100, "more than half as much again is charged as there is: {longest}");
        let units = |pools| routed(gas, &QuoteOptions::default(), pools).0;
        assert_eq!((units(0), units(1), units(2)), (150_000, 300_000, 450_000));
    }
}
