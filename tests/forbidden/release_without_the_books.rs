//! A released result made by hand: only `enforce` makes one, from something durable.
use wicketgate::domain::id::CallId;
use wicketgate::enforce::Released;
use wicketgate::ledger::permit::Receipt;

pub fn forged(call: CallId, receipt: Receipt) -> Released {
    Released { call, result: Vec::new(), status: String::new(), receipt, pending: false }
}

fn main() {}
