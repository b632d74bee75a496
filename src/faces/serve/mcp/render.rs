//! Recorded results as an agent sees them: a server's own bytes, and their place in the ledger.

use serde_json::Value;
use serde_json::value::RawValue;

use super::level::Level;
use super::list::{quoted_bytes, server_info};
use crate::domain::canonical;
use crate::domain::json::Json;
use crate::enforce::Released;
use crate::mcp::raw::{Members, ObjectWriter};
use crate::mcp::{META_CALL, META_NOTIFICATIONS, META_RECEIPT, META_SERVER, OWN, rpc};
use crate::serve::problem::{Problem, receipt_json};

/// How one client gets its results.
#[derive(Clone, Debug)]
pub(super) struct Style {
    /// Requests stand alone: results state their type, their freshness and the server.
    pub modern: bool,
    /// The client knows `structuredContent`.
    pub structured: bool,
    /// The client's progress token, if it sent one.
    pub progress: Option<Json>,
    /// The least level of log messages the client wants; if absent, it wants none.
    pub level: Option<Level>,
}

/// A result and the notifications that precede it.
pub(super) struct Rendered {
    /// Whole JSON-RPC notifications.
    pub notes: Vec<Vec<u8>>,
    /// The `result` member.
    pub result: Vec<u8>,
}

impl Style {
    /// A server's result of `tools/call`: its members unchanged, `_meta` completed.
    pub(super) fn of_server(&self, released: &Released) -> Rendered {
        match Members::parse(released.result()) {
            Ok(members) => self.completed(&members, released, false),
            Err(_) => self.of_tool(released),
        }
    }

    /// A result of another method that a server gave.
    pub(super) fn of_method(&self, released: &Released) -> Rendered {
        match Members::parse(released.result()) {
            Ok(members) => self.completed(&members, released, true),
            Err(_) => Rendered { notes: Vec::new(), result: b"{}".to_vec() },
        }
    }

    fn completed(&self, members: &Members<'_>, released: &Released, listed: bool) -> Rendered {
        // A list that was filtered for one caller is never for all.
        let ours = |name: &str| name == "_meta" || (self.modern && listed && name == "cacheScope");
        let theirs = members.iter().filter(|(name, _)| !ours(name));
        let mut result = ObjectWriter::default().copy(theirs);
        if self.modern && members.get("resultType").is_none() {
            result = result.text("resultType", "complete");
        }
        if self.modern && listed {
            result = result.text("cacheScope", "private");
            if members.get("ttlMs").is_none() {
                result = result.member("ttlMs", b"0");
            }
        }
        let meta = members.get("_meta").and_then(|raw| Members::of(raw).ok()).unwrap_or_default();
        let notes = meta.get(META_NOTIFICATIONS).map(|raw| self.notes(raw)).unwrap_or_default();
        let result = result.member("_meta", &self.meta(&meta, released)).end();
        Rendered { notes, result }
    }

    /// A result of a tool that speaks no MCP.
    pub(super) fn of_tool(&self, released: &Released) -> Rendered {
        let text = quoted_bytes(released.result());
        let content = format!(r#"[{{"type":"text","text":{text}}}]"#);
        let mut result = ObjectWriter::default().member("content", content.as_bytes());
        if self.structured && released.result().first() == Some(&b'{') {
            result = result.member("structuredContent", released.result());
        }
        if self.modern {
            result = result.text("resultType", "complete");
        }
        let result = result.member("_meta", &self.meta(&Members::default(), released)).end();
        Rendered { notes: Vec::new(), result }
    }

    /// A denial, or whatever else a model should read.
    pub(super) fn of_problem(&self, problem: &Problem) -> Rendered {
        let mut result = problem.tool_error();
        if self.modern {
            result.insert("resultType".into(), "complete".into());
            if let Some(Value::Object(meta)) = result.get_mut("_meta") {
                meta.insert(META_SERVER.into(), server_info());
            }
        }
        Rendered { notes: Vec::new(), result: Value::Object(result).to_string().into_bytes() }
    }

    /// The server's `_meta` without the gate's own keys, then the gate's.
    fn meta(&self, theirs: &Members<'_>, released: &Released) -> Vec<u8> {
        let kept = theirs.iter().filter(|(name, _)| !name.starts_with(OWN));
        let mut meta = ObjectWriter::default().copy(kept);
        if self.modern && theirs.get(META_SERVER).is_none() {
            meta = meta.member(META_SERVER, server_info().to_string().as_bytes());
        }
        let mut receipt = receipt_json(released.receipt());
        if let (true, Some(members)) = (released.is_pending(), receipt.as_object_mut()) {
            members.insert("outcome".into(), "pending".into());
        }
        let receipt = receipt.to_string();
        meta.text(META_CALL, released.call().as_str())
            .member(META_RECEIPT, receipt.as_bytes())
            .end()
    }

    /// The server's notifications during the call, as far as this client asked for them.
    fn notes(&self, recorded: &RawValue) -> Vec<Vec<u8>> {
        let recorded: Vec<&RawValue> = serde_json::from_str(recorded.get()).unwrap_or_default();
        recorded.into_iter().filter_map(|note| self.note(note)).collect()
    }

    fn note(&self, note: &RawValue) -> Option<Vec<u8>> {
        let note = Members::of(note).ok()?;
        let method = note.text("method")?;
        let params = Members::of(note.get("params")?).ok()?;
        let mut out = ObjectWriter::default();
        match method.as_str() {
            "notifications/progress" => {
                let token = canonical::bytes(self.progress.as_ref()?);
                out = out.member("progressToken", &token);
            }
            "notifications/message" => {
                let level = Level::parse(&params.text("level")?)?;
                self.level.filter(|least| level >= *least)?;
            }
            _ => return None,
        }
        let out = out.copy(params.iter().filter(|(name, _)| *name != "progressToken"));
        Some(rpc::notification(&method, Some(&out.end())))
    }
}
