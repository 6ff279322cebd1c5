//! An adversary among the users. Each attempt at a trick has accounts of its own, so that its gain is the trick's.

mod bytecode;
mod deposit_address;
mod early_claim;
mod fee_exchange;
mod hands;
mod junk_logs;
mod late_deposit;
mod lying_node;
mod permits;
mod reverting_recipient;
mod score;
mod sponsored_twice;
mod stolen_deposit;

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use alloy::primitives::{Address, B256, U256};
use anyhow::{Context, Result};
use causeway::commands::api_key;
use causeway::config::Config;
use devnet::{Account, Devnet, FaultProxy, Rng};
use evm::account_tag::tag;
use evm::calldata;

use self::hands::Hands;
pub(crate) use self::score::Score;
use super::ChaosArgs;
use super::addresses::Given;
use super::api::Api;
use super::market::Market;
use super::permits::Permitted;
use super::sends::Sends;
use super::traffic::Integrator;
use super::worth::Party;

/// The ways in which the adversary tries to be paid for nothing, or to make the service pay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Trick {
    /// A fast fill whose deposit comes late, when the price suits, or never.
    LateDeposit,
    /// A stranger's plain token deposit, relayed beside the id of the adversary's own order.
    StolenDeposit,
    /// A claim between the end of a fast fill's hold and the shortage of its deposit.
    EarlyClaim,
    /// One balance for a fast fill and for sponsored fees that are paid to oneself.
    SponsoredTwice,
    /// App fees as an exchange of ether at a feed that is behind the market.
    FeeExchange,
    /// A recipient that takes nothing and burns gas.
    RevertingRecipient,
    /// Blocks full of logs that look like transfers to the service.
    JunkLogs,
    /// A node of the adversary's that shows a deposit which never was.
    InventedDeposit,
    /// The same with a transfer to the treasury, for an app balance.
    InventedFunding,
    /// The same with a fill that has failed.
    FailedFill,
    /// Somebody else's strict deposit address, swept before the service does.
    SweptFirst,
    /// Dust at somebody else's open deposit address, before and after its payment.
    DustFirst,
    /// A permit whose nonce its user spends elsewhere before the relay is mined.
    SpentNonce,
    /// A permit whose user moves the tokens away, or takes Permit2's allowance back, before the relay is mined.
    MovedAway,
    /// One permit, posted several times at once, and again once it is filled.
    PostedTwice,
    /// Somebody else's permit, copied from the relay on its way and brought first.
    CopiedRelay,
}

impl Trick {
    pub(crate) const ALL: [Self; 16] = [
        Self::LateDeposit,
        Self::StolenDeposit,
        Self::EarlyClaim,
        Self::SponsoredTwice,
        Self::FeeExchange,
        Self::RevertingRecipient,
        Self::JunkLogs,
        Self::InventedDeposit,
        Self::InventedFunding,
        Self::FailedFill,
        Self::SweptFirst,
        Self::DustFirst,
        Self::SpentNonce,
        Self::MovedAway,
        Self::PostedTwice,
        Self::CopiedRelay,
    ];

    /// The app balance it begins with, in whole USDC.
    fn balance(self) -> Option<u64> {
        match self {
            Self::LateDeposit => Some(2_000),
            Self::EarlyClaim => Some(101),
            Self::SponsoredTwice => Some(300),
            Self::StolenDeposit | Self::FeeExchange | Self::RevertingRecipient | Self::JunkLogs => None,
            Self::InventedDeposit | Self::InventedFunding | Self::FailedFill => None,
            Self::SweptFirst | Self::DustFirst => None,
            Self::SpentNonce | Self::MovedAway | Self::PostedTwice | Self::CopiedRelay => None,
        }
    }
}

/// One attempt for every so many transfers, and each trick at least once.
const TRANSFERS_PER_ATTEMPT: usize = 15;

/// One attempt at a trick.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub trick: Trick,
    /// Indexes in the list of chains.
    origin: usize,
    destination: usize,
    at: Duration,
    /// Two payers, the recipient of fills, and the owner of app fees.
    main: Account,
    second: Account,
    recipient: Account,
    app: Account,
    /// A contract that the trick needs: a victim's wallet, a recipient, a source of logs.
    contract: Address,
    /// Random choices that the trick leaves open.
    coin: bool,
    choice: u64,
    integrator: Option<Integrator>,
    deeds: Mutex<Deeds>,
}

