//! The policies' view of the kinds of tools: the members of each effect, a call of each kind that
//! no rule names, and the conditions of suggested rules about it. A new kind: one arm in each
//! function.

use crate::domain::dialect::Dialect;
use crate::domain::effect::{Change, DatabaseServer, Effect, EffectKind, Grpc, Sql, ToolKind};
use crate::lint::shape::{Member, Shape, has, may};

/// The member that every effect has.
pub(crate) static KIND: Member = has("kind", Shape::OneOf(EffectKind::TEXTS));

/// The other members of an effect of this kind. A member name shared by several kinds has one
/// shape.
pub(crate) const fn members(kind: EffectKind) -> &'static [Member] {
    match kind {
        EffectKind::None => &[],
        EffectKind::Http => HTTP,
        EffectKind::File => FILE,
        EffectKind::Model => MODEL,
        EffectKind::Mcp => MCP,
        EffectKind::Command => COMMAND,
        EffectKind::Sql => SQL,
        EffectKind::Grpc => GRPC,
        EffectKind::Client => CLIENT,
    }
}

const SCHEME: Shape = Shape::OneOf(&["http", "https"]);
/// What a write does to a file, or what a model is asked for.
const OPERATION: Shape = Shape::OneOf(&["create", "replace", "delete", "generate", "count_tokens"]);
const HTTP: &[Member] = &[
    may("method", Shape::Text),
    may("scheme", SCHEME),
    may("host", Shape::Text),
    may("port", Shape::Number),
    may("path", Shape::Text),
    may(
        "query",
        Shape::List(&Shape::Object(&[has("name", Shape::Text), has("value", Shape::Text)])),
    ),
    may("body_bytes", Shape::Number),
];
const FILE: &[Member] = &[
    may("access", Shape::OneOf(&["read", "write", "list"])),
    may("root", Shape::Text),
    may("path", Shape::Text),
    may("file_kind", Shape::Text),
    may("size", Shape::Number),
    may("mode", Shape::Number),
    may("operation", OPERATION),
    may("bytes", Shape::Number),
    may("sha256", Shape::Text),
    may("before_sha256", Shape::Text),
];
const MODEL: &[Member] = &[
    may("model", Shape::Text),
    may(
        "upstreams",
        Shape::List(&Shape::Object(&[
            has("name", Shape::Text),
            has("api", Shape::OneOf(&["openai", "openai.responses", "anthropic", "ollama"])),
            has("host", Shape::Text),
            has("port", Shape::Number),
            has("model", Shape::Text),
        ])),
    ),
    may("messages", Shape::Number),
    may("new_messages", Shape::Number),
    may("messages_cut", Shape::Number),
    may("images", Shape::Number),
    may("output_tokens_max", Shape::Number),
    may("functions", Shape::List(&Shape::Text)),
    may("body_bytes", Shape::Number),
    may("dialect", Shape::OneOf(Dialect::TEXTS)),
    may("operation", OPERATION),
    may("stream", Shape::Flag),
    may("files", Shape::Number),
    may("betas", Shape::List(&Shape::Text)),
    may("loose_bytes", Shape::Number),
    may(
        "instructions",
        Shape::List(&Shape::Object(&[
            may("name", Shape::Text),
            has("place", Shape::OneOf(&["leading", "mid"])),
            may("scope", Shape::Text),
            has("sha256", Shape::Text),
        ])),
    ),
    may(
        "offered",
        Shape::List(&Shape::Object(&[
            has("definition", Shape::OneOf(&["same", "differs", "unpinned"])),
            has("kind", Shape::OneOf(&["governed", "client", "hosted", "unknown"])),
            has("name", Shape::Text),
            may("tool", Shape::Text),
        ])),
    ),
    may("tool_choice", Shape::Text),
];
const CLIENT: &[Member] = &[may("name", Shape::Text)];
const MCP: &[Member] = &[
    may("server", Shape::Text),
    may("transport", Shape::OneOf(&["stdio", "http"])),
    may("method", Shape::Text),
    may("name", Shape::Text),
];
const COMMAND: &[Member] = &[
    may("program", Shape::Text),
    may("digest", Shape::Text),
    may("argv", Shape::List(&Shape::Text)),
    may("sandbox", Shape::OneOf(&["S1", "S2"])),
    may("workspace", Shape::OneOf(&["none", "per_call", "run", "directory"])),
];
const SQL: &[Member] = &[
    may("engine", Shape::OneOf(&["postgres", "sqlite"])),
    may("host", Shape::Text),
    may("port", Shape::Number),
    may("database", Shape::Text),
    may("statement", Shape::OneOf(&["select", "insert", "update", "delete", "merge"])),
    may("named_query", Shape::Text),
    may("relations", Shape::List(&Shape::Text)),
    may("functions", Shape::List(&Shape::Text)),
    may("params", Shape::Number),
    may("sql_sha256", Shape::Text),
];
const GRPC: &[Member] = &[
    may("scheme", SCHEME),
    may("host", Shape::Text),
    may("port", Shape::Number),
    may("service", Shape::Text),
    may("method", Shape::Text),
    may("request_bytes", Shape::Number),
];

