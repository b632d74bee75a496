//! Replying with an outcome that is not on the books yet.
use std::sync::Arc;

use wicketgate::clock::Clock;
use wicketgate::ledger::permit::{Permit, Settled};
use wicketgate::tool::{ToolExecutor, run};

pub async fn hasty(executor: Arc<dyn ToolExecutor>, clock: &dyn Clock, permit: Permit) -> Settled {
    run(&executor, clock, permit, (&Default::default(), None)).await
}

fn main() {}
