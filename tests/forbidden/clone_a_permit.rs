//! Two permits out of one.
use wicketgate::ledger::permit::Permit;

pub fn double(permit: Permit) -> (Permit, Permit) {
    (permit.clone(), permit)
}

fn main() {}
