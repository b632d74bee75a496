//! An outcome that claims to be on the books.
use wicketgate::ledger::permit::{Finished, Receipt, Settled};

pub fn forge(finished: Finished, receipt: Receipt) -> Settled {
    Settled { finished, receipt }
}

fn main() {}
