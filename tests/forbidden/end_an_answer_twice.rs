//! One proof of an outcome, and two ends.
use wicketgate::ledger::flow::Last;

pub fn twice(last: Last) -> usize {
    let first = last.into_bytes();
    let second = last.into_bytes();
    first.len() + second.len()
}

fn main() {}
