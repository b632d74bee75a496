//! The decision about one call, paired with another call.
use wicketgate::domain::prepared::Prepared;
use wicketgate::policy::Judged;

pub fn swap(mut judged: Judged, other: Prepared) -> Judged {
    judged.prepared = other;
    judged
}

fn main() {}
