use std::time::Duration;

use alloy::consensus::{SignableTransaction, TxEip1559};
use alloy::eips::eip2718::Encodable2718;
use alloy::signers::SignerSync;
use alloy::sol;
use alloy::sol_types::{SolCall, SolValue};
use alloy_primitives::aliases::U24;
use alloy_primitives::{Address, B256, Bytes, U160, U256, b256, keccak256};
use devnet::{Chain, Devnet, Options};
use serde_json::{Value, json};

sol! {
    function approve(address spender, uint256 value);
    function transfer(address to, uint256 value);
    function allowance(address owner, address spender) returns (uint256);
    function decimals() returns (uint8);
    function latestAnswer() returns (int256);
    function depositNative(address depositor, bytes32 id);
    function depositErc20(address depositor, address token, uint256 amount, bytes32 id);
    function guardian() returns (address);
    function getL1FeeUpperBound(uint256 size) returns (uint256);
    function getChainId() returns (uint256);
    function DOMAIN_SEPARATOR() returns (bytes32);
    function ROUTER() returns (address);
    function limit(address treasury, address filler, address token) returns (uint256);
    function setLimit(address filler, address token, uint256 amount);
    function DEPOSITORY() returns (address);
    function operators(address account) returns (bool);
    function computeDepositAddress(bytes32 orderId, address depositor) returns (address);
    function sweep(bytes32 orderId, address depositor, address[] tokens);

    struct Call { address target; bool allowFailure; uint256 value; bytes callData; }
    function spend(
        address treasury, address token, uint256 amount,
        Call[] calls, address refundTo, address nftRecipient, bytes metadata
    );
    function cleanupErc20s(address[] tokens, address[] recipients, uint256[] amounts, bytes metadata);
    function cleanupNative(uint256 amount, address recipient, bytes metadata);

    struct Ask { address tokenIn; address tokenOut; uint256 amountIn; uint24 fee; uint160 sqrtPriceLimitX96; }
    function quoteExactInputSingle(Ask ask) returns (uint256 amountOut, uint160 price, uint32 crossed, uint256 gas);

    struct Swap {
        address tokenIn; address tokenOut; uint24 fee; address recipient;
        uint256 amountIn; uint256 amountOutMinimum; uint160 sqrtPriceLimitX96;
    }
    function exactInputSingle(Swap swap) returns (uint256 amountOut);
}

const NATIVE_DEPOSIT: B256 = b256!("8032066556caf3967d8fec4ad22a2d9e1e9576556b2903a0fcd5b1fd201e3477");
const ERC20_DEPOSIT: B256 = b256!("49fed1d0b752ce30eee63c7a81133f3363b532fec5d4d7dd1ccfd005de4555e1");

fn dollars(n: u64) -> U256 {
    U256::from(n) * U256::from(1_000_000)
}

fn ether(n: u64) -> U256 {
    U256::from(n) * U256::from(10).pow(U256::from(18))
}

async fn quote(chain: &Chain, from: &str, to: &str, fee: u32, amount: U256) -> U256 {
    let ask = Ask {
        tokenIn: chain.token(from).address,
        tokenOut: chain.token(to).address,
        amountIn: amount,
        fee: U24::from(fee),
        sqrtPriceLimitX96: U160::ZERO,
    };
    chain.read(chain.contracts.quoter, &quoteExactInputSingleCall { ask }).await.unwrap().amountOut
}

