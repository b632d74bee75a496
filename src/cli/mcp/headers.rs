//! What the headers of a request have to say about its body.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue};
use serde_json::value::RawValue;

use crate::domain::json::{Json, Limits};
use crate::mcp::header::{self, Mirrored};
use crate::mcp::raw::Members;

/// `_meta` of every request of a protocol without handshake.
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// Parameters that are mirrored, by the name of the tool.
pub type Tools = BTreeMap<String, Vec<Mirrored>>;

/// The version a request names in its own `_meta`: it stands alone and has no session.
pub fn own_version(params: Option<&RawValue>) -> Option<String> {
    let members = Members::parse(params?.get().as_bytes()).ok()?;
    Members::parse(members.get("_meta")?.get().as_bytes()).ok()?.text(META_VERSION)
}

/// `Mcp-Method`, `Mcp-Name` and `Mcp-Param-*` of a request that stands alone.
pub fn mirrored(
    version: &str,
    method: &str,
    params: Option<&RawValue>,
    tools: &Tools,
) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers = Vec::new();
    add(&mut headers, "mcp-protocol-version", version);
    add(&mut headers, "mcp-method", method);
    let Some(params) = params.and_then(|raw| Members::parse(raw.get().as_bytes()).ok()) else {
        return headers;
    };
    let name = match method {
        "tools/call" | "prompts/get" => params.text("name"),
        "resources/read" => params.text("uri"),
        _ => None,
    };
    let Some(name) = name else { return headers };
    add(&mut headers, "mcp-name", &name);
    if method != "tools/call" {
        return headers;
    }
    let args = params.get("arguments").map(|raw| raw.get().as_bytes());
    let args = args.and_then(|text| Json::parse(text, &Limits::ARGUMENTS).ok());
    let Some(args) = args else { return headers };
    for parameter in tools.get(&name).into_iter().flatten() {
        if let Some(value) = header::value(&args, &parameter.path) {
            add(&mut headers, &format!("mcp-param-{}", parameter.name), &value);
        }
    }
    headers
}

fn add(headers: &mut Vec<(HeaderName, HeaderValue)>, name: &str, value: &str) {
    let name = HeaderName::try_from(name);
    let value = HeaderValue::try_from(header::encoded(value));
    // What cannot be a header the gate misses, and says so.
    if let (Ok(name), Ok(value)) = (name, value) {
        headers.push((name, value));
    }
}

/// The name of the tool a `tools/call` is for.
pub fn tool_called(params: Option<&RawValue>) -> Option<String> {
    Members::parse(params?.get().as_bytes()).ok()?.text("name")
}

/// Notes the tools of a `tools/list` result; the cursor of the next page.
pub fn note(result: &RawValue, tools: &mut Tools) -> Option<String> {
    let members = Members::parse(result.get().as_bytes()).ok()?;
    let listed: Vec<&RawValue> = serde_json::from_str(members.get("tools")?.get()).ok()?;
    for tool in listed {
        let Ok(tool) = Members::parse(tool.get().as_bytes()) else { continue };
        let Some(name) = tool.text("name") else { continue };
        let schema = tool.get("inputSchema").map(|raw| raw.get().as_bytes());
        let schema = schema.and_then(|text| Json::parse(text, &Limits::FILE).ok());
        let found = schema.and_then(|schema| header::mirrored(&schema).ok());
        tools.insert(name, found.unwrap_or_default());
    }
    members.text("nextCursor")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_call_is_mirrored_by_what_its_list_said() {
        let mut tools = Tools::new();
        let list = raw(r#"{"tools":[{"name":"q","inputSchema":{"type":"object","properties":{
            "region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"}}}},
            {"name":"plain"}],"nextCursor":"p2"}"#);
        assert_eq!(note(&list, &mut tools).as_deref(), Some("p2"));
        let params = raw(
            r#"{"name":"q","arguments":{"region":"Zürich","n":7},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#,
        );
        assert_eq!(own_version(Some(&params)).as_deref(), Some("2026-07-28"));
        let headers = mirrored("2026-07-28", "tools/call", Some(&params), &tools);
        let headers: Vec<_> =
            headers.iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap())).collect();
        let expected = [
            "mcp-protocol-version: 2026-07-28",
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
