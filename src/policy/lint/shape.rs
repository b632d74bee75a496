//! What the input document can hold, as a table: which paths exist and which values they take.
//!
//! `input.rs` builds the document; a test below holds the two against each other, so that a member
//! added there and not here is found.

/// What can stand at one place of the input.
#[derive(Debug, PartialEq)]
pub(super) enum Shape {
    /// Anything: arguments are the tool's, labels are the agent's.
    Open,
    /// Any text.
    Text,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A number.
    Number,
    /// `true` or `false`.
    Flag,
    /// Texts by names nobody fixed.
    Texts,
    /// A list of these.
    List(&'static Shape),
    /// These members and no others.
    Object(&'static [Member]),
}

/// One member of an object.
#[derive(Debug, PartialEq)]
pub(super) struct Member {
    pub name: &'static str,
    pub shape: Shape,
    /// Whether it is there in every input; an effect has those of its kind alone.
    pub always: bool,
}

/// One step of a path: a name, or a bracket whose value is not written out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step<'a> {
    Name(&'a str),
    Any,
}

/// What a path of the input leads to.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    /// Nothing, ever: the step of this index has no such member; this one is near.
    Never { at: usize, near: Option<&'static str> },
    /// This. `always`: in every input.
    There { shape: &'static Shape, always: bool },
    /// What cannot be said without a call.
    Unknown,
}

const fn has(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, always: true }
}

const fn may(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, always: false }
}

/// Kinds of tools that this build can bind.
pub(super) const BUILT: [&str; 10] = [
    "http",
    "fetch",
    "file.read",
    "file.list",
    "file.write",
    "mcp",
    "command",
    "model",
    "sql",
    "grpc",
];

/// Kinds of tools: those of this build and those the vocabulary reserves, so that a policy written for
/// both is no fault.
pub(super) const KINDS: [&str; 10] = [
    "http",
    "file.read",
    "mcp",
    "command",
    "file.write",
    "file.list",
    "grpc",
    "fetch",
    "sql",
    "model",
];

const LAYERS: Shape = Shape::OneOf(&["org", "team", "agent"]);
const WEEKDAYS: &[&str] =
    &["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// The whole document.
pub(super) static INPUT: Shape = Shape::Object(&[
    has("v", Shape::OneOf(&[crate::input::VERSION])),
    has(
        "agent",
        Shape::Object(&[
            has("id", Shape::Text),
            has("version", Shape::Text),
            has("owner", Shape::Text),
            has("labels", Shape::Texts),
            has("manifest", Shape::Text),
            has("binding", Shape::OneOf(&["unclaimed", "claimed", "observed"])),
            has("tier3", Shape::OneOf(&["unclaimed", "claimed", "observed"])),
            has(
                "delegation",
                Shape::List(&Shape::Object(&[
                    has("id", Shape::Text),
                    has("version", Shape::Text),
                    has("manifest", Shape::Text),
                    has("run", Shape::Text),
                ])),
            ),
        ]),
    ),
    has(
        "run",
        Shape::Object(&[
            has("id", Shape::Text),
            has("mode", Shape::OneOf(&["enforce", "simulate"])),
            has("incognito", Shape::Flag),
            has("opened_at", Shape::Text),
            has("calls", Shape::Number),
            has("errors", Shape::Number),
            has("cost", Shape::Number),
            has("labels", Shape::Texts),
        ]),
    ),
    has(
        "tool",
        Shape::Object(&[
            has("name", Shape::Text),
            has("kind", Shape::OneOf(&KINDS)),
            has("tier", Shape::OneOf(&["T0", "T1", "T2", "T3"])),
            has("read_only", Shape::Flag),
            has("definition", Shape::Text),
        ]),
    ),
    has("call", Shape::Object(&[has("id", Shape::Text)])),
    has("args", Shape::Open),
    has("effect", EFFECT),
    has("context", Shape::Object(&[has("attested", Shape::Texts), has("claimed", Shape::Texts)])),
    has(
        "time",
        Shape::Object(&[
            has("rfc3339", Shape::Text),
            has("unix", Shape::Number),
            has("weekday", Shape::OneOf(WEEKDAYS)),
            has("hour", Shape::Number),
            has("minute", Shape::Number),
            has("tz", Shape::OneOf(&["UTC"])),
        ]),
    ),
    has(
        "findings",
        Shape::List(&Shape::Object(&[has("kind", Shape::Text), has("path", Shape::Text)])),
    ),
    has(
        "approvals",
        Shape::List(&Shape::Object(&[
            has("approver", Shape::Text),
            has("roles", Shape::List(&Shape::Text)),
            has("key", Shape::Text),
        ])),
    ),
    has("quorum", Shape::Object(&[has("by_hand", Shape::List(&LAYERS))])),
    has(
        "break_glass",
        Shape::Object(&[
            has("open", Shape::Flag),
            has("nonce", Shape::Text),
            has("until", Shape::Text),
            has("by", Shape::List(&Shape::Text)),
        ]),
    ),
    has(
        "pools",
        Shape::List(&Shape::Object(&[
            has("name", Shape::Text),
            has("unit", Shape::OneOf(&["requests", "cost_micro_usd", "concurrency"])),
            has("left_permille", Shape::Number),
            has("size", Shape::Number),
        ])),
    ),
    has("observe", Shape::List(&LAYERS)),
    has(
        "history",
        Shape::Object(&[
            has("calls", Shape::Number),
            has("errors", Shape::Number),
            has("denied", Shape::Number),
        ]),
    ),
]);

/// The members of every kind of effect.
const EFFECT: Shape = Shape::Object(&[
    has("kind", Shape::OneOf(&["none", "http", "file", "model", "mcp", "command", "sql", "grpc"])),
    may("method", Shape::Text),
    may("scheme", Shape::OneOf(&["http", "https"])),
    may("host", Shape::Text),
    may("port", Shape::Number),
    may("path", Shape::Text),
    may(
        "query",
        Shape::List(&Shape::Object(&[has("name", Shape::Text), has("value", Shape::Text)])),
    ),
    may("body_bytes", Shape::Number),
    may("access", Shape::OneOf(&["read", "write", "list"])),
    may("root", Shape::Text),
    may("file_kind", Shape::Text),
    may("size", Shape::Number),
    may("mode", Shape::Number),
    may("operation", Shape::OneOf(&["create", "replace", "delete"])),
    may("bytes", Shape::Number),
    may("sha256", Shape::Text),
    may("before_sha256", Shape::Text),
    may("model", Shape::Text),
    may(
        "upstreams",
        Shape::List(&Shape::Object(&[
            has("name", Shape::Text),
            has("api", Shape::OneOf(&["openai", "ollama"])),
            has("host", Shape::Text),
            has("port", Shape::Number),
            has("model", Shape::Text),
        ])),
    ),
    may("messages", Shape::Number),
    may("output_tokens_max", Shape::Number),
    may("functions", Shape::List(&Shape::Text)),
    may("server", Shape::Text),
    may("transport", Shape::OneOf(&["stdio", "http"])),
    may("name", Shape::Text),
    may("program", Shape::Text),
    may("digest", Shape::Text),
    may("argv", Shape::List(&Shape::Text)),
    may("sandbox", Shape::OneOf(&["S1", "S2"])),
    may("workspace", Shape::OneOf(&["none", "per_call", "run"])),
    may("engine", Shape::OneOf(&["postgres", "sqlite"])),
    may("database", Shape::Text),
    may("statement", Shape::OneOf(&["select", "insert", "update", "delete", "merge"])),
    may("named_query", Shape::Text),
    may("relations", Shape::List(&Shape::Text)),
    may("params", Shape::Number),
    may("sql_sha256", Shape::Text),
    may("service", Shape::Text),
    may("request_bytes", Shape::Number),
]);

/// Follows a path below `input`.
pub(super) fn find(steps: &[Step<'_>]) -> Found {
    below(&INPUT, steps)
}

/// What a path leads to that begins at a place of this shape, which is there.
pub(super) fn below(shape: &'static Shape, steps: &[Step<'_>]) -> Found {
    let (mut shape, mut always) = (shape, true);
    for (at, step) in steps.iter().enumerate() {
        let never = |near| Found::Never { at, near };
        shape = match (shape, step) {
            (Shape::Object(members), Step::Name(name)) => {
                let Some(member) = members.iter().find(|member| member.name == *name) else {
                    return never(nearest(name, members));
                };
                always &= member.always;
                &member.shape
            }
            (Shape::List(item), Step::Any) => {
                always = false;
                item
            }
            (Shape::Texts, _) => {
                always = false;
                &Shape::Text
            }
            (Shape::Object(_), Step::Any) | (Shape::Open, _) => return Found::Unknown,
            // A list has numbers, and a value that is no collection has no members.
            (Shape::List(_), Step::Name(_)) => return never(None),
            (Shape::Text | Shape::OneOf(_) | Shape::Number | Shape::Flag, _) => return never(None),
        };
    }
    Found::There { shape, always }
}

/// The member whose name takes the fewest changes, if they are few for its length.
fn nearest(name: &str, members: &'static [Member]) -> Option<&'static str> {
    let near = members
        .iter()
        .map(|member| (crate::domain::near::changes(name, member.name), member.name))
        .min()?;
    (near.0 <= (near.1.len() / 2).min(2)).then_some(near.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::effect::{Change, Effect, Grpc, Sql, Upstream};

    #[test]
    fn every_member_of_every_effect_is_in_the_table() {
        let text = |text: &str| text.to_owned();
        let query = vec![(text("q"), text("v"))];
        let (method, scheme, host, path) = (text("GET"), text("https"), text("h"), text("/"));
        let http = Effect::Http { method, scheme, host, port: 1, path, query, body_bytes: 0 };
        let (access, root, path, kind) = (text("read"), text("r"), text("p"), text("regular"));
        let change = Some(Change {
            operation: text("create"),
            bytes: 0,
            sha256: text("a"),
            before_sha256: String::new(),
        });
        let file = Effect::File { access, root, path, kind, size: 0, mode: 0, change };
        let (server, transport, method, name) = (text("s"), text("stdio"), text("m"), text("n"));
        let mcp = Effect::Mcp { server, transport, method, name };
        let (name, api, host, model) = (text("u"), text("ollama"), text("h"), text("m"));
        let upstreams = vec![Upstream { name, api, host, port: 1, model: model.clone() }];
        let functions = vec![text("f")];
        let (messages, output_tokens_max, body_bytes) = (1, 1, 1);
        let model =
            Effect::Model { model, upstreams, messages, output_tokens_max, functions, body_bytes };
        let (program, digest, argv) = (text("/p"), text("sha256:"), vec![text("a")]);
        let (sandbox, workspace) = (text("S2"), text("none"));
        let command = Effect::Command { program, digest, argv, sandbox, workspace };
        let sql = Effect::Sql(Box::new(Sql {
            engine: text("postgres"),
            server: Some((text("h"), 1)),
            database: text("d"),
            statement: text("select"),
            named_query: Some(text("q")),
            relations: vec![text("public.t")],
            functions: vec![text("count")],
            params: 1,
            sql_sha256: text("00"),
        }));
        let (scheme, host, port) = (text("https"), text("h"), 1);
        let (service, method, request_bytes) = (text("s"), text("M"), 1);
        let grpc = Effect::Grpc(Grpc { scheme, host, port, service, method, request_bytes });
        for effect in [Effect::None, http, file, model, mcp, command, sql, grpc] {
            let json = effect.to_json();
            for (name, value) in json.as_object().unwrap() {
                let found = find(&[Step::Name("effect"), Step::Name(name)]);
                let Found::There { shape, .. } = found else { panic!("effect.{name}: {found:?}") };
                let fits = match (shape, value.as_str()) {
                    (Shape::OneOf(all), Some(text)) => all.contains(&text),
                    (Shape::Text, text) => text.is_some(),
                    (Shape::Number, _) => value.as_u64().is_some(),
                    (Shape::List(_), _) => value.as_array().is_some(),
                    (_, _) => false,
                };
                assert!(fits, "effect.{name}: {value:?}");
            }
        }
    }

    #[test]
    fn a_path_leads_to_what_the_document_holds_or_to_nothing() {
        let names = |path: &'static str| path.split('.').map(Step::Name).collect::<Vec<_>>();
        let there = |shape, always| Found::There { shape, always };
        assert_eq!(find(&names("tool.read_only")), there(&Shape::Flag, true));
        assert_eq!(find(&names("effect.host")), there(&Shape::Text, false));
        assert_eq!(find(&names("agent.labels.team")), there(&Shape::Text, false));
        assert_eq!(find(&names("args.anything.at_all")), Found::Unknown);
        let list = [Step::Name("findings"), Step::Any, Step::Name("kind")];
        assert_eq!(find(&list), there(&Shape::Text, false));
        assert_eq!(find(&names("findings.kind")), Found::Never { at: 1, near: None });
        assert_eq!(find(&names("tool.naem")), Found::Never { at: 1, near: Some("name") });
        assert_eq!(find(&names("tol.name")), Found::Never { at: 0, near: Some("tool") });
        assert_eq!(find(&names("tool.name.x")), Found::Never { at: 2, near: None });
        assert_eq!(find(&names("tool.zzzzzzz")), Found::Never { at: 1, near: None });
    }
}
