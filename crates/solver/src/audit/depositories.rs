//! Depositories: deposits that went in, and payouts that came out.

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, U256};
use alloy::sol_types::SolCall;
use domain::ids::{OrderId, PayoutNonce};
use domain::money::{Amount, Signed};
use evm::contracts::{Depository, Erc20};
use evm::{At, Execution, Head, SeenDeposit};
use store::audit::{self, Deposit};
use store::payouts;

use super::{Audit, Check};
use crate::error::SolverError;
use crate::handle::ChainHandle;
use crate::orders::deposits::counts;

/// Blocks compared together, and the deposits that may be in them.
const BLOCKS_PER_RANGE: u64 = 500;
const MAX_DEPOSITS: i64 = 50_000;
/// Blocks searched for unknown deposits if neither the database nor the configuration names a first block.
const DEFAULT_SEARCH_BLOCKS: u64 = 512;

type Sums = BTreeMap<Address, Amount>;

impl Audit<'_, '_> {
    pub(super) fn depository(&mut self, handle: &ChainHandle, at: Head) -> Result<(), SolverError> {
        let name = &handle.chain.name;
        let mut deposits = Check::new(name, "deposits are those on the chain");
        let mut executions = Check::new(name, "payouts of the depository were signed for");
        let (mut came, mut went) = (Sums::new(), Sums::new());
        let known = audit::first_block(self.tx, handle.id())?;
        let configured = handle.settings.start_block.map(|block| block + 1);
        let begin =
            [known, configured].into_iter().flatten().min().unwrap_or(at.number.saturating_sub(DEFAULT_SEARCH_BLOCKS));
        let mut first = begin;
        while first <= at.number {
            let last = at.number.min(first.saturating_add(BLOCKS_PER_RANGE - 1));
            self.compare(handle, (first, last), &mut deposits, &mut came)?;
            for execution in self.wait(handle.nodes.quorum_executions(1, (first, last), &handle.watch))? {
                self.known(handle, &execution, &mut executions, &mut went)?;
            }
            (self.progress)(name, deposits.check, last - begin, at.number - begin);
            first = last + 1;
        }
        self.checks.extend([deposits, executions]);
        self.balances(handle, at, &came, &went)
    }

    /// Rows and logs of a range, each against the other.
    fn compare(
        &mut self,
        handle: &ChainHandle,
        range: (u64, u64),
        check: &mut Check,
        came: &mut Sums,
    ) -> Result<(), SolverError> {
        let rows = audit::deposits(self.tx, handle.id(), range, MAX_DEPOSITS)?;
        if i64::try_from(rows.len()).is_ok_and(|count| count == MAX_DEPOSITS) {
            return Err(SolverError::InvariantViolated("more deposits in a few blocks than an audit can hold"));
        }
        let mut rows: BTreeMap<(B256, u32), Deposit> =
            rows.into_iter().map(|row| ((row.tx, row.ordinal), row)).collect();
        for row in rows.values() {
            let sum = came.entry(row.currency).or_default();
            *sum = sum.checked_add(row.amount)?;
        }
        check.compared += rows.len() as u64;
        for (_, hash) in self.wait(handle.nodes.blocks_with_deposits(range.0, range.1, &handle.watch))? {
            let block = self.wait(handle.nodes.block_by_hash(hash, &handle.watch))?;
            let block =
                block.ok_or(SolverError::InvariantViolated("a block with deposits is not known to any node"))?;
            for seen in block.deposits.iter().filter(|seen| counts(handle, seen)) {
                match rows.remove(&(seen.tx, seen.ordinal)) {
                    None if self.is_doubtful(handle.id(), block.head.number) => {
                        // The depository has it all the same.
                        let sum = came.entry(seen.currency).or_default();
                        *sum = sum.checked_add(Amount::new(seen.amount))?;
                        check.waits(&format!(
                            "a deposit of {} {} in transaction {} (block {})",
                            seen.amount, seen.currency, seen.tx, block.head.number
                        ));
                    }
                    None => {
                        check.compared += 1;
                        check.differs(format!(
                            "a deposit of {} {} in transaction {} (place {}, block {}) is not in the database",
                            seen.amount, seen.currency, seen.tx, seen.ordinal, block.head.number
                        ));
                    }
                    Some(row) => differences(&row, block.head, seen, check),
                }
            }
        }
        for row in rows.into_values() {
            check.differs(format!(
                "a deposit of {} {} in transaction {} (place {}, block {}) is not on the chain",
                row.amount, row.currency, row.tx, row.ordinal, row.block_number
            ));
        }
        Ok(())
    }