#[tokio::test]
async fn three_chains_have_the_same_addresses() {
    let devnet = Devnet::shared().await;
    let names: Vec<_> = devnet.chains.iter().map(|c| (c.name.as_str(), c.id)).collect();
    assert_eq!(names, [("base", 8453), ("optimism", 10), ("arbitrum", 42161)]);
    let [base, optimism, arbitrum] = &devnet.chains[..] else { panic!("three chains") };
    assert_eq!(base.contracts, optimism.contracts);
    assert_eq!(base.tokens, arbitrum.tokens);
    assert_eq!(arbitrum.contracts.gas_oracle, None);
    assert_eq!(base.contracts.depository, arbitrum.contracts.depository);
    assert_eq!(base.contracts.deposit_address_factory, arbitrum.contracts.deposit_address_factory);
    for chain in &devnet.chains {
        assert_eq!(chain.rpc::<U256>("eth_chainId", [(); 0]).await.unwrap(), U256::from(chain.id));
        for token in &chain.tokens {
            assert_eq!(chain.read(token.address, &decimalsCall {}).await.unwrap(), token.decimals);
        }
        let head = chain.block_number().await.unwrap();
        assert!(head > chain.start_block);
        let guardian = chain.read(chain.contracts.depository, &guardianCall {}).await.unwrap();
        assert_eq!(guardian, devnet.keys.guardian.address);
        for place in [chain.contracts.approval_proxy, chain.contracts.spend_limiter] {
            assert_eq!(chain.read(place, &ROUTERCall {}).await.unwrap(), chain.contracts.router);
        }
        let factory = chain.contracts.deposit_address_factory;
        assert_eq!(chain.read(factory, &DEPOSITORYCall {}).await.unwrap(), chain.contracts.depository);
        for filler in &devnet.keys.fillers {
            assert!(chain.read(factory, &operatorsCall { account: filler.address }).await.unwrap());
        }
        let id = chain.read(chain.contracts.multicall3, &getChainIdCall {}).await.unwrap();
        assert_eq!(id, U256::from(chain.id));
    }
    let oracle = base.contracts.gas_oracle.unwrap();
    assert!(base.read(oracle, &getL1FeeUpperBoundCall { size: U256::from(100) }).await.unwrap() > U256::ZERO);
}

#[tokio::test]
async fn permit2_signs_for_the_chain_it_is_on() {
    let devnet = Devnet::shared().await;
    for chain in &devnet.chains {
        let domain = alloy::sol_types::eip712_domain! {
            name: "Permit2",
            chain_id: chain.id,
            verifying_contract: chain.contracts.permit2,
        };
        let found = chain.read(chain.contracts.permit2, &DOMAIN_SEPARATORCall {}).await.unwrap();
        assert_eq!(found, domain.separator());
    }
}

#[tokio::test]
async fn everyone_has_funds() {
    let devnet = Devnet::shared().await;
    let keys = &devnet.keys;
    for chain in &devnet.chains {
        for user in &keys.users {
            assert!(chain.balance(Address::ZERO, user.address).await.unwrap() > ether(1000));
            for symbol in ["USDC", "USDT"] {
                let balance = chain.balance(chain.token(symbol).address, user.address).await.unwrap();
                assert_eq!(balance, dollars(100_000));
            }
        }
        for symbol in ["WETH", "USDC", "USDT", "DAI"] {
            let token = chain.token(symbol).address;
            let treasury = keys.treasury.address;
            let inventory = chain.balance(token, treasury).await.unwrap();
            let mut limits = U256::ZERO;
            for filler in &keys.fillers {
                let call = allowanceCall { owner: treasury, spender: filler.address };
                let allowed = chain.read(token, &call).await.unwrap();
                assert!(allowed > U256::ZERO && allowed < inventory, "{symbol}");
                let limit = limitCall { treasury, filler: filler.address, token };
                let limit = chain.read(chain.contracts.spend_limiter, &limit).await.unwrap();
                assert_eq!(limit, allowed, "{symbol}");
                limits += limit;
                assert!(chain.balance(Address::ZERO, filler.address).await.unwrap() > ether(10));
            }
            let call = allowanceCall { owner: treasury, spender: chain.contracts.spend_limiter };
            assert_eq!(chain.read(token, &call).await.unwrap(), limits, "{symbol}");
        }
    }
}

#[tokio::test]
async fn pools_agree_with_the_feeds() {
    let chain = Devnet::shared().await.chain("arbitrum");
    for fee in [500, 3000] {
        let out = quote(chain, "USDC", "WETH", fee, dollars(3000)).await;
        assert!(out > ether(1) * U256::from(99) / U256::from(100) && out < ether(1), "{fee}: {out}");
    }
    let out = quote(chain, "USDC", "USDT", 100, dollars(10_000)).await;
    assert!(out > dollars(9_990) && out < dollars(10_000), "{out}");
    let out = quote(chain, "DAI", "USDC", 100, ether(10_000)).await;
    assert!(out > dollars(9_990) && out < dollars(10_000), "{out}");
    let out = quote(chain, "TAIL", "WETH", 3000, ether(1500)).await;
    assert!(out > ether(1) / U256::from(102) && out < ether(1) / U256::from(100), "{out}");
}

