//! The kinds of tools, and what a call of each would touch, as typed facts: policies read these and never parse strings.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};
use serde_with_macros::skip_serializing_none;

use super::closed::closed;
use super::facts::Finding;
use super::json::Json;

closed! {
    /// The kinds of tools that a gate can bind (`input.tool.kind`).
    pub enum ToolKind {
        /// One HTTP request.
        Http = "http",
        /// A URL of the agent's choice.
        Fetch = "fetch",
        /// One file beneath a root.
        FileRead = "file.read",
        /// The entries of one directory beneath a root.
        FileList = "file.list",
        /// One file beneath a root, made, replaced or deleted.
        FileWrite = "file.write",
        /// One program inside a sandbox.
        Command = "command",
        /// One statement of a database.
        Sql = "sql",
        /// A model, asked at one of several upstreams.
        Model = "model",
        /// One unary method of a gRPC service.
        Grpc = "grpc",
        /// One tool or method of an MCP server.
        Mcp = "mcp",
        /// A tool that the agent runs itself, when a model asks for it.
        Client = "client",
    }
}

closed! {
    /// The kinds of effects (`input.effect.kind`).
    pub enum EffectKind {
        /// Nothing was resolved.
        None = "none",
        /// One HTTP request.
        Http = "http",
        /// One file.
        File = "file",
        /// One question to a model.
        Model = "model",
        /// One request to an MCP server.
        Mcp = "mcp",
        /// One program with its arguments.
        Command = "command",
        /// One statement of a database.
        Sql = "sql",
        /// One call of a unary method.
        Grpc = "grpc",
        /// One tool call of a model's answer, for a tool that the agent runs itself.
        Client = "client",
    }
}

impl ToolKind {
    /// The kind of effect that calls of such a tool have.
    pub const fn effect(self) -> EffectKind {
        match self {
            Self::Http | Self::Fetch => EffectKind::Http,
            Self::FileRead | Self::FileList | Self::FileWrite => EffectKind::File,
            Self::Command => EffectKind::Command,
            Self::Sql => EffectKind::Sql,
            Self::Model => EffectKind::Model,
            Self::Grpc => EffectKind::Grpc,
            Self::Mcp => EffectKind::Mcp,
            Self::Client => EffectKind::Client,
        }
    }
}

/// The facts of one prepared call (`input.effect`).
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Effect {
    /// Nothing was resolved: the call was refused before, or the tool has no effect of its own.
    None,
    /// One HTTP request.
    Http {
        /// `GET`, `POST`, …
        method: String,
        /// `http` or `https`, from the binding.
        scheme: String,
        /// Lowercase host, from the binding.
        host: String,
        /// TCP port.
        port: u16,
        /// The exact path that will be sent, percent-encoded.
        path: String,
        /// The query as decoded pairs, in order.
        #[serde(serialize_with = "pairs")]
        query: Vec<(String, String)>,
        /// Body bytes.
        body_bytes: u64,
    },
    /// One file that is already open.
    File {
        /// `read`, `write`, `list`.
        access: String,
        /// Name of the configured root.
        root: String,
        /// Path below the root, as it was resolved.
        path: String,
        /// `regular`, `directory`; `none` where a write makes it.
        #[serde(rename = "file_kind")]
        kind: String,
        /// Bytes, by fstat on the descriptor; 0 where there is nothing yet.
        size: u64,
        /// Permission bits, by fstat; what it will have where there is nothing yet.
        mode: u32,
        /// What a write makes of it.
        #[serde(flatten)]
        change: Option<Change>,
    },
    /// One question to a model.
    Model {
        /// The id that was asked for.
        model: String,
        /// Where it is asked, in order: the next only if the one before could not be reached or refused to
        /// work.
        upstreams: Vec<Upstream>,
        /// Messages of the conversation.
        messages: u64,
        /// Messages that are new to the run: those of `input.args.messages`.
        new_messages: u64,
        /// New messages whose text is too long to be shown.
        messages_cut: u64,
        /// Images in the messages.
        images: u64,
        /// Tokens it may write.
        output_tokens_max: u64,
        /// Functions it may ask to be called, by name.
        functions: Vec<String>,
        /// Body bytes.
        body_bytes: u64,
        /// What only a request in a dialect has.
        #[serde(flatten)]
        request: Option<Box<ModelAsk>>,
    },
    /// One request to an MCP server.
    Mcp {
        /// The server.
        server: String,
        /// `stdio` or `http`.
        transport: String,
        /// `tools/call`, `resources/read`, …
        method: String,
        /// The server's own name of the tool or prompt, or the URI of the resource; empty if there is none.
        name: String,
    },
    /// One program, opened and hashed, with the arguments it will get.
    Command {
        /// Its absolute path.
        program: String,
        /// SHA-256 of its bytes, `sha256:<hex>`.
        digest: String,
        /// Everything after its name, one item each.
        argv: Vec<String>,
        /// `S1` or `S2`: what it will run in, never less.
        sandbox: String,
        /// `none`, `per_call`, `run` or `directory`.
        workspace: String,
    },
    /// One statement of a database.
    Sql(Box<Sql>),
    /// One call of a unary method of a gRPC service.
    Grpc(Grpc),
    /// One tool call of a model's answer: the agent runs it.
    Client {
        /// The name of the tool, as the agent offered it.
        name: String,
    },
    /// What a recording says that the call would touch: nothing is touched again.
    #[serde(untagged, serialize_with = "recorded")]
    Recorded {
        /// `input.effect`, as it was recorded.
        effect: Json,
        /// What the firewall saw then, in what the tool made of the arguments too.
        findings: Vec<Finding>,
    },
}

