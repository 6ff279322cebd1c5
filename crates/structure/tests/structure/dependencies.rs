//! Crates of others, held to `deny.toml`: their licences, where they come from, which are refused, and how many are
//! there in two versions. `cargo deny` reads the same file and also knows advisories; building it takes longer than
//! this whole suite, so that these rules are checked here, from `Cargo.lock` and `cargo tree`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use toml::Table;

use crate::spdx::is_met;

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The rules of `deny.toml` that are checked here.
#[derive(Debug)]
pub(crate) struct Rules {
    targets: Vec<String>,
    refused: Vec<String>,
    licences: Vec<String>,
    /// Licences of single crates.
    exceptions: BTreeMap<String, Vec<String>>,
}

impl Rules {
    pub(crate) fn read(text: &str) -> Self {
        let rules: Table = text.parse().expect("deny.toml is TOML");
        let names = |table: &toml::Value, member: &str, name: &str| -> Vec<(String, toml::Value)> {
            let rows = table.get(member).and_then(|rows| rows.as_array()).expect(member);
            let name_of = |row: &toml::Value| row.get(name).and_then(|it| it.as_str()).expect(name).to_owned();
            rows.iter().map(|row| (name_of(row), row.clone())).collect()
        };
        Self {
            targets: strings(&rules["graph"], "targets"),
            refused: names(&rules["bans"], "deny", "crate").into_iter().map(|(name, _)| name).collect(),
            licences: strings(&rules["licenses"], "allow"),
            exceptions: names(&rules["licenses"], "exceptions", "crate")
                .into_iter()
                .map(|(name, row)| (name, strings(&row, "allow")))
                .collect(),
        }
    }

    /// Crates that may not be here: refused by name, or from anywhere but the public registry. With the number of
    /// crates that are there in more than one version.
    pub(crate) fn locked(&self, lock: &str) -> (Vec<String>, usize) {
        let lock: Table = lock.parse().expect("Cargo.lock is TOML");
        let (mut problems, mut versions) = (Vec::new(), BTreeMap::<&str, usize>::new());
        for package in lock["package"].as_array().expect("packages") {
            let name = package["name"].as_str().expect("a name");
            *versions.entry(name).or_default() += 1;
            if self.refused.iter().any(|refused| refused == name) {
                problems.push(format!("{name} is refused by deny.toml"));
            }
            match package.get("source").and_then(|source| source.as_str()) {
                // A crate of this workspace.
                None | Some(REGISTRY) => {}
                Some(source) => problems.push(format!("{name} comes from {source}")),
            }
        }
        (problems, versions.values().filter(|count| **count > 1).count())
    }

    /// Crates under licences that are not allowed. A line of `crates` is a crate, a bar and its licence.
    pub(crate) fn licensed(&self, crates: &str) -> BTreeSet<String> {
        let mut problems = BTreeSet::new();
        for line in crates.lines().filter(|line| !line.is_empty()) {
            let (package, licence) = line.split_once('|').expect("a crate and its licence");
            let name = package.split(' ').next().unwrap_or_default();
            // A crate that the list has shown before ends in a star.
            let licence = licence.trim_end_matches("(*)").trim();
            let own = self.exceptions.get(name).into_iter().flatten();
            let is_allowed = |licence: &str| self.licences.iter().chain(own.clone()).any(|it| it == licence);
            match is_met(licence, is_allowed) {
                Ok(true) => {}
                Ok(false) => drop(problems.insert(format!("{name} is under {licence}"))),
                Err(error) => drop(problems.insert(format!("{name}: {error}"))),
            }
        }
        problems
    }

    /// Every crate that one of the targets compiles. `cargo metadata` would also list crates of features that are off.
    pub(crate) fn compiled(&self) -> Vec<String> {
        let crates = |target: &String| {
            let output = Command::new(env!("CARGO"))
                .args(["tree", "--workspace", "--all-features", "--locked", "--prefix", "none", "--format", "{p}|{l}"])
                .args(["--target", target])
                .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
                .output()
                .expect("cargo starts");
            assert!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).expect("cargo writes text")
        };
        self.targets.iter().map(crates).collect()
    }
}

fn strings(table: &toml::Value, member: &str) -> Vec<String> {
    let values = table.get(member).and_then(|values| values.as_array()).expect(member);
    values.iter().map(|value| value.as_str().expect("text").to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"
        graph.targets = ["x86_64-unknown-linux-gnu"]
        bans.deny = [{ crate = "openssl", reason = "…" }]
        [licenses]
        allow = ["MIT"]
        exceptions = [{ crate = "roots", allow = ["CDLA-Permissive-2.0"] }]
    "#;

    #[test]
    fn refused_crates_and_other_sources_are_found_in_the_lock_file() {
        let lock = r#"
            [[package]]
            name = "own"
            [[package]]
            name = "a"
            source = "registry+https://github.com/rust-lang/crates.io-index"
            [[package]]
            name = "a"
            source = "git+https://example.com/a"
            [[package]]
            name = "openssl"
            source = "registry+https://github.com/rust-lang/crates.io-index"
        "#;
        let (problems, twice) = Rules::read(RULES).locked(lock);
        assert_eq!(problems, ["a comes from git+https://example.com/a", "openssl is refused by deny.toml"]);
        assert_eq!(twice, 1);
    }

    #[test]
    fn licences_that_are_not_allowed_are_found() {
        let crates = "a v1.0.0|MIT OR GPL-3.0\nb v1.0.0|GPL-3.0\nc v1.0.0|\nroots v1.0.0|CDLA-Permissive-2.0\n\n\
            d v1.0.0|CDLA-Permissive-2.0\na v1.0.0|MIT OR GPL-3.0 (*)\nown v0.1.0 (/place)|MIT (*)\n";
        let problems: Vec<String> = Rules::read(RULES).licensed(crates).into_iter().collect();
        assert_eq!(
            problems,
            ["b is under GPL-3.0", "c: \"\" is no licence expression", "d is under CDLA-Permissive-2.0"]
        );
    }
}
