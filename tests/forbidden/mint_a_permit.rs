//! The ledger's own constructor, called by somebody else.
use wicketgate::ledger::permit::{Permit, Receipt};
use wicketgate::policy::Judged;

pub fn mint(judged: Judged, receipt: Receipt) -> Permit {
    Permit::mint(judged, receipt)
}

fn main() {}
