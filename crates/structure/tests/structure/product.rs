//! Product code: tokens without the items that only tests compile.

use crate::lexer::Token;

#[derive(Debug, Default)]
pub(crate) struct Product {
    pub tokens: Vec<Token>,
    /// Names of the test modules that have files of their own.
    pub test_files: Vec<String>,
}

const CFG_TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

pub(crate) fn product(tokens: &[Token]) -> Product {
    let mut product = Product::default();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if is(&tokens[at..], &CFG_TEST) {
            let item = attributes(tokens, at + CFG_TEST.len());
            let end = end_of_item(tokens, item);
            product.test_files.extend(module_file(&tokens[item..end]));
            at = end;
        } else {
            product.tokens.push(token.clone());
            at += 1;
        }
    }
    product
}

fn is(tokens: &[Token], texts: &[&str]) -> bool {
    tokens.len() >= texts.len() && tokens.iter().zip(texts).all(|(token, text)| token.is(text))
}

/// The place behind further attributes.
fn attributes(tokens: &[Token], mut at: usize) -> usize {
    while is(&tokens[at.min(tokens.len())..], &["#", "["]) {
        at = closing(tokens, at + 1) + 1;
    }
    at.min(tokens.len())
}

/// The place behind an item: its semicolon, or the end of its braces. The braces of a `use` end nothing.
fn end_of_item(tokens: &[Token], start: usize) -> usize {
    let visible = tokens[start..].first().is_some_and(|token| token.is("pub"));
    let keyword = match tokens.get(start + 1) {
        Some(next) if visible && next.is("(") => closing(tokens, start + 1) + 1,
        _ => start + usize::from(visible),
    };
    let is_use = tokens.get(keyword).is_some_and(|token| token.is("use"));
    let mut at = start;
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            ";" => return at + 1,
            "{" if !is_use => return closing(tokens, at) + 1,
            "{" | "(" | "[" => at = closing(tokens, at),
            _ => {}
        }
        at += 1;
    }
    tokens.len()
}

/// The place of the bracket that closes the one here, or the last place.
pub(crate) fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" if depth <= 1 => return at,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
    }
    tokens.len().saturating_sub(1)
}

/// The name in `mod name;`.
fn module_file(item: &[Token]) -> Option<String> {
    let [.., keyword, name, end] = item else { return None };
    (keyword.is("mod") && end.is(";")).then(|| name.text.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::lex;

    fn left(text: &str) -> (String, Vec<String>) {
        let product = product(&lex(text).tokens);
        (product.tokens.into_iter().map(|token| token.text).collect::<Vec<_>>().join(" "), product.test_files)
    }

    #[test]
    fn only_items_for_tests_are_left_out() {
        for (text, expected) in [
            ("a; #[cfg(test)] mod tests { use b; fn c() {} } d;", "a ; d ;"),
            ("#[cfg(test)] pub(crate) mod tests { }", ""),
            ("#[cfg(test)] #[allow(x)] mod tests { } a", "a"),
            ("#[cfg(test)] use a::{b, c}; d", "d"),
            ("#[cfg(test)] pub(crate) use a::{b, c}; d", "d"),
            ("#[cfg(test)] const A: [u8; 2] = [1; 2]; b", "b"),
            ("#[cfg(test)] fn a(b: [u8; 2]) { c } d", "d"),
            ("#[cfg(unix)] mod a { }", "# [ cfg ( unix ) ] mod a { }"),
        ] {
            assert_eq!(left(text), (expected.to_owned(), vec![]), "{text}");
        }
    }

    #[test]
    fn test_modules_in_files_of_their_own_are_named() {
        assert_eq!(left("a #[cfg(test)] mod tests;"), ("a".to_owned(), vec!["tests".to_owned()]));
        assert_eq!(left("#[cfg(test)] pub(crate) mod x; b"), ("b".to_owned(), vec!["x".to_owned()]));
    }
}
