//! The openings of documentation comments. A comment that opens with "What" has left out its noun.

use crate::lexer::lex;

/// The lines of module headers and doc comments that open with "What".
pub(crate) fn opening_with_what(text: &str) -> Vec<usize> {
    let comments = lex(text).comments;
    let mut before = None;
    let mut found = Vec::new();
    for comment in &comments {
        let marker = ["//!", "///"].into_iter().find(|marker| comment.text.starts_with(marker));
        let Some(marker) = marker.filter(|_| !comment.text.starts_with("////")) else { continue };
        let goes_on = before == Some((marker, comment.line - 1));
        let behind = comment.text[marker.len()..].trim_start().strip_prefix("What");
        if !goes_on && behind.is_some_and(|behind| !behind.starts_with(char::is_alphanumeric)) {
            found.push(comment.line);
        }
        before = Some((marker, comment.line));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_word_of_a_comment_counts() {
        for (text, lines) in [
            ("//! What is here.", vec![1]),
            ("fn a() {}\n\n    /// What's that\n", vec![3]),
            ("/// A sentence.\n/// What follows goes on.", vec![]),
            ("//! A header.\n/// What is next", vec![2]),
            ("/// Whatever is here.", vec![]),
            ("// What a plain comment says.", vec![]),
            ("//// What a line", vec![]),
            ("const A: &str = \"/// What\";", vec![]),
        ] {
            assert_eq!(opening_with_what(text), lines, "{text}");
        }
    }
}
