//! The definition digest: one hash of the agents' view and of the tool's real effect.

use std::time::Duration;

use super::address::Cidr;
use super::binding::{Credential, CredentialTarget};
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::Json;

/// The hash of these facts: it changes with a URL, a limit or the name of a credential.
pub(super) fn digest(shown: Json, effective: Json) -> Digest {
    let body = Json::object([("shown", shown), ("effective", effective)]);
    Digest::of(&[&canonical::bytes(&body)])
}

/// The same with the cost of one call and the window of repeated calls, if the operator states
/// them: a definition without them keeps its hash.
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

pub(super) fn credentials(credentials: &[Credential]) -> Json {
    credentials.iter().map(credential).collect()
}

pub(super) fn credential(credential: &Credential) -> Json {
    let place = match &credential.place {
        CredentialTarget::Header(name) => format!("header:{name}"),
        CredentialTarget::Query(name) => format!("query:{name}"),
    };
    Json::object([
        ("place", Json::from(place)),
        ("prefix", Json::from(credential.prefix.as_str())),
        ("reference", Json::from(credential.reference.as_str())),
    ])
}
