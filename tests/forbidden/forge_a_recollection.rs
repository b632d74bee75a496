//! An answer from memory that the ledger never gave.
use wicketgate::domain::id::CallId;
use wicketgate::ledger::permit::{Recalled, RecalledState, Receipt};

pub fn forge(call: CallId, state: RecalledState, receipt: Receipt) -> Recalled {
    Recalled { call, state, receipt }
}

fn main() {}
