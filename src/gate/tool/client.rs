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
use crate::domain::outcome::{AnswerContent, FailureClass, Unmasked};
use crate::judge::prepared::PreparedResource;
use crate::ledger::permit::Permit;

/// How the names of these tools begin on the road: `client.<name>`.
pub const PREFIX: &str = "client.";

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
