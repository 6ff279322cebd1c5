//! Gasless deposits of a run: users sign permits and post them, and have no native currency to send anything with.

use std::time::{Duration, Instant};

use alloy::primitives::{Address, B256, U256};
use alloy::sol_types::SolCall;
use anyhow::{Context, Result};
use devnet::{Account, Chain, Devnet};
use domain::api_key::KeyText;
use evm::calldata;
use evm::contracts::ApprovalProxy;
use evm::permits::PERMIT2;
use harness::sign_permit;
use serde_json::Value;

use super::api::Api;
use super::plan::{Kind, Transfer};
use super::quoted::Order;
use super::sends::Sends;
use super::traffic::units;

/// The longest that `permitExpiry` can be. A local chain's clock runs ahead of ours, a second with each block.
pub(crate) const EXPIRY_SECS: u64 = 3_600;
/// Time for which a refusal that may pass is not taken for an answer.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(20);
const RETRY: Duration = Duration::from_millis(300);
/// Refusals that may pass: a price of gas that is not known yet, and a node that could not try the transaction.
const PASSING: [&str; 2] = ["CHAIN_DISABLED", "PERMIT_FAILED"];
/// In cents: the tokens that a user begins with.
pub(crate) const PLENTY: u64 = 100_000;
const APPROVAL_GAS: u64 = 100_000;

/// A quote's last step, signed.
#[derive(Clone, Debug)]
pub(crate) struct Signed {
    pub step: Value,
    path: String,
}

impl Signed {
    pub(crate) fn new(quote: &Value, by: &Account) -> Result<Self> {
        let step = quote["steps"].as_array().and_then(|steps| steps.last()).context("a quote without steps")?.clone();
        let endpoint = step["items"][0]["data"]["post"]["endpoint"].as_str().context("a step without its endpoint")?;
        let path = format!("{endpoint}?signature={}", sign_permit(by, &step)?);
        Ok(Self { step, path })
    }

    /// The members that were signed.
    pub(crate) fn value(&self) -> &Value {
        &self.step["items"][0]["data"]["sign"]["value"]
    }

