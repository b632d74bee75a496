//! Running a call that waits for a person.
use std::sync::Arc;

use wicketgate::clock::Clock;
use wicketgate::ledger::permit::Held;
use wicketgate::tool::{ToolExecutor, run};

pub async fn impatient(executor: Arc<dyn ToolExecutor>, clock: &dyn Clock, held: Held) {
    let _finished = run(&executor, clock, held, &Default::default()).await;
}

fn main() {}
