//! Steps of a quote: the transactions that the user sends, in order.

use std::borrow::Cow;
use std::sync::Arc;

use alloy::primitives::{Address, Bytes, U256};
use domain::catalog::Chain;
use domain::ids::OrderId;
use domain::money::Amount;
use domain::pricing::Side;
use domain::quote::{Bound, Operation, Quote, Swap};
use domain::swap::Path;
use domain::venue::TransferAction;
use evm::calldata;
use evm::permits::{PERMIT2, Permit};
use evm::routed::{Calls, Ends, Message, Part, TokenCalls};
use evm::steps::{Fee, send};
use market::Snapshot;

use crate::context::recipient_code::RecipientCode;
use crate::handle::{ChainHandle, entry};
use crate::payments::call::trade;
use crate::quoting::step_gas::{self, Approval, Routed, Storage, UserTx};
use crate::quoting::user_balances::{Holder, Holding, UserBalances};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    Approve,
    Deposit,
    Swap,
    Send,
    /// A signature, which a relayer of ours submits.
    Authorize,
}

/// One transaction of the user's, or one signature.
#[derive(Clone, Debug)]
pub struct Step {
    pub kind: StepKind,
    pub to: Address,
    pub data: Bytes,
    pub value: Amount,
    pub max_fee: u128,
    pub tip: u128,
    /// The transfer of a withdrawal from the venue, in place of a transaction.
    pub action: Option<TransferAction>,
    /// The signature that lets a relayer send it, in place of a transaction.
    pub permit: Option<Box<Permit>>,
}

/// The steps of a quote, their gas together, and the user's balance of the origin currency, if it is known.
#[derive(Clone, Debug)]
pub struct Plan {
    pub steps: Vec<Step>,
    pub gas: u64,
    pub balance: Option<Amount>,
}

pub struct Planner<'a> {
    pub recipient_code: &'a RecipientCode,
    pub user_balances: &'a Arc<UserBalances>,
    pub handle: &'a Arc<ChainHandle>,
    pub origin: Side<'a>,
    pub destination: Side<'a>,
    pub market: &'a Snapshot,
    /// The address to pay at, if that was asked for.
    pub deposit_address: Option<Address>,
}

impl std::fmt::Debug for Planner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Planner")
    }
}

