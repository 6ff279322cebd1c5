//! The top-level modules of a crate and their imports of each other. A module is `src/x.rs` together with `src/x/`.
//!
//! An item that the root re-exports counts as one of the module that defines it. Items that the root defines itself
//! belong to no module.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::{imports, root_uses};
use crate::lexer::lex;
use crate::product::product;
use crate::tree::File;

/// For every module, the modules that it imports and the first place where it does.
pub(crate) type Graph = BTreeMap<String, BTreeMap<String, String>>;

pub(crate) fn graph(files: &[&File]) -> Graph {
    let mut sources = Vec::new();
    let (mut test_modules, mut exported) = (BTreeSet::new(), BTreeMap::new());
    for file in files {
        let module = module_path(&file.path);
        let product = product(&lex(&file.text).tokens);
        test_modules.extend(product.test_files.iter().map(|name| [&module[..], std::slice::from_ref(name)].concat()));
        if module.is_empty() {
            let uses = root_uses(&product.tokens).into_iter();
            exported.extend(uses.filter(|it| it.path.len() > 1).map(|it| (it.name, it.path[0].clone())));
        } else {
            sources.push((file, module, product.tokens));
        }
    }
    sources.retain(|(_, module, _)| !test_modules.iter().any(|tests| module.starts_with(tests)));
    let mut graph: Graph = sources.iter().map(|(_, module, _)| (module[0].clone(), BTreeMap::new())).collect();
    let names: BTreeSet<_> = graph.keys().cloned().collect();
    for (file, module, tokens) in &sources {
        for import in imports(tokens, module) {
            let Some(first) = import.path.first() else { continue };
            // A glob in the root may export any name that is not found otherwise.
            let owner = names.get(first).or_else(|| exported.get(first).or_else(|| exported.get("*")));
            if let Some(owner) = owner.filter(|owner| names.contains(*owner) && **owner != module[0]) {
                let place = || format!("{}:{}", file.path, import.line);
                graph.entry(module[0].clone()).or_default().entry(owner.clone()).or_insert_with(place);
            }
        }
    }
    graph
}

/// The path of the module that a file below `src` holds; empty for the root of a crate.
fn module_path(path: &str) -> Vec<String> {
    let inside = path.split_once("src/").map_or(path, |(_, inside)| inside);
    let inside = inside.strip_suffix(".rs").unwrap_or(inside);
    let inside = inside.strip_suffix("/mod").unwrap_or(inside);
    match inside {
        "lib" | "main" => Vec::new(),
        _ => inside.split('/').map(str::to_owned).collect(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Edges as `a->b`, in order.
    pub(crate) fn edges(files: &[(&str, &str)]) -> String {
        let files: Vec<_> = files.iter().map(|(path, text)| File::new(&format!("crates/x/src/{path}"), text)).collect();
        let graph = graph(&files.iter().collect::<Vec<_>>());
        let edges = graph.iter().flat_map(|(from, to)| to.keys().map(move |to| format!("{from}->{to}")));
        edges.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_folder_belongs_to_its_module() {
        assert_eq!(edges(&[("a.rs", "mod c;"), ("a/c.rs", "use crate::b::D;"), ("b.rs", "")]), "a->b");
        assert_eq!(edges(&[("a/mod.rs", "use super::b;"), ("a/c.rs", "use super::d;"), ("b.rs", "")]), "a->b");
    }

    #[test]
    fn a_re_export_of_the_root_is_an_import_of_its_module() {
        let root = ("lib.rs", "mod a; mod b; pub use b::{Thing, deep::Other as Renamed}; pub struct Own;");
        assert_eq!(edges(&[root, ("a.rs", "use crate::Thing;"), ("b.rs", "")]), "a->b");
        assert_eq!(edges(&[root, ("a.rs", "use crate::{Own, Renamed};"), ("b.rs", "")]), "a->b");
        assert_eq!(edges(&[root, ("a.rs", "use crate::Own;"), ("b.rs", "")]), "");
        let glob = ("lib.rs", "mod a; mod b; pub use b::*;");
        assert_eq!(edges(&[glob, ("a.rs", "use crate::Thing;"), ("b.rs", "")]), "a->b");
    }

    #[test]
    fn tests_comments_and_strings_import_nothing() {
        let test = "#[cfg(test)]\nmod tests { use crate::b::C; }";
        assert_eq!(edges(&[("a.rs", test), ("b.rs", "// crate::a::C\nconst A: &str = \"crate::a::C\";")]), "");
        let file = [("a.rs", "#[cfg(test)] mod tests;"), ("a/tests.rs", "use crate::b;"), ("b.rs", "")];
        assert_eq!(edges(&file), "");
        assert_eq!(edges(&[("a.rs", "mod tests;"), ("a/tests.rs", "use crate::b;"), ("b.rs", "")]), "a->b");
    }
}
