//! The examples themselves: by the name of a member or, where a schema uses the name for something else, by
//! `Schema.member`. An empty list is the example of a list, and null leaves a member out.

use std::sync::LazyLock;

use serde_json::Value;

use crate::error::Code;

static TABLE: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("examples.json")).expect("the table of examples is JSON"));

fn find(owner: &str, member: &str) -> Option<&'static Value> {
    let members = &TABLE["members"];
    members.get(format!("{owner}.{member}")).or_else(|| members.get(member))
}

pub(super) fn example(owner: &str, member: &str) -> Option<Value> {
    find(owner, member).filter(|example| !example.is_null()).cloned()
}

pub(super) fn is_left_out(owner: &str, member: &str) -> bool {
    find(owner, member).is_some_and(Value::is_null)
}

pub(super) fn is_empty_list(owner: &str, member: &str) -> bool {
    find(owner, member).and_then(Value::as_array).is_some_and(Vec::is_empty)
}

pub(super) fn message(code: Code) -> Option<&'static str> {
    TABLE["messages"][code.as_str()].as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_message() {
        for code in Code::ALL {
            assert!(message(*code).is_some(), "{}", code.as_str());
        }
        assert_eq!(TABLE["messages"].as_object().unwrap().len(), Code::ALL.len());
    }
}
