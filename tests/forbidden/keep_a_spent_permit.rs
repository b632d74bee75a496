//! Lending a permit to an executor again after it was spent.
use std::sync::Arc;

use wicketgate::clock::Clock;
use wicketgate::domain::outcome::Unmasked;
use wicketgate::ledger::permit::Permit;
use wicketgate::tool::{ToolExecutor, run};

pub async fn again(executor: Arc<dyn ToolExecutor>, clock: &dyn Clock, permit: Permit) -> Unmasked {
    let _finished = run(&executor, clock, permit, (&Default::default(), None)).await;
    executor.execute(&permit).await
}

fn main() {}
