//! A complete input document, as the base of decision tables, and for `policy schema`.

use crate::domain::json::{Json, Limits};
use crate::input::{break_glass_json, quorum_json};

/// Everything that the gate's own code does not write.
const TEXT: &str = r#"{
  "v": "wicketgate/input/2",
  "agent": {"id": "agent", "version": "1.0.0", "owner": "owner@example.com", "labels": {}, "binding": "observed", "tier3": "observed",
    "manifest": "sha256:0000000000000000000000000000000000000000000000000000000000000000", "delegation": []},
  "run": {"id": "00000000-0000-7000-8000-000000000000", "mode": "enforce", "incognito": false, "opened_at": "2026-11-18T12:00:00.000Z",
    "calls": 0, "errors": 0, "cost": 0, "labels": {}},
  "tool": {"name": "tool", "kind": "http", "tier": "T0", "read_only": true,
    "definition": "sha256:0000000000000000000000000000000000000000000000000000000000000000"},
  "call": {"id": "call"},
  "args": {},
  "effect": {"kind": "none"},
  "context": {"attested": {}, "claimed": {}},
  "time": {"rfc3339": "2026-11-18T12:00:00.000Z", "unix": 1795003200, "weekday": "wednesday", "hour": 12, "minute": 0,
    "tz": "UTC"},
  "findings": [],
  "firewall": {"complete": true, "masked": false,
    "rules": "sha256:0000000000000000000000000000000000000000000000000000000000000000"},
  "approvals": [],
  "pools": [],
  "observe": [],
  "taint": {"egress": "outside", "floor": {"label_only": "alert", "trifecta": "approve"},
    "influence": {"private": 0, "unknown": false, "untrusted": 0}, "labels": [], "since": {}, "trifecta": false,
    "trifecta_influenced": false},
  "history": {"calls": 0, "errors": 0, "denied": 0}
}"#;

/// A harmless call of a tool of tier T0 on a Wednesday at noon, in the form of a gate's input.
/// `by_hand`: the layers that count approvers for themselves.
pub fn document(by_hand: &[&str]) -> Json {
    let mut document = Json::parse(TEXT.as_bytes(), &Limits::ARGUMENTS).unwrap_or(Json::Null);
    if let Json::Object(members) = &mut document {
        members.insert("quorum".to_owned(), quorum_json(by_hand));
        members.insert("break_glass".to_owned(), break_glass_json(None));
    }
    document
}

/// Puts `partial` over `whole`: objects member by member; other values replace the old ones.
pub fn merge(whole: &mut Json, partial: &Json) {
    match (whole, partial) {
        (Json::Object(whole), Json::Object(partial)) => {
            for (name, value) in partial {
                merge(whole.entry(name.clone()).or_insert(Json::Null), value);
            }
        }
        (whole, partial) => *whole = partial.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::schema;

    #[test]
    fn the_sample_is_a_document_that_a_gate_could_make() {
        assert_eq!(schema::violations(&document(&["agent"])), Vec::<String>::new());
    }

    #[test]
    fn a_partial_input_replaces_members_and_leaves_the_others() {
        let mut whole = document(&[]);
        let partial = br#"{"tool": {"tier": "T2"}, "args": {"a": [1]}, "findings": [{"kind": "k", "path": "/a"}]}"#;
        merge(&mut whole, &Json::parse(partial, &Limits::ARGUMENTS).unwrap());
        let tool = whole.get("tool").unwrap();
        assert_eq!(tool.get("tier").and_then(Json::as_str), Some("T2"));
        assert_eq!(tool.get("kind").and_then(Json::as_str), Some("http"));
        assert_eq!(whole.get("findings").and_then(Json::as_array).map(<[Json]>::len), Some(1));
    }
}
