//! A server's list of tools: every page, within limits.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::Error;
use super::link::McpLink;
use super::traffic::McpRequest;
use crate::catalog::lock::own_name;
use crate::domain::json::{Json, Limits};
use crate::mcp::list::ToolsPage;
use crate::mcp::raw::quoted;

/// Tools of one server.
pub(super) const TOOLS_MAX: usize = 1_000;
/// Bytes of all pages together.
pub(super) const LIST_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Pages of one list.
pub(super) const PAGES_MAX: usize = 1_000;
/// Bytes of a cursor, as JSON.
const CURSOR_BYTES_MAX: usize = 4 * 1024;

/// The tools of one server, in the order of the list.
#[derive(Debug, Default)]
pub(super) struct Listed {
    tools: Vec<Json>,
    /// The index of each tool; `None` for a name that occurs more than once.
    by_name: BTreeMap<String, Option<usize>>,
    /// The tools left out, with the reason.
    pub left_out: Vec<String>,
}

impl Listed {
    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.by_name.get(name).copied().flatten().and_then(|at| self.tools.get(at))
    }

    /// Every tool with a unique name.
    pub fn tools(&self) -> Vec<Json> {
        let mut kept: Vec<usize> = self.by_name.values().copied().flatten().collect();
        kept.sort_unstable();
        kept.into_iter().filter_map(|at| self.tools.get(at).cloned()).collect()
    }

    /// Adds one tool. A tool that cannot be read, or that has another tool's name, is left out: the
    /// meaning of its pin would be ambiguous.
    fn add(&mut self, raw: &RawValue) {
        let tool = match Json::parse(raw.get().as_bytes(), &Limits::FILE) {
            Ok(tool) => tool,
            Err(error) => return self.left_out.push(format!("a tool is no strict JSON: {error}")),
        };
        let Some(name) = own_name(&tool).map(str::to_owned) else {
            return self.left_out.push("a tool has no name".to_owned());
        };
        match self.by_name.get_mut(&name) {
            None => _ = self.by_name.insert(name, Some(self.tools.len())),
            Some(at) => {
                if at.take().is_some() {
                    self.left_out.push(format!("`{name}` is there more than once"));
                }
            }
        }
        self.tools.push(tool);
    }
}

/// Every page of `tools/list`.
///
/// # Errors
/// The server's response is malformed or too large.
pub(super) async fn tools(link: &McpLink) -> Result<Listed, Error> {
    let method = "tools/list";
    let mut listed = Listed::default();
    let (mut cursor, mut bytes): (Option<String>, usize) = (None, 0);
    for _page in 0..PAGES_MAX {
        let params = cursor.as_ref().map(|cursor| ("cursor", cursor.as_bytes()));
        let ask = McpRequest {
            method,
            params: params.into_iter().collect(),
            bytes_max: LIST_BYTES_MAX,
            ..McpRequest::default()
        };
        let answer = link.wire.request(&ask).await.map_err(|why| Error::Request { method, why })?;
        let page = answer.outcome.map_err(|error| Error::Code { method, code: error.code })?;
        bytes = bytes.saturating_add(page.get().len());
        if bytes > LIST_BYTES_MAX {
            return Err(Error::ListSize);
        }
        cursor = read(&page, &mut listed)?;
        if listed.tools.len() > TOOLS_MAX {
            return Err(Error::Tools);
        }
        if cursor.is_none() {
            return Ok(listed);
        }
    }
    Err(Error::Pages)
}

/// Reads one page; returns the next cursor, as JSON, if there is one.
fn read(page: &RawValue, listed: &mut Listed) -> Result<Option<String>, Error> {
    let page = ToolsPage::read(page).map_err(Error::Page)?;
    page.tools.into_iter().for_each(|tool| listed.add(tool));
    let Some(text) = page.next_cursor else { return Ok(None) };
    if text.len() > CURSOR_BYTES_MAX {
        return Err(Error::CursorSize);
    }
    Ok(Some(quoted(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, the number left out, and the cursor.
    type Page = (Vec<String>, usize, Option<String>);

    fn page(text: &str) -> Result<Page, Error> {
        let mut listed = Listed::default();
        let cursor = read(&RawValue::from_string(text.to_owned()).unwrap(), &mut listed)?;
        let name = |tool: &Json| own_name(tool).unwrap().to_owned();
        Ok((listed.tools().iter().map(name).collect(), listed.left_out.len(), cursor))
    }

    #[test]
    fn only_duplicate_or_unreadable_tools_are_left_out_of_a_list() {
        let text = r#"{"tools":[{"name":"a"},{"name":"b"},{"name":"a"},{"name":"c","x":1,"x":2},
            {"n":1},7,{"name":"d"}],"nextCursor":"n\u0065xt"}"#;
        let (names, left_out, cursor) = page(text).unwrap();
        assert_eq!((names, left_out), (vec!["b".to_owned(), "d".to_owned()], 4));
        assert_eq!(cursor.as_deref(), Some("\"next\""));
        assert_eq!(page(r#"{"tools":[],"nextCursor":null}"#).unwrap().2, None);
    }

    #[test]
    fn what_is_no_page_is_refused() {
        for text in ["[]", "{}", r#"{"tools":{}}"#, r#"{"tools":[],"nextCursor":7}"#] {
            assert!(page(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_tool_name_that_is_listed_more_than_once_is_left_out() {
        for times in 2..6 {
            let mut listed = Listed::default();
            for n in 0..times {
                let text = format!(r#"{{"name":"a","description":"{n}"}}"#);
                listed.add(&RawValue::from_string(text).unwrap());
            }
            listed.add(&RawValue::from_string(r#"{"name":"b"}"#.into()).unwrap());
            assert!(listed.get("a").is_none() && listed.get("b").is_some(), "{times}");
            assert_eq!((listed.tools().len(), listed.left_out.len()), (1, 1), "{times}");
        }
    }
}
