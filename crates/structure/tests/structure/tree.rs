//! The source files of the repository.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const EXTENSIONS: [&str; 7] = ["rs", "sol", "js", "mjs", "cjs", "ts", "css"];

/// Folders that hold the work of others, or of a build.
const SKIPPED: [&str; 5] = ["target", "node_modules", "out", "cache", "dist"];

#[derive(Debug)]
pub(crate) struct File {
    /// From the root of the repository, with slashes.
    pub path: String,
    pub text: String,
}

impl File {
    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }
}

#[derive(Debug)]
pub(crate) struct Tree {
    pub files: Vec<File>,
}

impl Tree {
    pub(crate) fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository exists");
        let mut paths = Vec::new();
        collect(&root, &mut paths);
        paths.sort();
        let file = |path: PathBuf| {
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let path = path.strip_prefix(&root).expect("a path below the root");
            File { path: path.to_string_lossy().replace('\\', "/"), text }
        };
        Self { files: paths.into_iter().map(file).collect() }
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// The files below `src` of every crate, by the crate's name.
    pub(crate) fn crates(&self) -> BTreeMap<&str, Vec<&File>> {
        let mut crates = BTreeMap::<_, Vec<_>>::new();
        for file in self.rust() {
            let path = file.path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
            if let Some((name, _)) = path.filter(|(_, path)| path.starts_with("src/")) {
                crates.entry(name).or_default().push(file);
            }
        }
        crates
    }
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let entry = entry.expect("a readable folder");
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let kind = entry.file_type().expect("an entry with a type");
        if kind.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
            collect(&path, paths);
        } else if kind.is_file()
            && EXTENSIONS.iter().any(|extension| path.extension().is_some_and(|it| it == *extension))
        {
            paths.push(path);
        }
    }
}

#[test]
fn the_tree_holds_this_file_and_every_crate() {
    let tree = Tree::read();
    assert!(tree.files.iter().any(|file| file.path == "crates/structure/tests/structure/tree.rs"));
    assert!(tree.files.iter().any(|file| file.path.ends_with(".sol")));
    let crates = tree.crates();
    assert!(crates.contains_key("structure") && crates.contains_key("domain"));
}
