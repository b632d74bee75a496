//! The definition digest: what the agent is shown and what really happens, in one hash.

use std::time::Duration;

use super::address::Cidr;
use super::binding::{Credential, Fetch, Http, Kind, ModelUpstream, Place, Root};
use super::template::{Body, BodyTemplate};
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::Json;

/// The hash of these facts: repointing a URL, loosening a limit or renaming a credential shows.
pub(super) fn digest(shown: Json, effective: Json) -> Digest {
    let body = Json::object([("shown", shown), ("effective", effective)]);
    Digest::of(&[&canonical::bytes(&body)])
}

/// The same with what one call costs and for how long another id is the same call, where that is said: a definition
/// that says nothing keeps its hash.
pub(super) fn priced(
    effective: Json,
    (cost_micro_usd, dedupe): (Option<u64>, Option<Duration>),
) -> Json {
    let Json::Object(mut members) = effective else { return effective };
    members.extend(cost_micro_usd.map(|cost| ("cost_micro_usd".into(), Json::from(cost))));
    let window = dedupe.map(|window| u64::try_from(window.as_millis()).unwrap_or(u64::MAX));
    members.extend(window.map(|ms| ("dedupe_ms".into(), Json::from(ms))));
    Json::Object(members)
}

/// The kind's own part, without secrets.
pub(super) fn kind(kind: &Kind) -> Json {
    match kind {
        Kind::Http(http) => request(http),
        Kind::Fetch(fetch) => bounds(fetch),
        Kind::FileRead(at) => Json::object(root(at)),
        Kind::FileList(listing) => {
            let mut members = root(&listing.root);
            members.push(("entries_max", Json::from(listing.entries_max)));
            members.push(("depth_max", Json::from(listing.depth_max)));
            Json::object(members)
        }
        Kind::FileWrite(writing) => {
            let mut members = root(&writing.root);
            members.push(("create_parents", Json::from(writing.create_parents)));
            Json::object(members)
        }
        Kind::Model(model) => Json::object([
            ("output_tokens_max", Json::from(model.output_tokens_max)),
            ("upstreams", model.upstreams.iter().map(upstream).collect::<Vec<_>>().into()),
        ]),
        Kind::Sql(sql) => super::sql::definition(sql),
        Kind::Grpc(grpc) => super::grpc::definition(grpc),
        Kind::Mcp(mcp) => Json::object([
            ("server", Json::from(mcp.server.name.as_str())),
            ("reached", Json::from(mcp.server.binding.prefixed())),
        ]),
        Kind::Command(command) => command.facts(),
    }
}

/// A root; one that says nothing of names keeps its hash.
fn root(root: &Root) -> Vec<(&'static str, Json)> {
    let mut members = vec![
        ("root", Json::from(root.name.as_str())),
        ("path", Json::from(root.path.to_string_lossy().as_ref())),
    ];
    for (member, names) in
        [("protect", &root.protect), ("allow", &root.allow), ("allow_names", &root.allow_names)]
    {
        if !names.is_empty() {
            let names: Vec<Json> = names.iter().map(|name| Json::from(name.as_str())).collect();
            members.push((member, names.into()));
        }
    }
    members
}

fn request(http: &Http) -> Json {
    let url = format!("{}://{}{}", http.origin.scheme(), http.origin.authority(), http.path.text());
    let query = http.query.iter().map(|(k, v)| (k.clone(), Json::from(v.as_str())));
    Json::object([
        ("method", Json::from(http.method.as_str())),
        ("url", Json::from(url)),
        ("query", Json::object(query)),
        ("headers", headers(&http.headers)),
        ("body", body(&http.body)),
        ("private_addresses", ranges(&http.private_addresses)),
        ("ca", authorities(http.ca.as_deref())),
        ("credentials", http.credentials.iter().map(credential).collect::<Vec<_>>().into()),
        ("isolation", Json::from("none")),
    ])
}

fn upstream(place: &ModelUpstream) -> Json {
    let url = format!("{}://{}{}", place.origin.scheme(), place.origin.authority(), place.path);
    let models =
        place.models.iter().map(|(asked, sent)| (asked.clone(), Json::from(sent.as_str())));
    let price = place.price.map_or(Json::Null, |price| {
        Json::object([("input", Json::from(price.input)), ("output", Json::from(price.output))])
    });
    let members = vec![
        ("name", Json::from(place.name.as_str())),
        ("api", Json::from(place.api.as_str())),
        ("url", Json::from(url)),
        ("models", Json::object(models)),
        ("headers", headers(&place.headers)),
        ("private_addresses", ranges(&place.private_addresses)),
        ("ca", authorities(place.ca.as_deref())),
        ("credentials", place.credentials.iter().map(credential).collect::<Vec<_>>().into()),
        ("price", price),
    ];
    // One that is asked in the older words keeps its hash.
    let newer = (place.output_tokens_field != "max_tokens")
        .then(|| ("output_tokens_field", Json::from(place.output_tokens_field)));
    Json::object(members.into_iter().chain(newer))
}

pub(super) fn headers(list: &[(http::HeaderName, http::HeaderValue)]) -> Json {
    Json::object(list.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        (name.as_str().to_owned(), Json::from(value.as_ref()))
    }))
}

pub(super) fn ranges(list: &[Cidr]) -> Json {
    list.iter().map(|range| Json::from(range.to_string())).collect::<Vec<_>>().into()
}

pub(super) fn authorities(ca: Option<&[u8]>) -> Json {
    ca.map_or(Json::Null, |pem| Json::from(Digest::of(&[pem]).hex()))
}

fn bounds(fetch: &Fetch) -> Json {
    fn texts<T: ToString>(list: &[T]) -> Json {
        list.iter().map(|one| Json::from(one.to_string())).collect::<Vec<_>>().into()
    }
    let ports: Vec<Json> = fetch.ports.iter().map(|port| Json::from(u64::from(*port))).collect();
    let ca = fetch.ca.as_ref().map_or(Json::Null, |pem| Json::from(Digest::of(&[pem]).hex()));
    let credentials: Vec<Json> = fetch
        .credentials
        .iter()
        .map(|(origin, one)| {
            let to = format!("{}://{}", origin.scheme(), origin.authority());
            Json::object([("origin", Json::from(to)), ("credential", credential(one))])
        })
        .collect();
    Json::object([
        ("hosts", texts(&fetch.hosts)),
        ("schemes", texts(&fetch.schemes)),
        ("ports", ports.into()),
        ("methods", texts(&fetch.methods)),
        ("headers_allowed", texts(&fetch.headers_allowed)),
        ("headers_returned", texts(&fetch.headers_returned)),
        ("private_addresses", texts(&fetch.private_addresses)),
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
