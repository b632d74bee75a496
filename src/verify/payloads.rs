//! What opens the commitments: salts and bytes, single members, or the statement that a payload is
//! absent.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::bundle::{Files, PAYLOADS};
use crate::domain::canonical;
use crate::domain::commitment::{Redacted, Scheme, opens};
use crate::domain::digest::{Digest, Salt};
use crate::domain::id::Seq;
use crate::domain::json::{Json, Limits};
use crate::entries::Damage;
use crate::record::{Commitment, Hex, HexDigest, True};

/// How a bundle has one committed payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload {
    /// Disclosed completely.
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
    /// Some of its members are disclosed, the others are hidden by name and value.
    Redacted {
        /// `args`, `result`, …
        role: String,
        /// The disclosed members, and digests in place of the others.
        parts: Redacted,
    },
    /// Erased with its salt; this entry records it.
    Erased {
        /// Name of the log.
        log: String,
        /// Place in it.
        seq: Seq,
    },
    /// Not disclosed here, or never stored.
    Withheld(WithheldReason),
}

impl Payload {
    /// `opened`, `redacted`, `erased` or `withheld`.
    pub const fn state(&self) -> &'static str {
        match self {
            Self::Opened { .. } => "opened",
            Self::Redacted { .. } => "redacted",
            Self::Erased { .. } => "erased",
            Self::Withheld(_) => "withheld",
        }
    }
}

/// A predicate to count payloads by.
pub type Is = fn(&Payload) -> bool;

/// Why a payload is withheld.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WithheldReason {
    /// The bundle gives no reason.
    Unsaid,
    /// Nothing of the run was ever stored.
    Incognito,
    /// It is stored encrypted, and the exporter had no key.
    Encrypted,
    /// It is stored encrypted, and the stored bytes were changed.
    Damaged,
}

impl WithheldReason {
    const fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Unsaid => None,
            Self::Incognito => Some("incognito"),
            Self::Encrypted => Some("encrypted"),
            Self::Damaged => Some("damaged"),
        }
    }

    fn parse(reason: Option<&str>) -> Option<Self> {
        [Self::Unsaid, Self::Incognito, Self::Encrypted, Self::Damaged]
            .into_iter()
            .find(|w| w.as_str() == reason)
    }
}

/// Every payload the run's entries commit to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Payloads(pub BTreeMap<Digest, Payload>);

impl Payloads {
    /// Adds `payloads/index.json` and one file for each opened payload.
    pub fn write(&self, files: &mut Files) {
        let index = self.0.iter().map(|(c, payload)| {
            let json = match payload {
                Payload::Erased { log, seq } => Json::object([
                    ("erased", Json::from(true)),
                    ("log", Json::from(log.as_str())),
                    ("seq", Json::from(*seq)),
                ]),
                Payload::Withheld(why) => {
                    let why = why.as_str().map(|why| ("why", Json::from(why)));
                    Json::object([("withheld", Json::from(true))].into_iter().chain(why))
                }
                Payload::Redacted { role, parts } => redacted(role, parts),
                Payload::Opened { salt, role, media_type, body } => {
                    files.put(format!("payloads/{}.bin", c.hex()), body.clone());
                    let mut json = vec![
                        ("salt", Json::from(hex::encode(salt))),
                        ("role", Json::from(role.as_str())),
                        ("media_type", Json::from(media_type.as_str())),
                        ("len", Json::from(length(body))),
                    ];
                    let (v, members) = scheme(opens(c, salt, body).unwrap_or(Scheme::Whole));
                    json.push(("v", Json::from(v)));
                    json.extend(members.map(|members| ("members", Json::from(members))));
                    Json::object(json)
                }
            };
            (c.hex(), json)
        });
        let index = canonical::bytes(&Json::object(index));
        files.put(PAYLOADS, index);
    }

