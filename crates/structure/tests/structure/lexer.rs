//! Rust text as tokens, each with its line. Comments and the contents of literals are left out, so that no rule
//! stumbles over a brace in a string.

/// A token: an identifier or keyword, or one character of punctuation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub text: String,
    /// From one.
    pub line: usize,
}

impl Token {
    pub(crate) fn is(&self, text: &str) -> bool {
        self.text == text
    }

    pub(crate) fn is_name(&self) -> bool {
        self.text.starts_with(is_name_start)
    }
}

/// A comment with its marker, such as `/// A token`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comment {
    pub text: String,
    pub line: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Lexed {
    pub tokens: Vec<Token>,
    pub comments: Vec<Comment>,
}

pub(crate) fn lex(text: &str) -> Lexed {
    let mut lexer = Lexer { rest: text, line: 1, lexed: Lexed::default() };
    while !lexer.rest.is_empty() {
        lexer.next();
    }
    lexer.lexed
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    lexed: Lexed,
}

impl<'a> Lexer<'a> {
    fn next(&mut self) {
        let rest = self.rest;
        if rest.starts_with("//") {
            let text = self.take(rest.find('\n').unwrap_or(rest.len()));
            self.lexed.comments.push(Comment { text: text.to_owned(), line: self.line });
        } else if rest.starts_with("/*") {
            self.take(block_comment(rest));
        } else if let Some(hashes) = raw_string(rest) {
            let quote = rest.find('"').unwrap_or_default();
            let end = format!("\"{}", "#".repeat(hashes));
            let inside = &rest[quote + 1..];
            self.take(inside.find(&end).map_or(rest.len(), |at| quote + 1 + at + end.len()));
        } else if rest.starts_with('"') {
            self.take(quoted(rest, '"'));
        } else if rest.starts_with('\'') {
            // Of a lifetime only the quote goes; its name stays a token of its own.
            self.take(char_literal(rest).unwrap_or(1));
        } else if let Some(name) = rest.strip_prefix("r#") {
            // A raw identifier keeps its prefix, so that it is not taken for the keyword.
            let end = name.find(|c| !is_name(c)).map_or(rest.len(), |at| at + 2);
            let (line, text) = (self.line, self.take(end));
            self.lexed.tokens.push(Token { text: text.to_owned(), line });
        } else if rest.starts_with(is_name_start) {
            let (line, text) = (self.line, self.take(rest.find(|c| !is_name(c)).unwrap_or(rest.len())));
            self.lexed.tokens.push(Token { text: text.to_owned(), line });
        } else if rest.starts_with(|c: char| c.is_ascii_digit()) {
            self.take(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
        } else {
            let (line, text) = (self.line, self.take(rest.chars().next().map_or(0, char::len_utf8)));
            if !text.trim().is_empty() {
                self.lexed.tokens.push(Token { text: text.to_owned(), line });
            }
        }
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }
}

fn is_name_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of a block comment; they nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    loop {
        let rest = &text[at..];
        let step = rest.chars().next().map_or(0, char::len_utf8);
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
        } else {
            at += step;
        }
        if depth == 0 || step == 0 {
            return at;
        }
    }
}

/// The number of hashes of a raw string that begins here.
fn raw_string(text: &str) -> Option<usize> {
    let behind = ["r", "br", "cr"].into_iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let hashes = behind.find(|c| c != '#')?;
    behind[hashes..].starts_with('"').then_some(hashes)
}

/// The length of a literal between quotes.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// The length of a character literal; none for a lifetime.
fn char_literal(text: &str) -> Option<usize> {
    let mut inside = text.char_indices().skip(1);
    let (_, first) = inside.next()?;
    let (_, second) = inside.next()?;
    (first == '\\' || second == '\'').then(|| quoted(text, '\''))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        lex(text).tokens.into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_literals_are_no_tokens() {
        for (text, left) in [
            ("a // { b\n c", "a c"),
            ("a /* { /* nested */ } */ b", "a b"),
            ("a \"{ \\\" {\" b", "a b"),
            ("a r#\"{ \" {\"# b", "a b"),
            ("a br\"\\\" b", "a b"),
            ("a '{' b '\\'' c '\\u{7d}' d", "a b c d"),
            ("a b'{' c", "a b c"),
            ("fn a<'b>(c: &'b str) {}", "fn a < b > ( c : & b str ) { }"),
            ("a 0x7f_u8 b 1..2", "a b . ."),
            ("raw r b", "raw r b"),
            ("a r#fn b", "a r#fn b"),
        ] {
            assert_eq!(tokens(text), left.split(' ').collect::<Vec<_>>(), "{text}");
        }
    }

    #[test]
    fn lines_are_counted_through_comments_and_literals() {
        let lexed = lex("a\n/* \n */ b \"\n\" c\n/// d\n");
        let lines: Vec<_> = lexed.tokens.iter().map(|token| (token.text.as_str(), token.line)).collect();
        assert_eq!(lines, [("a", 1), ("b", 3), ("c", 4)]);
        assert_eq!(lexed.comments, [Comment { text: "/// d".to_owned(), line: 5 }]);
    }

    #[test]
    fn text_cut_short_ends_the_reading() {
        for text in ["\"", "r#\"", "/*", "'", "'\\", "// a", "b\""] {
            lex(text);
        }
    }
}
