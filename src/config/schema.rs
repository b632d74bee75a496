//! The JSON Schema of `wicketgate.yaml`: what `config schema` prints, and what the file is checked by.

use serde_json::{Value, json};

use super::words;

/// JSON Schema 2020-12 with descriptions and defaults. `x-error` is what a person is told instead
/// of a pattern.
#[must_use]
pub fn schema() -> Value {
    let mut schema = fields();
    for (path, text) in words::WORDS {
        words::say(&mut schema, path, text);
    }
    if let Some(servers) = schema.pointer_mut("/properties/servers/items") {
        words::fill(servers, &crate::catalog::server_schema());
    }
    schema
}

/// What may be written where. Some fields have their words from elsewhere.
fn fields() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "wicketgate.yaml",
        "type": "object",
        "additionalProperties": false,
        "required": ["trust", "agents"],
        "properties": {
            "state": described(path(), "directory of everything the process keeps; default $XDG_STATE_HOME/wicketgate, else ~/.local/state/wicketgate"),
            "listen": section(&json!({
                "socket": {"type": ["string", "null"], "minLength": 1,
                    "description": "the agent socket; default agent.sock in the state directory; null switches it off"},
                "tcp": {"type": ["string", "null"], "default": null,
                    "description": "address for agents with tokens, such as 127.0.0.1:7300: a loopback one, unless there is `tls`; off unless set"},
                "tls": super::tls::schema(&|text| described(path(), text), true),
            })),
            "operator": section(&json!({
                "listen": {"type": "string", "default": "127.0.0.1:7301",
                    "description": "address of health, readiness, metrics and the operators' requests: a loopback one, unless there is `tls`"},
                "tls": super::tls::schema(&|text| described(path(), text), true),
            })),
            "operators": super::operators::operators(&|text| described(path(), text)),
            "approvals": super::operators::approvals(&|text| described(path(), text)),
            "hub": super::hub::schema(&|text| described(path(), text)),
            "enrolment": super::enrolment::schema(&|text| described(path(), text)),
            "ledger": ledger(),
            "fleet": super::fleet::schema(&|text| described(path(), text)),
            "evidence": super::evidence::schema(&|text| described(path(), text)),
            "trust": trust(),
            "policy": section(&json!({
                "bundle": {"type": ["string", "null"], "minLength": 1, "default": null,
                    "description": "directory of the signed policy bundle; without one every call is denied"},
                "deadline_ms": number(100, 1, 10_000, "milliseconds one evaluation may take"),
                "lint": {"enum": ["enforce", "warn"], "type": "string", "default": "enforce", "x-error": "expected `enforce` or `warn`",
                    "description": "whether a bundle in which `policy lint` finds an error is refused, or put in force with a note"},
                "amendments": {"enum": ["off", "required"], "default": "off",
                    "x-error": "expected `off` or `required`",
                    "description": "`required`: a new bundle replaces the one in force only if it was proposed and approved on the books"},
                "approvals": number(1, 1, 16, "publishers that must approve an amendment; its author never counts"),
            })),
            "agents": {"type": "array", "minItems": 1, "maxItems": 256, "items": agent(),
                "x-error": "expected 1 to 256 agents, each {manifest, callers}"},
            "tools": {"type": "array", "maxItems": 4096, "default": [], "items": crate::catalog::tool_schema(),
                "description": "how the operator's own tools are really reached"},
            "servers": {"type": "array", "maxItems": 256, "default": [], "items": server(),
                "description": "MCP servers; their tools exist once a signed lock pins them"},
            "lock": {"type": ["string", "null"], "minLength": 1, "maxLength": 4096, "default": null,
                "description": "signed lock of the servers' tools, its envelope beside it as <file>.sig.json; default tools.lock once there are servers"},
            "control": section(&json!({
                "switch_file": described(path(), "file that stops calls while it is there; default switch in the state directory"),
            })),
            "replay": replay(),
            "self_test": super::isolation::self_test(),
            "isolation": super::isolation::isolation(),
            "posture": super::isolation::posture(),
            "limits": limits(),
            "pools": super::pools::schema(),
            "retention": super::retention::retention(),
            "encryption": super::retention::encryption(),
            "telemetry": section(&json!({
                "log": {"enum": ["error", "warn", "info", "debug", "trace"], "type": "string", "default": "info",
                    "x-error": "expected `error`, `warn`, `info`, `debug` or `trace`"},
                "otlp": super::telemetry::otlp(&|text| described(path(), text)),
            })),
            "attested": {"type": "object", "maxProperties": 64, "default": {},
                "description": "labels policies read as input.context.attested",
                "additionalProperties": {"type": "string", "maxLength": 256, "x-error": "expected text of at most 256 characters"}},
        },
    })
}

/// `replay`.
fn replay() -> Value {
    section(&json!({
        "recordings": {"type": ["string", "null"], "minLength": 1, "maxLength": 4096, "default": null, "x-error": "expected a path",
            "description": "directory of recordings that a run may go on from (OpenRun.fork_at), each named <sha256>.recording; none by default"},
    }))
}

