//! Saying how a call ended without having run it.
use wicketgate::ledger::outgoing::ClearedOutcome;
use wicketgate::ledger::permit::{Finished, Permit};

pub fn invent(permit: Permit, cleared: ClearedOutcome) -> Finished {
    permit.finish(cleared)
}

fn main() {}
