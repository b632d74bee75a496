//! Taking the descriptor or the request out of a prepared call without a permit.
use wicketgate::domain::prepared::Prepared;

pub fn steal(prepared: &Prepared) -> Option<&std::fs::File> {
    prepared.hold::<std::fs::File>()
}

fn main() {}
