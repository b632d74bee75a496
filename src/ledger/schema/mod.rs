//! What an entry may say: the closed schema of each kind's `data`, and the profile of the whole entry.
//!
//! One file, `entry-1.json`, is the source: it is compiled in here and shipped in every evidence bundle.
//! What people say goes into the fleet log, and is checked before it is appended; a gate makes its own entries within
//! the bounds. A verifier checks what it reads. All call these functions.

mod form;
#[cfg(test)]
mod oracle;
mod pattern;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use self::form::Form;
use super::entry::{BYTES_MAX, Entry, Kind};
use crate::domain::canonical;
use crate::domain::json::{Json, Limits};

/// The schema of a whole entry (JSON Schema 2020-12), as shipped in bundles.
pub const ENTRY_1: &str = include_str!("entry-1.json");
/// Nested arrays and objects of an entry, itself included.
pub const DEPTH_MAX: usize = 6;
/// Items of one array.
pub const ITEMS_MAX: usize = 256;
/// Bytes an entry should stay below; the writer moves what is larger into payloads.
pub const BYTES_SOFT_MAX: usize = 16 << 10;

type Forms = Result<BTreeMap<Kind, Form>, String>;

fn compile() -> Forms {
    let document = Json::parse(ENTRY_1.as_bytes(), &Limits::FILE);
    let document = document.map_err(|e| format!("entry-1.json: {e}"))?;
    let definitions = document.get("$defs").ok_or("entry-1.json: no $defs")?;
    let mut forms = BTreeMap::new();
    for kind in Kind::ALL {
        let name = kind.as_str();
        let schema = definitions.get(name);
        let schema = schema.ok_or_else(|| format!("entry-1.json: no schema of `{name}`"))?;
        let form = Form::compile(schema, definitions);
        forms.insert(*kind, form.map_err(|e| format!("entry-1.json: `{name}`: {e}"))?);
    }
    Ok(forms)
}

/// Checks `data` against the closed schema of its kind.
///
/// # Errors
/// Where the data departs from the schema, and how.
pub fn check(kind: Kind, data: &Json) -> Result<(), String> {
    static FORMS: OnceLock<Forms> = OnceLock::new();
    let forms = FORMS.get_or_init(compile).as_ref().map_err(Clone::clone)?;
    let form = forms.get(&kind).ok_or_else(|| format!("no schema of `{}`", kind.as_str()))?;
    form.check(data).map_err(|e| format!("`{}` at `data{}`: {}", kind.as_str(), e.path, e.why))
}

/// Checks what holds for every entry, whatever its kind: integers only, no null, plain names, bounded
/// depth, arrays and bytes.
///
/// # Errors
/// The first thing outside the profile.
pub fn profile(entry: &Json) -> Result<(), String> {
    let bytes = canonical::bytes(entry).len();
    if bytes > BYTES_MAX {
        return Err(format!("{bytes} bytes, at most {BYTES_MAX} are allowed"));
    }
    shape(entry)
}

/// [`profile`] of an entry whose bytes have been counted.
///
/// # Errors
/// The first thing outside the profile.
pub fn shape(entry: &Json) -> Result<(), String> {
    nested(entry, 1)
}

fn nested(value: &Json, depth: usize) -> Result<(), String> {
    let too_deep = || Err(format!("nested deeper than {DEPTH_MAX}"));
    match value {
        Json::Bool(_) | Json::Int(_) | Json::String(_) => Ok(()),
        Json::Null => Err("`null` is not allowed: leave the member out".into()),
        Json::Float(_) => Err("only integers are allowed".into()),
        Json::Array(_) | Json::Object(_) if depth > DEPTH_MAX => too_deep(),
        Json::Array(items) if items.len() > ITEMS_MAX => {
            Err(format!("an array of {} items, at most {ITEMS_MAX} are allowed", items.len()))
        }
        Json::Array(items) => {
            items.iter().try_for_each(|item| nested(item, depth.saturating_add(1)))
        }
        Json::Object(members) => members.iter().try_for_each(|(name, member)| {
            let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
            if name.is_empty() || !name.bytes().all(plain) {
                return Err(format!("the member name `{name}` is not [a-z0-9_]"));
            }
            nested(member, depth.saturating_add(1))
        }),
    }
}