/// The deeds of an attempt so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Deeds {
    orders: Vec<B256>,
    deposits: Vec<Brought>,
    claims: Vec<B256>,
    debts: Vec<Debt>,
    /// A deposit address that is another's.
    victim: Option<Given>,
    /// A permit: the adversary's, or another's that it attacks.
    permit: Option<Permitted>,
    /// Something it asked for was refused.
    refused: bool,
}

/// A payment into a depository.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Brought {
    pub chain: usize,
    pub tx: B256,
    pub id: B256,
    pub currency: Address,
    pub amount: U256,
}

/// A fast fill of ether that was accepted: its deposit is owed.
#[derive(Clone, Copy, Debug)]
struct Debt {
    chain: usize,
    wei: U256,
    /// Blocks before it was asked for and after it was accepted: a call may wait for a service that is away.
    accepted: (u64, u64),
    /// Blocks at which its time was over, counted from the one and from the other.
    due: Option<(u64, u64)>,
    order: B256,
}

impl Attempt {
    fn deeds(&self) -> std::sync::MutexGuard<'_, Deeds> {
        self.deeds.lock().expect("nothing panics while holding it")
    }

    /// The accounts that are the adversary's: not those of a victim.
    pub(crate) fn party(&self) -> Party {
        let mut accounts = vec![self.main.address, self.app.address];
        if !matches!(self.trick, Trick::SweptFirst | Trick::DustFirst | Trick::CopiedRelay) {
            accounts.extend([self.second.address, self.recipient.address]);
        }
        let mut wallets = vec![self.app.address];
        if self.trick == Trick::RevertingRecipient {
            accounts.push(self.contract);
        }
        if let Some(integrator) = &self.integrator {
            accounts.push(integrator.wallet.address);
            wallets.push(integrator.wallet.address);
        }
        Party { accounts, wallets }
    }
}

/// All attempts of a run.
#[derive(Debug)]
pub(crate) struct Adversary {
    pub attempts: Vec<Attempt>,
}

impl Adversary {
    /// Plans the attempts and makes the API keys that they need. The service must not run yet.
    pub(crate) async fn new(
        (devnet, config, folder): (&Devnet, &Config, &Path),
        args: &ChaosArgs,
        time: Duration,
        rng: &Rng,
    ) -> Result<Self> {
        let tricks = match (args.deposits_only, args.trick.is_empty()) {
            (true, _) => return Ok(Self { attempts: Vec::new() }),
            (false, true) => &Trick::ALL[..],
            (false, false) => &args.trick,
        };
        let mut rng = rng.apart("adversary");
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut attempts = Vec::new();
        let count = usize::try_from(args.transfers)? / TRANSFERS_PER_ATTEMPT;
        for index in 0..count.max(tricks.len()) {
            let trick = tricks[index % tricks.len()];
            let origin = usize::try_from(rng.roll(devnet.chains.len() as u64))?;
            let hop = 1 + usize::try_from(rng.roll(devnet.chains.len() as u64 - 1))?;
            let integrator = match trick.balance() {
                None => None,
                Some(_) => {
                    let (wallet, folder) = (rng.account(), folder.join(format!("adversary-{index}")));
                    std::fs::create_dir_all(folder.join("keys"))?;
                    let key = api_key::ensure(config, &folder, &wallet).await?;
                    Some(Integrator { key, wallet })
                }
            };
            attempts.push(Attempt {
                trick,
                origin,
                destination: (origin + hop) % devnet.chains.len(),
                at: Duration::from_millis(rng.roll(millis)),
                main: rng.account(),
                second: rng.account(),
                recipient: rng.account(),
                app: rng.account(),
                contract: rng.account().address,
                coin: rng.once_in(2),
                choice: rng.roll(12),
                integrator,
                deeds: Mutex::default(),
            });
        }
        Ok(Self { attempts })
    }

