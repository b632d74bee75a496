//! A permit for no call at all.
use wicketgate::ledger::permit::Permit;

pub fn default() -> Permit {
    Permit::default()
}

fn main() {}
