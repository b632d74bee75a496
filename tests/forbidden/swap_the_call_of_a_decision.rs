//! The decision about one call, paired with another call.
use wicketgate::judge::prepared::Prepared;
use wicketgate::judge::Judged;

pub fn swap(mut judged: Judged, other: Prepared) -> Judged {
    judged.prepared = other;
    judged
}

fn main() {}
