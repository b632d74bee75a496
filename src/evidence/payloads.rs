//! What opens the commitments: salts and bytes, or the plain statement that they are not here.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::bundle::{Files, PAYLOADS};
use crate::domain::canonical;
use crate::domain::digest::{Digest, Salt};
use crate::domain::json::{Json, Limits};
use crate::ledger::entry::Commitment;
use crate::ledger::verify::Damage;

/// What a bundle says about one committed payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload {
    /// Here it is.
    Opened {
        /// What the commitment was salted with.
        salt: Salt,
        /// `args`, `result`, …
        role: String,
        /// `application/json`.
        media_type: String,
        /// The exact bytes.
        body: Vec<u8>,
    },
    /// It was erased, with its salt.
    Erased,
    /// It is not disclosed here, or was never stored.
    Withheld,
}

/// Every payload the run's entries commit to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Payloads(pub BTreeMap<Digest, Payload>);

impl Payloads {
    /// Adds `payloads/index.json` and one file for each opened payload.
    pub fn write(&self, files: &mut Files) {
        let index = self.0.iter().map(|(c, payload)| {
            let told = match payload {
                Payload::Erased => Json::object([("erased", Json::from(true))]),
                Payload::Withheld => Json::object([("withheld", Json::from(true))]),
                Payload::Opened { salt, role, media_type, body } => {
                    files.put(format!("payloads/{}.bin", c.hex()), body.clone());
                    Json::object([
                        ("salt", Json::from(hex::encode(salt))),
                        ("role", Json::from(role.as_str())),
                        ("media_type", Json::from(media_type.as_str())),
                        ("len", Json::from(length(body))),
                    ])
                }
            };
            (c.hex(), told)
        });
        let index = canonical::bytes(&Json::object(index));
        files.put(PAYLOADS, index);
    }

    /// Reads them back from a bundle's files.
    ///
    /// # Errors
    /// `P1`: the index is malformed, or a file and the index do not match.
    pub fn read(files: &Files) -> Result<Self, Damage> {
        let bad = |why: String| Damage::new("P1", why);
        let text = files.get(PAYLOADS).ok_or_else(|| bad(format!("no `{PAYLOADS}`")))?;
        let json =
            Json::parse(text, &Limits::FILE).map_err(|e| bad(format!("`{PAYLOADS}`: {e}")))?;
        let members = json.as_object().ok_or_else(|| bad(format!("`{PAYLOADS}`: no object")))?;
        let mut payloads = Self::default();
        for (name, told) in members {
            let c = Digest::parse(name)
                .filter(|c| c.hex() == *name)
                .ok_or_else(|| bad(format!("`{name}` is no commitment")))?;
            let payload = payload(files, &c, told).ok_or_else(|| {
                bad(format!("`{PAYLOADS}`: `{name}` is malformed or its file is not there"))
            })?;
            payloads.0.insert(c, payload);
        }
        let stray = files.0.keys().find(|name| {
            let c = name.strip_prefix("payloads/").filter(|rest| *rest != "index.json");
            c.is_some_and(|c| {
                let c = c.strip_suffix(".bin").and_then(Digest::parse);
                !c.is_some_and(|c| matches!(payloads.0.get(&c), Some(Payload::Opened { .. })))
            })
        });
        stray.map_or(Ok(payloads), |name| Err(bad(format!("stray payload `{name}`"))))
    }

    /// A payload as the transcript shows it.
    #[must_use]
    pub fn shown(&self, commitment: &Commitment) -> Json {
        let mut members = vec![
            ("commitment", Json::from(commitment.c.hex())),
            ("bytes", Json::from(commitment.len)),
        ];
        let state = match self.0.get(&commitment.c) {
            Some(Payload::Opened { body, media_type, .. }) => {
                members.push(("media_type", Json::from(media_type.as_str())));
                members.push(content(body));
                "opened"
            }
            Some(Payload::Erased) => "erased",
            Some(Payload::Withheld) | None => "withheld",
        };
        members.push(("state", Json::from(state)));
        Json::object(members)
    }
}

fn payload(files: &Files, c: &Digest, told: &Json) -> Option<Payload> {
    let members = told.as_object()?;
    if members.len() == 1 {
        let is = |name| told.get(name).and_then(Json::as_bool) == Some(true);
        return match (is("erased"), is("withheld")) {
            (true, false) => Some(Payload::Erased),
            (false, true) => Some(Payload::Withheld),
            (_, _) => None,
        };
    }
    let body = files.get(&format!("payloads/{}.bin", c.hex()))?.to_vec();
    let text = |name| told.get(name).and_then(Json::as_str);
    let salt_text = text("salt")?;
    let salt = <[u8; 32]>::try_from(hex::decode(salt_text).ok()?).ok()?;
    let whole = members.len() == 4
        && hex::encode(salt) == salt_text
        && told.get("len").and_then(Json::as_u64) == Some(length(&body));
    whole.then_some(Payload::Opened {
        salt,
        role: text("role")?.to_owned(),
        media_type: text("media_type")?.to_owned(),
        body,
    })
}

/// The bytes in the most readable form that loses nothing a reader needs; the exact ones are in
/// `payloads/`.
fn content(body: &[u8]) -> (&'static str, Json) {
    if let Ok(json) = Json::parse(body, &Limits::ARGUMENTS) {
        return ("json", json);
    }
    std::str::from_utf8(body).map_or_else(
        |_| ("base64", Json::from(STANDARD.encode(body))),
        |text| ("text", Json::from(text)),
    )
}

fn length(body: &[u8]) -> u64 {
    u64::try_from(body.len()).unwrap_or(u64::MAX)
}
