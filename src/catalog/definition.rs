//! The definition digest: one hash of the agents' view and of the tool's real effect.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Kind;
use super::address::Cidr;
use super::binding::{Credential, CredentialTarget};
use super::read_back::ReadBack;
use super::roles::StatedRoles;
use super::schema::Schema;
use super::secret::Secret;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::id::ToolName;
use crate::domain::json::{Json, json};
use crate::domain::tier::Tier;

/// What an agent sees of a tool.
pub(super) fn shown(name: &ToolName, description: &str, schema: &Schema) -> Json {
    json!({"name": name, "description": description, "input_schema": schema.json()})
}

/// What the operator states of a tool, and what counts if nothing is stated.
pub(super) struct Effective {
    pub tier: Tier,
    pub read_only: bool,
    pub idempotent: bool,
    pub timeout: Duration,
    pub result_bytes_max: u64,
    pub cost_micro_usd: Option<u64>,
    pub dedupe: Option<Duration>,
    pub roles: StatedRoles,
    pub read_back: Option<Arc<ReadBack>>,
}

impl Effective {
    /// The digest of a tool's definition. What limits its cost is in it where it is stated.
    pub fn digest(&self, shown: &Json, kind: &Kind) -> Digest {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let effective = serde_json::json!({
            "kind": kind.as_str(),
            "binding": kind.definition(),
            "tier": self.tier,
            "read_only": self.read_only,
            "idempotent": self.idempotent,
            "timeout_ms": millis(self.timeout),
            "result_bytes_max": self.result_bytes_max,
        });
        let cost = self.cost_micro_usd.map(Into::into);
        let effective = with(
            effective,
            [
                ("cost_micro_usd", cost),
                ("dedupe_ms", self.dedupe.map(|window| millis(window).into())),
                ("taint", self.roles.definition()),
                ("read_back", self.read_back.as_ref().map(|check| check.definition())),
            ],
        );
        let body = json!({"shown": shown, "effective": effective});
        Digest::of(&[&canonical::bytes(&body)])
    }
}

/// An object with the further members that have a value.
pub(super) fn with<const N: usize>(mut object: Value, more: [(&str, Option<Value>); N]) -> Value {
    if let Value::Object(members) = &mut object {
        let present = more.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        members.extend(present);
    }
    object
}

pub(super) fn headers(list: &[(http::HeaderName, http::HeaderValue)]) -> Json {
    Json::object(list.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        (name.as_str().to_owned(), Json::from(value.as_ref()))
    }))
}

/// Variables of a program, each with the digest of its value.
pub(super) fn hashed<'a>(env: impl IntoIterator<Item = (&'a String, &'a String)>) -> Json {
    let hashed = |value: &String| Json::from(Digest::of(&[value.as_bytes()]).hex());
    Json::object(env.into_iter().map(|(name, value)| (name.clone(), hashed(value))))
}

/// Variables that hold secrets, each with the reference of its secret.
pub(super) fn variables(secrets: &[(String, Secret, String)]) -> Json {
    secrets.iter().map(|(name, _, at)| json!({"env": name, "reference": at})).collect()
}

pub(super) fn ranges(list: &[Cidr]) -> Json {
    list.iter().map(|range| Json::from(range.to_string())).collect()
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
    json!({"place": place, "prefix": credential.prefix, "reference": credential.reference})
}
