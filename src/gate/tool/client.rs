//! The `client` kind: tools that the agent runs itself. A call is one tool call of a model's answer;
//! to run it is to hand it to the agent.
//!
//! The gate sees what the model asks for, not what the agent does with it.

use async_trait::async_trait;

use super::ToolExecutor;
use super::request::failed;
use crate::domain::call::{CallSource, ToolCall};
use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::domain::effect::Effect;
use crate::domain::id::CallId;
use crate::domain::outcome::{AnswerContent, FailureClass, Unmasked};
use crate::judge::prepared::PreparedResource;
use crate::ledger::permit::Permit;

/// How the names of these tools begin on the road: `client.<name>`.
pub const PREFIX: &str = "client.";
/// What stands in the id of a tool call between the id of the model's call and the place.
const OF_ANSWER: &str = "-p";

/// The name of a client's tool on the road. One that could not be a tool's name is granted to no
/// agent.
pub fn road_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' };
    let name: String = name.chars().map(plain).take(120).collect();
    format!("{PREFIX}{name}")
}

/// The id of a tool call of an answer: that of the model's call, and its place among the tool calls.
/// `None` if the former leaves no room.
pub fn proposal_id(model_call: &CallId, index: u64) -> Option<CallId> {
    CallId::parse(&format!("{model_call}{OF_ANSWER}{index}"))
}

/// What such an id names.
pub fn proposal(id: &str) -> Option<(&str, u64)> {
    let (model_call, index) = id.rsplit_once(OF_ANSWER)?;
    Some((model_call, index.parse().ok()?))
}

/// Every tool that agents run themselves.
#[derive(Clone, Copy, Debug)]
pub struct ClientTool;

/// Proof that a call was prepared as a tool call of an answer.
struct HandedOver;

#[async_trait]
impl ToolExecutor for ClientTool {
    fn prepare(&self, call: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        let CallSource::Proposal { .. } = call.source() else {
            // WHY the words of a tool that does not exist: an agent has nothing to call here.
            return Err(vec![LayerReason {
                code: Code::ToolNotGranted,
                detail: String::new(),
                message: format!("tool `{}` is not granted to this agent", call.tool()),
                rule: "manifest".into(),
            }]);
        };
        let name = call.tool().as_str();
        let name = name.strip_prefix(PREFIX).unwrap_or(name).to_owned();
        let effect = Effect::Client { name };
        Ok((effect, Box::new(HandedOver)))
    }

    async fn execute(&self, permit: &Permit) -> Unmasked {
        if permit.prepared().hold::<HandedOver>().is_none() {
            return failed(FailureClass::Changed, false, "the call was prepared by another tool");
        }
        let arguments = permit.call().sent().to_vec();
        Unmasked::Completed { result: AnswerContent::Text(arguments), status: "released".into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::ToolName;

    #[test]
    fn the_id_of_a_tool_call_names_the_call_of_its_model() {
        let model = CallId::parse("a-p1").unwrap();
        let id = proposal_id(&model, 7).unwrap();
        assert_eq!(proposal(id.as_str()), Some(("a-p1", 7)));
        assert_eq!(proposal("a"), None);
        assert_eq!(proposal("a-px"), None);
        assert_eq!(proposal_id(&CallId::parse(&"x".repeat(63)).unwrap(), 7), None);
    }

    #[test]
    fn a_tool_of_the_agent_cannot_take_the_name_of_a_tool_of_the_gate() {
        assert_eq!(road_name("Bash"), "client.Bash");
        assert_eq!(road_name("a b/c"), "client.a_b_c");
        assert!(ToolName::parse(&road_name(&"x".repeat(999))).is_some());
    }
}
