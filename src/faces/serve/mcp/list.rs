//! The lists an agent sees: its tools, and the face's other offers.

use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::message::McpRequest;
use super::reply::{McpResponse, ReplyRefusal};
use super::view::PathView;
use crate::catalog::server::METHODS;
use crate::domain::code::held;
use crate::domain::effect::ToolKind;
use crate::domain::seed::Seed;
use crate::domain::time::Timestamp;
use crate::enforce::ToolView;
use crate::mcp::raw::{Members, ObjectWriter, array, quoted};
use crate::mcp::{META_CLOCK, META_SEED, META_SERVER, Version};
use crate::serve::SEED;

/// Tools of one page.
const PAGE: usize = 200;

/// How long a client may cache a list. The gate judges every call by the state at that time.
const LIST_TTL_MS: u64 = 60_000;

/// Instructions for clients that pass them to their model; what they say about held calls follows.
const INSTRUCTIONS: &str = "Every call goes through Wicketgate, which asks a policy and writes the \
decision and the outcome to a ledger. A denied call is a tool error that says why and which rule said \
so; it did not run, and asking again gives the same answer.";

fn instructions() -> String {
    format!("{INSTRUCTIONS} {}", held::INSTRUCTION)
}

/// Who answers.
pub(super) fn server_info() -> Value {
    json!({"name": "wicketgate", "title": "Wicketgate", "version": env!("CARGO_PKG_VERSION")})
}

/// An agent's tools, seen from one path.
pub(super) struct ShownTools {
    tools: Vec<ToolView>,
    view: PathView,
    determined: Option<(Seed, Timestamp)>,
}

impl ShownTools {
    /// The tools of these that the view shows; of a deterministic run, with its seed and clock.
    pub(super) fn new(
        mut tools: Vec<ToolView>,
        view: &PathView,
        determined: Option<(Seed, Timestamp)>,
    ) -> Self {
        tools.retain(|tool| view.outward(&tool.name).is_some());
        Self { tools, view: view.clone(), determined }
    }

    /// The answer, with the run's seed as a header if it has one.
    pub(super) fn seeded(&self, mut answer: McpResponse) -> McpResponse {
        let seed = self.determined.map(|(seed, _)| seed.to_string());
        if let Some(value) = seed.and_then(|seed| HeaderValue::from_str(&seed).ok()) {
            answer.headers_mut().insert(HeaderName::from_static(SEED), value);
        }
        answer
    }

    /// `_meta` of a response that opens an exchange: the server's name, if it belongs there, and
    /// what a deterministic run may use for randomness and time.
    fn meta(&self, modern: bool) -> Map<String, Value> {
        let mut meta = Map::new();
        if modern {
            meta.insert(META_SERVER.into(), server_info());
        }
        if let Some((seed, clock)) = self.determined {
            meta.insert(META_SEED.into(), seed.to_string().into());
            meta.insert(META_CLOCK.into(), clock.to_string().into());
        }
        meta
    }

    /// The tool of this governed name.
    pub(super) fn tool(&self, governed: &str) -> Option<&ToolView> {
        self.tools.iter().find(|tool| tool.name == governed)
    }

    /// Whether the view shows no tool.
    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The one MCP server whose other methods this view offers.
    pub(super) fn server(&self) -> Option<&str> {
        if let Some(server) = &self.view.server {
            return Some(server);
        }
        let mut servers = self.tools.iter().filter(|tool| tool.kind == MCP).filter_map(|tool| {
            let (server, _) = tool.name.split_once('.')?;
            Some(server)
        });
        let first = servers.next()?;
        servers.all(|server| server == first).then_some(first)
    }

    /// Whether any method that begins so is granted.
    fn offers(&self, method: &str) -> bool {
        let Some(server) = self.server() else { return false };
        let granted = |method: &str| {
            let governed = governed(server, method);
            self.tool(&governed).is_some_and(is_method)
        };
        METHODS.iter().any(|name| name.starts_with(method) && granted(name))
    }

    /// What the face offers here.
    pub(super) fn capabilities(&self) -> Value {
        let mut all = Map::new();
        all.insert("tools".into(), json!({"listChanged": true}));
        if self.tools.iter().any(|tool| tool.kind == MCP) {
            all.insert("logging".into(), json!({}));
        }
        for (name, method) in
            [("resources", "resources/"), ("prompts", "prompts/"), ("completions", "completion/")]
        {
            if self.offers(method) {
                all.insert(name.into(), json!({}));
            }
        }
        Value::Object(all)
    }

