//! Problems of a body or a query, in words of the interface: those of the parser name our types and count columns.

use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::Object;

/// The problem of a body that could not be read.
pub(super) fn of_body<T: DeserializeOwned>(bytes: &[u8]) -> String {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let Err(error) = serde_path_to_error::deserialize::<_, Object<T>>(&mut json) else {
        return "the body must be one JSON object, and nothing behind it".to_owned();
    };
    let path = error.path().to_string();
    let cause = error.into_inner();
    match cause.classify() {
        Category::Data => of_member(&path, &cause.to_string()),
        Category::Syntax | Category::Eof | Category::Io => "the body is not JSON".to_owned(),
    }
}

/// The problem of a query, from the text of the parser.
pub(super) fn of_query(text: &str) -> String {
    if let Some(name) = quoted(text, "missing field") {
        return format!("{name}: required");
    }
    if let Some(name) = quoted(text, "duplicate field") {
        return format!("{name}: given more than once");
    }
    let Some((name, cause)) = text.split_once(": ") else { return "the query is not as documented".to_owned() };
    let number = ["digit", "integer", "number", "parse"].iter().any(|word| cause.contains(word));
    let must = match () {
        () if number => "must be a whole number within its range",
        () if cause.contains("`true`") => "must be true or false",
        () => "not as documented",
    };
    format!("{name}: {must}")
}

fn of_member(path: &str, cause: &str) -> String {
    let inside = |name: &str| if path == "." { name.to_owned() } else { format!("{path}.{name}") };
    if let Some(name) = quoted(cause, "missing field") {
        return format!("{}: required", inside(name));
    }
    if let Some(name) = quoted(cause, "duplicate field") {
        return format!("{name}: given more than once");
    }
    if let Some(name) = quoted(cause, "unknown field") {
        return format!("{name}: not a member of this body");
    }
    let place = if path == "." { "the body" } else { path };
    let separator = if path == "." { "" } else { ":" };
    let expected = cause.split(", expected ").nth(1).map_or("", |rest| rest.split(" at line ").next().unwrap_or(rest));
    let must = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => "must be a whole number within its range",
        "f64" => "must be a number",
        "a string" | "a borrowed string" => "must be text",
        "a boolean" => "must be true or false",
        "a sequence" => "must be a list",
        "a map" => "must be a JSON object",
        _ => "not as documented",
    };
    format!("{place}{separator} {must}")
}

/// The name in backticks behind these words.
fn quoted<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    text.split_once(words)?.1.trim_start().strip_prefix('`')?.split('`').next()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    #[expect(dead_code, reason = "only its errors are read")]
    struct Body {
        user: String,
        origin_chain_id: u64,
        strict: Option<bool>,
        txs: Option<Vec<Object<Call>>>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only its errors are read")]
    struct Call {
        to: String,
    }

    #[test]
    fn a_problem_names_the_member_and_never_the_parser() {
        for (body, said) in [
            ("{", "the body is not JSON"),
            ("", "the body is not JSON"),
            ("nonsense", "the body is not JSON"),
            ("[]", "the body must be a JSON object"),
            (r#"["a", 1]"#, "the body must be a JSON object"),
            ("null", "the body must be a JSON object"),
            ("7", "the body must be a JSON object"),
            (r#"{"user":"a","originChainId":1} x"#, "the body must be one JSON object, and nothing behind it"),
            ("{}", "user: required"),
            (r#"{"user":"a"}"#, "originChainId: required"),
            (r#"{"user":null,"originChainId":1}"#, "user: must be text"),
            (r#"{"user":5,"originChainId":1}"#, "user: must be text"),
            (r#"{"user":"a","originChainId":"1"}"#, "originChainId: must be a whole number within its range"),
            (r#"{"user":"a","originChainId":-1}"#, "originChainId: must be a whole number within its range"),
            (r#"{"user":"a","originChainId":1.5}"#, "originChainId: must be a whole number within its range"),
            (r#"{"user":"a","originChainId":1,"strict":"yes"}"#, "strict: must be true or false"),
            (r#"{"user":"a","originChainId":1,"txs":{}}"#, "txs: must be a list"),
            (r#"{"user":"a","originChainId":1,"txs":[["0x"]]}"#, "txs[0]: must be a JSON object"),
            (r#"{"user":"a","originChainId":1,"txs":[{}]}"#, "txs[0].to: required"),
            (r#"{"user":"a","user":"b","originChainId":1}"#, "user: given more than once"),
        ] {
            assert_eq!(of_body::<Body>(body.as_bytes()), said, "{body}");
        }
        assert_eq!(of_body::<Body>(b"{\"user\":\"\xff\"}"), "the body is not JSON");
    }

    #[test]
    fn a_query_is_explained_in_the_same_words() {
        for (text, said) in [
            ("missing field `chainId`", "chainId: required"),
            ("chainId: invalid digit found in string", "chainId: must be a whole number within its range"),
            ("duplicate field `chainId`", "chainId: given more than once"),
            ("strict: provided string was not `true` or `false`", "strict: must be true or false"),
            ("???", "the query is not as documented"),
        ] {
            assert_eq!(of_query(text), said);
        }
    }
}
