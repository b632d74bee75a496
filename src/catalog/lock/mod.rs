//! `tools.lock`: what each MCP server showed when an operator looked, under that operator's signature.
//!
//! Agents are always shown the pinned text, and a pinned tool is the only tool there is: what a
//! server says later is compared with it (`drift`) and never served. The file is JSON that a person
//! can review; the signature is an envelope beside it, over its exact bytes. A change of how a
//! server is reached changes its binding digest, and with it the lock no longer fits.

use std::collections::BTreeMap;

use super::hidden;
use super::server::{METHODS, Server, governed};
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::{self, Json, Limits, json};
use crate::mcp::{Version, name};

mod diff;
mod sign;
#[cfg(test)]
mod tests;
mod tool;

pub use diff::{Difference, differences};
pub use sign::{PAYLOAD_TYPE, Verified, envelope_path, sign};
pub use tool::{Pinned, ToolError, own_name, pinned};

const API_VERSION: &str = "wicketgate.dev/v1";
const KIND: &str = "ToolsLock";
/// Bytes of a lock.
pub const BYTES_MAX: usize = 64 << 20;

/// Why a lock does not count.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The file or its envelope cannot be read.
    #[error("{path}: {why}")]
    Unreadable {
        /// The file.
        path: String,
        /// The system's error.
        why: String,
    },
    /// The text is not a lock.
    #[error("{path}: {at}: {why}")]
    Text {
        /// The file.
        path: String,
        /// The place in it: `servers[0].tools[3]`; `text` for invalid JSON.
        at: String,
        /// What is wrong.
        why: String,
    },
    /// The signature is missing, made by an untrusted key, or over other bytes.
    #[error("{path}: signatures: {why}")]
    Signature {
        /// The envelope.
        path: String,
        /// What is wrong.
        why: String,
    },
}

/// Every server at the time of the lock, by name.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Lock {
    /// The servers.
    pub servers: BTreeMap<String, LockedServer>,
}

/// One server as it was.
#[derive(Clone, PartialEq, Debug)]
pub struct LockedServer {
    /// Its name.
    pub name: String,
    /// `Server::binding` at that time.
    pub binding: Digest,
    /// The version of the protocol that was agreed on.
    pub protocol: Version,
    /// `serverInfo`, as the server gave it.
    pub server_info: Json,
    /// The methods of [`METHODS`] it answered to, in that order.
    pub methods: Vec<&'static str>,
    /// Whole tool objects as the server gave them, by its own names.
    pub tools: BTreeMap<String, Json>,
    /// SHA-256 of its program and its scripts, by path; empty for a server behind a URL.
    pub files: BTreeMap<String, Digest>,
}

/// A server's answers, to be locked.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The version that was agreed on.
    pub protocol: Version,
    /// `serverInfo`.
    pub server_info: Json,
    /// The methods of [`METHODS`] it answers to.
    pub methods: Vec<&'static str>,
    /// Every tool object.
    pub tools: Vec<Json>,
    /// SHA-256 of the files it was started from.
    pub files: BTreeMap<String, Digest>,
    /// Characters that a reader does not see were looked at, and may be pinned.
    pub accept_hidden: bool,
}

/// A tool that cannot be governed and is therefore in no lock: it does not exist for agents.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("server `{server}`: tool `{tool}`: {why}")]
pub struct UngovernedTool {
    /// The server.
    pub server: String,
    /// The server's name for the tool, made fit to print.
    pub tool: String,
    /// Why.
    pub why: String,
}