#[tokio::test]
async fn a_swap_gives_what_was_quoted() {
    let chain = Devnet::shared().await.chain("base");
    let user = chain.fresh_user().await.unwrap();
    let (dai, usdc) = (chain.token("DAI").address, chain.token("USDC").address);
    let before = chain.balance(usdc, user.address).await.unwrap();
    let amount = ether(1000);
    let approve = approveCall { spender: chain.contracts.swap_router, value: amount };
    chain.call(user.private_key, dai, &approve).await.unwrap();
    // Nobody else swaps this pair on this chain.
    let quoted = quote(chain, "DAI", "USDC", 100, amount).await;
    let swap = Swap {
        tokenIn: dai,
        tokenOut: usdc,
        fee: U24::from(100),
        recipient: user.address,
        amountIn: amount,
        amountOutMinimum: quoted,
        sqrtPriceLimitX96: U160::ZERO,
    };
    chain.call(user.private_key, chain.contracts.swap_router, &exactInputSingleCall { swap }).await.unwrap();
    assert_eq!(chain.balance(usdc, user.address).await.unwrap() - before, quoted);
}

#[tokio::test]
async fn deposits_carry_the_public_topics() {
    let chain = Devnet::shared().await.chain("optimism");
    let user = chain.fresh_user().await.unwrap();
    let depository = chain.contracts.depository;
    let id = B256::repeat_byte(7);
    let data = depositNativeCall { depositor: user.address, id }.abi_encode();
    let receipt = chain.send(user.private_key, depository, ether(1), data.into()).await.unwrap();
    let log = &receipt.logs()[0];
    assert_eq!((log.address(), log.topics()), (depository, &[NATIVE_DEPOSIT][..]));
    assert_eq!(log.data().data, (user.address, ether(1), id).abi_encode());

    let token = chain.token("USDT").address;
    let amount = dollars(5);
    chain.call(user.private_key, token, &approveCall { spender: depository, value: amount }).await.unwrap();
    let deposit = depositErc20Call { depositor: user.address, token, amount, id };
    let receipt = chain.call(user.private_key, depository, &deposit).await.unwrap();
    let log = &receipt.logs()[1];
    assert_eq!((log.address(), log.topics()), (depository, &[ERC20_DEPOSIT][..]));
    assert_eq!(log.data().data, (user.address, token, amount, id).abi_encode());
}

/// Plain transfers of native currency and a token to an address that has no code yet, and sweeps by a stranger.
#[tokio::test]
async fn anyone_sweeps_a_strict_deposit_address_into_the_depository() {
    let chain = Devnet::shared().await.chain("optimism");
    let (user, stranger) = (chain.fresh_user().await.unwrap(), chain.fresh_user().await.unwrap());
    let (factory, usdc) = (chain.contracts.deposit_address_factory, chain.token("USDC").address);
    let order = keccak256(user.address);
    let compute = computeDepositAddressCall { orderId: order, depositor: user.address };
    let derived = chain.read(factory, &compute).await.unwrap();

    let wei = U256::from(7_000_000);
    chain.send(user.private_key, derived, wei, Bytes::new()).await.unwrap();
    chain.call(user.private_key, usdc, &transferCall { to: derived, value: dollars(5) }).await.unwrap();
    let sweep = |token| sweepCall { orderId: order, depositor: user.address, tokens: vec![token] };
    let native = chain.call(stranger.private_key, factory, &sweep(Address::ZERO)).await.unwrap();
    let token = chain.call(stranger.private_key, factory, &sweep(usdc)).await.unwrap();
    let deposits = [(&native, NATIVE_DEPOSIT), (&token, ERC20_DEPOSIT)].map(|(receipt, topic)| {
        let logs = receipt.logs().iter();
        let mut found = logs.filter(|log| log.address() == chain.contracts.depository && log.topics() == [topic]);
        found.next().expect("a deposit").data().data.clone()
    });
    assert_eq!(deposits[0], (user.address, wei, order).abi_encode());
    assert_eq!(deposits[1], (user.address, usdc, dollars(5), order).abi_encode());
    // The address has code now: it takes native currency with some gas, and not with the least.
    let pay = async |gas| chain.submit_with(user.private_key, derived, wei, Bytes::new(), gas).await.unwrap();
    assert!(chain.receipt(pay(21_000).await).await.is_err());
    chain.receipt(pay(26_000).await).await.unwrap();
    chain.call(stranger.private_key, factory, &sweep(Address::ZERO)).await.unwrap();
    assert_eq!(chain.balance(Address::ZERO, derived).await.unwrap(), U256::ZERO);
    assert_eq!(chain.balance(usdc, derived).await.unwrap(), U256::ZERO);
}

