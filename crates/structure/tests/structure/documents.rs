//! Paths that documents name: each must lead to a file or a folder.

use std::collections::BTreeSet;

/// Endings by which a name without a folder is a path. A configuration file may be the reader's own.
const ENDINGS: [&str; 4] = [".rs", ".sol", ".md", ".json"];

/// Folders that a path may start from.
const BASES: [&str; 3] = ["", "crates/", "crates/solver/src/"];

/// A path as it is written, and the places it may lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub line: usize,
    pub written: String,
    pub places: Vec<String>,
}

/// The paths of a document: its words in backticks that look like one, outside of code blocks. A path may also start
/// from a folder of the one named before it in the same paragraph or row.
pub(crate) fn named(text: &str) -> Vec<Named> {
    let (mut found, mut before, mut fenced) = (Vec::new(), None::<String>, false);
    for (line, content) in text.lines().enumerate() {
        if content.starts_with("```") || content.starts_with("   ```") {
            fenced = !fenced;
            continue;
        }
        if content.is_empty() || content.starts_with('|') {
            before = None;
        }
        let words = content.split('`').skip(1).step_by(2).filter(|word| !fenced && is_path(word));
        for written in words.flat_map(expand) {
            let mut places: Vec<String> = BASES.iter().map(|base| format!("{base}{written}")).collect();
            for (at, _) in before.iter().flat_map(|path| path.match_indices('/')) {
                let folder = before.as_ref().map_or("", |path| &path[..=at]);
                places.extend(BASES.iter().map(|base| format!("{base}{folder}{written}")));
            }
            // A bare name stays in the folder of the path before it.
            if written.contains('/') {
                before = Some(written.clone());
            }
            found.push(Named { line: line + 1, written, places });
        }
    }
    found
}

/// The paths of one section.
pub(crate) fn named_under(text: &str, heading: &str) -> BTreeSet<String> {
    let section = text.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with("## "));
    let section: Vec<&str> = section.collect();
    named(&section.join("\n")).into_iter().map(|it| it.written).collect()
}

/// The tests that the last column of a section's table names, each with its line. A whole module of tests is left out.
pub(crate) fn tests_under(text: &str, heading: &str) -> Vec<(usize, String)> {
    let lines = text.lines().enumerate().skip_while(|(_, line)| *line != heading).skip(1);
    let rows = lines.take_while(|(_, line)| !line.starts_with("## ")).filter(|(_, line)| line.starts_with('|'));
    let mut found = Vec::new();
    for (at, row) in rows {
        let last = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let words = last.split('`').skip(1).step_by(2).filter(|word| !word.ends_with("::tests"));
        found.extend(words.map(|word| (at + 1, word.rsplit("::").next().unwrap_or(word).to_owned())));
    }
    found
}

fn is_path(word: &str) -> bool {
    let plain = |it: char| it.is_ascii_alphanumeric() || "_-./{},".contains(it);
    let ends = ENDINGS.iter().any(|ending| word.ends_with(ending));
    word.chars().all(plain) && !word.starts_with('/') && (word.contains('/') || ends)
}

/// The paths that braces stand for: `a/{b,c}.rs` is two.
fn expand(word: &str) -> Vec<String> {
    let parts = word.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?)));
    match parts {
        Some((head, (names, tail))) => names.split(',').map(|name| format!("{head}{name}{tail}")).collect(),
        None => vec![word.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Vec<String> {
        named(text).into_iter().map(|it| it.written).collect()
    }

    #[test]
    fn paths_are_told_from_other_words() {
        let text = "`a/b.rs` and `c.rs`, `a/{d,e}.rs`, `f/`; not `POST /g`, `/h`, `i::j`, `k.toml` or `l = 1/2`";
        assert_eq!(written(text), ["a/b.rs", "c.rs", "a/d.rs", "a/e.rs", "f/"]);
        assert_eq!(written("```sh\n`a/b.rs`\n```\n`c/d.rs`"), ["c/d.rs"]);
    }

    #[test]
    fn a_path_may_start_from_the_one_before_it_in_its_paragraph() {
        let near = named("`a/src/b/c.rs` and\n`d.rs`");
        assert!(near[1].places.contains(&"crates/a/src/b/d.rs".to_owned()), "{near:?}");
        let far = named("`a/src/b/c.rs`\n\n`d.rs`");
        assert_eq!(far[1].places, ["d.rs", "crates/d.rs", "crates/solver/src/d.rs"]);
    }

    #[test]
    fn tests_are_named_in_the_last_column() {
        let text = "| x | `no` |\n## A\n| way | test |\n|---|---|\n| `b` | `c`, `d::e`, `f::tests` |\n## B\n| `g` |";
        assert_eq!(tests_under(text, "## A"), [(5, "c".to_owned()), (5, "e".to_owned())]);
    }

    #[test]
    fn a_section_ends_at_the_next_heading() {
        let text = "## A\n`a/a.rs`\n## B\n1. `b/a.rs`, `b/b.rs`\n2. `b/a.rs`\n## C\n`c/a.rs`";
        assert_eq!(named_under(text, "## B"), BTreeSet::from(["b/a.rs".to_owned(), "b/b.rs".to_owned()]));
    }
}
