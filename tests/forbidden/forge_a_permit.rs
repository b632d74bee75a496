//! A permit out of thin air: its fields are private to the ledger.
use wicketgate::judge::prepared::Prepared;
use wicketgate::ledger::permit::{Permit, Receipt};

pub fn forge(prepared: Prepared, receipt: Receipt) -> Permit {
    Permit { prepared, obligations: Vec::new(), receipt }
}

fn main() {}