impl Planner<'_> {
    /// Plans the steps of a quote. None if the chain lacks a contract that the quote goes through.
    pub fn plan(&self, quote: &Quote, order: Option<OrderId>) -> Option<Plan> {
        if let Some(venue) = &self.handle.venue {
            let action = Some(super::venue::action(venue, quote)?);
            let step = self.step(StepKind::Deposit, Address::ZERO, Bytes::new(), quote.figures.input);
            return Some(Plan { steps: vec![Step { action, ..step }], gas: 1, balance: None });
        }
        let user = quote.ask.user.packed()?;
        if quote.ask.options.permit.is_some() {
            return self.signed(quote, order, user);
        }
        let act = match order {
            Some(order) => self.deposit(quote, order, user)?,
            None => self.same_chain(quote)?,
        };
        let token = self.origin.currency.evm_address();
        let (spender, amount) = act.approval.unwrap_or_default();
        let holder = Holder { chain: self.handle.id(), owner: user, token, spender };
        let holding = self.user_balances.holding(self.handle, holder);
        let approvals = if act.approval.is_some() { self.approvals(amount, holding) } else { Vec::new() };
        let balance = holding.map(|holding| holding.balance);
        let storage = self.storage(quote, act.form, balance);
        let gas = approvals.iter().map(|approval| step_gas::of_approval(approval.0)).sum::<u64>();
        let gas = gas.saturating_add(step_gas::of(act.form, storage));
        let approve =
            |(_, amount)| self.step(StepKind::Approve, token, calldata::approve(spender, amount), Amount::ZERO);
        let Message { to, value, data } = act.message;
        let last = self.step(act.kind, to, data, Amount::new(value));
        let steps = approvals.into_iter().map(approve).chain([last]).collect();
        Some(Plan { steps, gas, balance })
    }

    /// The signature of a quote that a relayer is to send, and before it the approval of Permit2, once.
    fn signed(&self, quote: &Quote, order: Option<OrderId>, user: Address) -> Option<Plan> {
        let permit = super::permit::of(quote, order, self.origin.chain, self.handle.treasury)?;
        let (token, amount) = permit.moves();
        let by_permit2 = matches!(permit, Permit::Permit2 { .. });
        let spender = if by_permit2 { PERMIT2 } else { Address::ZERO };
        let holding =
            self.user_balances.holding(self.handle, Holder { chain: self.handle.id(), owner: user, token, spender });
        let approvals = if by_permit2 { self.approvals(amount, holding) } else { Vec::new() };
        let gas = approvals.iter().map(|approval| step_gas::of_approval(approval.0)).sum::<u64>();
        // The first approval is for every permit to come.
        let most = |amount: U256| if amount.is_zero() { amount } else { U256::MAX };
        let approve =
            |(_, amount)| self.step(StepKind::Approve, token, calldata::approve(spender, most(amount)), Amount::ZERO);
        let last = self.step(StepKind::Authorize, self.origin.chain.approval_proxy, Bytes::new(), Amount::ZERO);
        let last = Step { permit: Some(Box::new(permit)), ..last };
        let steps = approvals.into_iter().map(approve).chain([last]).collect();
        Some(Plan { steps, gas, balance: holding.map(|holding| holding.balance) })
    }

    /// The storage that the last step meets, as far as it is known.
    fn storage(&self, quote: &Quote, form: UserTx, balance: Option<Amount>) -> Storage {
        let recipient = match quote.terms {
            Some(_) => Some(self.origin.chain.depository),
            None => quote.ask.recipient.packed(),
        };
        let received = match quote.terms {
            Some(_) => self.origin.currency.evm_address(),
            None => self.destination.currency.evm_address(),
        };
        let has_none = |usual: bool| recipient.map_or(usual, |who| self.has_none(who, received).unwrap_or(usual));
        // The depository has some of everything; a recipient of tokens often has none.
        let first_balance = match form {
            UserTx::TokenDeposit | UserTx::TokenTransfer | UserTx::Wrap => has_none(quote.terms.is_none()),
            UserTx::Routed(routed) => !routed.deposits && !received.is_zero() && has_none(true),
            UserTx::NativeDeposit | UserTx::NativeTransfer | UserTx::Unwrap => false,
        };
        let pays_native = matches!(form, UserTx::Routed(routed) if !routed.deposits) && received.is_zero();
        Storage {
            first_balance,
            last_balance: !self.origin.currency.native && balance == Some(quote.figures.input),
            new_account: pays_native && has_none(false),
        }
    }

    /// True if somebody is known to hold none of a currency.
    fn has_none(&self, owner: Address, token: Address) -> Option<bool> {
        let holder = Holder { chain: self.handle.id(), owner, token, spender: Address::ZERO };
        self.user_balances.holding(self.handle, holder).map(|holding| holding.balance.is_zero())
    }

    fn step(&self, kind: StepKind, to: Address, data: Bytes, value: Amount) -> Step {
        // Twice the base fee and the tip: the next blocks may be dearer than this one.
        let max_fee = self.market.base_fee.saturating_mul(2).saturating_add(self.market.tip);
        Step { kind, to, data, value, max_fee, tip: self.market.tip, action: None, permit: None }
    }

    /// Approvals to send first. None if the allowance suffices; an unknown allowance is asked for again.
    fn approvals(&self, amount: U256, holding: Option<Holding>) -> Vec<(Approval, U256)> {
        let allowance = holding.and_then(|holding| holding.allowance).map(Amount::units);
        if allowance.is_some_and(|allowance| allowance >= amount) {
            return Vec::new();
        }
        let some = allowance.is_some_and(|allowance| !allowance.is_zero());
        let resets = self.origin.currency.resets_allowance && (some || allowance.is_none());
        let last = if some && !resets { Approval::Changed } else { Approval::First };
        resets.then_some((Approval::Reset, U256::ZERO)).into_iter().chain([(last, amount)]).collect()
    }

    fn deposit(&self, quote: &Quote, order: OrderId, user: Address) -> Option<Act> {
        let (chain, currency) = (self.origin.chain, self.origin.currency);
        let (token, amount) = (currency.evm_address(), quote.figures.input.units());
        let act = |form, message, approval| Some(Act { kind: StepKind::Deposit, form, message, approval });
        if let Some(address) = self.deposit_address {
            // A plain transfer, which any wallet or exchange can make.
            return match currency.native {
                true => act(UserTx::NativeTransfer, Message { to: address, value: amount, data: Bytes::new() }, None),
                false => {
                    let data = calldata::transfer(address, amount);
                    act(UserTx::TokenTransfer, Message { to: token, value: U256::ZERO, data }, None)
                }
            };
        }
        if let Some(swap) = &quote.origin_swap {
            let native_out = quote.terms.as_ref()?.deposit.address.packed()?.is_zero();
            let trade = trade(chain, swap, swap.funds(), currency.native, native_out)?;
            let message = entry(chain).origin_swap(chain.depository, &trade, user, order, quote.id);
            let message = message.by_sender(chain.approval_proxy);
            let approval = (!currency.native).then(|| (chain.approval_proxy, swap.funds().units()));
            let form = Routed { deposits: true, ..routed(swap, currency.native, false) };
            return act(UserTx::Routed(form), message, approval);
        }
        let to_depository = |value, data| Message { to: chain.depository, value, data };
        if currency.native {
            return act(UserTx::NativeDeposit, to_depository(amount, calldata::deposit_native(user, order)), None);
        }
        if is_plain_deposit(quote) {
            let data = calldata::implicit_deposit(chain.depository, amount, order);
            return act(UserTx::TokenTransfer, Message { to: token, value: U256::ZERO, data }, None);
        }
        let data = calldata::deposit_erc20(user, token, amount, order);
        act(UserTx::TokenDeposit, to_depository(U256::ZERO, data), Some((chain.depository, amount)))
    }

    fn same_chain(&self, quote: &Quote) -> Option<Act> {
        let to_contract =
            quote.ask.recipient.packed().is_some_and(|who| self.recipient_code.is_contract(self.origin.chain.id, who));
        same_chain(quote, self.origin.chain, self.handle.treasury, to_contract)
    }
}

