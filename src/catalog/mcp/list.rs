//! The list of tools, as servers give it.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::raw;

/// One page of the list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolsPage<'a> {
    /// Every tool, as it came.
    #[serde(borrow)]
    pub tools: Vec<&'a RawValue>,
    /// Asks for the next page; absent on the last one.
    pub next_cursor: Option<String>,
}

impl<'a> ToolsPage<'a> {
    /// Reads the result of `tools/list`.
    ///
    /// # Errors
    /// Not a page of tools.
    pub fn read(result: &'a RawValue) -> Result<Self, serde_json::Error> {
        raw::read(result.get())
    }
}
