//! Rules that hold for every route: how a key is shown, the answers that come before a route is reached, and the
//! headers of answers.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::error::Code;
use crate::{idempotency, retirement};

/// The methods that an operation can be under.
pub(super) const METHODS: [&str; 4] = ["get", "post", "put", "delete"];

/// Headers of limits. The older listing says nothing of its own.
const LIMIT_HEADERS: [(&str, &str, &str, u64); 3] = [
    ("RateLimit-Limit", "RateLimitLimit", "Calls in a window, for this key or address.", 50),
    ("RateLimit-Remaining", "RateLimitRemaining", "Calls that are left of them.", 49),
    ("RateLimit-Reset", "RateLimitReset", "Seconds until all of them are there again.", 2),
];
/// Headers by which a route announces its end.
const RETIREMENT_HEADERS: [(&str, &str, &str, &str); 3] = [
    ("Deprecation", "Deprecation", "Since when the route is deprecated (RFC 9745).", "@1784678400"),
    ("Sunset", "Sunset", "From when on the route is gone (RFC 8594).", "Tue, 24 Nov 2026 00:00:00 GMT"),
    (
        "Link",
        "RetirementLink",
        "The page about the retirement, and the route's successor.",
        "<https://api.causeway.example/documentation>; rel=\"deprecation\", \
         <https://api.causeway.example/documentation>; rel=\"sunset\", \
         <https://api.causeway.example/requests/v3>; rel=\"successor-version\"",
    ),
];
const RETRY_HEADER: (&str, &str, &str, u64) =
    ("Retry-After", "RetryAfter", "Seconds after which a call is answered again.", 3);

pub(super) fn complete(document: &mut Value) {
    let components = &mut document["components"];
    components["securitySchemes"] = json!({
        "apiKey": {
            "type": "apiKey", "in": "header", "name": "x-api-key",
            "description": "An API key. Where `Authorization` is there too, this one counts.",
        },
        "bearer": { "type": "http", "scheme": "bearer", "description": "An API key, as `Authorization: Bearer`." },
        "operator": { "type": "http", "scheme": "bearer", "description": "The operator's token." },
    });
    for (_, name, description, example) in LIMIT_HEADERS.iter().chain([&RETRY_HEADER]) {
        let schema = json!({ "type": "integer", "minimum": 0 });
        components["headers"][*name] = json!({ "description": description, "schema": schema, "example": example });
    }
    for (_, name, description, example) in RETIREMENT_HEADERS {
        let schema = json!({ "type": "string" });
        components["headers"][name] = json!({ "description": description, "schema": schema, "example": example });
    }
    components["schemas"]["ErrorBody"]["properties"]["errorCode"]["enum"] =
        Code::ALL.iter().map(|code| code.as_str()).collect();
    let Some(paths) = document["paths"].as_object_mut() else { return };
    let plain: BTreeSet<String> = paths.keys().filter(|path| !path.contains('{')).map(|path| words(path)).collect();
    for (path, item) in paths.iter_mut() {
        for method in METHODS {
            if let Some(operation) = item.get_mut(method).and_then(Value::as_object_mut) {
                operation.insert("operationId".to_owned(), operation_id(path, method, &plain).into());
                complete_operation(path, method, operation);
            }
        }
    }
}

fn complete_operation(path: &str, method: &str, operation: &mut Map<String, Value>) {
    operation.insert("tags".to_owned(), json!([tag(path)]));
    if retirement::is_about(path) {
        operation.insert("deprecated".to_owned(), true.into());
    }
    // A key is never wrong to show: it raises the limits.
    operation.entry("security").or_insert_with(|| json!([{}, { "apiKey": [] }, { "bearer": [] }]));
    let named_once = method == "post" && idempotency::is_covered(path);
    if named_once {
        let parameters = operation.entry("parameters").or_insert_with(|| json!([]));
        parameters.as_array_mut().expect("parameters are a list").push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "The caller's name for this call: called again under it, nothing is done twice and the first \
                answer is given again. Needs an API key, whose own name it is.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255 },
        }));
    }
    let has_body = operation.contains_key("requestBody");
    let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) else { return };
    let mut add = |status: &str, description: &str| {
        let response = || json!({ "description": description, "content": error_content() });
        responses.entry(status).or_insert_with(response);
    };
    add("401", "The API key that was shown is not valid");
    if named_once {
        add("409", "The Idempotency-Key was used for another call, or a call under it is still being answered");
    }
    if has_body {
        add("413", "The body is larger than 256 KiB");
    }
    add("414", "Path and query together are longer than 8 KiB");
    add("429", "Too many requests, or too many keys that are none");
    add("500", "Something failed here; the cause is in our log");
    add("503", "The service is busy or was too slow; try again");
    for (status, response) in responses.iter_mut() {
        let mut add = |header: &str, component: &str| {
            response["headers"][header] = json!({ "$ref": format!("#/components/headers/{component}") });
        };
        if retirement::is_about(path) {
            RETIREMENT_HEADERS.iter().for_each(|(header, component, ..)| add(header, component));
            continue;
        }
        let retry = (status == "429").then_some(&RETRY_HEADER);
        LIMIT_HEADERS.iter().chain(retry).for_each(|(header, component, ..)| add(header, component));
    }
}

fn error_content() -> Value {
    json!({ "application/json": { "schema": { "$ref": "#/components/schemas/ErrorBody" } } })
}

/// The method and the words of the path: `getAppFeesBalances`. Where a path without parameters has the same words, the
/// parameters tell them apart: `getWebhooksEndpointsByName`.
fn operation_id(path: &str, method: &str, plain: &BTreeSet<String>) -> String {
    let words = words(path);
    let parameters = path.split(['{', '}']).skip(1).step_by(2).filter(|_| plain.contains(&words));
    let by: String = parameters.map(|name| format!("By{}", capital(name))).collect();
    format!("{method}{words}{by}")
}

fn words(path: &str) -> String {
    path.split(['/', '-', '_']).filter(|word| !word.is_empty() && !word.starts_with('{')).map(capital).collect()
}

fn capital(word: &str) -> String {
    word[..1].to_uppercase() + &word[1..]
}

fn tag(path: &str) -> &'static str {
    match path.split('/').nth(1).unwrap_or_default() {
        "quote" | "price" => "Quotes",
        "intents" | "requests" | "transactions" | "fast-fill" | "deposit-addresses" => "Requests",
        "chains" | "currencies" | "config" | "swap-sources" => "Catalogue",
        "app-fees" | "execute" | "keys" => "App balance",
        "webhooks" => "Webhooks",
        "operator" | "lives" => "Operating",
        _ => "Other",
    }
}
