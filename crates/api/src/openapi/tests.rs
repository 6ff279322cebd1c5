use serde_json::{Value, json};

use super::*;

fn document() -> Value {
    let addresses = Addresses { base_url: "https://api.example".to_owned(), testnet_base_url: None };
    completed(&addresses)
}

fn operations(document: &Value) -> impl Iterator<Item = (String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().unwrap();
        methods.iter().map(move |(method, operation)| (format!("{method} {path}"), operation))
    })
}

#[test]
fn the_document_is_that_of_the_interface() {
    let document = document();
    assert_eq!(document["info"]["title"], "cross-chain solver");
    assert_eq!(document["info"]["version"], "1.0.0");
    assert_eq!(document.get("security"), None);
}

#[test]
fn everything_has_an_example() {
    let document = document();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let without: Vec<&String> =
        schemas.iter().filter(|(_, schema)| !schema["examples"][0].is_object()).map(|(name, _)| name).collect();
    assert!(without.is_empty(), "schemas without an example: {without:?}");
    for (name, header) in document["components"]["headers"].as_object().unwrap() {
        assert!(header["example"].is_u64() || header["example"].is_string(), "the header {name}");
    }
    for (name, operation) in operations(&document) {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            assert!(parameter.get("example").is_some(), "{name}: the parameter {}", parameter["name"]);
        }
        if operation.get("requestBody").is_some() {
            assert!(operation["requestBody"]["content"]["application/json"]["example"].is_object(), "{name}: the body");
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            let contents = response["content"].as_object();
            let content = contents.and_then(|all| all.values().next()).unwrap_or(&Value::Null);
            let examples = content["examples"].as_object().is_some_and(|examples| !examples.is_empty());
            assert!(examples || !content["example"].is_null(), "{name}: {status}");
        }
    }
}

#[test]
fn every_operation_says_what_can_happen_before_it_is_reached() {
    let document = document();
    let mut ids = std::collections::BTreeSet::new();
    for (name, operation) in operations(&document) {
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{name}: its id is another's");
        assert!(operation["security"].is_array() && operation["summary"].is_string(), "{name}");
        // The one that retires says that instead of its limits.
        let retires = name == "get /requests/v2";
        assert_eq!(operation["deprecated"] == true, retires, "{name}");
        for status in ["401", "414", "429", "500", "503"] {
            let response = &operation["responses"][status];
            assert!(response.is_object(), "{name}: {status}");
            assert_eq!(response["headers"]["RateLimit-Limit"].is_object(), !retires, "{name}: {status}");
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            for header in ["Deprecation", "Sunset", "Link"] {
                assert_eq!(response["headers"][header].is_object(), retires, "{name}: {status} {header}");
            }
        }
        assert_eq!(operation["responses"].get("413").is_some(), operation.get("requestBody").is_some(), "{name}");
        assert_eq!(operation["responses"]["429"]["headers"]["Retry-After"].is_object(), !retires, "{name}");
    }
    for (name, security) in [
        ("post /fast-fill", json!([{ "apiKey": [] }, { "bearer": [] }])),
        ("get /operator/risk", json!([{ "operator": [] }])),
        ("put /webhooks/endpoint", json!([{ "apiKey": [] }, { "bearer": [] }])),
        ("get /chains", json!([{}, { "apiKey": [] }, { "bearer": [] }])),
    ] {
        let (_, operation) = operations(&document).find(|(operation, _)| operation == name).unwrap();
        assert_eq!(operation["security"], security, "{name}");
    }
}

#[test]
fn listings_name_every_choice_and_every_member_that_is_always_there() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    let choices = |schema: &Value| schema["enum"].as_array().unwrap().len();
    let (older, newer) = (&schemas["RequestV2"], &schemas["RequestV3"]);
    assert_eq!((choices(&older["properties"]["status"]), choices(&newer["properties"]["status"])), (6, 7));
    assert_eq!(choices(&newer["properties"]["requestType"]), 7);
    assert_eq!(choices(&newer["properties"]["features"]["items"]), 7);
    for schema in [newer, &schemas["RequestDataV3"]] {
        let required = schema["required"].as_array().unwrap();
        // The three that only a request's own integrator sees.
        let gated = ["platformFee", "referrer", "apiKeyName"];
        let names = schema["properties"].as_object().unwrap().keys().filter(|name| !gated.contains(&name.as_str()));
        let missing: Vec<_> = names.filter(|name| !required.contains(&json!(name))).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
    for name in ["depositAddress", "protocol"] {
        assert!(older["required"].as_array().unwrap().contains(&json!(name)), "{name}");
    }
    for path in ["/requests/v2", "/requests/v3", "/requests/v3.csv", "/requests/v3/stream"] {
        let parameters = document["paths"][path]["get"]["parameters"].as_array().unwrap();
        for name in ["status", "sortBy", "sortDirection"] {
            let parameter = parameters.iter().find(|parameter| parameter["name"] == name).unwrap();
            assert!(choices(&parameter["schema"]) > 1, "{path}: {name}");
        }
    }
}

/// A schema with its references, and an example that should be of it: types, required members, enums and patterns.
fn check(schemas: &Value, schema: &Value, value: &Value, at: &str) {
    if let Some(path) = schema.get("$ref").and_then(Value::as_str) {
        return check(schemas, &schemas[path.rsplit('/').next().unwrap()], value, at);
    }
    for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        check(schemas, part, value, at);
    }
    if let Some(kinds) = schema.get("oneOf").and_then(Value::as_array) {
        let kind = kinds.iter().find(|kind| kind["type"] != "null").unwrap();
        let nothing = value.is_null() && kinds.iter().any(|kind| kind["type"] == "null");
        if !nothing {
            check(schemas, kind, value, at);
        }
        return;
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.clone(),
        Value::Null => vec![],
        kind => vec![kind.clone()],
    };
    let is = |kind: &Value| match kind.as_str().unwrap() {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => value.is_null(),
    };
    assert!(kinds.is_empty() || kinds.iter().any(is), "{at}: {value} is not {kinds:?}");
    if let Some(choice) = schema.get("enum").and_then(Value::as_array) {
        assert!(choice.contains(value), "{at}: {value} is not one of {choice:?}");
    }
    for required in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        assert!(value.get(required.as_str().unwrap()).is_some(), "{at}: {required} is missing");
    }
    for (name, member) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if let Some(value) = value.get(name) {
            check(schemas, member, value, &format!("{at}.{name}"));
        }
    }
    for item in value.as_array().into_iter().flatten().filter(|_| schema.get("items").is_some()) {
        check(schemas, &schema["items"], item, at);
    }
}

#[test]
fn examples_are_of_their_schemas() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    for (name, schema) in schemas.as_object().unwrap() {
        check(schemas, schema, &schema["examples"][0], name);
    }
    for (name, operation) in operations(&document) {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            check(schemas, &parameter["schema"], &parameter["example"], &name);
        }
        for response in operation["responses"].as_object().unwrap().values() {
            let content = &response["content"]["application/json"];
            for example in content["examples"].as_object().into_iter().flatten().map(|(_, example)| &example["value"]) {
                check(schemas, &content["schema"], example, &name);
            }
        }
    }
}
