//! Everything that is wrong, by the names of `docs/alarms.md`.

use domain::alarm::Alarm;
use domain::catalog::Chain;
use domain::ids::ChainId;
use serde::Serialize;
use store::alarms::Counted;
use utoipa::ToSchema;

use crate::App;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Wrong)]
pub(crate) struct Wrong {
    /// Its name among the alarms of the operator's documentation, which says what to do.
    name: &'static str,
    /// None where it concerns all chains.
    #[schema(required = true)]
    chain_id: Option<u64>,
    message: String,
}

impl Wrong {
    pub(super) fn new(alarm: Alarm, chain: Option<ChainId>, message: impl Into<String>) -> Self {
        Self { name: alarm.as_str(), chain_id: chain.map(|chain| chain.0), message: message.into() }
    }
}

/// The alarms of a chain that this process knows of. A new one is a line here, and a row of the page.
pub(super) fn on_chain(app: &App, chain: &Chain) -> Vec<Wrong> {
    let handle = app.chains.get(&chain.id);
    let market = app.market.current(chain.id).and_then(|it| it.check_pools()).err();
    let behind = handle.is_some_and(|handle| app.quoter.lags(handle));
    let known = [
        handle.and_then(|handle| handle.health.refusing()).map(|why| (Alarm::ChainRefused, why.to_string())),
        handle.and_then(|handle| handle.health.paused()).map(|why| (Alarm::ChainPaused, why.to_string())),
        market.map(|error| (Alarm::MarketUnknown, error.to_string())),
        behind.then(|| (Alarm::ChainBehind, "blocks are applied more than a minute late".to_owned())),
        low_on_gas(app, chain).map(|wallets| (Alarm::GasLow, wallets)),
    ];
    let raised = handle.map(|handle| handle.health.alarms.all()).unwrap_or_default();
    let all = known.into_iter().flatten().chain(raised);
    all.map(|(alarm, message)| Wrong::new(alarm, Some(chain.id), message)).collect()
}

fn low_on_gas(app: &App, chain: &Chain) -> Option<String> {
    let handle = app.chains.get(&chain.id)?;
    let (levels, snapshot) = (handle.settings.gas_levels?, app.market.latest(chain.id)?);
    let is_low =
        |wallet: &alloy_primitives::Address| snapshot.native.get(wallet).is_some_and(|has| levels.is_low(*has));
    let low: Vec<String> = handle.refilled_wallets().filter(is_low).map(|wallet| format!("{wallet:#x}")).collect();
    (!low.is_empty()).then(|| format!("low on native currency: {}", low.join(", ")))
}

/// The rows of the database that wait for a person.
pub(super) fn counted(found: &[Counted]) -> impl Iterator<Item = Wrong> {
    found.iter().map(|it| Wrong::new(it.alarm, Some(it.chain), format!("{} of them", it.rows)))
}
