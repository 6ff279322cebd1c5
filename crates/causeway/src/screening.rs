//! Lists of addresses, one per line; what follows a `#` is a comment.

use std::collections::BTreeSet;
use std::path::Path;

use alloy::primitives::Address;
use anyhow::{Context, Result};
use domain::account::{Account, Vm};

pub fn load(path: &Path) -> Result<BTreeSet<Address>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| format!("in {}", path.display()))
}

fn parse(text: &str) -> Result<BTreeSet<Address>> {
    let lines = text.lines().enumerate().map(|(n, line)| (n + 1, line.split('#').next().unwrap_or_default().trim()));
    lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(n, line)| {
            let account = Account::parse(Vm::Evm, line).with_context(|| format!("line {n}"))?;
            account.evm().with_context(|| format!("line {n}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_comments_and_names_its_bad_line() {
        let good = "# blocked\n\n0x1111111111111111111111111111111111111111 # a thief\n";
        assert_eq!(parse(good).unwrap(), BTreeSet::from([Address::repeat_byte(0x11)]));
        assert!(format!("{:#}", parse("0x12\n").unwrap_err()).contains("line 1"));
    }
}
