//! Texts of the listings that are one of a few: the document names them all, as the code has them.

use domain::facts::{Feature, RequestType};
use domain::request::State;
use serde_json::{Value, json};

use crate::listing::status_names;

pub(super) fn add(document: &mut Value) {
    let mut statuses = State::ALL.map(State::status).to_vec();
    statuses.sort_unstable();
    statuses.dedup();
    // A fill on its way is `pending` there.
    let older: Vec<&str> = statuses.iter().copied().filter(|status| *status != State::Submitted.status()).collect();
    let (kinds, features) = (RequestType::ALL.map(RequestType::as_str), Feature::ALL.map(Feature::as_str));
    let schemas = &mut document["components"]["schemas"];
    for (schema, names) in [("RequestV2", &older), ("RequestV3", &statuses), ("RequestEventV3", &statuses)] {
        schemas[schema]["properties"]["status"]["enum"] = json!(names);
    }
    let members = &mut schemas["RequestV3"]["properties"];
    members["requestType"]["enum"] = json!(kinds);
    members["features"]["items"]["enum"] = json!(features);
    let several = features.join("|");
    for (path, orders) in [
        ("/requests/v2", &["createdAt", "updatedAt"][..]),
        ("/requests/v3", &["createdAt", "updatedAt", "amountUsd"]),
        ("/requests/v3.csv", &["createdAt", "updatedAt", "amountUsd"]),
        ("/requests/v3/stream", &["createdAt", "updatedAt", "amountUsd"]),
    ] {
        let parameters = document["paths"][path]["get"]["parameters"].as_array_mut();
        for parameter in parameters.into_iter().flatten() {
            let (rule, value) = match parameter["name"].as_str() {
                Some("status") => ("enum", json!(status_names())),
                Some("sortBy") => ("enum", json!(orders)),
                Some("sortDirection") => ("enum", json!(["asc", "desc"])),
                Some("requestType") => ("enum", json!(kinds)),
                Some("features") => ("pattern", json!(format!("^({several})(,({several}))*$"))),
                _ => continue,
            };
            parameter["schema"][rule] = value;
        }
    }
}
