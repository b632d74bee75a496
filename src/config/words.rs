//! Descriptions of sections, and of fields whose schema is made elsewhere.

use serde_json::Value;

/// Dotted paths, `[]` for the items of a list, each with what is said of it.
pub(super) const WORDS: [(&str, &str); 36] = [
    ("agents", "which signed manifests are served, and who may be which agent"),
    (
        "agents[].callers",
        "who is this agent: each by exactly one of `uid`, `token_file`, `spiffe` and `certificate`",
    ),
    ("agents[].callers[].k8s_service_account", "never right in this build, and refused"),
    (
        "agents[].callers[].socket",
        "the Unix socket the peer comes through; default `listen.socket`; needs `uid`",
    ),
    (
        "agents[].callers[].token_file",
        "file of mode 0600 with one line of at least 32 printable characters, which is shown as `authorization: Bearer`",
    ),
    ("agents[].callers[].uid", "the uid of the peer on the socket, as the kernel names it"),
    ("approvals", "who may approve held calls, and how those are brought to people"),
    ("approvals.webhook", "where held calls are announced; nowhere unless set"),
    ("control", "how operators stop the gate where nothing else works"),
    ("encryption.key_file", "file of mode 0600 with the key that payloads are stored under"),
    ("encryption.old_key_files", "keys that payloads were stored under before"),
    ("fleet.timestamp", "the authority that stamps heads of the fleet log (RFC 3161)"),
    ("fleet.timestamp.url", "its URL"),
    ("fleet.witnesses[].url", "where the witness is asked"),
    ("hub", "what only `wicketgate hub` needs"),
    ("hub.enrolment.tokens", "pools of slots, each with the token its sidecars show"),
    ("ledger", "where entries go: exactly one of `sqlite` and `postgres`"),
    ("ledger.postgres", "a PostgreSQL database that gates share"),
    ("ledger.postgres.tenant", "whose chains these are in the database"),
    ("ledger.sqlite", "one file of this gate's own"),
    ("limits", "what the gate takes on at once, and for how long"),
    ("listen", "where agents connect"),
    ("operator", "where operators and probes connect"),
    ("policy", "what decides about calls"),
    ("pools[].name", "what entries and policies call the pool"),
    ("pools[].per", "when what was used comes back; `none`: only by an order"),
    ("pools[].size", "units it has"),
    ("pools[].unit", "what is counted"),
    ("posture", "what becomes of what agents find when they try their isolation"),
    ("replay", "what runs may go on from"),
    ("retention", "how long payloads stay"),
    ("self_test", "how the gate tests that it still denies"),
    ("telemetry", "what the gate tells about itself"),
    ("telemetry.log", "the least severe lines that are logged"),
    ("telemetry.otlp", "where traces are sent; nowhere unless set"),
    ("trust", "whose signatures count"),
];

/// The schema of the field at this path.
fn at<'a>(schema: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut here = schema;
    for step in path.split('.') {
        let name = step.trim_end_matches("[]");
        here = here.get_mut("properties")?.get_mut(name)?;
        if step.ends_with("[]") {
            here = here.get_mut("items")?;
        }
    }
    Some(here)
}

/// Describes the field at this path.
pub(super) fn say(schema: &mut Value, path: &str, text: &str) {
    if let Some(members) = at(schema, path).and_then(Value::as_object_mut) {
        members.insert("description".into(), text.into());
    }
}

/// Describes every field that has no words yet in those of the same field over there.
pub(super) fn fill(schema: &mut Value, from: &Value) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, field) in properties {
            let Some(theirs) = from.get("properties").and_then(|all| all.get(name)) else {
                continue;
            };
            if let (Some(members), Some(text)) = (field.as_object_mut(), theirs.get("description"))
            {
                members.entry("description").or_insert_with(|| text.clone());
            }
            fill(field, theirs);
        }
    }
    for inner in ["items", "additionalProperties"] {
        if let (Some(schema), Some(from)) = (schema.get_mut(inner), from.get(inner)) {
            fill(schema, from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::schema;

    /// Counts fields below; those without words, by their paths.
    fn count(schema: &Value, path: &str, bare: &mut Vec<String>) -> usize {
        let mut all = 0;
        for (name, field) in
            schema.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let path = format!("{path}.{name}");
            let text = field.get("description").and_then(Value::as_str).unwrap_or_default();
            if text.len() < 5 {
                bare.push(path.clone());
            }
            all += 1 + count(field, &path, bare);
        }
        for inner in ["items", "additionalProperties"] {
            let below = schema.get(inner).map(|below| count(below, &format!("{path}[]"), bare));
            all += below.unwrap_or_default();
        }
        all
    }

    #[test]
    fn every_field_of_the_configuration_is_described_tools_included() {
        let (schema, mut bare) = (schema(), Vec::new());
        let all = count(&schema, "", &mut bare);
        assert_eq!(
            bare,
            Vec::<String>::new(),
            "{} of {all} fields have no description",
            bare.len()
        );
        assert!(all > 320, "{all}");
        let tools = count(&schema["properties"]["tools"]["items"], "", &mut bare);
        assert!(tools > 100, "{tools}");
    }

    #[test]
    fn every_word_is_about_a_field_that_is_there() {
        let mut schema = schema();
        for (path, _) in WORDS {
            assert!(at(&mut schema, path).is_some(), "{path}");
        }
    }

    /// What the hand-made schema of servers lets pass is what the types take: no field more, none less.
    #[test]
    fn the_schema_of_servers_has_the_fields_of_its_types() {
        fn names(schema: &Value, path: &str, into: &mut Vec<String>) {
            for (name, field) in
                schema.get("properties").and_then(Value::as_object).into_iter().flatten()
            {
                let path = format!("{path}.{name}");
                into.push(path.clone());
                names(field, &path, into);
            }
            for inner in ["items", "additionalProperties"] {
                schema
                    .get(inner)
                    .into_iter()
                    .for_each(|below| names(below, &format!("{path}[]"), into));
            }
        }
        let (mut made, mut typed) = (Vec::new(), Vec::new());
        names(&schema()["properties"]["servers"]["items"], "", &mut made);
        names(&crate::catalog::server_schema(), "", &mut typed);
        made.sort();
        typed.sort();
        assert_eq!(
            made,
            typed
                .into_iter()
                .filter(|path| path != ".http.credentials[].origin")
                .collect::<Vec<_>>()
        );
    }
}