/// Which members of the header a kind has to have, and which it may not have.
///
/// # Errors
/// The member that is missing or out of place.
pub fn header(entry: &Entry) -> Result<(), String> {
    let draft = &entry.draft;
    let kind = draft.kind;
    let of_call = kind.of_call();
    let of_run = of_call || matches!(kind, Kind::RunOpened | Kind::RunSealed);
    let decides = kind.decides();
    let members = [
        ("run", entry.run.is_some(), of_run, of_run),
        ("call", draft.call.is_some(), of_call, of_call),
        ("tool", draft.tool.is_some(), decides, of_call),
        ("verdict", draft.verdict.is_some(), decides, of_call),
        ("policy", draft.policy.is_some(), decides || kind == Kind::PolicyActivated, true),
    ];
    for (name, there, required, allowed) in members {
        if required && !there {
            return Err(format!("`{}` without `{name}`", kind.as_str()));
        }
        if there && !allowed {
            return Err(format!("`{}` with `{name}`", kind.as_str()));
        }
    }
    if entry.boot.len() != 8 || !entry.boot.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    {
        return Err("`boot` is not 8 hex digits".into());
    }
    const ROLES: [&str; 8] =
        ["args", "result", "policy_input", "approval", "message", "raw", "pre_image", "tools"];
    draft.commit.iter().find(|c| !ROLES.contains(&c.role.as_str())).map_or(Ok(()), |unknown| {
        Err(format!("a commitment of the unknown role `{}`", unknown.role))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::Limits;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes(), &Limits::FILE).unwrap()
    }

    #[test]
    fn every_kind_has_a_schema_that_refuses_a_member_nobody_knows() {
        for kind in Kind::ALL {
            let why = check(*kind, &json(r#"{"surprise":1}"#)).unwrap_err();
            assert!(why.contains(kind.as_str()), "{why}");
        }
        assert_eq!(check(Kind::Heartbeat, &json(r#"{"open_runs":0,"rejected":3}"#)), Ok(()));
        assert!(check(Kind::Heartbeat, &json(r#"{"open_runs":0,"rejected":-3}"#)).is_err());
        assert!(check(Kind::Heartbeat, &json(r#"{"rejected":0}"#)).is_err());
    }

    #[test]
    fn the_shipped_file_is_a_schema_of_whole_entries() {
        let schema: serde_json::Value = serde_json::from_str(ENTRY_1).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let entry = serde_json::json!({"v":"wicketgate/entry/1","chain":"0".repeat(32),"epoch":1,"seq":3,
            "prev":"0".repeat(64),"ts":"2026-11-21T20:05:03.123Z","boot":"00000000","mono":"12",
            "kind":"heartbeat","data":{"open_runs":0,"rejected":0}});
        assert!(validator.is_valid(&entry));
        let mut other = entry;
        other["data"]["extra"] = 1.into();
        assert!(!validator.is_valid(&other));
    }

    #[test]
    fn the_profile_refuses_floats_nulls_deep_values_long_arrays_and_fancy_names() {
        for text in [
            r#"{"a":1.5}"#,
            r#"{"a":null}"#,
            r#"{"a":{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}}}"#,
            r#"{"Abc":1}"#,
            r#"{"a-b":1}"#,
        ] {
            assert!(profile(&json(text)).is_err(), "{text}");
        }
        assert!(profile(&json(r#"{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}}"#)).is_ok());
        assert!(profile(&json(&format!("{{\"a\":[{}1]}}", "1,".repeat(256)))).is_err());
        assert!(profile(&json(&format!("{{\"a\":[{}1]}}", "1,".repeat(255)))).is_ok());
    }
}
