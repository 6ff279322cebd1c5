//! Smart accounts of ERC-4337 and EIP-7702: their operations, signed, and the body of `POST /execute` that brings them.

use alloy::eips::eip7702::Authorization;
use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::signers::SignerSync;
use alloy::sol;
use alloy::sol_types::SolCall;
use anyhow::{Context, Result};
use devnet::{Account, AccountAbstraction, Chain};
use serde_json::{Value, json};

/// Receives the fees of operations, which are zero.
const BENEFICIARY: Address = Address::repeat_byte(0xbe);
/// Gas for checking an operation, and for its calls.
const CHECK_GAS: u64 = 150_000;
const CALL_GAS: u64 = 300_000;
/// The same where the account is created before it is checked.
const CREATION_GAS: u64 = 600_000;

sol! {
    #![sol(all_derives)]

    /// A packed operation of the entry point, version 0.8.
    struct UserOperation {
        address sender;
        uint256 nonce;
        bytes initCode;
        bytes callData;
        bytes32 accountGasLimits;
        uint256 preVerificationGas;
        bytes32 gasFees;
        bytes paymasterAndData;
        bytes signature;
    }

    /// A call that an account makes.
    struct BatchedCall {
        address target;
        uint256 value;
        bytes data;
    }

    function handleOps(UserOperation[] ops, address beneficiary) external;
    function getUserOpHash(UserOperation op) external view returns (bytes32);
    function createAccount(address owner, uint256 salt) external returns (address);
    function getAddress(address owner, uint256 salt) external view returns (address);
    function executeBatch(BatchedCall[] calls) external;
}

/// The address of the reference account that an owner creates with its first operation.
pub async fn account_of(chain: &Chain, contracts: &AccountAbstraction, owner: Address, salt: U256) -> Result<Address> {
    chain.read(contracts.account_factory, &getAddressCall { owner, salt }).await
}

/// The calls of a quote's steps, for a smart account to make in one batch.
pub fn batch(quote: &Value) -> Result<Vec<BatchedCall>> {
    let steps = quote["steps"].as_array().context("steps")?;
    let items = steps.iter().flat_map(|step| step["items"].as_array().into_iter().flatten());
    let call = |item: &Value| {
        let text = |name: &str| item["data"][name].as_str().with_context(|| name.to_owned());
        Ok(BatchedCall { target: text("to")?.parse()?, value: text("value")?.parse()?, data: text("data")?.parse()? })
    };
    items.map(call).collect()
}

fn limits(check: u64) -> B256 {
    let limits: U256 = (U256::from(check) << 128usize) | U256::from(CALL_GAS);
    limits.into()
}

/// An operation of an account, without its signature. Its fees are zero: the relayer pays for the gas.
pub fn operation(sender: Address, nonce: u64, calls: Vec<BatchedCall>) -> UserOperation {
    UserOperation {
        sender,
        nonce: U256::from(nonce),
        initCode: Bytes::new(),
        callData: executeBatchCall { calls }.abi_encode().into(),
        accountGasLimits: limits(CHECK_GAS),
        preVerificationGas: U256::ZERO,
        gasFees: B256::ZERO,
        paymasterAndData: Bytes::new(),
        signature: Bytes::new(),
    }
}

/// The first operation of a reference account, which creates it.
pub fn first_operation(
    sender: Address,
    contracts: &AccountAbstraction,
    (owner, salt): (Address, U256),
    calls: Vec<BatchedCall>,
) -> UserOperation {
    let create = createAccountCall { owner, salt }.abi_encode();
    UserOperation {
        initCode: [contracts.account_factory.as_slice(), &create].concat().into(),
        accountGasLimits: limits(CREATION_GAS),
        ..operation(sender, 0, calls)
    }
}

/// The call of the entry point that brings an operation, signed by this key.
pub async fn sign_operation(chain: &Chain, entry: Address, mut op: UserOperation, by: &Account) -> Result<Bytes> {
    let hash = chain.read(entry, &getUserOpHashCall { op: op.clone() }).await?;
    op.signature = Bytes::copy_from_slice(&by.signer().sign_hash_sync(&hash)?.as_bytes());
    Ok(handle_operation(op))
}

/// The call of the entry point that brings an operation as it is.
pub fn handle_operation(op: UserOperation) -> Bytes {
    handleOpsCall { ops: vec![op], beneficiary: BENEFICIARY }.abi_encode().into()
}

/// The sender and the batch of the operation in a call of the entry point. None for any other call.
pub fn read_operation(input: &[u8]) -> Option<(Address, Vec<BatchedCall>)> {
    let op = handleOpsCall::abi_decode(input).ok()?.ops.into_iter().next()?;
    Some((op.sender, executeBatchCall::abi_decode(&op.callData).ok()?.calls))
}

/// An `authorizationList` with which an account takes on code, by its first authorization.
pub fn authorize(user: &Account, chain: u64, code: Address) -> Result<Value> {
    let authorization = Authorization { chain_id: U256::from(chain), address: code, nonce: 0 };
    let signature = user.signer().sign_hash_sync(&authorization.signature_hash())?;
    Ok(json!([authorization.into_signed(signature)]))
}

/// The call that an account makes by itself, if anybody may ask it to.
pub fn unsigned_batch(calls: Vec<BatchedCall>) -> Bytes {
    executeBatchCall { calls }.abi_encode().into()
}

/// The body of `POST /execute` for one call.
pub fn raw_call(chain: u64, to: Address, data: &Bytes) -> Value {
    json!({
        "executionKind": "rawCalls",
        "data": { "chainId": chain, "to": to, "data": data, "value": "0" },
        "executionOptions": { "referrer": "test", "subsidizeFees": false },
    })
}
