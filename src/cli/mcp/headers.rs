//! The headers that repeat facts of a request's body.

use std::collections::BTreeMap;

use ::http::HeaderMap;
use serde_json::value::RawValue;

use crate::domain::json::{Json, Limits};
use crate::mcp::header::{self, Mirrored};
use crate::mcp::http;
use crate::mcp::list::ToolsPage;
use crate::mcp::raw::Members;
use serde::Deserialize;

/// Parameters or a result with its `_meta`.
#[derive(Debug, Deserialize)]
pub struct WithMeta<T> {
    /// The member.
    #[serde(rename = "_meta")]
    pub meta: T,
}

/// `_meta` of every request of a protocol without handshake.
#[derive(Deserialize)]
struct VersionMeta {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    version: String,
}

/// A tool of a list, as far as headers are about it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tool<'a> {
    name: String,
    #[serde(borrow)]
    input_schema: Option<&'a RawValue>,
}

/// Parameters that are mirrored, by the name of the tool.
pub type MirroredHeaders = BTreeMap<String, Vec<Mirrored>>;

/// The version in a request's own `_meta`: such a request stands alone and has no session.
pub fn own_version(params: Option<&RawValue>) -> Option<String> {
    let params: WithMeta<VersionMeta> = serde_json::from_str(params?.get()).ok()?;
    Some(params.meta.version)
}

/// Puts `Mcp-Method`, `Mcp-Name` and `Mcp-Param-*` of a request that stands alone. It omits values
/// that fit no header; the gate then reports the missing one.
pub fn mirror(
    method: &str,
    params: Option<&RawValue>,
    tools: &MirroredHeaders,
    headers: &mut HeaderMap,
) {
    let params = params.and_then(|raw| Members::of(raw).ok());
    let text = |name| params.as_ref().and_then(|params| params.text(name));
    let name = http::name_of(method).and_then(text);
    let _ = http::mirror(method, name.as_deref(), headers);
    if method != "tools/call" {
        return;
    }
    let args = params.as_ref().and_then(|params| params.get("arguments"));
    let args = args.and_then(|raw| Json::parse(raw.get().as_bytes(), &Limits::ARGUMENTS).ok());
    let mirrored = name.and_then(|name| tools.get(&name));
    if let (Some(args), Some(mirrored)) = (args, mirrored) {
        headers.extend(http::mirror_args(&args, mirrored).unwrap_or_default());
    }
}

/// The name of the tool a `tools/call` is for.
pub fn tool_called(params: Option<&RawValue>) -> Option<String> {
    Members::of(params?).ok()?.text("name")
}

/// Notes the tools of a `tools/list` result; the cursor of the next page.
pub fn note(result: &RawValue, tools: &mut MirroredHeaders) -> Option<String> {
    let page = ToolsPage::read(result).ok()?;
    for tool in page.tools {
        let Ok(Tool { name, input_schema }) = serde_json::from_str(tool.get()) else { continue };
        let schema = input_schema.map(|raw| raw.get().as_bytes());
        let schema = schema.and_then(|text| Json::parse(text, &Limits::FILE).ok());
        let found = schema.and_then(|schema| header::mirrored(&schema).ok());
        tools.insert(name, found.unwrap_or_default());
    }
    page.next_cursor
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn headers_mirror_the_arguments_that_the_tool_list_marks() {
        let mut tools = MirroredHeaders::new();
        let list = raw(r#"{"tools":[{"name":"q","inputSchema":{"type":"object","properties":{
            "region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"}}}},
            {"name":"plain"}],"nextCursor":"p2"}"#);
        assert_eq!(note(&list, &mut tools).as_deref(), Some("p2"));
        let params = raw(
            r#"{"name":"q","arguments":{"region":"Zürich","n":7},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#,
        );
        assert_eq!(own_version(Some(&params)).as_deref(), Some("2026-07-28"));
        let mut headers = HeaderMap::new();
        mirror("tools/call", Some(&params), &tools, &mut headers);
        let headers: Vec<_> =
            headers.iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap())).collect();
        let expected = [
            "mcp-method: tools/call",
            "mcp-name: q",
            "mcp-param-n: 7",
            "mcp-param-region: =?base64?WsO8cmljaA==?=",
        ];
        assert_eq!(headers, expected);
        assert_eq!(tool_called(Some(&params)).as_deref(), Some("q"));
    }

    #[test]
    fn a_request_that_names_no_version_belongs_to_a_session() {
        assert_eq!(own_version(None), None);
        assert_eq!(own_version(Some(&raw(r#"{"_meta":{"progressToken":1}}"#))), None);
        assert_eq!(own_version(Some(&raw("{}"))), None);
    }
}
