//! The paths that a file names, in `use` and elsewhere, from the root of its crate.

use crate::lexer::Token;
use crate::product::closing;

/// A path such as `a::B`, and the name it is known by here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub path: Vec<String>,
    pub name: String,
    pub line: usize,
}

/// Every path that begins with `crate`, or with as many `super` as lead to the root or to another place in the crate.
/// `module` is the path of the file's own module.
pub(crate) fn imports(tokens: &[Token], module: &[String]) -> Vec<Import> {
    let mut found = Vec::new();
    let mut inline = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        inline.retain(|(_, end)| *end > at);
        if token.is("mod") && tokens.get(at + 2).is_some_and(|next| next.is("{")) {
            inline.push((tokens[at + 1].text.clone(), closing(tokens, at + 2)));
        }
        let starts = is_path(tokens, at) && !(at > 0 && tokens[at - 1].is(":"));
        if starts && token.is("crate") {
            leaves(tokens, at + 3, &[], &mut found);
        } else if starts && token.is("super") {
            let mut here: Vec<_> = module.iter().chain(inline.iter().map(|(name, _)| name)).cloned().collect();
            while tokens[at].is("super") && is_path(tokens, at) {
                here.pop();
                at += 3;
            }
            leaves(tokens, at, &here, &mut found);
            continue;
        }
        at += 1;
    }
    found
}

/// The paths of `use` statements in the root of a crate, where modules need no prefix.
pub(crate) fn root_uses(tokens: &[Token]) -> Vec<Import> {
    let mut found = Vec::new();
    for (at, _) in tokens.iter().enumerate().filter(|(_, token)| token.is("use")) {
        let mut start = at + 1;
        while tokens.get(start).is_some_and(|token| token.is("crate") || token.is("self")) && is_path(tokens, start) {
            start += 3;
        }
        leaves(tokens, start, &[], &mut found);
    }
    found
}

fn is_path(tokens: &[Token], at: usize) -> bool {
    matches!(tokens.get(at + 1..at + 3), Some([a, b]) if a.is(":") && b.is(":"))
}

/// Adds the paths of the tree that begins here, each behind the prefix.
pub(crate) fn leaves(tokens: &[Token], mut at: usize, prefix: &[String], found: &mut Vec<Import>) {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(at) {
        if token.is("{") {
            let end = closing(tokens, at);
            let mut start = at + 1;
            while start < end {
                leaves(&tokens[..end], start, &path, found);
                start = behind_comma(tokens, start, end);
            }
            return;
        }
        if token.is_name() && !token.is("self") || token.is("*") {
            path.push(token.text.clone());
        }
        if !is_path(tokens, at) {
            break;
        }
        at += 3;
    }
    let line = tokens.get(at).or(tokens.last()).map_or(0, |token| token.line);
    let alias = tokens.get(at + 1..at + 3).filter(|next| next[0].is("as")).map(|next| next[1].text.clone());
    if let Some(name) = alias.or(path.last().cloned()) {
        found.push(Import { path, name, line });
    }
}

fn behind_comma(tokens: &[Token], mut at: usize, end: usize) -> usize {
    while at < end && !tokens[at].is(",") {
        at = if tokens[at].is("{") { closing(tokens, at) } else { at } + 1;
    }
    at + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::lex;

    fn paths(text: &str, module: &str) -> Vec<String> {
        let module: Vec<_> = module.split("::").map(str::to_owned).collect();
        imports(&lex(text).tokens, &module).into_iter().map(|import| import.path.join("::")).collect()
    }

    #[test]
    fn paths_are_found_in_every_form() {
        for (text, expected) in [
            ("use crate::a::B;", "a::B"),
            ("use crate::{a, b::{self, C, d::*}, E as F};", "a b b::C b::d::* E"),
            ("let x = crate::a::b(1) + $crate::c!();", "a::b c"),
            ("crate::a::B { c: d::e }", "a::B"),
            ("pub(crate) use std::crate_name::A; pub(crate) fn f() {}", ""),
            ("use crate::a::{\n    b,\n    c,\n};", "a::b a::c"),
            ("impl crate::a::T<crate::b::U> for V {}", "a::T b::U"),
        ] {
            assert_eq!(paths(text, "own").join(" "), expected, "{text}");
        }
    }

    #[test]
    fn super_leads_as_far_up_as_it_is_repeated() {
        for (module, text, expected) in [
            ("a", "use super::b::C;", "b::C"),
            ("a::b", "use super::c;", "a::c"),
            ("a::b", "use super::super::c::D;", "c::D"),
            ("a", "mod inner { use super::c; use super::super::d; } use super::e;", "a::c d e"),
            ("a", "pub(super) fn f() {}", ""),
        ] {
            assert_eq!(paths(text, module).join(" "), expected, "{module}: {text}");
        }
    }

    #[test]
    fn the_root_knows_items_by_their_alias() {
        let text = "pub use a::{B, c::D as E}; pub(crate) use crate::f::G; use self::h::I;";
        let found = root_uses(&lex(text).tokens);
        let found: Vec<_> = found.iter().map(|import| (import.path[0].as_str(), import.name.as_str())).collect();
        assert_eq!(found, [("a", "B"), ("a", "E"), ("f", "G"), ("h", "I")]);
    }

    #[test]
    fn an_import_knows_its_line() {
        let found = imports(&lex("\n\nuse crate::{\n  a,\n  b,\n};").tokens, &[]);
        assert_eq!(found.iter().map(|import| import.line).collect::<Vec<_>>(), [4, 5]);
    }
}
