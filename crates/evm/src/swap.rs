//! A trade on Uniswap's SwapRouter02, made by our router.
//!
//! The market decides on the best path and what it pays: here a decided trade becomes calls. The DEX enforces the bound
//! and reverts when it cannot; there is no deadline, because the bound is what protects a late trade.

use alloy::primitives::aliases::{U24, U160};
use alloy::primitives::{Address, Bytes, U256, address};
use alloy::sol;
use alloy::sol_types::SolCall;
use domain::swap::Path;

use crate::routed::{Calls, Part};

sol! {
    interface SwapRouter {
        struct ExactInputSingleParams {
            address tokenIn;
            address tokenOut;
            uint24 fee;
            address recipient;
            uint256 amountIn;
            uint256 amountOutMinimum;
            uint160 sqrtPriceLimitX96;
        }

        struct ExactInputParams {
            bytes path;
            address recipient;
            uint256 amountIn;
            uint256 amountOutMinimum;
        }

        struct ExactOutputSingleParams {
            address tokenIn;
            address tokenOut;
            uint24 fee;
            address recipient;
            uint256 amountOut;
            uint256 amountInMaximum;
            uint160 sqrtPriceLimitX96;
        }

        struct ExactOutputParams {
            bytes path;
            address recipient;
            uint256 amountOut;
            uint256 amountInMaximum;
        }

        function exactInputSingle(ExactInputSingleParams params) external payable returns (uint256 amountOut);
        function exactInput(ExactInputParams params) external payable returns (uint256 amountOut);
        function exactOutputSingle(ExactOutputSingleParams params) external payable returns (uint256 amountIn);
        function exactOutput(ExactOutputParams params) external payable returns (uint256 amountIn);
        function multicall(bytes[] data) external payable returns (bytes[] results);
        function unwrapWETH9(uint256 amountMinimum, address recipient) external payable;
        function refundETH() external payable;
    }

    interface Wrapped {
        function deposit() external payable;
        function withdraw(uint256 amount) external;
    }
}

/// The DEX reads this recipient as itself, and the address before it as its caller.
const DEX_ITSELF: Address = address!("0000000000000000000000000000000000000002");

/// The fixed side of a trade, and how far the other may move. The fixed amount is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    ExactInput { input: U256, least_output: U256 },
    ExactOutput { output: U256, most_input: U256 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trade<'a> {
    /// From the input to the output, with the native currency as its wrapped token.
    pub path: &'a Path,
    pub native_in: bool,
    pub native_out: bool,
    pub bound: Bound,
    /// SwapRouter02.
    pub dex: Address,
    pub wrapped: Address,
}