impl LockedServer {
    /// Pins a server's tools. It leaves out tools that break a rule, each with the reason.
    pub fn of(server: &Server, shown: &Shown) -> (Self, Vec<UngovernedTool>) {
        let methods: Vec<&'static str> =
            METHODS.into_iter().filter(|method| shown.methods.contains(method)).collect();
        let mut tools = BTreeMap::new();
        let mut left_out = Vec::new();
        for tool in &shown.tools {
            let own = own_name(tool).unwrap_or_default();
            let taken =
                methods.iter().any(|m| governed(&server.name, m) == governed(&server.name, own));
            let hidden = if shown.accept_hidden { Vec::new() } else { hidden::finds(tool) };
            let kept = if !hidden.is_empty() {
                Err(unseen(&hidden))
            } else if taken {
                Err("has the governed name of a method".to_owned())
            } else if tools.contains_key(own) {
                Err("occurs twice".to_owned())
            } else {
                // As it will be read back: one form of each number.
                let read = reread(tool).map_err(|e| e.to_string());
                let fits = |tool| match pinned(&server.name, &tool) {
                    Ok(_) => Ok(tool),
                    Err(why) => Err(why.to_string()),
                };
                read.and_then(fits)
            };
            match kept {
                Ok(tool) => _ = tools.insert(own.to_owned(), tool),
                Err(why) => left_out.push(UngovernedTool {
                    server: server.name.clone(),
                    tool: printable(own),
                    why,
                }),
            }
        }
        let mut server_info =
            reread(&shown.server_info).unwrap_or_else(|_| Json::object::<&str>([]));
        let hidden = hidden::finds(&server_info);
        if !hidden.is_empty() && !shown.accept_hidden {
            let (server, why) = (server.name.clone(), unseen(&hidden));
            left_out.push(UngovernedTool { server, tool: "serverInfo".to_owned(), why });
            server_info = Json::object::<&str>([]);
        }
        let locked = Self {
            name: server.name.clone(),
            binding: server.binding,
            protocol: shown.protocol,
            server_info,
            methods,
            tools,
            files: shown.files.clone(),
        };
        (locked, left_out)
    }
}

/// Why a text for models may not be in a lock.
fn unseen(finds: &[String]) -> String {
    format!(
        "holds characters that a reader does not see ({}): look at them, then give `--accept-hidden` to pin the \
         text as it is",
        finds.join("; ")
    )
}

fn reread(value: &Json) -> Result<Json, json::Error> {
    Json::parse(&canonical::bytes(value), &Limits::FILE)
}

/// Text of a server's, fit for a terminal and a log: no control characters, at most 128 characters.
pub fn printable(text: &str) -> String {
    text.chars().take(128).flat_map(char::escape_debug).collect()
}

impl Lock {
    /// A lock of these servers.
    pub fn of(servers: impl IntoIterator<Item = LockedServer>) -> Self {
        Self { servers: servers.into_iter().map(|s| (s.name.clone(), s)).collect() }
    }

    /// The text: sorted, indented, the same bytes for the same lock.
    pub fn text(&self) -> String {
        let servers: Vec<Json> = self.servers.values().map(LockedServer::to_json).collect();
        let json = json!({"apiVersion": API_VERSION, "kind": KIND, "servers": servers});
        let mut text = serde_json::to_string_pretty(&json).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Reads the text. `path` is for messages.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn read(text: &[u8], path: &str) -> Result<Self, Error> {
        let limits = Limits { bytes_max: BYTES_MAX, ..Limits::FILE };
        let invalid = |at: &str, why: String| Error::Text { path: path.into(), at: at.into(), why };
        let json = Json::parse(text, &limits).map_err(|e| invalid("text", e.to_string()))?;
        Self::of_json(&json).map_err(|(at, why)| invalid(&at, why))
    }

    fn of_json(json: &Json) -> Result<Self, (String, String)> {
        let root = LockMembers::of(json, "", &["apiVersion", "kind", "servers"])?;
        for (name, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            if root.text(name)? != expected {
                return Err(root.wrong(name, format!("expected `{expected}`")));
            }
        }
        let mut servers = BTreeMap::new();
        for (i, server) in root.list("servers")?.iter().enumerate() {
            let at = format!("servers[{i}]");
            let server = LockedServer::of_json(server, &at)?;
            let name = server.name.clone();
            if servers.insert(name.clone(), server).is_some() {
                return Err((format!("{at}.name"), format!("`{name}` occurs twice")));
            }
        }
        Ok(Self { servers })
    }
}

impl LockedServer {
    fn to_json(&self) -> Json {
        let files = self.files.iter().map(|(path, is)| (path, is.prefixed()));
        json!({
            "name": self.name,
            "binding": self.binding.prefixed(),
            "protocol": self.protocol.as_str(),
            "server_info": self.server_info,
            "methods": self.methods,
            "tools": self.tools.values().collect::<Vec<_>>(),
            "files": files.collect::<BTreeMap<_, _>>(),
        })
    }

