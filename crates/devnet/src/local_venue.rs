//! The venue of the local network: the simulator, with an account of the solver and some of users.

use std::path::Path;

use anyhow::{Context, Result};
use domain::venue::AccountIndex;
use serde::Serialize;

use crate::keys::{Account, Keys};
use crate::networks::NETWORKS;
use crate::venue_simulator::{NewAccount, VenueAccount, VenueOptions, VenueSimulator};

/// Units of USDC.
const SOLVER_COLLATERAL: u64 = 1_000_000_000_000;
const USER_COLLATERAL: u64 = 10_000_000_000;

const SOLVER_INDEX: u64 = 722_011;
const FIRST_USER_INDEX: u64 = 100_001;
const USERS: usize = 4;
/// A sub-account of the first user's wallet.
const SUB_ACCOUNT_INDEX: u64 = (1 << 47) + 1;

/// The simulator, started with the chains.
#[derive(Debug, Serialize)]
pub struct LocalVenue {
    pub simulator: VenueSimulator,
    /// Its wallet is the treasury's. It transfers without the venue's fee, as a market maker would.
    pub solver: VenueAccount,
    /// Of the wallets of the local network's users, in their order; the last one is a sub-account of the first.
    pub users: Vec<VenueAccount>,
}

impl LocalVenue {
    /// Continues with the chains, or begins with them.
    pub(crate) async fn start(folder: &Path, resumed: bool, first_port: Option<u16>, keys: &Keys) -> Result<Self> {
        if !resumed {
            VenueSimulator::forget(folder)?;
        }
        // Behind the ports of the chains, of which each has two.
        let offset = u16::try_from(2 * NETWORKS.len())?;
        let port = first_port.map(|first| first.checked_add(offset).context("the first port is too high"));
        let options = VenueOptions { port: port.transpose()?.unwrap_or_default(), ..VenueOptions::default() };
        let simulator = VenueSimulator::start(folder, options).await?;
        let open = |index, wallet: Account, pays_fees, collateral| {
            let index = AccountIndex::new(index)?;
            simulator.open(NewAccount { index, wallet, pays_fees, collateral })
        };
        let solver = open(SOLVER_INDEX, keys.treasury, false, SOLVER_COLLATERAL)?;
        let wallets = (FIRST_USER_INDEX..).zip(keys.users.iter().take(USERS));
        let mut users =
            wallets.map(|(index, wallet)| open(index, *wallet, true, USER_COLLATERAL)).collect::<Result<Vec<_>>>()?;
        let first = keys.users.first().context("there are no users")?;
        users.push(open(SUB_ACCOUNT_INDEX, *first, true, 0)?);
        Ok(Self { simulator, solver, users })
    }
}
