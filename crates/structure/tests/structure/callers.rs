//! Functions that product code may call from one file only.

use crate::imports::{Import, leaves};
use crate::lexer::{Token, lex};
use crate::product::product;
use crate::tree::File;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// The last two segments of its path.
    pub function: &'static str,
    pub caller: &'static str,
}

impl Rule {
    /// The places that break the rule. Tests may call what they like.
    pub(crate) fn broken_by(&self, files: &[&File]) -> Vec<String> {
        let (mut broken, mut called) = (Vec::new(), false);
        for file in files.iter().filter(|file| !is_test(&file.path)) {
            for line in self.named_in(&product(&lex(&file.text).tokens).tokens) {
                if file.path == self.caller {
                    called = true;
                } else {
                    broken.push(format!("{}:{line}: only {} may call {}", file.path, self.caller, self.function));
                }
            }
        }
        if !called {
            broken.push(format!("{} does not call {}", self.caller, self.function));
        }
        broken
    }

    /// The lines that name the function: calls, imports and mentions as a value. So do those that hide it: an import of
    /// everything beside it, or of its module by another name.
    fn named_in(&self, tokens: &[Token]) -> Vec<usize> {
        let Some((module, _)) = self.function.split_once("::") else { return Vec::new() };
        let mut found = Vec::new();
        for (at, _) in tokens.iter().enumerate().filter(|(_, token)| token.is(module)) {
            leaves(tokens, at, &[], &mut found);
        }
        let names = |import: &&Import| match &import.path[..] {
            [only] => import.name != *only,
            [_, last] => last == "*" || import.path.join("::") == self.function,
            _ => false,
        };
        found.iter().filter(names).map(|import| import.line).collect()
    }
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule { function: "payments::assign", caller: "crates/a/src/lane.rs" };

    fn broken(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|(path, text)| File::new(path, text)).collect();
        RULE.broken_by(&files.iter().collect::<Vec<_>>())
    }

    #[test]
    fn the_one_caller_and_tests_may_call() {
        let lane = (RULE.caller, "fn a() { payments::assign(tx) }");
        let tests = [
            ("crates/a/tests/it/b.rs", "payments::assign(tx)"),
            ("crates/a/src/b/tests.rs", "payments::assign(tx)"),
            ("crates/a/src/c.rs", "#[cfg(test)] mod tests { fn a() { payments::assign(tx) } }"),
            ("crates/a/src/d.rs", "payments::assigned(tx); lane::assign(tx); payments::lane::assign(tx)"),
        ];
        assert_eq!(broken(&[&[lane][..], &tests].concat()), Vec::<String>::new());
        assert_eq!(broken(&tests), ["crates/a/src/lane.rs does not call payments::assign"]);
    }

    #[test]
    fn nobody_else_may_call_or_import() {
        let lane = (RULE.caller, "payments::assign(tx)");
        for text in [
            "\nfn a() { store::payments::assign(tx) }",
            "\nuse store::payments::{find, assign};",
            "\nuse store::payments::assign as other;",
            "\nlet f = payments::assign;",
            "\nuse store::payments::*;",
            "\nuse store::{payments as other};",
        ] {
            let expected = "crates/a/src/b.rs:2: only crates/a/src/lane.rs may call payments::assign";
            assert_eq!(broken(&[lane, ("crates/a/src/b.rs", text)]), [expected], "{text}");
        }
    }
}
