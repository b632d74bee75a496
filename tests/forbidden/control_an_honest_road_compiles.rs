//! The same types, used as they are meant to be: this one must compile.
use std::sync::Arc;

use wicketgate::clock::Clock;
use wicketgate::domain::outcome::Unmasked;
use wicketgate::judge::prepared::Prepared;
use wicketgate::ledger::permit::{Finished, Held, Permit, Recalled, Refusal, Settled};
use wicketgate::judge::{Criteria, Judged, judge};
use wicketgate::tool::{ToolExecutor, run};

pub fn judged(bench: Criteria<'_>, prepared: Prepared) -> Judged {
    judge(&bench, prepared)
}

pub async fn once(executor: Arc<dyn ToolExecutor>, clock: &dyn Clock, permit: Permit) -> Finished {
    run(&executor, clock, permit, (&Default::default(), None)).await
}

pub async fn inside(executor: &dyn ToolExecutor, permit: &Permit) -> Unmasked {
    executor.execute(permit).await
}

pub fn seen(settled: &Settled, refusal: &Refusal, held: &Held, recalled: &Recalled) -> u64 {
    let receipts = [settled.receipt(), refusal.receipt(), held.receipt(), recalled.receipt()];
    receipts.iter().map(|receipt| receipt.run_seq).sum()
}

fn main() {}
