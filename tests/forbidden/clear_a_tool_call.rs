//! A tool call of an answer cleared without a decision: its fields are private to the ledger.
use wicketgate::ledger::flow::Cleared;

pub fn clear() -> Cleared {
    Cleared { arguments: None }
}

fn main() {}
