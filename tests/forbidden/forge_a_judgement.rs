//! A decision nobody made.
use wicketgate::domain::decision::Decision;
use wicketgate::domain::tier::Binding;
use wicketgate::judge::Judged;
use wicketgate::judge::prepared::Prepared;

pub fn forge(prepared: Prepared, decision: Decision) -> Judged {
    Judged { prepared, decision, binding: Binding::Observed, resumed: None, break_glass: None }
}

fn main() {}