    /// Reads them back from a bundle's files.
    ///
    /// # Errors
    /// `P1`: the index is malformed, or a file and the index do not match.
    pub fn read(files: &Files) -> Result<Self, Damage> {
        let damage = |why: String| Damage::new("P1", why);
        let text = files.get(PAYLOADS).ok_or_else(|| damage(format!("no `{PAYLOADS}`")))?;
        let json =
            Json::parse(text, &Limits::FILE).map_err(|e| damage(format!("`{PAYLOADS}`: {e}")))?;
        let members = json.as_object().ok_or_else(|| damage(format!("`{PAYLOADS}`: no object")))?;
        let mut payloads = Self::default();
        for (name, list) in members {
            let c = Digest::parse(name)
                .filter(|c| c.hex() == *name)
                .ok_or_else(|| damage(format!("`{name}` is no commitment")))?;
            let payload = payload(files, &c, list).ok_or_else(|| {
                damage(format!("`{PAYLOADS}`: `{name}` is malformed or its file is not there"))
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
        stray.map_or(Ok(payloads), |name| Err(damage(format!("stray payload `{name}`"))))
    }

    /// A payload in the form of the transcript.
    pub fn shown(&self, commitment: &Commitment) -> Json {
        let mut members = vec![
            ("commitment", Json::from(commitment.c.hex())),
            ("bytes", Json::from(commitment.len.get())),
        ];
        let payload = self.0.get(&commitment.c);
        match payload {
            Some(Payload::Opened { body, media_type, .. }) => {
                members.push(("media_type", Json::from(media_type.as_str())));
                members.push(content(body));
            }
            Some(Payload::Redacted { parts, .. }) => {
                let hidden = u64::try_from(parts.hidden.len()).unwrap_or(u64::MAX);
                let disclosed = parts.open(&commitment.c).unwrap_or_default();
                members.push(("disclosed", Json::Object(disclosed)));
                members.push(("hidden", Json::from(hidden)));
            }
            Some(Payload::Erased { log, seq }) => {
                members.push(("log", Json::from(log.as_str())));
                members.push(("seq", Json::from(*seq)));
            }
            Some(Payload::Withheld(why)) => {
                members.extend(why.as_str().map(|why| ("why", Json::from(why))));
            }
            None => {}
        }
        members.push(("state", payload.map_or("withheld", Payload::state).into()));
        Json::object(members)
    }
}

/// The index entry of a withheld payload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WithheldForm {
    #[serde(rename = "withheld")]
    _withheld: True,
    why: Option<String>,
}

/// The index entry of an erased payload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErasedForm {
    #[serde(rename = "erased")]
    _erased: True,
    log: String,
    seq: Seq,
}

/// The index entry of a payload whose bytes are in a file.
#[derive(Deserialize)]
struct OpenedForm {
    salt: Hex<32>,
    len: u64,
    role: String,
    media_type: String,
    /// Absent in an earlier version, which knew one scheme.
    v: Option<u64>,
    members: Option<String>,
}

fn payload(files: &Files, c: &Digest, json: &Json) -> Option<Payload> {
    if let Ok(withheld) = json.read::<WithheldForm>() {
        return WithheldReason::parse(withheld.why.as_deref()).map(Payload::Withheld);
    }
    if let Ok(ErasedForm { log, seq, .. }) = json.read() {
        return Some(Payload::Erased { log, seq });
    }
    if let Some(redacted) = read_redacted(json) {
        return Some(redacted);
    }
    let body = files.get(&format!("payloads/{}.bin", c.hex()))?.to_vec();
    let form: OpenedForm = json.read().ok()?;
    // A later check reports bytes that do not open the commitment.
    let found = opens(c, &form.salt.0, &body);
    let (v, members) = scheme(found.unwrap_or(Scheme::Whole));
    let plain = form.v.is_none() && matches!(found, None | Some(Scheme::Whole));
    let matches = form.v == Some(v) && form.members == members;
    let named = [form.v.is_some(), form.members.is_some()].into_iter().filter(|there| *there);
    let exact = json.as_object()?.len() == named.count().saturating_add(4);
    let whole = (exact && (plain && form.members.is_none() || matches) || found.is_none())
        && form.len == length(&body);
    let (salt, role, media_type) = (form.salt.0, form.role, form.media_type);
    whole.then_some(Payload::Opened { salt, role, media_type, body })
}

/// The commitment scheme of an opened payload.
fn scheme(scheme: Scheme) -> (u64, Option<String>) {
    let members = match scheme {
        Scheme::Whole => None,
        Scheme::Members { members } => Some(members.hex()),
    };
    (scheme.version(), members)
}

/// A payload of which some members are hidden.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RedactedForm {
    redacted: True,
    role: String,
    whole: HexDigest,
    disclosures: Vec<String>,
    hidden: Vec<HexDigest>,
}

/// A payload of which some members are hidden, as it is written.
pub fn redacted(role: &str, parts: &Redacted) -> Json {
    Json::of(&RedactedForm {
        redacted: True,
        role: role.to_owned(),
        whole: HexDigest(parts.whole),
        disclosures: parts.disclosures.clone(),
        hidden: parts.hidden.iter().copied().map(HexDigest).collect(),
    })
}

/// Parses it.
#[must_use]
pub fn read_redacted(json: &Json) -> Option<Payload> {
    let form: RedactedForm = json.read().ok()?;
    let hidden = form.hidden.iter().map(|digest| digest.0).collect();
    let parts = Redacted { whole: form.whole.0, disclosures: form.disclosures, hidden };
    // Exactly one form: sorted, without duplicates.
    let role = form.role;
    (redacted(&role, &parts) == *json).then_some(Payload::Redacted { role, parts })
}

/// The bytes in the most readable form without loss for a reader; `payloads/` has the exact ones.
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