/// The members of all effects, each name once.
pub(crate) fn all_members() -> impl Iterator<Item = &'static Member> {
    let mut names = std::collections::BTreeSet::new();
    let kinds = EffectKind::ALL.iter().flat_map(|kind| members(*kind));
    std::iter::once(&KIND).chain(kinds).filter(move |member| names.insert(member.name))
}

/// A call of a tool of this kind to a target with this name, which no bundle contains.
pub(crate) fn unnamed(kind: ToolKind, name: &str) -> Effect {
    let text = str::to_owned;
    let http = |method: &str| Effect::Http {
        method: text(method),
        scheme: text("https"),
        host: text("zz-lint-probe.invalid"),
        port: 443,
        path: text("/zz"),
        query: Vec::new(),
        body_bytes: 0,
    };
    let file = |access: &str, file_kind: &str, change: Option<Change>| Effect::File {
        access: text(access),
        root: text(name),
        path: text(name),
        kind: text(file_kind),
        size: 0,
        mode: 0,
        change,
    };
    match kind {
        ToolKind::Http => http("POST"),
        ToolKind::Fetch => http("GET"),
        ToolKind::FileRead => file("read", "regular", None),
        ToolKind::FileList => file("list", "directory", None),
        ToolKind::FileWrite => {
            let change = Change {
                operation: text("replace"),
                bytes: 0,
                sha256: text(name),
                before_sha256: text(name),
            };
            file("write", "regular", Some(change))
        }
        ToolKind::Model => unnamed_model(name),
        ToolKind::Client => Effect::Client { name: text(name) },
        ToolKind::Mcp => Effect::Mcp {
            server: text(name),
            transport: text("stdio"),
            method: text("tools/call"),
            name: text(name),
        },
        ToolKind::Command => Effect::Command {
            program: text("/zz/lint/probe"),
            digest: format!("sha256:{}", "0".repeat(64)),
            argv: vec![text(name)],
            sandbox: text("S1"),
            workspace: text("per_call"),
        },
        ToolKind::Sql => Effect::Sql(Box::new(unnamed_sql(name))),
        ToolKind::Grpc => Effect::Grpc(Grpc {
            scheme: text("https"),
            host: text("zz-lint-probe.invalid"),
            port: 443,
            service: text(name),
            method: text(name),
            request_bytes: 0,
        }),
    }
}

fn unnamed_model(name: &str) -> Effect {
    Effect::Model {
        model: name.to_owned(),
        upstreams: Vec::new(),
        messages: 0,
        new_messages: 0,
        messages_cut: 0,
        images: 0,
        output_tokens_max: 0,
        functions: Vec::new(),
        body_bytes: 0,
        request: None,
    }
}

fn unnamed_sql(name: &str) -> Sql {
    let text = str::to_owned;
    Sql {
        engine: text("postgres"),
        server: Some(DatabaseServer { host: text("zz-lint-probe.invalid"), port: 5432 }),
        database: text(name),
        statement: text("delete"),
        named_query: Some(text(name)),
        relations: vec![text(name)],
        functions: Vec::new(),
        params: 0,
        sql_sha256: text(name),
    }
}

/// The members of one kind of effect that a suggested rule has conditions on.
#[derive(Default)]
pub(crate) struct Conditions {
    /// One of the recorded values.
    pub words: &'static [&'static str],
    /// In the directory of the recorded values, or like them.
    pub paths: &'static [&'static str],
    /// Lists whose every item was recorded.
    pub lists: &'static [&'static str],
}