/// True if the deposit is a plain token transfer that names its order behind its arguments.
pub(super) fn is_plain_deposit(quote: &Quote) -> bool {
    let token = quote.ask.origin.address.packed().is_some_and(|token| !token.is_zero());
    let at_address = quote.ask.options.deposit_address.is_some();
    quote.terms.is_some() && quote.origin_swap.is_none() && token && !at_address && !quote.ask.explicit_deposit
}

/// The transaction of a same-chain quote, as a pure function: a transaction on the chain is recognised by it.
pub fn same_chain(quote: &Quote, chain: &Chain, treasury: Address, to_contract: bool) -> Option<Act> {
    let figures = &quote.figures;
    let (user, recipient) = (quote.ask.user.packed()?, quote.ask.recipient.packed()?);
    let (token, wanted) = (quote.ask.origin.address.packed()?, quote.ask.destination.address.packed()?);
    let (native_in, native_out) = (token.is_zero(), wanted.is_zero());
    if figures.operation == Operation::Send {
        let (form, message) = if native_in && to_contract {
            let mut calls = Calls::of(chain.router);
            calls.pay_native(recipient, Part::Exactly(figures.input.units()));
            let ends = Ends { refund_to: user, nft_recipient: user };
            let id = Bytes::copy_from_slice(quote.id.0.as_slice());
            (UserTx::Routed(Routed::default()), calls.with_native(figures.input.units(), ends, id))
        } else {
            let form = if native_in { UserTx::NativeTransfer } else { UserTx::TokenTransfer };
            (form, send(token, recipient, figures.input.units(), quote.id))
        };
        return Some(Act { kind: StepKind::Send, form, message, approval: None });
    }
    let swap = own_trade(quote, chain)?;
    let swap = swap.as_ref();
    let fee = figures.input.saturating_sub(figures.exchanged).units();
    let trade = trade(chain, swap, swap.funds(), native_in, native_out)?;
    let fee_taken = Fee { amount: fee, recipient: treasury };
    let message = entry(chain).same_chain_swap(&trade, Some(fee_taken), user, recipient, quote.id);
    let message = message.by_sender(chain.approval_proxy);
    let through_proxy = message.to == chain.approval_proxy;
    let approval = through_proxy.then(|| (chain.approval_proxy, swap.funds().units().saturating_add(fee)));
    let form = match message.to == chain.dex?.wrapped {
        true if native_in => UserTx::Wrap,
        true => UserTx::Unwrap,
        false => UserTx::Routed(Routed { fee: !fee.is_zero(), ..routed(swap, native_in, native_out) }),
    };
    Some(Act { kind: StepKind::Swap, form, message, approval })
}

/// The trade of a same-chain quote: its pools, or the wrapping of the native currency.
fn own_trade<'a>(quote: &'a Quote, chain: &Chain) -> Option<Cow<'a, Swap>> {
    if let Some(swap) = &quote.origin_swap {
        return Some(Cow::Borrowed(swap));
    }
    let (input, output) = (quote.figures.exchanged, quote.figures.output);
    let path = Path::wrapping(chain.dex?.wrapped);
    Some(Cow::Owned(Swap { path, input, output, bound: Bound::LeastOutput(output) }))
}

/// The calls of a same-chain quote that a relayer is to send. None where no tokens come in.
pub(super) fn same_chain_calls(quote: &Quote, chain: &Chain, treasury: Address) -> Option<TokenCalls> {
    let figures = &quote.figures;
    let (user, recipient) = (quote.ask.user.packed()?, quote.ask.recipient.packed()?);
    let (token, wanted) = (quote.ask.origin.address.packed()?, quote.ask.destination.address.packed()?);
    if figures.operation == Operation::Send {
        let mut calls = Calls::of(chain.router);
        calls.pay_token(token, recipient, Part::All);
        let ends = Ends { refund_to: user, nft_recipient: user };
        let metadata = Bytes::copy_from_slice(quote.id.0.as_slice());
        return Some(TokenCalls { calls, token, amount: figures.input.units(), ends, metadata });
    }
    let swap = own_trade(quote, chain)?;
    let fee = Fee { amount: figures.input.saturating_sub(figures.exchanged).units(), recipient: treasury };
    let trade = trade(chain, &swap, swap.funds(), token.is_zero(), wanted.is_zero())?;
    entry(chain).routed_swap(&trade, Some(fee), user, recipient, quote.id).tokens()
}

/// The form of a trade through the router.
fn routed(swap: &Swap, native_in: bool, native_out: bool) -> Routed {
    let wraps = swap.path.is_wrapping();
    let pools = swap.path.fees().len();
    Routed { tokens_in: !native_in, pools, wraps, native_out: native_out && !wraps, ..Routed::default() }
}

/// The user's transaction, and the spender and amount to approve before it.
#[derive(Debug)]
pub struct Act {
    pub kind: StepKind,
    pub form: UserTx,
    pub message: Message,
    pub approval: Option<(Address, U256)>,
}