    /// The result of `initialize`.
    pub(super) fn initialized(&self, version: Version) -> Vec<u8> {
        let mut result = json!({
            "protocolVersion": version.as_str(),
            "capabilities": self.capabilities(),
            "serverInfo": server_info(),
            "instructions": instructions(),
        });
        let meta = self.meta(false);
        if let (false, Some(members)) = (meta.is_empty(), result.as_object_mut()) {
            members.insert("_meta".into(), meta.into());
        }
        result.to_string().into_bytes()
    }

    /// The result of `server/discover`.
    pub(super) fn discovered(&self) -> Vec<u8> {
        let result = json!({
            "resultType": "complete",
            "supportedVersions": versions(),
            "capabilities": self.capabilities(),
            "instructions": instructions(),
            "ttlMs": LIST_TTL_MS,
            "cacheScope": "private",
            "_meta": self.meta(true),
        });
        result.to_string().into_bytes()
    }

    /// The result of `tools/list`: one page, always in the order of names.
    pub(super) fn page(&self, ask: &McpRequest, modern: bool) -> Result<Vec<u8>, ReplyRefusal> {
        let after = match ask.param("cursor") {
            None => None,
            Some(cursor) => Some(cursor.as_str().and_then(read_cursor).ok_or_else(|| {
                ReplyRefusal::params("`cursor` is none that was given").detail("list.cursor")
            })?),
        };
        let mut tools = self
            .tools
            .iter()
            .filter(|tool| !is_method(tool))
            .filter(|tool| after.as_ref().is_none_or(|after| tool.name > *after));
        let mut page = Vec::new();
        let mut last = None;
        for tool in tools.by_ref().take(PAGE) {
            page.push(self.entry(tool));
            last = Some(tool.name.as_str());
        }
        let more = tools.next().is_some();
        let mut result = ObjectWriter::default().member("tools", &array(&page));
        if let Some(last) = last.filter(|_| more) {
            result = result.text("nextCursor", &hex::encode(last));
        }
        if modern {
            result = result
                .text("resultType", "complete")
                .member("ttlMs", LIST_TTL_MS.to_string().as_bytes())
                .text("cacheScope", "private");
        }
        let meta = self.meta(modern);
        if !meta.is_empty() {
            result = result.member("_meta", Value::Object(meta).to_string().as_bytes());
        }
        Ok(result.end())
    }

    /// One tool as the list shows it: a server's own object as it is pinned, or ours.
    fn entry(&self, tool: &ToolView) -> Vec<u8> {
        let name = self.view.outward(&tool.name).unwrap_or(&tool.name);
        if let Some(members) = tool.shown.as_deref().and_then(|shown| Members::parse(shown).ok()) {
            let renamed = members.iter().fold(
                ObjectWriter::default(),
                |writer, (member, value)| match member {
                    "name" => writer.text("name", name),
                    _ => writer.member(member, value.get().as_bytes()),
                },
            );
            return renamed.end();
        }
        let hints = json!({"readOnlyHint": tool.read_only}).to_string();
        ObjectWriter::default()
            .text("name", name)
            .text("description", &tool.description)
            .member("inputSchema", &tool.input_schema)
            .member("annotations", hints.as_bytes())
            .end()
    }
}

const MCP: &str = ToolKind::Mcp.as_str();

/// Whether this is another method of a server and no tool.
fn is_method(tool: &ToolView) -> bool {
    tool.kind == MCP && tool.shown.is_none()
}

/// The governed name of a server's method: `<server>.resources.read`.
pub(super) fn governed(server: &str, method: &str) -> String {
    format!("{server}.{}", method.replace('/', "."))
}

/// Versions that agents may speak, newest first.
pub(super) fn versions() -> Vec<&'static str> {
    let mut versions: Vec<_> = Version::ALL.into_iter().filter(|v| is_supported(*v)).collect();
    versions.reverse();
    versions.into_iter().map(Version::as_str).collect()
}

/// Whether agents may speak this version.
pub(super) fn is_supported(version: Version) -> bool {
    version != Version::V2024_11_05
}

fn read_cursor(cursor: &str) -> Option<String> {
    String::from_utf8(hex::decode(cursor).ok()?).ok()
}

/// A JSON string of text from bytes.
pub(super) fn quoted_bytes(bytes: &[u8]) -> String {
    quoted(&String::from_utf8_lossy(bytes))
}