/// The other members follow from the arguments, which have conditions of their own, or from the
/// binding.
pub(crate) fn conditions(kind: EffectKind) -> Conditions {
    let words = |words| Conditions { words, ..Conditions::default() };
    match kind {
        EffectKind::None => Conditions::default(),
        EffectKind::Http => {
            Conditions { paths: &["path", "query"], ..words(&["method", "scheme", "host", "port"]) }
        }
        EffectKind::File => {
            Conditions { paths: &["path"], ..words(&["access", "root", "operation"]) }
        }
        EffectKind::Mcp => words(&["server", "transport", "method", "name"]),
        EffectKind::Sql => Conditions {
            lists: &["relations", "functions"],
            ..words(&["engine", "host", "port", "database", "statement", "named_query"])
        },
        EffectKind::Command => words(&["program", "sandbox", "workspace"]),
        EffectKind::Model => {
            Conditions { words: &["model"], paths: &["output_tokens_max"], lists: &["functions"] }
        }
        EffectKind::Grpc => words(&["scheme", "host", "port", "service", "method"]),
        EffectKind::Client => words(&["name"]),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::domain::effect::{ModelAsk, ModelInstruction, ModelTool};
    use crate::domain::json::Json;
    use crate::lint::shape::{InputTarget, PathStep, find};

    /// A request in a dialect with every member.
    fn asked() -> ModelAsk {
        let text = str::to_owned;
        let instruction = ModelInstruction {
            name: Some(text("n")),
            place: text("leading"),
            scope: Some(text("whole")),
            sha256: text("0"),
        };
        let tool = ModelTool {
            definition: text("same"),
            kind: text("governed"),
            name: text("n"),
            tool: Some(text("t")),
        };
        ModelAsk {
            dialect: text("chat"),
            operation: text("generate"),
            stream: true,
            files: 0,
            betas: vec![text("b")],
            instructions: vec![instruction],
            loose_bytes: Some(0),
            offered: vec![tool],
            tool_choice: Some(text("auto")),
        }
    }

    #[test]
    fn the_items_of_a_list_have_the_members_of_the_table() {
        let json = Json::of(&asked());
        for list in ["instructions", "offered"] {
            let all = members(EffectKind::Model);
            let shape = &all.iter().find(|member| member.name == list).unwrap().shape;
            let Shape::List(Shape::Object(members)) = shape else { panic!("{list}: {shape:?}") };
            let item = json.get(list).and_then(Json::as_array).unwrap().first().unwrap();
            let names: BTreeSet<&str> =
                item.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(names, members.iter().map(|member| member.name).collect(), "{list}");
        }
    }

    #[test]
    fn every_member_of_every_effect_is_in_the_table() {
        let upstream = crate::domain::effect::Upstream {
            name: "u".to_owned(),
            api: "ollama".to_owned(),
            host: "h".to_owned(),
            port: 1,
            model: "m".to_owned(),
        };
        let mut effects: Vec<Effect> = ToolKind::ALL.iter().map(|k| unnamed(*k, "n")).collect();
        effects.push(Effect::None);
        for effect in &mut effects {
            if let Effect::Model { upstreams, functions, request, .. } = effect {
                upstreams.push(upstream.clone());
                functions.push("f".to_owned());
                *request = Some(Box::new(asked()));
            }
        }
        for effect in effects {
            let json = effect.to_json();
            for (name, value) in json.as_object().unwrap() {
                let found = find(&[PathStep::Name("effect"), PathStep::Name(name)]);
                let InputTarget::There { shape, .. } = found else {
                    panic!("effect.{name}: {found:?}")
                };
                let fits = match (shape, value.as_str()) {
                    (Shape::OneOf(all), Some(text)) => all.contains(&text),
                    (Shape::Text, text) => text.is_some(),
                    (Shape::Number, _) => value.as_u64().is_some(),
                    (Shape::List(_), _) => value.as_array().is_some(),
                    (Shape::Flag, _) => value.as_bool().is_some(),
                    (_, _) => false,
                };
                assert!(fits, "effect.{name}: {value:?}");
            }
        }
    }

    #[test]
    fn a_tool_has_the_effect_of_its_kind_and_a_name_has_one_shape() {
        for kind in ToolKind::ALL {
            let json = unnamed(*kind, "n").to_json();
            let members = members(kind.effect());
            for (name, value) in json.as_object().unwrap() {
                let own = members.iter().any(|member| member.name == name);
                assert!(own || (name == "kind" && value.as_str() == Some(kind.effect().as_str())));
            }
        }
        for member in EffectKind::ALL.iter().flat_map(|kind| members(*kind)) {
            let first = all_members().find(|one| one.name == member.name).unwrap();
            assert_eq!(first.shape, member.shape, "{}", member.name);
        }
    }
}