    fn of_json(json: &Json, at: &str) -> Result<Self, (String, String)> {
        let known = ["name", "binding", "protocol", "server_info", "methods", "tools", "files"];
        let here = LockMembers::of(json, at, &known)?;
        let server = here.text("name")?;
        if !name::is_server(server) {
            return Err(here.wrong("name", "is not [a-z0-9_-]{1,32}".into()));
        }
        let binding = Digest::parse(here.text("binding")?)
            .ok_or_else(|| here.wrong("binding", "is no SHA-256 digest".into()))?;
        let protocol = Version::parse(here.text("protocol")?)
            .ok_or_else(|| here.wrong("protocol", "is no version this build speaks".into()))?;
        let mut methods = Vec::new();
        for method in here.list("methods")? {
            let known = METHODS.into_iter().find(|known| method.as_str() == Some(*known));
            let known = known.filter(|known| !methods.contains(known));
            methods.push(known.ok_or_else(|| {
                here.wrong("methods", "names a method that is unknown, or one twice".into())
            })?);
        }
        let mut tools = BTreeMap::new();
        for (i, tool) in here.list("tools")?.iter().enumerate() {
            let invalid = |why: &str| (format!("{at}.tools[{i}]"), why.to_owned());
            let own = own_name(tool).filter(|own| governed(server, own).is_some());
            let own = own.ok_or_else(|| invalid("has no name that can be governed"))?;
            if tools.insert(own.to_owned(), tool.clone()).is_some() {
                return Err(invalid("has the name of another"));
            }
        }
        let server_info = here.get("server_info")?.clone();
        let listed = here.object("files")?;
        let mut files = BTreeMap::new();
        for (path, digest) in listed {
            let digest = digest.as_str().and_then(Digest::parse);
            let digest = digest
                .ok_or_else(|| here.wrong("files", "holds what is no SHA-256 digest".into()))?;
            files.insert(path.clone(), digest);
        }
        Ok(Self { name: server.to_owned(), binding, protocol, server_info, methods, tools, files })
    }
}

/// The members of one object of the lock; it may have no other.
struct LockMembers<'a> {
    json: &'a Json,
    at: &'a str,
}

impl<'a> LockMembers<'a> {
    fn of(json: &'a Json, at: &'a str, known: &[&str]) -> Result<Self, (String, String)> {
        let here = Self { json, at };
        let members = json.as_object().ok_or_else(|| here.wrong("", "is not an object".into()))?;
        match members.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(here.wrong(&printable(name), "unknown field".into())),
            None => Ok(here),
        }
    }

    fn wrong(&self, name: &str, why: String) -> (String, String) {
        let dot = if self.at.is_empty() || name.is_empty() { "" } else { "." };
        (format!("{}{dot}{name}", self.at), why)
    }

    fn get(&self, name: &str) -> Result<&'a Json, (String, String)> {
        self.json.get(name).ok_or_else(|| self.wrong(name, "is missing".into()))
    }

    fn object(&self, name: &str) -> Result<&'a BTreeMap<String, Json>, (String, String)> {
        self.get(name)?.as_object().ok_or_else(|| self.wrong(name, "is not an object".into()))
    }

    fn text(&self, name: &str) -> Result<&'a str, (String, String)> {
        self.get(name)?.as_str().ok_or_else(|| self.wrong(name, "is no text".into()))
    }

    fn list(&self, name: &str) -> Result<&'a [Json], (String, String)> {
        self.get(name)?.as_array().ok_or_else(|| self.wrong(name, "is no list".into()))
    }
}
