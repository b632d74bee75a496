//! A prepared call whose target nobody opened.
use std::sync::Arc;

use wicketgate::domain::call::ToolCall;
use wicketgate::domain::effect::Effect;
use wicketgate::domain::facts::ToolFacts;
use wicketgate::judge::prepared::Prepared;

pub fn forge(call: ToolCall, tool: Arc<ToolFacts>) -> Prepared {
    Prepared::ready(call, tool, Effect::None, Vec::new(), Box::new(()))
}

fn main() {}