    fn known(
        &mut self,
        handle: &ChainHandle,
        execution: &Execution,
        check: &mut Check,
        went: &mut Sums,
    ) -> Result<(), SolverError> {
        check.compared += 1;
        let call = &execution.call;
        let transfer = Erc20::transferCall::abi_decode(&call.data).ok().filter(|_| call.data.len() == 68);
        let (currency, amount) = match transfer {
            Some(transfer) => (call.to, transfer.amount),
            None => (Address::ZERO, call.value),
        };
        let sum = went.entry(currency).or_default();
        *sum = sum.checked_add(Amount::new(amount))?;
        let mut known = payouts::of_request(self.tx, execution.request)?.is_some();
        if !known {
            // A payout that was adopted from the chain has no signature here, but has its nonce.
            let seen = self.wait(handle.nodes.transaction(execution.tx))?;
            let call = seen.and_then(|seen| Depository::executeCall::abi_decode(&seen.sent.input).ok());
            let nonce = call.map(|call| PayoutNonce(call.request.nonce.into()));
            known = nonce.is_some_and(|nonce| payouts::has_nonce(self.tx, nonce).unwrap_or(false));
        }
        if !known {
            check.differs(format!(
                "{amount} {currency} left the depository in transaction {} (block {}), and the database has not signed \
                 for it",
                execution.tx, execution.block
            ));
        }
        Ok(())
    }

    /// Checks that the balance is the deposits less the payouts.
    fn balances(&mut self, handle: &ChainHandle, at: Head, came: &Sums, went: &Sums) -> Result<(), SolverError> {
        let mut check =
            Check::new(&handle.chain.name, "the depository holds what was deposited less what was paid out");
        let owner = handle.chain.depository;
        for currency in handle.chain.currencies() {
            let Some(address) = currency.address.packed() else { continue };
            let held = if address.is_zero() {
                self.wait(handle.nodes.balance(owner, At::Number(at.number)))?
            } else {
                let call = Erc20::balanceOfCall { owner }.abi_encode().into();
                let answer = self.wait(handle.nodes.call(address, call, At::Number(at.number)))?;
                if answer.len() == 32 { U256::from_be_slice(&answer) } else { U256::ZERO }
            };
            let of = |sums: &Sums| sums.get(&address).copied().unwrap_or_default();
            let (came, went) = (of(came), of(went));
            check.compared += 1;
            if Amount::new(held).checked_add(went)? != came {
                let gap = Signed::difference(Amount::new(held).checked_add(went)?, came);
                check.differs(format!(
                    "{}: {held} is there at block {}; {came} came in and {went} was paid out, a difference of {gap}",
                    currency.symbol, at.number
                ));
            }
        }
        self.checks.push(check);
        Ok(())
    }
}

fn differences(row: &Deposit, head: Head, seen: &SeenDeposit, check: &mut Check) {
    let mut differs = |what: &str, ours: String, chain: String| {
        if ours != chain {
            check.differs(format!(
                "the {what} of the deposit in transaction {} (place {}) is {ours} in the database, {chain} on the chain",
                row.tx, row.ordinal
            ));
        }
    };
    let id = |id: Option<OrderId>| id.map_or("none".to_owned(), |id| id.to_string());
    differs("amount", row.amount.to_string(), seen.amount.to_string());
    differs("currency", row.currency.to_string(), seen.currency.to_string());
    differs("depositor", row.depositor.to_string(), seen.depositor.to_string());
    differs("order", id(row.claim), id(seen.id.candidate().map(OrderId)));
    differs("block", row.block_hash.to_string(), head.hash.to_string());
}
