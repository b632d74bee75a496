//! The kinds of tools, and what a call of each would touch, as typed facts: policies read these and never parse strings.

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
    }
}

impl ToolKind {
    /// The kind of effect that calls of such a tool have.
    #[must_use]
    pub const fn effect(self) -> EffectKind {
        match self {
            Self::Http | Self::Fetch => EffectKind::Http,
            Self::FileRead | Self::FileList | Self::FileWrite => EffectKind::File,
            Self::Command => EffectKind::Command,
            Self::Sql => EffectKind::Sql,
            Self::Model => EffectKind::Model,
            Self::Grpc => EffectKind::Grpc,
            Self::Mcp => EffectKind::Mcp,
        }
    }
}

/// The facts of one prepared call (`input.effect`).
#[derive(Clone, PartialEq, Debug)]
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
        kind: String,
        /// Bytes, by fstat on the descriptor; 0 where there is nothing yet.
        size: u64,
        /// Permission bits, by fstat; what it will have where there is nothing yet.
        mode: u32,
        /// What a write makes of it.
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
        /// Tokens it may write.
        output_tokens_max: u64,
        /// Functions it may ask to be called, by name.
        functions: Vec<String>,
        /// Body bytes.
        body_bytes: u64,
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
        /// `none` or `per_call`.
        workspace: String,
    },
    /// One statement of a database.
    Sql(Box<Sql>),
    /// One call of a unary method of a gRPC service.
    Grpc(Grpc),
    /// What a recording says that the call would touch: nothing is touched again.
    Recorded {
        /// `input.effect`, as it was recorded.
        effect: Json,
        /// What the firewall saw then, in what the tool made of the arguments too.
        findings: Vec<Finding>,
    },
}

/// One call of a unary method.
#[derive(Clone, PartialEq, Eq, Debug)]
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

impl Grpc {
    fn to_json(&self) -> Json {
        Json::object([
            kind(EffectKind::Grpc),
            ("scheme", Json::from(self.scheme.as_str())),
            ("host", Json::from(self.host.as_str())),
            ("port", Json::from(u64::from(self.port))),
            ("service", Json::from(self.service.as_str())),
            ("method", Json::from(self.method.as_str())),
            ("request_bytes", Json::from(self.request_bytes)),
        ])
    }
}

/// What a write makes of one file.
#[derive(Clone, PartialEq, Eq, Debug)]
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

/// One statement, as its parser and the binding know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sql {
    /// `postgres` or `sqlite`.
    pub engine: String,
    /// Host and port of the server; SQLite has none.
    pub server: Option<(String, u16)>,
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

impl Sql {
    fn to_json(&self) -> Json {
        let list = |texts: &[String]| -> Json {
            texts.iter().map(|text| Json::from(text.as_str())).collect::<Vec<_>>().into()
        };
        let mut members = vec![
            kind(EffectKind::Sql),
            ("engine", Json::from(self.engine.as_str())),
            ("database", Json::from(self.database.as_str())),
            ("statement", Json::from(self.statement.as_str())),
            ("relations", list(&self.relations)),
            ("functions", list(&self.functions)),
            ("params", Json::from(self.params)),
            ("sql_sha256", Json::from(self.sql_sha256.as_str())),
        ];
        if let Some((host, port)) = &self.server {
            members.push(("host", Json::from(host.as_str())));
            members.push(("port", Json::from(u64::from(*port))));
        }
        members.extend(self.named_query.as_deref().map(|name| ("named_query", Json::from(name))));
        Json::object(members)
    }
}

impl Effect {
    /// Tables and views that a statement names, sorted; of another effect there are none.
    #[must_use]
    pub fn tables(&self) -> &[String] {
        if let Self::Sql(sql) = self { &sql.relations } else { &[] }
    }

    /// The facts as the policy input and the effect digest see them.
    #[must_use]
    pub fn to_json(&self) -> Json {
        match self {
            Self::None => Json::object([kind(EffectKind::None)]),
            Self::Http { method, scheme, host, port, path, query, body_bytes } => Json::object([
                kind(EffectKind::Http),
                ("method", Json::from(method.as_str())),
                ("scheme", Json::from(scheme.as_str())),
                ("host", Json::from(host.as_str())),
                ("port", Json::from(u64::from(*port))),
                ("path", Json::from(path.as_str())),
                ("query", query.iter().map(pair).collect::<Vec<_>>().into()),
                ("body_bytes", Json::from(*body_bytes)),
            ]),
            Self::File { access, root, path, kind: file_kind, size, mode, change } => {
                let mut members = vec![
                    kind(EffectKind::File),
                    ("access", Json::from(access.as_str())),
                    ("root", Json::from(root.as_str())),
                    ("path", Json::from(path.as_str())),
                    ("file_kind", Json::from(file_kind.as_str())),
                    ("size", Json::from(*size)),
                    ("mode", Json::from(u64::from(*mode))),
                ];
                members.extend(change.iter().flat_map(written));
                Json::object(members)
            }
            Self::Model {
                model,
                upstreams,
                messages,
                output_tokens_max,
                functions,
                body_bytes,
            } => Json::object([
                kind(EffectKind::Model),
                ("model", Json::from(model.as_str())),
                ("upstreams", upstreams.iter().map(Upstream::to_json).collect::<Vec<_>>().into()),
                ("messages", Json::from(*messages)),
                ("output_tokens_max", Json::from(*output_tokens_max)),
                (
                    "functions",
                    functions.iter().map(|f| Json::from(f.as_str())).collect::<Vec<_>>().into(),
                ),
                ("body_bytes", Json::from(*body_bytes)),
            ]),
            Self::Sql(sql) => sql.to_json(),
            Self::Grpc(grpc) => grpc.to_json(),
            Self::Recorded { effect, .. } => effect.clone(),
            Self::Mcp { server, transport, method, name } => Json::object([
                kind(EffectKind::Mcp),
                ("server", Json::from(server.as_str())),
                ("transport", Json::from(transport.as_str())),
                ("method", Json::from(method.as_str())),
                ("name", Json::from(name.as_str())),
            ]),
            Self::Command { program, digest, argv, sandbox, workspace } => Json::object([
                kind(EffectKind::Command),
                ("program", Json::from(program.as_str())),
                ("digest", Json::from(digest.as_str())),
                (
                    "argv",
                    argv.iter().map(|item| Json::from(item.as_str())).collect::<Vec<_>>().into(),
                ),
                ("sandbox", Json::from(sandbox.as_str())),
                ("workspace", Json::from(workspace.as_str())),
            ]),
        }
    }
}

/// One place a model is asked at.
#[derive(Clone, PartialEq, Eq, Debug)]
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

impl Upstream {
    fn to_json(&self) -> Json {
        Json::object([
            ("name", Json::from(self.name.as_str())),
            ("api", Json::from(self.api.as_str())),
            ("host", Json::from(self.host.as_str())),
            ("port", Json::from(u64::from(self.port))),
            ("model", Json::from(self.model.as_str())),
        ])
    }
}

fn kind(kind: EffectKind) -> (&'static str, Json) {
    ("kind", Json::from(kind.as_str()))
}

fn written(change: &Change) -> [(&'static str, Json); 4] {
    [
        ("operation", Json::from(change.operation.as_str())),
        ("bytes", Json::from(change.bytes)),
        ("sha256", Json::from(change.sha256.as_str())),
        ("before_sha256", Json::from(change.before_sha256.as_str())),
    ]
}

fn pair((name, value): &(String, String)) -> Json {
    Json::object([("name", Json::from(name.as_str())), ("value", Json::from(value.as_str()))])
}
