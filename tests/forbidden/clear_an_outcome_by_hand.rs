//! An answer of a tool that was not searched, passed on as if the guard had.
use wicketgate::domain::outcome::Ended;
use wicketgate::ledger::outgoing::ClearedOutcome;

pub fn clear(ended: Ended) -> ClearedOutcome {
    ClearedOutcome::of(ended, false)
}

fn main() {}
