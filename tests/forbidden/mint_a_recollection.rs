//! The ledger's own constructor of an answer from memory, called by somebody else.
use wicketgate::domain::id::CallId;
use wicketgate::ledger::permit::{Recalled, RecalledState, Receipt};

pub fn mint(call: CallId, state: RecalledState, receipt: Receipt) -> Recalled {
    Recalled::mint(call, state, receipt)
}

fn main() {}
