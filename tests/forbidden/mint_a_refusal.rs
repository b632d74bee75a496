//! The ledger's own constructor of a denial, called by somebody else.
use wicketgate::ledger::permit::{Receipt, Refusal};
use wicketgate::judge::Judged;

pub fn mint(judged: Judged, receipt: Receipt) -> Refusal {
    Refusal::mint(judged, receipt)
}

fn main() {}
