//! A heartbeat that names a tool: the struct of its kind has no such member.
use wicketgate::record::Draft;
use wicketgate::record::chain::Heartbeat;

pub fn forge(beat: Heartbeat) -> Draft {
    Draft::of(Heartbeat { tool: "files.read".into(), ..beat })
}

fn main() {}
