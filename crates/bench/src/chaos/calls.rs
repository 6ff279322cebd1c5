//! Raw calls of a run: smart accounts sign operations that deposit, an integrator posts them, and a relayer sends them.

use std::collections::BTreeMap;
use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes, U256};
use anyhow::{Context, Result};
use devnet::{Account, AccountAbstraction, Chain, Devnet};
use domain::api_key::KeyText;
use harness::{
    UserOperation, account_of, authorize, batch, first_operation, operation, raw_call, read_operation, sign_operation,
};
use serde_json::{Value, json};

use super::api::Api;
use super::permits::{PLENTY, post_until_taken, request_of};
use super::plan::{Kind, Transfer};
use super::quoted::Order;
use super::traffic::units;

/// Of an operation that creates its account, and of one whose account is there: gas beyond that of a deposit.
const CREATION_OVERHEAD: u64 = 900_000;
const OVERHEAD: u64 = 300_000;
/// Each owner has one account.
const SALT: U256 = U256::ZERO;
/// Reads of a chain that replaces its blocks.
const READ_TRIES: u32 = 20;
const RETRY: Duration = Duration::from_millis(100);

/// A smart account of a transfer, on its origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SmartAccount {
    pub address: Address,
    contracts: AccountAbstraction,
}

impl SmartAccount {
    /// The contract that relayers call.
    pub(crate) fn entry_point(&self) -> Address {
        self.contracts.entry_point
    }
}

/// Deploys the entry point where it is needed, and gives smart accounts their tokens and no native currency.
pub(crate) async fn fund(devnet: &Devnet, transfers: &[Transfer]) -> Result<BTreeMap<usize, SmartAccount>> {
    let (mut deployed, mut accounts) = (BTreeMap::<usize, AccountAbstraction>::new(), BTreeMap::new());
    for transfer in transfers.iter().filter(|transfer| transfer.kind.is_raw_call()) {
        let chain = &devnet.chains[transfer.origin];
        let contracts = match deployed.get(&transfer.origin) {
            Some(contracts) => *contracts,
            None => AccountAbstraction::deploy(chain, &chain.fresh_user().await?).await?,
        };
        deployed.insert(transfer.origin, contracts);
        let address = match transfer.kind {
            Kind::UserOperation => account_of(chain, &contracts, transfer.user.address, SALT).await?,
            _ => transfer.user.address,
        };
        let plenty = units(chain, transfer.from, PLENTY);
        chain.set_token_balance(chain.token(transfer.from).address, address, plenty).await?;
        accounts.insert(transfer.index, SmartAccount { address, contracts });
    }
    Ok(accounts)
}

/// Asks for a quote whose deposit comes by a raw call of this account.
pub(crate) fn ask(body: &mut Value, kind: Kind, account: SmartAccount) {
    body["user"] = json!(account.address);
    body["originGasOverhead"] = json!(if kind == Kind::UserOperation { CREATION_OVERHEAD } else { OVERHEAD });
}

/// The steps of a quote as one signed operation, as an integrator posts it.
#[derive(Clone, Debug)]
pub(crate) struct SignedCall {
    body: Value,
}

impl SignedCall {
    pub(crate) async fn new(
        chain: &Chain,
        transfer: &Transfer,
        account: SmartAccount,
        (quote, order): (&Value, &Order),
    ) -> Result<Self> {
        let (owner, contracts, calls) = (&transfer.user, &account.contracts, batch(quote)?);
        let (operation, authorizations) = match transfer.kind {
            Kind::UserOperation => {
                (first_operation(account.address, contracts, (owner.address, SALT), calls), Value::Null)
            }
            _ => (operation(account.address, 0, calls), authorize(owner, chain.id, contracts.delegate)?),
        };
        let data = sign(chain, contracts.entry_point, &operation, owner).await?;
        let mut body = raw_call(chain.id, contracts.entry_point, &data);
        body["requestId"] = json!(order.request);
        body["data"]["authorizationList"] = authorizations;
        Ok(Self { body })
    }

    /// Posts it with a key, again also after refusals that may pass, for a while.
    pub(crate) async fn post_until_taken(&self, api: &Api, key: &KeyText) -> Option<(u16, Value)> {
        post_until_taken(api, ("/execute", Some(key)), &self.body).await
    }
}

async fn sign(chain: &Chain, entry: Address, operation: &UserOperation, by: &Account) -> Result<Bytes> {
    let mut failed = None;
    for _ in 0..READ_TRIES {
        match sign_operation(chain, entry, operation.clone(), by).await {
            Ok(data) => return Ok(data),
            Err(error) => failed = Some(error),
        }
        tokio::time::sleep(RETRY).await;
    }
    Err(failed.context("an operation was never hashed")?)
}

/// The order under which an operation in a call of the entry point deposits: every deposit ends with its order's id.
fn order_of(input: &[u8]) -> Option<B256> {
    let (_, calls) = read_operation(input)?;
    calls.last()?.data.last_chunk::<32>().map(B256::from)
}

/// The id that a relayed transaction carries: the request of a permit, or the order of a raw call.
pub(crate) fn relay_of(input: &[u8]) -> Option<B256> {
    request_of(input).or_else(|| order_of(input))
}

#[cfg(test)]
mod tests {
    use domain::ids::OrderId;
    use evm::calldata;
    use harness::{BatchedCall, handle_operation};

    use super::*;

    #[test]
    fn a_raw_call_is_known_by_the_order_of_its_last_deposit() {
        let (order, token) = (B256::repeat_byte(9), Address::repeat_byte(5));
        let call = |data| BatchedCall { target: token, value: U256::ZERO, data };
        let calls = vec![
            call(calldata::approve(Address::repeat_byte(6), U256::from(7))),
            call(calldata::implicit_deposit(Address::repeat_byte(6), U256::from(7), OrderId(order))),
        ];
        let input = handle_operation(operation(Address::repeat_byte(1), 0, calls));
        assert_eq!(relay_of(&input), Some(order));
        assert_eq!(relay_of(&input[..100]), None);
        assert_eq!(relay_of(&calldata::approve(token, U256::MAX)), None);
        assert_eq!(relay_of(&[]), None);
    }
}
