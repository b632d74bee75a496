//! temporary
use crate::domain::call::ToolCall;
use crate::domain::id::ToolName;
use crate::domain::prepared::{Prepared, ToolFacts};
use crate::identity::manifest::Grant;
use std::collections::BTreeMap;
use std::sync::Arc;
/// t
pub struct Tool {
    /// f
    pub facts: Arc<ToolFacts>,
    /// d
    pub description: String,
    /// s
    pub input_schema: Vec<u8>,
    /// e
    pub executor: Arc<dyn super::ToolExecutor>,
}
/// t
#[derive(Default)]
pub struct Toolbox {
    tools: BTreeMap<ToolName, Tool>,
}
impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Toolbox")
    }
}
impl Toolbox {
    /// g
    pub fn get(&self, name: &ToolName) -> Option<&Tool> {
        self.tools.get(name)
    }
}
/// p
pub fn prepare(toolbox: &Toolbox, _grant: Option<&Grant>, call: ToolCall) -> Prepared {
    let tool = toolbox.get(call.tool()).map(|t| Arc::clone(&t.facts));
    Prepared::refused(call, tool, Vec::new())
}
