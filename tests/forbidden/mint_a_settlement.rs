//! The ledger's own constructor of a settled outcome, called by somebody else.
use wicketgate::ledger::permit::{Finished, Receipt, Settled};

pub fn mint(finished: Finished, receipt: Receipt) -> Settled {
    Settled::mint(finished, receipt)
}

fn main() {}
