//! An outcome for a call that was never permitted.
use wicketgate::domain::id::{CallId, RunId, ToolName};
use wicketgate::domain::outcome::{Ended, Observed};
use wicketgate::ledger::permit::{Finished, Receipt};

pub fn forge(run: RunId, call: CallId, tool: ToolName, authorized: Receipt, ended: Ended) -> Finished {
    Finished { run, call, tool, authorized, ended, observed: Observed::default(), inert: false, stream: None }
}

fn main() {}
