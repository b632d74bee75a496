//! A denial that was never written down.
use wicketgate::domain::id::CallId;
use wicketgate::ledger::permit::{Receipt, Refusal};

pub fn forge(call: CallId, receipt: Receipt) -> Refusal {
    Refusal { call, reasons: Vec::new(), receipt }
}

fn main() {}
