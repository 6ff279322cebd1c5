//! The shape of the source: no circles between modules, short files, short functions, plain openings of comments, and
//! one caller of the statement that creates payments. And one page that lists every alarm and metric, documents whose
//! paths and tests exist, and crates of others held to `deny.toml`.
//!
//! The rules read text and, for licences, `cargo tree`. They need no compiler, hold in every crate, and name the
//! offending place.

mod alarms;
mod callers;
mod circles;
mod comments;
mod dependencies;
mod documents;
mod functions;
mod imports;
mod lexer;
mod limits;
mod modules;
mod product;
mod spdx;
mod tree;

use std::io::Write;
use std::path::Path;

use crate::callers::Rule;
use crate::dependencies::Rules;
use crate::functions::{Function, functions};
use crate::limits::{Measured, measure};
use crate::tree::{File, Tree};

/// The longest file, tests included.
const MAX_FILE_LINES: usize = 450;
/// The longest Rust function, from its signature to its closing brace.
const MAX_FUNCTION_LINES: usize = 80;

/// The most crates of others that may be there in more than one version. Each costs build time.
const MAX_DUPLICATES: usize = 42;

/// The most files that the story of one transfer may name.
const MAX_TOLD_FILES: usize = 20;

/// The store's functions that insert a payment. Creating takes a nonce; importing records what a chain already holds.
const PAYMENT_WRITERS: [Rule; 2] = [
    Rule { function: "payments::assign", caller: "crates/solver/src/payments/lane.rs" },
    Rule { function: "payments::import", caller: "crates/solver/src/operator/recover.rs" },
];

/// Writes past the capture of test output, so that the figures show on success too.
fn print(line: &str) {
    writeln!(std::io::stderr(), "structure: {line}").expect("standard error is open");
}

fn fail_on(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn modules_of_a_crate_do_not_import_each_other_in_a_circle() {
    let mut problems = Vec::new();
    for (name, files) in Tree::read().crates() {
        let graph = modules::graph(&files);
        print(&format!("{name} has {} modules", graph.len()));
        problems.extend(circles::circles(&graph).into_iter().map(|circle| format!("{name}: {circle}")));
    }
    fail_on(&problems);
}

#[test]
fn files_are_short() {
    let tree = Tree::read();
    let file = |file: &File| Measured { lines: file.text.lines().count(), place: file.path.clone() };
    let (figure, long) = measure("file", tree.files.iter().map(file).collect(), MAX_FILE_LINES);
    print(&figure);
    fail_on(&long);
}

#[test]
fn functions_are_short() {
    let tree = Tree::read();
    let functions = tree.rust().flat_map(|file| {
        let place = |it: &Function| format!("{} in {}:{}", it.name, file.path, it.line);
        functions(&file.text).into_iter().map(move |it| Measured { lines: it.lines, place: place(&it) })
    });
    let (figure, long) = measure("function", functions.collect(), MAX_FUNCTION_LINES);
    print(&figure);
    fail_on(&long);
}

#[test]
fn comments_open_with_their_noun() {
    let tree = Tree::read();
    let what = tree.rust().flat_map(|file| {
        let lines = comments::opening_with_what(&file.text);
        lines.into_iter().map(|line| format!("{}:{line}: the comment opens with \"What\"", file.path))
    });
    fail_on(&what.collect::<Vec<_>>());
}

#[test]
fn payments_are_inserted_by_one_caller_each() {
    let tree = Tree::read();
    let files: Vec<_> = tree.rust().collect();
    fail_on(&PAYMENT_WRITERS.iter().flat_map(|rule| rule.broken_by(&files)).collect::<Vec<_>>());
}

#[test]
fn every_metric_and_every_alarm_is_on_the_page_of_alarms() {
    let tree = Tree::read();
    let page = include_str!("../../../../docs/alarms.md");
    let sources: Vec<_> = tree.crates().into_iter().filter(|(name, _)| *name != "bench").flat_map(|it| it.1).collect();
    let (metrics, mut problems) = alarms::metrics(sources.iter().copied());
    let list = sources.iter().find(|file| file.path == "crates/domain/src/alarm.rs").expect("the list of alarms");
    let names = alarms::alarms(&list.text);
    print(&format!("{} metrics and {} alarms", metrics.len(), names.len()));
    assert!(metrics.len() > 30 && names.len() > 10, "the code was not read: {metrics:?} {names:?}");
    problems.extend(alarms::differences(&metrics, &alarms::listed(page, "## Metrics")));
    problems.extend(alarms::differences(&names, &alarms::listed(page, "## Wrong")));
    fail_on(&problems);
}

#[test]
fn paths_in_documents_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut problems = Vec::new();
    for (document, text) in [
        ("ARCHITECTURE.md", include_str!("../../../../ARCHITECTURE.md")),
        ("CONTRIBUTING.md", include_str!("../../../../CONTRIBUTING.md")),
    ] {
        let named = documents::named(text);
        print(&format!("{document} names {} paths", named.len()));
        assert!(named.len() > 30, "{document} was not read: {named:?}");
        let lost = named.into_iter().filter(|it| !it.places.iter().any(|place| root.join(place).exists()));
        problems.extend(lost.map(|it| format!("{document}:{}: there is no {}", it.line, it.written)));
    }
    fail_on(&problems);
}

#[test]
fn every_way_to_take_money_names_tests_that_exist() {
    let text = include_str!("../../../../docs/security.md");
    let named = documents::tests_under(text, "## Ways to take money, and what closes them");
    print(&format!("docs/security.md names {} tests", named.len()));
    assert!(named.len() > 100, "the table was not read: {named:?}");
    let tree = Tree::read();
    let exists = |name: &str| {
        let opening = [format!("fn {name}("), format!("function {name}(")];
        tree.files.iter().any(|file| opening.iter().any(|opening| file.text.contains(opening)))
    };
    let lost = named.iter().filter(|(_, name)| !exists(name));
    fail_on(&lost.map(|(line, name)| format!("docs/security.md:{line}: there is no test {name}")).collect::<Vec<_>>());
}

#[test]
fn one_transfer_is_told_in_twenty_files() {
    let text = include_str!("../../../../ARCHITECTURE.md");
    let told = documents::named_under(text, "## The life of one transfer");
    print(&format!("one transfer is told in {} files; at most {MAX_TOLD_FILES} may be", told.len()));
    assert!(told.len() > MAX_TOLD_FILES / 2, "the section was not read: {told:?}");
    assert!(told.len() <= MAX_TOLD_FILES, "one transfer is told in {} files: {told:#?}", told.len());
}

#[test]
fn crates_of_others_keep_to_the_dependency_rules() {
    let rules = Rules::read(include_str!("../../../../deny.toml"));
    let (mut problems, duplicates) = rules.locked(include_str!("../../../../Cargo.lock"));
    print(&format!("{duplicates} crates are there in more than one version; at most {MAX_DUPLICATES} may be"));
    if duplicates > MAX_DUPLICATES {
        problems.push(format!("{duplicates} crates are there in more than one version: see `cargo tree -d`"));
    }
    for crates in rules.compiled() {
        assert!(crates.lines().count() > 200, "the crates were not read");
        problems.extend(rules.licensed(&crates));
    }
    fail_on(&problems);
}
