//! B1–B3: the signed list, and the files it lists.

use std::collections::BTreeMap;

use super::report::{Outcome, Report};
use crate::bundle::{ENVELOPE, Files, MANIFEST, plain};
use crate::crypto::dsse;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::{Json, Limits};
use crate::domain::plural::many;
use crate::entries::Damage;
use crate::statement::{PAYLOAD_TYPE, PREDICATE, STATEMENT, StatementForm, SubjectForm};
use crate::trust::Trust;

/// Checks envelope, names and digests; returns the predicate if the statement is readable.
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
        Ok(()) => report.valid("B2", many(subjects.len(), "file")),
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
        return Outcome::Invalid(format!("`{ENVELOPE}` is missing"));
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
    let damage = |why: String| Damage::new("B2", why);
    let text = files.get(MANIFEST).ok_or_else(|| damage(format!("`{MANIFEST}` is missing")))?;
    let json =
        Json::parse(text, &Limits::FILE).map_err(|e| damage(format!("`{MANIFEST}`: {e}")))?;
    let form: StatementForm = json.read().map_err(|e| damage(format!("`{MANIFEST}`: {e}")))?;
    if form.kind != STATEMENT || form.predicate_type != PREDICATE {
        return Err(damage(format!("`{MANIFEST}` is not a statement about an evidence bundle")));
    }
    if canonical::bytes(&json) != text {
        return Err(damage(format!("`{MANIFEST}` is not in canonical form")));
    }
    let mut subjects = Subjects::new();
    for SubjectForm { name, digest } in form.subject {
        if !plain(&name) {
            return Err(damage(format!("subject `{name}` is not a plain file name")));
        }
        if subjects.contains_key(&name) {
            return Err(damage(format!("subject `{name}` occurs twice")));
        }
        subjects.insert(name, digest.sha256.0);
    }
    Ok((subjects, form.predicate))
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