impl Trade<'_> {
    /// The amount that the router must hold before the trade.
    pub fn most_input(&self) -> U256 {
        match self.bound {
            Bound::ExactInput { input, .. } => input,
            Bound::ExactOutput { most_input, .. } => most_input,
        }
    }

    /// None for the native currency.
    pub fn token_in(&self) -> Option<Address> {
        if self.native_in { None } else { self.path.tokens().first().copied() }
    }

    /// None for the native currency.
    pub fn token_out(&self) -> Option<Address> {
        if self.native_out { None } else { self.path.tokens().last().copied() }
    }

    /// The part of the router's balance that is the trade's output.
    pub fn output(&self) -> Part {
        match self.bound {
            Bound::ExactInput { .. } => Part::All,
            Bound::ExactOutput { output, .. } => Part::Exactly(output),
        }
    }

    /// The amount below which the trade reverts.
    fn least_output(&self) -> U256 {
        match self.bound {
            Bound::ExactInput { least_output, .. } => least_output,
            Bound::ExactOutput { output, .. } => output,
        }
    }

    /// Adds the trade to the calls. Its output goes to the recipient, which may be the router, and unused tokens to
    /// `unspent_to`. The router pays native currency to anyone but itself, so that it is logged, and with an exact
    /// input that pays out all native value there is.
    pub fn add_to(&self, calls: &mut Calls, recipient: Address, unspent_to: Address) {
        let router = calls.router();
        let direct = !self.path.is_wrapping() && !self.native_out && recipient > DEX_ITSELF;
        if self.path.is_wrapping() {
            self.wrap_or_unwrap(calls);
        } else {
            self.swap(calls, if direct { recipient } else { router });
        }
        // Even an exact input may be left over, where a pool runs dry before it is used up. The rest leaves before the
        // recipient is called, because the router may have approved them earlier. Native value is returned by the
        // router at its end.
        if let Some(token) = self.token_in() {
            calls.pay_token(token, unspent_to, Part::All);
        }
        let through_router = !direct || recipient == router;
        if let Some(token) = self.token_out().filter(|_| through_router && !self.path.is_wrapping()) {
            // The DEX has checked what it sent. Either token may have called someone since, who took the output by an
            // allowance that a stranger made the router give. Native currency has no allowances.
            calls.require_token(token, self.least_output());
        }
        if direct || recipient == router {
            return;
        }
        match self.token_out() {
            Some(token) => calls.pay_token(token, recipient, self.output()),
            None => calls.pay_native(recipient, self.output()),
        }
    }

    /// Wrapping is at par: the fixed amount is both sides.
    pub(crate) fn wrapped_amount(&self) -> U256 {
        match self.bound {
            Bound::ExactInput { input, .. } => input,
            Bound::ExactOutput { output, .. } => output,
        }
    }

    fn wrap_or_unwrap(&self, calls: &mut Calls) {
        let amount = self.wrapped_amount();
        if self.native_in {
            calls.call(self.wrapped, amount, Wrapped::depositCall {}.abi_encode());
        } else {
            calls.call(self.wrapped, U256::ZERO, Wrapped::withdrawCall { amount }.abi_encode());
        }
    }

    fn swap(&self, calls: &mut Calls, recipient: Address) {
        let mut parts = vec![self.swap_data(if self.native_out { DEX_ITSELF } else { recipient })];
        if self.native_out {
            let unwrap = SwapRouter::unwrapWETH9Call { amountMinimum: self.least_output(), recipient };
            parts.push(unwrap.abi_encode().into());
        }
        if self.native_in {
            // Native value that the pools did not take would stay at the DEX for the first who asks for it.
            parts.push(SwapRouter::refundETHCall {}.abi_encode().into());
        }
        let data = match <[Bytes; 1]>::try_from(parts) {
            Ok([swap]) => swap,
            Err(data) => SwapRouter::multicallCall { data }.abi_encode().into(),
        };
        match self.token_in() {
            Some(token) => calls.spend_token(token, self.dex, data, Part::Exactly(self.most_input())),
            None => calls.call(self.dex, self.most_input(), data),
        }
    }

    fn swap_data(&self, recipient: Address) -> Bytes {
        let (tokens, fees) = (self.path.tokens(), self.path.fees());
        // A fee of more than 24 bits names no pool, and neither does the largest 24-bit number.
        let single = match (tokens, fees) {
            ([token_in, token_out], [fee]) => Some((*token_in, *token_out, U24::saturating_from(*fee))),
            _ => None,
        };
        let data = match (self.bound, single) {
            (Bound::ExactInput { input, least_output }, Some((token_in, token_out, fee))) => {
                let params = SwapRouter::ExactInputSingleParams {
                    tokenIn: token_in,
                    tokenOut: token_out,
                    fee,
                    recipient,
                    amountIn: input,
                    amountOutMinimum: least_output,
                    sqrtPriceLimitX96: U160::ZERO,
                };
                SwapRouter::exactInputSingleCall { params }.abi_encode()
            }
            (Bound::ExactInput { input, least_output }, None) => {
                let path = packed(tokens.iter(), fees.iter());
                let params =
                    SwapRouter::ExactInputParams { path, recipient, amountIn: input, amountOutMinimum: least_output };
                SwapRouter::exactInputCall { params }.abi_encode()
            }
            (Bound::ExactOutput { output, most_input }, Some((token_in, token_out, fee))) => {
                let params = SwapRouter::ExactOutputSingleParams {
                    tokenIn: token_in,
                    tokenOut: token_out,
                    fee,
                    recipient,
                    amountOut: output,
                    amountInMaximum: most_input,
                    sqrtPriceLimitX96: U160::ZERO,
                };
                SwapRouter::exactOutputSingleCall { params }.abi_encode()
            }
            (Bound::ExactOutput { output, most_input }, None) => {
                // Packed from the end: the DEX walks back from the output.
                let path = packed(tokens.iter().rev(), fees.iter().rev());
                let params =
                    SwapRouter::ExactOutputParams { path, recipient, amountOut: output, amountInMaximum: most_input };
                SwapRouter::exactOutputCall { params }.abi_encode()
            }
        };
        data.into()
    }
}

