//! The signers of a process: keys for the wallets its role signs with, addresses alone for all others.

use alloy::primitives::Address;
use anyhow::{Context, Result, ensure};
use evm::LocalSigner;
use solver::Payer;

use crate::config::{Config, Source};
use crate::role::Role;

pub(crate) fn key(config: &Config, source: &Source) -> Result<LocalSigner> {
    Ok(LocalSigner::from_hex(source.read(&config.folder)?.expose())?)
}

/// The solver's identity in every order. Processes that quote have the key.
pub(crate) fn orders(config: &Config, role: Role) -> Result<Payer> {
    let (source, address) = (config.solver.order_key.as_ref(), config.solver.order_address);
    signer(config, "solver.order_key", "solver.order_address", role.answers(), source, address, role)
}

/// The filler wallets. The worker has their keys.
pub(crate) fn fillers(config: &Config, role: Role) -> Result<Vec<Payer>> {
    let (keys, addresses) = (&config.solver.filler_keys, &config.solver.filler_addresses);
    payers(config, role, "filler", keys, addresses)
}

/// The relayer wallets. The worker has their keys.
pub(crate) fn relayers(config: &Config, role: Role) -> Result<Vec<Payer>> {
    let (keys, addresses) = (&config.solver.relayer_keys, &config.solver.relayer_addresses);
    let relayers = payers(config, role, "relayer", keys, addresses)?;
    let fillers = fillers(config, role)?;
    let own = |who: Address| who != config.solver.treasury && fillers.iter().all(|filler| filler.address != who);
    let apart = relayers.iter().all(|relayer| own(relayer.address));
    ensure!(apart, "solver.relayer_keys: a relayer must not be a filler or the treasury");
    Ok(relayers)
}

fn payers(config: &Config, role: Role, name: &str, keys: &[Source], addresses: &[Address]) -> Result<Vec<Payer>> {
    let (key, address) = (format!("solver.{name}_keys"), format!("solver.{name}_addresses"));
    let payer = |n: usize| {
        signer(config, &key, &address, role.pays(), keys.get(n), addresses.get(n).copied(), role)
            .with_context(|| format!("{name} {n}"))
    };
    (0..keys.len().max(addresses.len())).map(payer).collect()
}

/// The treasury's key for gas refills. The worker has it.
pub(crate) fn treasury_lane(config: &Config, role: Role) -> Result<Option<LocalSigner>> {
    let Some(source) = config.solver.treasury_key.as_ref().filter(|_| role.pays()) else { return Ok(None) };
    let treasury_lane = key(config, source).context("solver.treasury_key")?;
    let right = treasury_lane.address() == config.solver.treasury;
    ensure!(right, "solver.treasury_key: it is the key of {}, which is not solver.treasury", treasury_lane.address());
    Ok(Some(treasury_lane))
}

/// A signing role needs the key, which must match the address if one is given; any other role has the address alone.
fn signer(
    config: &Config,
    key_name: &str,
    address_name: &str,
    signs: bool,
    source: Option<&Source>,
    address: Option<Address>,
    role: Role,
) -> Result<Payer> {
    if !signs {
        let missing = || format!("{address_name}: --role {role} does not have the key and needs to know its address");
        return Ok(Payer { address: address.with_context(missing)?, key: None });
    }
    let source = source.with_context(|| format!("{key_name}: needed by --role {role}"))?;
    let key = key(config, source).with_context(|| key_name.to_owned())?;
    let right = address.is_none_or(|address| address == key.address());
    ensure!(right, "{key_name}: it is the key of {}, which is not the one in {address_name}", key.address());
    Ok(Payer { address: key.address(), key: Some(key) })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// The sample, with the addresses that a process without keys reads.
    fn with_relayer(relayer: &str) -> Config {
        let sample = include_str!("../../../../docs/causeway.toml");
        let text = sample.replacen("# filler_addresses = ", "filler_addresses = ", 1);
        let shown = "# relayer_addresses = [\"0x5555555555555555555555555555555555555555\"]";
        assert!(text != sample && text.contains(shown));
        let text = text.replacen(shown, &format!("relayer_addresses = [\"{relayer}\"]"), 1);
        Config::parse(&text, PathBuf::from(".")).unwrap()
    }

    #[test]
    fn a_relayer_is_neither_a_filler_nor_the_treasury() {
        let own = with_relayer("0x5555555555555555555555555555555555555555");
        assert_eq!(relayers(&own, Role::Api).unwrap().len(), 1);
        for (who, digit) in [("the treasury", '1'), ("a filler", '3'), ("another filler", '4')] {
            let address = format!("0x{}", digit.to_string().repeat(40));
            let refused = relayers(&with_relayer(&address), Role::Api).unwrap_err();
            assert!(refused.to_string().contains("solver.relayer_keys"), "{who}: {refused}");
        }
    }
}