fn described(mut schema: Value, text: &str) -> Value {
    if let Some(members) = schema.as_object_mut() {
        members.insert("description".into(), text.into());
    }
    schema
}

/// A section that may be left out.
pub(super) fn section(properties: &Value) -> Value {
    json!({"type": "object", "additionalProperties": false, "default": {}, "properties": properties})
}

fn path() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 4096, "x-error": "expected a path"})
}

pub(super) fn number(default: u64, least: u64, most: u64, text: &str) -> Value {
    json!({"type": "integer", "minimum": least, "maximum": most, "default": default,
        "description": text, "x-error": format!("expected a whole number from {least} to {most}")})
}

fn optional(default: u64, most: u64, text: &str) -> Value {
    json!({"type": ["integer", "null"], "minimum": 1, "maximum": most, "default": default,
        "description": text, "x-error": format!("expected a whole number from 1 to {most}, or null")})
}

fn keys(text: &str) -> Value {
    json!({"type": "array", "maxItems": 64, "default": [], "items": path(), "description": text})
}

fn ledger() -> Value {
    json!({"type": "object", "additionalProperties": false, "maxProperties": 1, "default": {},
        "x-error": "expected exactly one of `sqlite` and `postgres`",
        "properties": {
        "sqlite": {"type": "object", "additionalProperties": false, "properties": {
            "path": described(path(), "database file; default ledger.sqlite in the state directory")}},
        "postgres": {"type": "object", "additionalProperties": false, "properties": {
            "url": {"type": "string", "description": "connection URL without a password"},
            "url_file": described(path(), "file of mode 0600 that holds the connection URL"),
            "url_env": {"type": "string", "minLength": 1, "description": "environment variable that holds the connection URL"},
            "tenant": {"type": "string", "pattern": "^[a-z0-9_-]{1,63}$", "default": "default",
                "x-error": "expected a tenant: [a-z0-9_-]{1,63}"},
            "slots": {"type": "string", "default": "local", "pattern": "^[a-z0-9-]{1,63}(/[a-z0-9-]{1,63})?$", "description": "the pool of slots this sidecar takes one of: local, or <namespace>/<service account>"},
            "spool": described(path(), "directory for the exact bytes of the last batches; default spool in the state directory"),
            "lease_seconds": number(15, 2, 300, "seconds after which the slot of a sidecar that went silent may be taken over"),
            "accept_failover_loss": {"type": "boolean", "default": false, "x-error": "expected `true` or `false`",
                "description": "serve although a fail-over may lose acknowledged entries"},
            "accept_unverified_server": {"type": "boolean", "default": false, "x-error": "expected `true` or `false`",
                "description": "connect beyond this machine although `sslmode` is weaker than `verify-full`"},
        }},
    }})
}

fn trust() -> Value {
    json!({"type": "object", "additionalProperties": false, "required": ["manifest_keys"], "properties": {
        "manifest_keys": {"type": "array", "minItems": 1, "maxItems": 64, "items": path(),
            "description": "public key files (PEM) of those who sign manifests",
            "x-error": "expected 1 to 64 public key files"},
        "manifest_threshold": number(1, 1, 64, "how many of them must have signed"),
        "policy_keys": keys("public key files (PEM) of those who sign policy bundles; never the same keys"),
        "policy_threshold": number(1, 1, 64, "how many of them must have signed"),
        "approver_keys": keys("public key files (PEM) of those who sign the list of approvers; never the same keys"),
        "approver_threshold": number(1, 1, 64, "how many of them must have signed"),
        "break_glass": super::break_glass::schema(&|text| described(path(), text)),
        "lock_keys": keys("public key files (PEM) of those who sign locks of MCP servers; one signature is enough"),
    }})
}