/// What a request to a model in a dialect asks for.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ModelAsk {
    /// `chat`, `responses` or `messages`.
    pub dialect: String,
    /// `generate` or `count_tokens`.
    pub operation: String,
    /// Whether the answer is asked for in pieces.
    pub stream: bool,
    /// Files in the messages.
    pub files: u64,
    /// Features of the provider that the request switches on, as they are sent: tokens of
    /// `anthropic-beta` and `openai-beta`.
    pub betas: Vec<String>,
    /// The texts that a provider takes for instructions, in their order.
    pub instructions: Vec<ModelInstruction>,
    /// Bytes of instructions that no entry of the manifest fixes; absent if the request does not have
    /// the manifest's instructions.
    pub loose_bytes: Option<u64>,
    /// The tools that the model may ask for.
    pub offered: Vec<ModelTool>,
    /// Which of them it may or must ask for.
    pub tool_choice: Option<String>,
}

/// What the gate found out about a request in a dialect when it compared the request with the
/// manifest and the granted tools of its run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AskFacts {
    /// The texts that a provider takes for instructions, in their order.
    pub instructions: Vec<ModelInstruction>,
    /// As [`ModelAsk::loose_bytes`].
    pub loose_bytes: Option<u64>,
    /// The tools that stay in the request, in their order.
    pub offered: Vec<ModelTool>,
    /// The messages with the result of a tool of the gate that the agent ran itself, by their index.
    pub bypassed: BTreeSet<usize>,
    /// The upstream that remembers what the request refers to; no other is asked.
    pub upstream: Option<String>,
}

/// One text that a provider takes for instructions.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ModelInstruction {
    /// What the manifest calls it.
    pub name: Option<String>,
    /// `leading` or `mid`.
    pub place: String,
    /// The scope of the manifest's entry that it matches.
    pub scope: Option<String>,
    /// SHA-256 of the text, 64 hex digits.
    pub sha256: String,
}

/// One tool that a model may ask for.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ModelTool {
    /// Whether description and schema are the pinned ones: `same`, `differs` or `unpinned`.
    pub definition: String,
    /// Who runs it: `governed` (the gate), `client` (the agent), `hosted` (the provider) or `unknown`.
    pub kind: String,
    /// Its name, as the agent offered it.
    pub name: String,
    /// What it stands for: the granted tool, or the entry of `spec.client_tools`.
    pub tool: Option<String>,
}

/// One call of a unary method.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Grpc {
    /// `http` or `https`, from the binding.
    pub scheme: String,
    /// Lowercase host, from the binding.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Full name of the service: `shop.v1.Orders`.
    pub service: String,
    /// Name of the method: `GetOrder`.
    pub method: String,
    /// Bytes of the request message.
    pub request_bytes: u64,
}

/// What a write makes of one file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Change {
    /// `create`, `replace` or `delete`.
    pub operation: String,
    /// Bytes it will have; 0 for a deletion.
    pub bytes: u64,
    /// SHA-256 of those, 64 hex digits; empty for a deletion.
    pub sha256: String,
    /// SHA-256 of what is there now, 64 hex digits; empty if there is nothing.
    pub before_sha256: String,
}