    /// The time from which it is of no use, by the chain's clock.
    pub(crate) fn deadline(&self) -> u64 {
        let value = self.value();
        let text = value["validBefore"].as_str().or_else(|| value["deadline"].as_str());
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Posts it until the service answers.
    pub(crate) async fn post(&self, api: &Api) -> Option<(u16, Value)> {
        api.persist(&self.path, None, &self.step["items"][0]["data"]["post"]["body"]).await
    }

    /// Posts it again also after refusals that may pass, for a while.
    pub(crate) async fn post_until_taken(&self, api: &Api) -> Option<(u16, Value)> {
        post_until_taken(api, (&self.path, None), &self.step["items"][0]["data"]["post"]["body"]).await
    }
}

/// Posts a body, with a key if one is needed, again also after refusals that may pass, for a while.
pub(crate) async fn post_until_taken(
    api: &Api,
    (path, key): (&str, Option<&KeyText>),
    body: &Value,
) -> Option<(u16, Value)> {
    let until = Instant::now() + REFUSAL_TIMEOUT;
    loop {
        let answer = api.persist(path, key, body).await;
        let passes = match &answer {
            None => true,
            Some((code, body)) => *code != 200 && PASSING.contains(&body["errorCode"].as_str().unwrap_or_default()),
        };
        if !passes || Instant::now() > until {
            return answer;
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// A permit or a raw call that was signed, and the service's answers to it.
#[derive(Clone, Debug)]
pub(crate) struct Permitted {
    /// Its name in messages.
    pub label: String,
    pub order: Order,
    /// Indexes in the list of chains.
    pub chain: usize,
    pub destination: usize,
    pub from: &'static str,
    pub to: &'static str,
    pub amount: U256,
    pub user: Address,
    pub recipient: Address,
    /// The user's tokens at the beginning. None for an adversary that moves them itself: its permit may fail.
    pub had: Option<U256>,
    pub deadline: u64,
    /// A call of a smart account, and no permit.
    pub raw_call: bool,
    /// The service has said that it sends it.
    pub taken: bool,
    pub refusals: Vec<String>,
}

impl Permitted {
    /// A user whose tokens are at this address has signed; it is good until the deadline.
    pub(crate) fn of(transfer: &Transfer, order: Order, chain: &Chain, user: Address, deadline: u64) -> Self {
        Self {
            label: format!("transfer {} ({:?})", transfer.index, transfer.kind),
            order,
            chain: transfer.origin,
            destination: transfer.destination,
            from: transfer.from,
            to: transfer.to,
            amount: units(chain, transfer.from, transfer.size),
            user,
            recipient: transfer.recipient,
            had: Some(units(chain, transfer.from, PLENTY)),
            deadline,
            raw_call: transfer.kind.is_raw_call(),
            taken: false,
            refusals: Vec::new(),
        }
    }

    /// Notes an answer. No answer says nothing: the post may have been taken all the same.
    pub(crate) fn note(&mut self, answer: Option<(u16, Value)>) {
        match answer {
            Some((200, _)) => self.taken = true,
            // A call has no answer of its own to a repetition: an earlier post of it was taken.
            Some((409, _)) if self.raw_call => self.taken = true,
            Some((code, body)) => {
                self.refusals.push(body["errorCode"].as_str().map_or_else(|| code.to_string(), str::to_owned));
            }
            None => {}
        }
    }

    /// The id that its relay carries: a permit's names the request, a raw call's deposit the order.
    pub(crate) fn relay(&self) -> Result<B256> {
        if self.raw_call { Ok(self.order.id) } else { Ok(self.order.request.parse()?) }
    }
}

/// Gives the users of permits their tokens and no native currency; those of Permit2 have approved it.
pub(crate) async fn fund(devnet: &Devnet, sends: &Sends<'_>, transfers: &[Transfer]) -> Result<()> {
    let mut approvals = Vec::new();
    for transfer in transfers.iter().filter(|transfer| transfer.kind.signs_permit()) {
        let (chain, user) = (&devnet.chains[transfer.origin], &transfer.user);
        let token = chain.token(transfer.from).address;
        chain.set_token_balance(token, user.address, units(chain, transfer.from, PLENTY)).await?;
        if transfer.kind == Kind::Permit2 {
            chain.set_balance(user.address, U256::from(10u64).pow(U256::from(18))).await?;
            approvals.push((chain, user.address, approve(sends, transfer.origin, user, token).await?));
        }
    }
    for (chain, user, approval) in approvals {
        chain.receipt(approval).await?;
        chain.set_balance(user, U256::ZERO).await?;
    }
    Ok(())
}

/// Lets Permit2 move all of a token.
pub(crate) async fn approve(sends: &Sends<'_>, chain: usize, user: &Account, token: Address) -> Result<B256> {
    let call = (token, U256::ZERO, calldata::approve(PERMIT2, U256::MAX));
    let approval = sends.sign(chain, user, call, APPROVAL_GAS, false)?;
    sends.send(approval).await;
    Ok(approval)
}

/// The request that a call of the approval proxy names, if it submits a permit.
pub(crate) fn request_of(input: &[u8]) -> Option<B256> {
    use ApprovalProxy::{permit2TransferAndMulticallCall as Batch, permit3009TransferAndMulticallCall as Authorized};
    let metadata = match *input.first_chunk()? {
        Batch::SELECTOR => Batch::abi_decode(input).ok()?.metadata,
        Authorized::SELECTOR => Authorized::abi_decode(input).ok()?.metadata,
        _ => return None,
    };
    B256::try_from(&metadata[..]).ok()
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Bytes, Signature};
    use evm::contracts::{ReceiveWithAuthorization, RelayerWitness};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_relay_names_its_request_and_nothing_else_does() {
        let (request, user) = (B256::repeat_byte(7), Address::repeat_byte(1));
        let witness = RelayerWitness {
            relayer: Address::repeat_byte(2),
            refundTo: user,
            nftRecipient: user,
            metadata: Bytes::copy_from_slice(request.as_slice()),
            call3Values: Vec::new(),
        };
        let signed = ReceiveWithAuthorization::to_proxy(user, Address::repeat_byte(3), U256::from(5), 9, &witness);
        let signature = Signature::new(U256::from(1), U256::from(2), true);
        let data = signed.submission(Address::repeat_byte(4), &witness, &signature).unwrap();
        assert_eq!(request_of(&data), Some(request));
        assert_eq!(request_of(&data[..40]), None);
        assert_eq!(request_of(&calldata::approve(PERMIT2, U256::MAX)), None);
        assert_eq!(request_of(&[]), None);
    }

    #[test]
    fn an_answer_is_noted_and_silence_is_none() {
        let mut permit = Permitted {
            label: "a permit".to_owned(),
            order: Order {
                request: B256::repeat_byte(7).to_string(),
                id: B256::ZERO,
                minimum: U256::ZERO,
                quoted: U256::ZERO,
            },
            chain: 0,
            destination: 1,
            from: "USDC",
            to: "USDC",
            amount: U256::ONE,
            user: Address::ZERO,
            recipient: Address::ZERO,
            had: None,
            deadline: 0,
            raw_call: false,
            taken: false,
            refusals: Vec::new(),
        };
        permit.note(None);
        permit.note(Some((400, json!({ "errorCode": "INVALID_NONCE" }))));
        assert_eq!((permit.taken, &permit.refusals[..]), (false, &["INVALID_NONCE".to_owned()][..]));
        permit.note(Some((200, json!({ "message": "The transaction is being sent" }))));
        assert!(permit.taken);
        assert_eq!(permit.relay().unwrap(), B256::repeat_byte(7));
        let mut call = Permitted { raw_call: true, taken: false, refusals: Vec::new(), ..permit };
        call.note(Some((400, json!({ "errorCode": "EXECUTION_REVERTED" }))));
        assert_eq!((call.taken, call.refusals.len()), (false, 1));
        call.note(Some((409, json!({ "errorCode": "ALREADY_PROCESSING" }))));
        assert_eq!((call.taken, call.refusals.len()), (true, 1));
        assert_eq!(call.relay().unwrap(), B256::ZERO);
    }
}
