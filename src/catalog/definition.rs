//! The definition digest: what the agent is shown and what really happens, in one hash.

use super::binding::{Credential, Http, Kind, Place};
use super::template::{Body, BodyTemplate};
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::Json;

/// The hash of these facts: repointing a URL, loosening a limit or renaming a credential shows.
pub(super) fn digest(shown: Json, effective: Json) -> Digest {
    let body = Json::object([("shown", shown), ("effective", effective)]);
    Digest::of(&[&canonical::bytes(&body)])
}

/// The same with what one call costs, where that is said: a definition that says nothing keeps its hash.
pub(super) fn priced(effective: Json, cost_micro_usd: Option<u64>) -> Json {
    let Some(cost) = cost_micro_usd else { return effective };
    let Json::Object(mut members) = effective else { return effective };
    members.insert("cost_micro_usd".into(), Json::from(cost));
    Json::Object(members)
}

/// The kind's own part, without secrets.
pub(super) fn kind(kind: &Kind) -> Json {
    match kind {
        Kind::Http(http) => request(http),
        Kind::FileRead(root) => Json::object([
            ("root", Json::from(root.name.as_str())),
            ("path", Json::from(root.path.to_string_lossy().as_ref())),
        ]),
        Kind::Mcp(mcp) => Json::object([
            ("server", Json::from(mcp.server.name.as_str())),
            ("reached", Json::from(mcp.server.binding.prefixed())),
        ]),
    }
}

fn request(http: &Http) -> Json {
    let url = format!("{}://{}{}", http.origin.scheme(), http.origin.authority(), http.path.text());
    let query = http.query.iter().map(|(k, v)| (k.clone(), Json::from(v.as_str())));
    let headers = http.headers.iter().map(|(k, v)| {
        (k.as_str().to_owned(), Json::from(String::from_utf8_lossy(v.as_bytes()).as_ref()))
    });
    let ranges: Vec<Json> =
        http.private_addresses.iter().map(|range| Json::from(range.to_string())).collect();
    let ca = http.ca.as_ref().map_or(Json::Null, |pem| Json::from(Digest::of(&[pem]).hex()));
    let credentials: Vec<Json> = http.credentials.iter().map(credential).collect();
    Json::object([
        ("method", Json::from(http.method.as_str())),
        ("url", Json::from(url)),
        ("query", Json::object(query)),
        ("headers", Json::object(headers)),
        ("body", body(&http.body)),
        ("private_addresses", ranges.into()),
        ("ca", ca),
        ("credentials", credentials.into()),
        ("isolation", Json::from("none")),
    ])
}

pub(super) fn credential(credential: &Credential) -> Json {
    let place = match &credential.place {
        Place::Header(name) => format!("header:{name}"),
        Place::Query(name) => format!("query:{name}"),
    };
    Json::object([
        ("place", Json::from(place)),
        ("prefix", Json::from(credential.prefix.as_str())),
        ("reference", Json::from(credential.reference.as_str())),
    ])
}

fn body(body: &Body) -> Json {
    match body {
        Body::None => Json::from("none"),
        Body::Args => Json::from("args"),
        Body::Json(template) => Json::object([("json", written(template))]),
    }
}

fn written(template: &BodyTemplate) -> Json {
    match template {
        BodyTemplate::Literal(value) => value.clone(),
        BodyTemplate::Text(text) => Json::from(text.as_str()),
        BodyTemplate::Array(items) => items.iter().map(written).collect::<Vec<_>>().into(),
        BodyTemplate::Object(members) => {
            Json::object(members.iter().map(|(name, value)| (name.clone(), written(value))))
        }
    }
}
