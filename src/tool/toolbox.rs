//! temporary
use crate::domain::call::ToolCall;
use crate::domain::code::Code;
use crate::domain::decision::Reason;
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
impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tool")
    }
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
    /// The tools as they are.
    #[must_use]
    pub fn of(tools: Vec<Tool>) -> Self {
        Self { tools: tools.into_iter().map(|t| (t.facts.name.clone(), t)).collect() }
    }
    /// g
    pub fn get(&self, name: &ToolName) -> Option<&Tool> {
        self.tools.get(name)
    }
}
/// p
pub fn prepare(toolbox: &Toolbox, grant: Option<&Grant>, call: ToolCall) -> Prepared {
    let tool = toolbox.get(call.tool());
    let (Some(tool), Some(_)) = (tool, grant) else {
        let reason = Reason {
            code: Code::ToolNotGranted,
            detail: "tool.not_granted".into(),
            message: "the tool is not granted".into(),
            rule: "manifest.tools".into(),
        };
        return Prepared::refused(call, None, vec![reason]);
    };
    let facts = Arc::clone(&tool.facts);
    // A panic is a refusal too, and goes on the books as one.
    let prepared =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tool.executor.prepare(&call)));
    let panicked = || Reason {
        code: Code::EffectRefused,
        detail: "prepare.panic".into(),
        message: "the tool could not be prepared".into(),
        rule: "tool.prepare".into(),
    };
    match prepared.unwrap_or_else(|_| Err(vec![panicked()])) {
        Ok((effect, hold)) => Prepared::ready(call, facts, effect, Vec::new(), hold),
        Err(reasons) => Prepared::refused(call, Some(facts), reasons),
    }
}
