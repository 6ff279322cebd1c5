//! Holdings of the service: currencies against their targets, and the wallets that pay.

use alloy_primitives::{Address, U256};
use domain::catalog::Chain;
use domain::ids::ChainId;
use domain::money::{Amount, Ratio};
use maud::{Markup, html};
use store::lanes::Lane;

use crate::Dashboard;
use crate::chart::level;
use crate::decimal::brief;
use crate::markup::copied;

/// The share of its target that is held, in hundredths.
fn share(held: Amount, target: Amount) -> Option<u64> {
    let hundredth = Ratio::new(U256::from(100u8), target.units()).ok()?;
    Some(u64::try_from(held.mul_floor(hundredth).ok()?.units()).unwrap_or(u64::MAX))
}

/// Holdings as the newest snapshot of each chain shows them; no node is asked.
pub(super) fn inventory(dashboard: &Dashboard) -> Markup {
    let chains = dashboard.app.catalog.chains();
    let mut symbols: Vec<&str> = Vec::new();
    for currency in chains.iter().flat_map(Chain::held) {
        if !symbols.contains(&currency.symbol.as_str()) {
            symbols.push(&currency.symbol);
        }
    }
    html! {
        section.card {
            h2 { "Inventory" }
            div.scroll tabindex="0" {
                table {
                    thead {
                        tr {
                            th { "Currency" }
                            @for chain in chains { th.number { (chain.presentation.display_name) } }
                        }
                    }
                    tbody {
                        @for symbol in symbols {
                            tr {
                                th scope="row" { (symbol) }
                                @for chain in chains { td.number { (held(dashboard, chain, symbol)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The holding of a currency on one chain, against its target where it has one.
fn held(dashboard: &Dashboard, chain: &Chain, symbol: &str) -> Markup {
    let Some(currency) = chain.held().find(|currency| currency.symbol == symbol) else { return html! {} };
    let Some(snapshot) = dashboard.app.market.latest(chain.id) else {
        return html! { span.faint { "unknown" } };
    };
    let (held, target) = (snapshot.held(currency.evm_address()), currency.target);
    html! {
        (brief(&held.formatted(currency.decimals)))
        @if let Some((target, share)) = target.and_then(|target| Some((target, share(held, target)?))) {
            (level(symbol, share))
            small { "of " (brief(&target.formatted(currency.decimals))) }
        }
    }
}

/// The native currency of a wallet that pays or relays, as the newest snapshot of its chain shows it.
fn native_held(dashboard: &Dashboard, chain: ChainId, wallet: Address) -> Option<Amount> {
    let snapshot = dashboard.app.market.latest(chain)?;
    snapshot.native.get(&wallet).or_else(|| snapshot.relayers.get(&wallet)).copied()
}

fn gas(dashboard: &Dashboard, chain: u64, wallet: Address) -> Option<String> {
    let native = dashboard.app.catalog.chain(ChainId(chain))?.held().find(|it| it.evm_address().is_zero())?;
    let held = native_held(dashboard, ChainId(chain), wallet)?;
    Some(format!("{} {}", brief(&held.formatted(native.decimals)), native.symbol))
}

/// A filler's wallet on a chain that says what its wallets should have, in whole units of the native currency.
pub(super) struct Filler {
    pub chain: u64,
    pub wallet: Address,
    /// None while the chain has no snapshot.
    pub has: Option<String>,
    /// The amount that fills it up, where that is worth a transaction.
    pub lacks: Option<String>,
}

/// The fillers that the treasury fills up, by the newest snapshots. No node is asked: the page is also read when one is
/// away.
pub(super) fn fillers(dashboard: &Dashboard) -> Vec<Filler> {
    let mut fillers = Vec::new();
    for handle in dashboard.app.chains.values() {
        let Some(levels) = handle.settings.gas_levels else { continue };
        let decimals = handle.chain.native.decimals;
        for wallet in handle.refilled_wallets() {
            let has = native_held(dashboard, handle.id(), wallet);
            let lacks = has.and_then(|has| levels.lacks(has));
            fillers.push(Filler {
                chain: handle.id().0,
                wallet,
                has: has.map(|amount| brief(&amount.formatted(decimals))),
                lacks: lacks.map(|amount| brief(&amount.formatted(decimals))),
            });
        }
    }
    fillers
}

/// Lanes with the nonces that they take next and the gas that they can pay: a line per wallet and a column per chain,
/// since one wallet pays on many chains.
pub(super) fn lane_table(dashboard: &Dashboard, chains: &[(u64, Vec<Lane>)]) -> Markup {
    let used: Vec<&(u64, Vec<Lane>)> = chains.iter().filter(|(_, lanes)| !lanes.is_empty()).collect();
    let mut wallets: Vec<Address> = Vec::new();
    for lane in used.iter().flat_map(|(_, lanes)| lanes) {
        if !wallets.contains(&lane.wallet) {
            wallets.push(lane.wallet);
        }
    }
    html! {
        section.card {
            h2 { "Lanes" }
            @if wallets.is_empty() { p.faint { "No wallet pays here yet." } } @else {
                div.scroll tabindex="0" {
                    table {
                        thead {
                            tr {
                                th { "Wallet" }
                                @for (chain, _) in &used { th.number { (dashboard.chain_name(*chain)) } }
                            }
                        }
                        tbody {
                            @for wallet in &wallets {
                                tr {
                                    th scope="row" { (copied(&wallet.to_string())) }
                                    @for (chain, lanes) in &used {
                                        td.number {
                                            @match lanes.iter().find(|lane| lane.wallet == *wallet) {
                                                Some(lane) => (lane_cell(dashboard, *chain, lane)),
                                                None => span.faint { "–" },
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn lane_cell(dashboard: &Dashboard, chain: u64, lane: &Lane) -> Markup {
    html! {
        (gas(dashboard, chain, lane.wallet).unwrap_or_else(|| "–".to_owned()))
        br; small { "nonce " (lane.next_nonce) @if lane.unmined > 0 { ", " (lane.unmined) " under way" } }
        @if let Some(why) = &lane.quarantined { br; span class="status bad" { (why) } }
    }
}