fn server() -> Value {
    let closed = |required: Value, properties: Value| {
        json!({"type": "object", "additionalProperties": false, "required": required,
            "properties": properties})
    };
    let text = || json!({"type": "string", "x-error": "expected text"});
    let texts = || json!({"type": "object", "maxProperties": 256, "additionalProperties": text()});
    let tier = || json!({"enum": ["T0", "T1", "T2", "T3"], "x-error": "expected `T0`, `T1`, `T2` or `T3`"});
    let flag = || json!({"type": "boolean", "x-error": "expected `true` or `false`"});
    let count = |most: u64| {
        json!({"type": "integer", "minimum": 1, "maximum": most,
            "x-error": format!("expected a whole number from 1 to {most}")})
    };
    let stdio = closed(
        json!(["command"]),
        json!({
            "command": described(path(), "a path with a slash, relative to this file, or a name found in PATH"),
            "args": {"type": "array", "maxItems": 1024, "items": text()},
            "env": texts(),
            "credentials": {"type": "array", "maxItems": 64, "items": closed(json!(["env"]), json!({
                "env": text(), "file": path(), "from_env": text(), "value": {}}))},
            "cwd": path(),
            "sandbox": super::own::sandbox(&|text| described(path(), text)),
        }),
    );
    let http = closed(
        json!(["url"]),
        json!({
            "url": text(),
            "headers": texts(),
            "private_addresses": {"type": "array", "maxItems": 64, "items": text()},
            "ca_file": path(),
            "credentials": {"type": "array", "maxItems": 64, "items": closed(json!([]), json!({
                "header": text(), "query": text(), "prefix": text(), "file": path(), "env": text(), "value": {}}))},
        }),
    );
    let said = closed(
        json!([]),
        json!({"tier": tier(), "read_only": flag(), "idempotent": flag(), "timeout_ms": count(600_000),
            "cost_micro_usd": {"type": "integer", "minimum": 0, "maximum": 1_000_000_000_000_000_u64,
                "x-error": "expected millionths of a US dollar, a whole number from 0"},
            "dedupe_ms": described(count(600_000), "for how long the same call under another id is the first one; default never")}),
    );
    closed(
        json!(["name"]),
        json!({
            "name": {"type": "string", "pattern": "^[a-z0-9_-]{1,32}$",
                "x-error": "expected the name of a server: [a-z0-9_-]{1,32}"},
            "stdio": stdio,
            "http": http,
            "tier": described(tier(), "tier of its tools that have none of their own; default T3"),
            "timeout_ms": count(600_000),
            "result_bytes_max": count(8_388_608),
            "tools": {"type": "object", "maxProperties": 1024, "additionalProperties": said,
                "description": "what the operator says of single tools and methods, by the server's own names"},
        }),
    )
}

fn agent() -> Value {
    json!({"type": "object", "additionalProperties": false, "required": ["manifest", "callers"], "properties": {
        "manifest": described(path(), "signed manifest; its envelope lies beside it as <file>.sig.json"),
        "ordered": {"type": "boolean", "default": false, "x-error": "expected `true` or `false`",
            "description": "calls of one run are walked one at a time, in the order in which they arrive"},
        "callers": {"type": "array", "minItems": 1, "maxItems": 256, "x-error": "expected 1 to 256 callers",
            "items": {"type": "object", "additionalProperties": false, "properties": {
                "socket": path(),
                "uid": {"type": "integer", "minimum": 0, "maximum": 4_294_967_294_u64, "x-error": "expected a uid"},
                "token_file": path(),
                "spiffe": {"type": "string", "maxLength": 2048, "x-error": "expected a SPIFFE id",
                    "description": "the SPIFFE id in its client certificate, under `listen.tls`"},
                "certificate": {"type": "string", "maxLength": 128, "x-error": "expected `sha256:` and 64 hex digits",
                    "description": "the thumbprint of its client certificate, under `listen.tls`"},
                "k8s_service_account": {},
            }}},
    }})
}

fn limits() -> Value {
    section(&json!({
        "in_flight_max": number(512, 1, 65_536, "calls in progress"),
        "sandboxes_max": number(crate::tool::sandbox::PLACES, 1, 4096, "commands that run in sandboxes at once, over all agents; each configured agent has an equal share for itself"),
        "open_runs_max": number(1024, 1, 65_536, "open runs"),
        "run_idle_seconds": number(3600, 1, 604_800, "seconds until a run of which nothing is asked is sealed, where its agent opened it by name"),
        "run_wall_seconds": number(86_400, 1, 31_536_000, "seconds a run may be open whose manifest sets no `wall_seconds`"),
        "hold_seconds": number(900, 1, 86_400, "seconds until a held call expires"),
        "commit_wait_ms": number(4000, 100, 4500, "milliseconds a caller waits for the ledger"),
        "queue_wait_ms": number(1000, 0, 4000, "milliseconds a call waits for its turn"),
        "drain_seconds": number(20, 0, 3600, "seconds calls in progress get at shutdown"),
        "requests_per_second": optional(10_000, 100_000, "requests one caller may make each second in the long run, openings of runs included; null switches it off"),
        "burst": number(20_000, 1, 1_000_000, "requests one caller may make at once after a rest"),
        "denials_max": optional(1000, 100_000, "denials of one caller, all its runs together, within a minute after which a run with one more is suspended, and no other is opened; null switches it off"),
        "alarm_rest_seconds": optional(3600, 604_800, "seconds for which a caller may open no run and begin no call after one whose arguments hold a credential of the gate; its run stays suspended; null: such a call is denied, and suspends nobody"),
        "tool_denials_max": optional(100, 100_000, "denials of one tool in one run after which the run may not call it any more; null switches it off"),
        "ordered_wait_ms": number(30_000, 1, 600_000, "milliseconds a call of an ordered run waits for the one before it"),
        "batch_t0": {"type": "boolean", "default": false, "x-error": "expected `true` or `false`",
            "description": "results of T0 tools that only read are released before their outcome is on the books, which follows within 50 ms"},
    }))
}
