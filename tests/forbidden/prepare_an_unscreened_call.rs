//! Opening what an agent asked for before the firewall has searched it.
use wicketgate::domain::call::ToolCall;
use wicketgate::judge::prepared::Prepared;
use wicketgate::tool::{Toolbox, prepare};

pub fn open(toolbox: &Toolbox, call: ToolCall) -> Prepared {
    prepare(toolbox, None, call)
}

fn main() {}
