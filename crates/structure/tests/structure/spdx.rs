//! Licence expressions, as a crate states them: identifiers with `OR`, `AND`, `WITH` and brackets.

/// Whether the expression can be met with licences that are allowed alone. An error for text that is no expression.
pub(crate) fn is_met(expression: &str, is_allowed: impl Fn(&str) -> bool) -> Result<bool, String> {
    // Old manifests separate a choice by a slash.
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, is_allowed: &is_allowed };
    match parser.any_of() {
        Some(met) if parser.words.is_empty() => Ok(met),
        _ => Err(format!("{expression:?} is no licence expression")),
    }
}

struct Parser<'a> {
    /// Words not read yet.
    words: &'a [&'a str],
    is_allowed: &'a dyn Fn(&str) -> bool,
}

impl<'a> Parser<'a> {
    fn any_of(&mut self) -> Option<bool> {
        let mut met = self.all_of()?;
        while self.takes("OR") {
            met |= self.all_of()?;
        }
        Some(met)
    }

    fn all_of(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.takes("AND") {
            met &= self.one()?;
        }
        Some(met)
    }

    fn one(&mut self) -> Option<bool> {
        if self.takes("(") {
            let met = self.any_of()?;
            return self.takes(")").then_some(met);
        }
        let licence = self.identifier()?;
        if self.takes("WITH") {
            // A licence with an exception is another licence: it is allowed by its whole name.
            let exception = self.identifier()?;
            return Some((self.is_allowed)(&format!("{licence} WITH {exception}")));
        }
        Some((self.is_allowed)(licence))
    }

    fn identifier(&mut self) -> Option<&'a str> {
        let (word, rest) = self.words.split_first()?;
        self.words = rest;
        (!["OR", "AND", "WITH", "(", ")"].contains(word)).then_some(*word)
    }

    fn takes(&mut self, word: &str) -> bool {
        match self.words.split_first() {
            Some((first, rest)) if *first == word => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_needs_one_licence_and_a_conjunction_all() {
        for (expression, met) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0/MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("MIT AND ISC", true),
            ("GPL-3.0 OR MIT AND ISC", true),
            ("(GPL-3.0 OR MIT) AND ISC", true),
            ("(GPL-3.0 OR MIT) AND AGPL-3.0", false),
            ("MIT WITH LLVM-exception", false),
            ("MIT WITH LLVM-exception OR ISC", true),
        ] {
            assert_eq!(is_met(expression, |it| ["MIT", "ISC"].contains(&it)), Ok(met), "{expression}");
        }
    }

    #[test]
    fn text_that_is_no_expression_is_refused() {
        for text in ["", "MIT OR", "AND MIT", "(MIT", "MIT)", "MIT ISC", "MIT WITH", "()"] {
            assert!(is_met(text, |_| true).is_err(), "{text}");
        }
    }
}
