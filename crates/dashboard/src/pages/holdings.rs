//! Holdings of the service: currencies against their targets, and the wallets that pay.

use alloy_primitives::U256;
use domain::catalog::Currency;
use domain::money::Ratio;
use market::Snapshot;
use maud::{Markup, html};
use store::lanes::Lane;

use crate::Dashboard;
use crate::chart::level;
use crate::decimal::brief;
use crate::markup::{copied, status};

fn holding(snapshot: &Snapshot, currency: &Currency) -> String {
    brief(&snapshot.held(currency.evm_address()).formatted(currency.decimals))
}

/// The share of its target that is held, in hundredths.
fn share(snapshot: &Snapshot, currency: &Currency) -> Option<u64> {
    let hundredth = Ratio::new(U256::from(100u8), currency.target?.units()).ok()?;
    let share = snapshot.held(currency.evm_address()).mul_floor(hundredth).ok()?;
    Some(u64::try_from(share.units()).unwrap_or(u64::MAX))
}

/// Holdings as the newest snapshot of each chain shows them; no node is asked.
pub(super) fn inventory(dashboard: &Dashboard) -> Markup {
    html! {
        section.card {
            h2 { "Inventory" }
            div.scroll tabindex="0" {
                table {
                    thead {
                        tr {
                            th { "Chain" } th { "Currency" } th.number { "Holds" } th.number { "Target" }
                            th { "Level" }
                        }
                    }
                    tbody {
                        @for chain in dashboard.app.catalog.chains() {
                            @let snapshot = dashboard.app.market.latest(chain.id);
                            @for currency in chain.held() {
                                tr {
                                    td { (chain.presentation.display_name) }
                                    td { (currency.symbol) }
                                    td.number {
                                        @match &snapshot {
                                            Some(snapshot) => (holding(snapshot, currency)),
                                            None => span.faint { "unknown" },
                                        }
                                    }
                                    td.number {
                                        @if let Some(target) = currency.target {
                                            (brief(&target.formatted(currency.decimals)))
                                        }
                                    }
                                    td {
                                        @if let Some(share) = snapshot.as_ref().and_then(|it| share(it, currency)) {
                                            (level(&currency.symbol, share))
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

/// Lanes with the nonces that they take next.
pub(super) fn lane_table(dashboard: &Dashboard, chains: &[(u64, Vec<Lane>, u64)]) -> Markup {
    html! {
        section.card {
            h2 { "Lanes" }
            div.scroll tabindex="0" {
                table {
                    thead {
                        tr {
                            th { "Chain" } th { "Wallet" } th.number { "Next nonce" } th.number { "Under way" }
                            th { "State" }
                        }
                    }
                    tbody {
                        @for (chain, lanes, in_flight) in chains {
                            @for lane in lanes {
                                tr {
                                    td { (dashboard.chain_name(*chain)) }
                                    td { (copied(&lane.wallet.to_string())) }
                                    td.number { (lane.next_nonce) }
                                    td.number { (in_flight) }
                                    td {
                                        @match &lane.quarantined {
                                            Some(why) => span class="status bad" { (why) }, None => (status("ok"))
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            p.faint { "Payments under way are those of the whole chain." }
        }
    }
}
