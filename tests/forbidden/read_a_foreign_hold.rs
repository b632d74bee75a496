//! Taking the descriptor or the request out of a prepared call without a permit.
use wicketgate::judge::prepared::Prepared;

pub fn steal(prepared: &Prepared) -> Option<&std::fs::File> {
    prepared.hold::<std::fs::File>()
}

fn main() {}