/// Tokens of the treasury and native currency of the filler in one transaction, which names its order.
#[tokio::test]
async fn a_filler_pays_through_the_spend_limiter() {
    let chain = Devnet::shared().await.chain("arbitrum");
    let (treasury, filler) = (chain.fresh_user().await.unwrap(), chain.fresh_user().await.unwrap());
    let (spend_limiter, router, usdc) =
        (chain.contracts.spend_limiter, chain.contracts.router, chain.token("USDC").address);
    let (limit, amount, top_up) = (dollars(500), dollars(200), U256::from(1_000_000));
    let approve = approveCall { spender: spend_limiter, value: limit };
    let set_limit = setLimitCall { filler: filler.address, token: usdc, amount: limit };
    let calls = [(usdc, approve.abi_encode().into()), (spend_limiter, set_limit.abi_encode().into())];
    let receipts = chain.send_all(treasury.private_key, calls).await.unwrap();
    assert_eq!(receipts.iter().map(|r| r.to).collect::<Vec<_>>(), [Some(usdc), Some(spend_limiter)]);

    let recipient = Address::repeat_byte(0x57);
    let tokens = cleanupErc20sCall {
        tokens: vec![usdc],
        recipients: vec![recipient],
        amounts: vec![amount],
        metadata: Bytes::new(),
    };
    let native = cleanupNativeCall { amount: top_up, recipient, metadata: Bytes::new() };
    let calls = [tokens.abi_encode(), native.abi_encode()].map(|data| Call {
        target: router,
        allowFailure: false,
        value: U256::ZERO,
        callData: data.into(),
    });
    let spend = |amount| {
        let call = spendCall {
            treasury: treasury.address,
            token: usdc,
            amount,
            calls: calls.to_vec(),
            refundTo: filler.address,
            nftRecipient: Address::ZERO,
            metadata: Bytes::new(),
        };
        Bytes::from([call.abi_encode(), vec![7; 32]].concat())
    };
    chain.send(filler.private_key, spend_limiter, top_up, spend(amount)).await.unwrap();
    assert_eq!(chain.balance(usdc, recipient).await.unwrap(), amount);
    assert_eq!(chain.balance(Address::ZERO, recipient).await.unwrap(), top_up);
    let left = limitCall { treasury: treasury.address, filler: filler.address, token: usdc };
    assert_eq!(chain.read(spend_limiter, &left).await.unwrap(), limit - amount);
    // Other accounts may not spend, and the filler no more than is left.
    let stranger = chain.fresh_user().await.unwrap();
    assert!(chain.send(stranger.private_key, spend_limiter, top_up, spend(amount)).await.is_err());
    assert!(chain.send(filler.private_key, spend_limiter, top_up, spend(limit)).await.is_err());
    assert_eq!(chain.balance(usdc, router).await.unwrap(), U256::ZERO);
}

#[tokio::test]
async fn one_key_may_send_from_many_tasks() {
    let chain = Devnet::shared().await.chain("base");
    let user = chain.fresh_user().await.unwrap();
    let to = Address::repeat_byte(0x55);
    let sends = (0..20).map(|_| chain.send(user.private_key, to, U256::ONE, Default::default()));
    futures::future::try_join_all(sends).await.unwrap();
    assert_eq!(chain.balance(Address::ZERO, to).await.unwrap(), U256::from(20));
}

