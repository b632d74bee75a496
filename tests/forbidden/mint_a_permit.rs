//! The ledger's own constructor, called by somebody else.
use std::sync::Arc;

use wicketgate::ledger::fuse::Tenure;
use wicketgate::ledger::permit::{Permit, Receipt};
use wicketgate::judge::Judged;

pub fn mint(judged: Judged, receipt: Receipt, tenure: &Arc<Tenure>) -> Permit {
    Permit::mint(judged, receipt, tenure)
}

fn main() {}
