//! The page of alarms: its names are those of the code.

use std::collections::BTreeSet;

use crate::tree::File;

const MACROS: [&str; 3] = ["counter!(", "gauge!(", "histogram!("];

/// Names of the metrics that files record, and the places where a name is not written out.
pub(crate) fn metrics<'a>(files: impl Iterator<Item = &'a File>) -> (BTreeSet<String>, Vec<String>) {
    let (mut names, mut problems) = (BTreeSet::new(), Vec::new());
    for file in files {
        for opening in MACROS {
            for (at, _) in file.text.match_indices(opening) {
                let argument = file.text[at + opening.len()..].trim_start();
                match argument.strip_prefix('"').and_then(|name| name.split_once('"')) {
                    Some((name, _)) => drop(names.insert(name.to_owned())),
                    None => problems.push(format!("{}: a metric whose name is not written out", file.path)),
                }
            }
        }
    }
    (names, problems)
}

/// Names of the alarms, as the file that lists them gives them: `Name = "name",`.
pub(crate) fn alarms(text: &str) -> BTreeSet<String> {
    let name = |line: &str| Some(line.trim().strip_suffix("\",")?.split_once(" = \"")?.1.to_owned());
    text.lines().filter_map(name).collect()
}

/// The names in the first cells of a section's table.
pub(crate) fn listed(page: &str, heading: &str) -> BTreeSet<String> {
    let section = page.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with("## "));
    let cells = section.filter_map(|line| line.strip_prefix("| ")?.split_once(" | ")).map(|(cell, _)| cell);
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// Differences between the code and a section of the page.
pub(crate) fn differences(code: &BTreeSet<String>, page: &BTreeSet<String>) -> Vec<String> {
    let missing = code.difference(page).map(|name| format!("docs/alarms.md does not list {name}"));
    let unknown =
        page.difference(code).map(|name| format!("docs/alarms.md lists {name}, which the code does not have"));
    missing.chain(unknown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_code_and_page() {
        let code = File::new("a.rs", "counter!(\"a_total\").x(); gauge!(\n \"b\", \"chain\" => c); histogram!(name);");
        let (names, problems) = metrics([&code].into_iter());
        assert_eq!(names, BTreeSet::from(["a_total".to_owned(), "b".to_owned()]));
        assert_eq!(problems.len(), 1);
        assert_eq!(alarms("    /// A.\n    A = \"a-b\",\n"), BTreeSet::from(["a-b".to_owned()]));
        let page =
            "## One\n\n| `no` | x |\n\n## Two\n\n| name | means |\n|---|---|\n| `a_total`, `b` | `c` |\n\n## Three\n";
        assert_eq!(listed(page, "## Two"), names);
        assert_eq!(differences(&names, &BTreeSet::from(["b".to_owned(), "c".to_owned()])).len(), 2);
    }
}
