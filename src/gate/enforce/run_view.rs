//! What an agent may know about its own run.

use super::run::Run;
use crate::domain::id::RunId;
use crate::domain::tier::Binding;
use crate::domain::time::Timestamp;
use crate::identity::manifest::Mode;

/// A run, as its agent sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunView {
    /// The run.
    pub run: RunId,
    /// The name of its manifest.
    pub agent: String,
    /// The version of its manifest.
    pub version: String,
    /// How model and instructions are known.
    pub binding: Binding,
    /// The effect of an allowed call.
    pub mode: Mode,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// The latest time at which its token works.
    pub expires: Option<Timestamp>,
    /// Whether it takes no new calls any more.
    pub sealed: bool,
    /// Calls that were asked for.
    pub calls: u64,
    /// Calls that failed, or whose outcome is unknown.
    pub errors: u64,
    /// Calls that were denied.
    pub denied: u64,
    /// Calls that wait for an approval.
    pub held: usize,
    /// Calls that are being decided or run.
    pub in_flight: usize,
}

impl Run {
    /// The run as it is now.
    #[must_use]
    pub fn view(&self) -> RunView {
        let state = self.state.lock();
        RunView {
            run: self.id,
            agent: self.agent.id.clone(),
            version: self.agent.version.clone(),
            binding: self.agent.binding,
            mode: self.mode,
            opened_at: self.opened_at,
            expires: self.expires,
            sealed: state.closing,
            calls: state.usage.calls(),
            errors: state.usage.errors(),
            denied: state.usage.denied(),
            held: state.held,
            in_flight: state.in_flight,
        }
    }
}
