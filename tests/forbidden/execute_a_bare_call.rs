//! Running what an agent asked for, without a decision.
use wicketgate::domain::call::ToolCall;
use wicketgate::domain::outcome::Unmasked;
use wicketgate::tool::ToolExecutor;

pub async fn run(executor: &dyn ToolExecutor, call: &ToolCall) -> Unmasked {
    executor.execute(call).await
}

fn main() {}
