//! Examples for everything in the document. A member's name means one thing wherever it stands, so its example is given
//! once, and those of schemas, parameters and answers are put together from them.

use serde_json::{Map, Value, json};

use super::common::METHODS;
use crate::error::Code;

mod table;

/// How deep schemas are followed: deeper than any of ours, and an end to one that would hold itself.
const MAX_DEPTH: usize = 24;

pub(super) fn add(document: &mut Value) {
    let schemas = document["components"]["schemas"].clone();
    let of = Examples { schemas: &schemas };
    if let Some(all) = document["components"]["schemas"].as_object_mut() {
        for (name, schema) in all.iter_mut() {
            add_to_members(name, schema);
            if let Some(example) = of.schema(name, name, schema, 0) {
                schema["examples"] = json!([example]);
            }
        }
    }
    let Some(paths) = document["paths"].as_object_mut() else { return };
    for (path, item) in paths.iter_mut() {
        for method in METHODS {
            if let Some(operation) = item.get_mut(method) {
                add_to_operation(&of, path, operation);
            }
        }
    }
}

fn add_to_members(name: &str, schema: &mut Value) {
    for part in schema.get_mut("allOf").and_then(Value::as_array_mut).into_iter().flatten() {
        add_to_members(name, part);
    }
    let Some(members) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for (member, schema) in members.iter_mut() {
        let leaf = schema.get("type").is_some_and(|kind| kind != "array" && kind != "object");
        if let (true, Some(example)) = (leaf, table::example(name, member)) {
            schema["examples"] = json!([example]);
        }
    }
}

fn add_to_operation(of: &Examples<'_>, path: &str, operation: &mut Value) {
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten();
    for parameter in parameters.filter(|parameter| parameter.get("example").is_none()) {
        let name = parameter["name"].as_str().unwrap_or_default().to_owned();
        if let Some(example) = of.schema("query", &name, &parameter["schema"], 0) {
            parameter["example"] = example;
        }
    }
    if let Some(content) = operation.pointer_mut("/requestBody/content/application~1json")
        && let Some(example) = of.schema("body", "body", &content["schema"], 0)
    {
        content["example"] = example;
    }
    let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) else { return };
    for (status, response) in responses.iter_mut() {
        // Tables and streams are text of their own.
        for kind in ["text/csv", "text/event-stream"] {
            if let Some(content) = response.pointer_mut(&format!("/content/{}", kind.replace('/', "~1"))) {
                content["example"] = table::example("answer", kind).into();
            }
        }
        let Some(content) = response.pointer_mut("/content/application~1json") else { continue };
        let schema = content["schema"]["$ref"].as_str().unwrap_or_default();
        match schema.rsplit('/').next() {
            Some(kind @ ("ErrorBody" | "CodedError")) => content["examples"] = errors(path, status, kind),
            _ => {
                if let Some(example) = of.schema("answer", "answer", &content["schema"], 0) {
                    content["example"] = example;
                }
            }
        }
    }
}

/// Bodies of errors with this status on this route.
fn errors(path: &str, status: &str, kind: &str) -> Value {
    let quotes = path.starts_with("/quote") || path == "/price";
    let mut all = Map::new();
    for code in Code::ALL.iter().filter(|code| code.status().as_str() == status) {
        let Some(message) = table::message(*code) else { continue };
        let general = matches!(code, Code::InvalidParameters) || code.status() != axum::http::StatusCode::BAD_REQUEST;
        if quotes || general {
            let mut body =
                json!({ "message": message, "errorCode": code.as_str(), "statusCode": code.status().as_u16() });
            if kind == "CodedError" {
                body["code"] = code.as_str().into();
            }
            all.insert(code.as_str().to_owned(), json!({ "value": body }));
        }
    }
    all.into()
}

struct Examples<'a> {
    schemas: &'a Value,
}

impl Examples<'_> {
    /// None where a leaf has no example, which a test forbids.
    fn schema(&self, owner: &str, member: &str, schema: &Value, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
            return self.schema(name, member, self.schemas.get(name)?, depth + 1);
        }
        if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
            let mut whole = Map::new();
            for part in parts {
                whole.extend(self.schema(owner, member, part, depth + 1)?.as_object()?.clone());
            }
            return Some(whole.into());
        }
        if let Some(kinds) = schema.get("oneOf").and_then(Value::as_array) {
            let kind = kinds.iter().find(|kind| kind["type"] != "null")?;
            return self.schema(owner, member, kind, depth + 1);
        }
        if let Some(members) = schema.get("properties").and_then(Value::as_object) {
            let required =
                |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|it| it == name));
            let mut whole = Map::new();
            for (name, schema) in members {
                let example = match table::is_left_out(owner, name) {
                    true if required(name) => Value::Null,
                    true => continue,
                    false => self.schema(owner, name, schema, depth + 1)?,
                };
                whole.insert(name.clone(), example);
            }
            return Some(whole.into());
        }
        if let Some(items) = schema.get("items") {
            let empty = schema.get("maxItems").is_some_and(|most| *most == 0) || table::is_empty_list(owner, member);
            return if empty {
                Some(json!([]))
            } else {
                Some(json!([self.schema(owner, member, items, depth + 1)?]))
            };
        }
        table::example(owner, member)
    }
}
