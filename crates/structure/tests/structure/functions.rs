//! Functions and their lengths.

use crate::lexer::lex;
use crate::product::closing;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub name: String,
    /// The line of the signature.
    pub line: usize,
    /// From there to the closing brace, both included.
    pub lines: usize,
}

/// Every function with a body, those inside others and inside tests included.
pub(crate) fn functions(text: &str) -> Vec<Function> {
    let tokens = lex(text).tokens;
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.is("fn")) {
        // `fn(` is a type.
        let Some(name) = tokens.get(at + 1).filter(|name| name.is_name()) else { continue };
        let mut place = at + 2;
        while let Some(next) = tokens.get(place) {
            match next.text.as_str() {
                "{" => {
                    let end = tokens[closing(&tokens, place)].line;
                    found.push(Function { name: name.text.clone(), line: token.line, lines: end - token.line + 1 });
                    break;
                }
                ";" => break,
                "(" | "[" => place = closing(&tokens, place) + 1,
                _ => place += 1,
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(text: &str) -> Vec<(String, usize, usize)> {
        functions(text).into_iter().map(|it| (it.name, it.line, it.lines)).collect()
    }

    #[test]
    fn a_function_reaches_from_its_signature_to_its_brace() {
        let text = "\n/// A comment.\n#[test]\nfn a() {\n    if b {\n    }\n}\nfn c() {}\n";
        assert_eq!(lengths(text), [("a".to_owned(), 4, 4), ("c".to_owned(), 8, 1)]);
        let wide = "async fn a<T>(\n    b: [u8; 2],\n) -> T\nwhere\n    T: Fn() -> u8,\n{\n}\n";
        assert_eq!(lengths(wide), [("a".to_owned(), 1, 7)]);
    }

    #[test]
    fn braces_in_literals_and_comments_end_nothing() {
        let text = "fn a() {\n    let b = \"}\"; // }\n    let c = '}';\n    format!(\"{c}\");\n}\n";
        assert_eq!(lengths(text), [("a".to_owned(), 1, 5)]);
    }

    #[test]
    fn what_has_no_body_is_no_function() {
        assert_eq!(
            lengths("trait A { fn b(&self); }\ntype C = fn(u8) -> u8;\nmacro_rules! d { () => { fn $e() {} } }"),
            []
        );
    }

    #[test]
    fn functions_inside_others_and_inside_tests_count() {
        let text = "#[cfg(test)]\nmod tests {\n    fn a() {\n        fn b() {\n        }\n    }\n}\n";
        assert_eq!(lengths(text), [("a".to_owned(), 3, 4), ("b".to_owned(), 4, 2)]);
    }
}
