//! One permit, two executions.
use std::sync::Arc;

use wicketgate::clock::Clock;
use wicketgate::ledger::permit::Permit;
use wicketgate::tool::{ToolExecutor, run};

pub async fn twice(executor: Arc<dyn ToolExecutor>, clock: &dyn Clock, permit: Permit) {
    let _first = run(&executor, clock, permit, (&Default::default(), None)).await;
    let _second = run(&executor, clock, permit, (&Default::default(), None)).await;
}

fn main() {}