    /// Gives the adversary what it pays with. It runs before any reorg, which would remove the funds.
    pub(crate) async fn fund(&self, devnet: &Devnet, sends: &Sends<'_>) -> Result<()> {
        for attempt in &self.attempts {
            let chain = &devnet.chains[attempt.origin];
            for who in [attempt.main.address, attempt.second.address] {
                chain.set_balance(who, U256::from(10u64).pow(U256::from(18))).await?;
                let usdc = chain.token("USDC");
                chain.set_token_balance(usdc.address, who, U256::from(1_000_000_000u64)).await?;
            }
            match attempt.trick {
                Trick::StolenDeposit => stolen_deposit::prepare(attempt, chain).await?,
                Trick::JunkLogs => junk_logs::prepare(attempt, chain, devnet.keys.treasury.address).await?,
                Trick::RevertingRecipient => {
                    reverting_recipient::prepare(attempt, &devnet.chains[attempt.destination]).await?;
                }
                Trick::InventedFunding => {
                    let base = devnet.chain(domain::ledger::CHAIN);
                    base.set_balance(attempt.main.address, U256::from(10u64).pow(U256::from(18))).await?;
                }
                Trick::LateDeposit | Trick::EarlyClaim | Trick::SponsoredTwice | Trick::FeeExchange => {}
                Trick::InventedDeposit | Trick::FailedFill | Trick::SweptFirst | Trick::DustFirst => {}
                Trick::SpentNonce | Trick::MovedAway | Trick::PostedTwice | Trick::CopiedRelay => {
                    permits::prepare(attempt, chain, sends).await?;
                }
            }
            if let (Some(integrator), Some(balance)) = (&attempt.integrator, attempt.trick.balance()) {
                let (chain, wallet) = (devnet.chain(domain::ledger::CHAIN), &integrator.wallet);
                let (usdc, balance) = (chain.token("USDC").address, U256::from(balance * 1_000_000));
                chain.set_balance(wallet.address, U256::from(10u64).pow(U256::from(18))).await?;
                chain.set_token_balance(usdc, wallet.address, balance).await?;
                let data = calldata::erc20_fill(devnet.keys.treasury.address, balance, tag(wallet.address));
                chain.submit(wallet.private_key, usdc, U256::ZERO, data).await?;
            }
        }
        Ok(())
    }

    /// True if every balance is credited.
    pub(crate) async fn is_funded(&self, api: &Api) -> bool {
        for integrator in self.attempts.iter().filter_map(|attempt| attempt.integrator.as_ref()) {
            if !api.available(integrator.wallet.address).await.is_ok_and(|micros| micros > 0) {
                return false;
            }
        }
        true
    }

    /// Makes every attempt, at its time.
    pub(crate) async fn run(
        &self,
        (devnet, api, sends): (&Devnet, &Api, &Sends<'_>),
        (market, liars): (&Market<'_>, &[FaultProxy]),
    ) -> Result<()> {
        let attempts = self.attempts.iter().map(|attempt| async move {
            tokio::time::sleep(attempt.at).await;
            let hands = Hands { devnet, api, sends, market, liars, attempt };
            let made = match attempt.trick {
                Trick::LateDeposit => late_deposit::attempt(&hands).await,
                Trick::StolenDeposit => stolen_deposit::attempt(&hands).await,
                Trick::EarlyClaim => early_claim::attempt(&hands).await,
                Trick::SponsoredTwice => sponsored_twice::attempt(&hands).await,
                Trick::FeeExchange => fee_exchange::attempt(&hands).await,
                Trick::RevertingRecipient => reverting_recipient::attempt(&hands).await,
                Trick::JunkLogs => junk_logs::attempt(&hands).await,
                Trick::InventedDeposit => lying_node::invented_deposit(&hands).await,
                Trick::InventedFunding => lying_node::invented_funding(&hands).await,
                Trick::FailedFill => lying_node::failed_fill(&hands).await,
                Trick::SweptFirst => deposit_address::swept_first(&hands).await,
                Trick::DustFirst => deposit_address::dust_first(&hands).await,
                Trick::SpentNonce => permits::spent_nonce(&hands).await,
                Trick::MovedAway => permits::moved_away(&hands).await,
                Trick::PostedTwice => permits::posted_twice(&hands).await,
                Trick::CopiedRelay => permits::copied_relay(&hands).await,
            };
            made.with_context(|| format!("{:?}", attempt.trick))
        });
        futures::future::try_join_all(attempts).await?;
        Ok(())
    }

    /// The ids of orders and claims of the adversary: the service may pay under them.
    pub(crate) fn ids(&self) -> Vec<B256> {
        let ids = |attempt: &Attempt| {
            let deeds = attempt.deeds();
            deeds.orders.iter().chain(&deeds.claims).copied().collect::<Vec<_>>()
        };
        self.attempts.iter().flat_map(ids).collect()
    }

    /// Deposit addresses of others that it meddled with.
    pub(crate) fn victims(&self) -> Vec<Given> {
        self.attempts.iter().filter_map(|attempt| attempt.deeds().victim.clone()).collect()
    }

    /// Permits of the adversary's and of its victims.
    pub(crate) fn permits(&self) -> Vec<Permitted> {
        self.attempts.iter().filter_map(|attempt| attempt.deeds().permit.clone()).collect()
    }

    pub(crate) fn deposits(&self) -> Vec<Brought> {
        self.attempts.iter().flat_map(|attempt| attempt.deeds().deposits.clone()).collect()
    }
}