/// Where the server of a database listens.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DatabaseServer {
    /// Lowercase host.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// One statement, as its parser and the binding know it.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Sql {
    /// `postgres` or `sqlite`.
    pub engine: String,
    /// Host and port of the server; SQLite has none.
    #[serde(flatten)]
    pub server: Option<DatabaseServer>,
    /// Name of the database; of a SQLite file its file name.
    pub database: String,
    /// `select`, `insert`, `update`, `delete` or `merge`.
    pub statement: String,
    /// The operator's name of it; an agent's own statement has none.
    pub named_query: Option<String>,
    /// Tables and views it names, sorted: `schema.table`; SQLite: `table`.
    pub relations: Vec<String>,
    /// Functions it calls, sorted.
    pub functions: Vec<String>,
    /// Parameters that are bound.
    pub params: u64,
    /// SHA-256 of the text that is sent, in hex.
    pub sql_sha256: String,
}

impl Effect {
    /// Tables and views that a statement names, sorted; of another effect there are none.
    pub fn tables(&self) -> &[String] {
        if let Self::Sql(sql) = self { &sql.relations } else { &[] }
    }

    /// The hosts that it reaches, if it names them; sorted, each once.
    pub fn hosts(&self) -> BTreeSet<&str> {
        match self {
            Self::Http { host, .. } => BTreeSet::from([host.as_str()]),
            Self::Grpc(grpc) => BTreeSet::from([grpc.host.as_str()]),
            Self::Sql(sql) => sql.server.iter().map(|server| server.host.as_str()).collect(),
            Self::Model { upstreams, .. } => {
                upstreams.iter().map(|upstream| upstream.host.as_str()).collect()
            }
            Self::None
            | Self::File { .. }
            | Self::Mcp { .. }
            | Self::Command { .. }
            | Self::Client { .. }
            | Self::Recorded { .. } => BTreeSet::new(),
        }
    }

    /// The facts as the policy input and the effect digest see them.
    pub fn to_json(&self) -> Json {
        Json::of(self)
    }
}

/// One place a model is asked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Upstream {
    /// What the binding calls it.
    pub name: String,
    /// `openai` or `ollama`.
    pub api: String,
    /// Lowercase host, from the binding.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The id it is asked for.
    pub model: String,
}

fn recorded<S: Serializer>(effect: &Json, _: &[Finding], to: S) -> Result<S::Ok, S::Error> {
    effect.serialize(to)
}

fn pairs<S: Serializer>(query: &[(String, String)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(
        query.iter().map(|(name, value)| serde_json::json!({"name": name, "value": value})),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::json;

    #[test]
    fn each_host_of_an_effect_is_named_once() {
        let grpc = Grpc {
            scheme: "https".into(),
            host: "g.test".into(),
            port: 443,
            service: "a.B".into(),
            method: "C".into(),
            request_bytes: 0,
        };
        let upstream = |host: &str| Upstream {
            name: host.into(),
            api: "openai".into(),
            host: host.into(),
            port: 443,
            model: "m".into(),
        };
        let model = Effect::Model {
            model: "m".into(),
            upstreams: ["z.test", "a.test", "z.test"].map(upstream).into(),
            messages: 1,
            new_messages: 1,
            messages_cut: 0,
            images: 0,
            output_tokens_max: 1,
            functions: Vec::new(),
            body_bytes: 1,
            request: None,
        };
        let sql = |server| {
            Effect::Sql(Box::new(Sql {
                engine: "postgres".into(),
                server,
                database: "d".into(),
                statement: "select".into(),
                named_query: None,
                relations: Vec::new(),
                functions: Vec::new(),
                params: 0,
                sql_sha256: String::new(),
            }))
        };
        let hosts = |effect: &Effect| effect.hosts().into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(hosts(&Effect::Grpc(grpc)), "g.test");
        assert_eq!(hosts(&model), "a.test z.test");
        let server = DatabaseServer { host: "db.test".into(), port: 5432 };
        assert_eq!(hosts(&sql(Some(server))), "db.test");
        assert_eq!(hosts(&sql(None)), "", "a file");
        assert_eq!(hosts(&Effect::None), "");
    }

    #[test]
    fn what_was_recorded_is_written_as_it_was_recorded() {
        let effect = json!({"kind": "http", "host": "a.test", "port": 443});
        let recorded = Effect::Recorded { effect: effect.clone(), findings: Vec::new() };
        assert_eq!(recorded.to_json(), effect);
        assert_eq!(Effect::None.to_json(), json!({"kind": "none"}));
    }
}