#[tokio::test]
async fn code_and_time_can_be_set() {
    let devnet = Devnet::start(Options { block_time: Duration::from_millis(200), ..Options::default() }).await.unwrap();
    let chain = devnet.chain("base");
    let time = async || {
        let block: Value = chain.rpc("eth_getBlockByNumber", json!(["latest", false])).await.unwrap();
        serde_json::from_value::<U256>(block["timestamp"].clone()).unwrap()
    };
    let before = time().await;
    chain.advance_time(Duration::from_secs(3600)).await.unwrap();
    assert!(time().await >= before + U256::from(3600));
    // A contract that refuses every call.
    let grumpy = Address::repeat_byte(0x99);
    chain.set_code(grumpy, Bytes::from_static(&[0xfe])).await.unwrap();
    let user = chain.fresh_user().await.unwrap();
    assert!(chain.send(user.private_key, grumpy, U256::ONE, Bytes::new()).await.is_err());
}

#[tokio::test]
async fn a_price_can_be_set() {
    let chain = Devnet::shared().await.chain("base");
    let feed = chain.token("DAI").feed.unwrap();
    chain.set_price("DAI", 99_000_000).await.unwrap();
    assert_eq!(chain.read(feed, &latestAnswerCall {}).await.unwrap().as_i64(), 99_000_000);
    chain.set_price("DAI", 100_000_000).await.unwrap();
    assert!(chain.set_price("TAIL", 1).await.is_err());
}

/// Many transactions at once, from many senders: automatic mining would stall on them.
#[tokio::test]
async fn a_burst_is_mined() {
    let chain = Devnet::shared().await.chain("arbitrum");
    let to = Address::repeat_byte(0x56);
    let per_sender = 50;
    let client = devnet::http::client().build().unwrap();
    let burst = async || {
        let user = chain.fresh_user().await.unwrap();
        let calls: Vec<_> = (0..per_sender)
            .map(|nonce| {
                let tx = TxEip1559 {
                    chain_id: chain.id,
                    nonce,
                    gas_limit: 21_000,
                    max_fee_per_gas: 1_000_000_000,
                    max_priority_fee_per_gas: 1,
                    to: to.into(),
                    value: U256::ONE,
                    ..TxEip1559::default()
                };
                let signature = user.signer().sign_hash_sync(&tx.signature_hash()).unwrap();
                let raw = Bytes::from(tx.into_signed(signature).encoded_2718());
                json!({"jsonrpc": "2.0", "id": nonce, "method": "eth_sendRawTransaction", "params": [raw]})
            })
            .collect();
        let answers: Value =
            client.post(chain.rpc_url.clone()).json(&calls).send().await.unwrap().json().await.unwrap();
        assert!(answers.as_array().unwrap().iter().all(|answer| answer["result"].is_string()));
        user.address
    };
    let senders = futures::future::join_all((0..10).map(|_| burst())).await;
    for sender in senders {
        while chain.rpc::<U256>("eth_getTransactionCount", (sender, "latest")).await.unwrap() < U256::from(per_sender) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    assert_eq!(chain.balance(Address::ZERO, to).await.unwrap(), U256::from(10 * per_sender));
}

/// A chain left running must not fill the disk, nor forget states that a reorg or a read at the final block needs.
#[tokio::test]
async fn a_chain_keeps_its_last_states_and_writes_none() {
    let dir = devnet::scratch("causeway-states-").unwrap();
    let devnet = Devnet::start(Options { data_dir: Some(dir.path().to_owned()), ..Options::default() }).await.unwrap();
    let chain = devnet.chain("base");
    chain.mine(600).await.unwrap();
    let head = chain.block_number().await.unwrap();
    let balance = async |back: u64| {
        chain.rpc::<U256>("eth_getBalance", (devnet.keys.deployer.address, format!("{:#x}", head - back))).await
    };
    assert!(balance(200).await.is_ok());
    assert!(balance(500).await.is_err());
    assert!(bytes_in(dir.path()) < 1 << 20, "{} bytes", bytes_in(dir.path()));
    devnet.shutdown().await.unwrap();
}

fn bytes_in(dir: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { bytes_in(&path) } else { path.metadata().unwrap().len() }).sum()
}
