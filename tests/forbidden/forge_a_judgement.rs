//! A decision nobody made.
use wicketgate::domain::decision::Decision;
use wicketgate::judge::prepared::Prepared;
use wicketgate::judge::Judged;

pub fn forge(prepared: Prepared, decision: Decision) -> Judged {
    Judged { prepared, decision, binding: "observed", resumed: None, break_glass: None }
}

fn main() {}