/// Tokens with the fees between them as 24-bit numbers, without padding.
fn packed<'a>(tokens: impl Iterator<Item = &'a Address>, mut fees: impl Iterator<Item = &'a u32>) -> Bytes {
    let mut bytes = Vec::new();
    for token in tokens {
        bytes.extend_from_slice(token.as_slice());
        if let Some(fee) = fees.next() {
            bytes.extend_from_slice(&U24::saturating_from(*fee).to_be_bytes::<3>());
        }
    }
    bytes.into()
}

#[cfg(test)]
mod tests {
    use alloy::primitives::hex;

    use super::*;
    use crate::contracts::Router;

    #[test]
    fn selectors_are_those_of_swap_router_02() {
        let table: [([u8; 4], [u8; 4]); 9] = [
            (SwapRouter::exactInputSingleCall::SELECTOR, hex!("04e45aaf")),
            (SwapRouter::exactInputCall::SELECTOR, hex!("b858183f")),
            (SwapRouter::exactOutputSingleCall::SELECTOR, hex!("5023b4df")),
            (SwapRouter::exactOutputCall::SELECTOR, hex!("09b81346")),
            (SwapRouter::multicallCall::SELECTOR, hex!("ac9650d8")),
            (SwapRouter::unwrapWETH9Call::SELECTOR, hex!("49404b7c")),
            (SwapRouter::refundETHCall::SELECTOR, hex!("12210e8a")),
            (Wrapped::depositCall::SELECTOR, hex!("d0e30db0")),
            (Wrapped::withdrawCall::SELECTOR, hex!("2e1a7d4d")),
        ];
        for (ours, public) in table {
            assert_eq!(hex::encode(ours), hex::encode(public));
        }
    }

    /// The last call before the output is used: after the swap, and after the unspent input, which may call out too.
    #[test]
    fn the_output_is_checked_where_it_arrives_at_the_router() {
        let [router, dex, wrapped, user] = [1, 2, 3, 4].map(Address::repeat_byte);
        let path = Path::new(vec![Address::repeat_byte(5), Address::repeat_byte(6)], vec![500]).unwrap();
        let wrapping = Path::wrapping(wrapped);
        let sell = Bound::ExactInput { input: U256::from(9), least_output: U256::from(7) };
        let buy = Bound::ExactOutput { output: U256::from(8), most_input: U256::from(9) };
        let checks = |path: &Path, native_out: bool, bound, recipient| {
            let mut calls = Calls::of(router);
            let native_in = !native_out && path.is_wrapping();
            Trade { path, native_in, native_out, bound, dex, wrapped }.add_to(&mut calls, recipient, user);
            let checks = calls.list().iter().map(|call| Router::requireBalanceCall::abi_decode(&call.callData).ok());
            checks.map(|check| check.map(|check| (check.token, check.amount))).collect::<Vec<_>>()
        };
        let token = Address::repeat_byte(6);
        assert_eq!(checks(&path, false, sell, router), [None, None, Some((token, U256::from(7)))]);
        assert_eq!(checks(&path, false, buy, router), [None, None, Some((token, U256::from(8)))]);
        assert_eq!(checks(&path, false, sell, DEX_ITSELF), [None, None, Some((token, U256::from(7))), None]);
        for (path, native_out, recipient) in
            [(&path, false, user), (&path, true, router), (&wrapping, true, router), (&wrapping, false, router)]
        {
            assert!(checks(path, native_out, sell, recipient).iter().all(Option::is_none));
        }
    }

    #[test]
    fn a_path_is_packed_without_padding_and_can_be_turned() {
        let tokens = [0xaa, 0xbb, 0xcc].map(Address::repeat_byte);
        let there = packed(tokens.iter(), [500, 3000].iter());
        let back = packed(tokens.iter().rev(), [500, 3000].iter().rev());
        let [a, b, c] = ["aa", "bb", "cc"].map(|digits| digits.repeat(20));
        assert_eq!(hex::encode(there), format!("{a}0001f4{b}000bb8{c}"));
        assert_eq!(hex::encode(back), format!("{c}000bb8{b}0001f4{a}"));
    }
}
