//! B1–B3: the signed list, and the files it lists.

use std::collections::BTreeMap;

use super::report::{Outcome, Report};
use crate::bundle::{ENVELOPE, Files, MANIFEST, plain};
use crate::crypto::dsse;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::{Json, Limits};
use crate::entries::Damage;
use crate::statement::{PAYLOAD_TYPE, PREDICATE, STATEMENT};
use crate::trust::Trust;

/// Checks envelope, names and digests; the predicate, if the statement can be read at all.
pub fn check(files: &Files, trust: &Trust, report: &mut Report) -> Option<Json> {
    report.put("B1", signed(files, trust));
    let (subjects, predicate) = match statement(files) {
        Ok(read) => read,
        Err(damage) => {
            report.invalid(damage);
            return None;
        }
    };
    match names(files, &subjects) {
        Ok(()) => report.valid("B2", format!("{} files", subjects.len())),
        Err(damage) => report.invalid(damage),
    }
    let differs = subjects.iter().find(|(name, digest)| {
        files.get(name).is_some_and(|bytes| Digest::of(&[bytes]) != **digest)
    });
    match differs {
        None => report.valid("B3", "SHA-256 of every file matches"),
        Some((name, _)) => {
            report.invalid(Damage::new("B3", format!("`{name}` is not what was signed")));
        }
    }
    Some(predicate)
}

fn signed(files: &Files, trust: &Trust) -> Outcome {
    let Some(envelope) = files.get(ENVELOPE) else {
        return Outcome::Invalid(format!("no `{ENVELOPE}`"));
    };
    if trust.evidence.is_empty() {
        return Outcome::Unverifiable("the trust file names no evidence key".into());
    }
    match dsse::open(envelope, PAYLOAD_TYPE, &trust.evidence, 1) {
        Err(e) => Outcome::Invalid(e.to_string()),
        Ok(opened) if files.get(MANIFEST) == Some(&opened.payload) => {
            Outcome::Valid(format!("signed by {}", opened.signers.join(", ")))
        }
        Ok(_) => Outcome::Invalid(format!("`{MANIFEST}` is not the payload that was signed")),
    }
}

type Subjects = BTreeMap<String, Digest>;

fn statement(files: &Files) -> Result<(Subjects, Json), Damage> {
    let bad = |why: String| Damage::new("B2", why);
    let text = files.get(MANIFEST).ok_or_else(|| bad(format!("no `{MANIFEST}`")))?;
    let json = Json::parse(text, &Limits::FILE).map_err(|e| bad(format!("`{MANIFEST}`: {e}")))?;
    let is = |name, wanted| json.get(name).and_then(Json::as_str) == Some(wanted);
    if !is("_type", STATEMENT) || !is("predicateType", PREDICATE) {
        return Err(bad(format!("`{MANIFEST}` is no statement about an evidence bundle")));
    }
    if json.as_object().is_none_or(|members| members.len() != 4) {
        return Err(bad(format!("`{MANIFEST}` has members nobody knows")));
    }
    if canonical::bytes(&json) != text {
        return Err(bad(format!("`{MANIFEST}` is not in its one form")));
    }
    let list = json.get("subject").and_then(Json::as_array);
    let list = list.ok_or_else(|| bad(format!("`{MANIFEST}` has no subjects")))?;
    let mut subjects = Subjects::new();
    for subject in list {
        let name = subject.get("name").and_then(Json::as_str).unwrap_or_default();
        let digest = subject.get("digest").and_then(|d| d.get("sha256")).and_then(Json::as_str);
        let members = |json: &Json| json.as_object().map_or(0, |members| members.len());
        let alone = members(subject) == 2 && subject.get("digest").map_or(0, members) == 1;
        let digest = digest
            .filter(|_| alone)
            .and_then(Digest::parse)
            .ok_or_else(|| bad(format!("subject `{name}` has no SHA-256, or more than that")))?;
        if !plain(name) {
            return Err(bad(format!("subject `{name}` has no plain name")));
        }
        if subjects.insert(name.to_owned(), digest).is_some() {
            return Err(bad(format!("subject `{name}` is there twice")));
        }
    }
    Ok((subjects, json.get("predicate").cloned().unwrap_or(Json::Null)))
}

fn names(files: &Files, subjects: &Subjects) -> Result<(), Damage> {
    let listed =
        |name: &String| subjects.contains_key(name) != matches!(name.as_str(), MANIFEST | ENVELOPE);
    if let Some(extra) = files.0.keys().find(|name| !listed(name)) {
        return Err(Damage::new("B2", format!("`{extra}` is not in the list")));
    }
    let missing = subjects.keys().find(|name| files.get(name).is_none());
    missing.map_or(Ok(()), |name| Err(Damage::new("B2", format!("`{name}` is missing"))))
}
