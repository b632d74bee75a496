//! Runs nobody opened by name: one per caller and thread of work, for faces without `OpenRun`.

use std::sync::Arc;

use super::answer::Fault;
use super::run::Run;
use super::{Opening, Road};
use crate::identity::Caller;

/// What holds the calls of an implicit run together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Thread {
    /// One MCP session.
    Session(String),
    /// A name the agent gave: `/mcp/r/<name>`, `X-Wicketgate-Run`; `[A-Za-z0-9_.-]{1,64}`.
    Named(String),
    /// Nothing but the caller.
    Caller,
}

impl Road {
    /// The open run of this caller and thread; opens one if there is none. It is sealed when its
    /// session ends, after 15 minutes without a call, or at drain.
    ///
    /// # Errors
    /// As `open_run`.
    pub async fn implicit_run(
        self: &Arc<Self>,
        caller: &Caller,
        thread: &Thread,
        opening: Opening,
    ) -> Result<Arc<Run>, Fault> {
        let _ = (thread, self.open_run(caller, opening).await?);
        Err(Fault::new(crate::domain::code::Code::NotReady, "not built yet"))
    }

    /// Seals the implicit run of this caller and thread, if one is open.
    pub async fn end_implicit(self: &Arc<Self>, caller: &Caller, thread: &Thread) {
        let _ = (caller, thread);
        std::future::ready(()).await;
    }

    /// Asks a call on the road to stop. One that is not begun ends cancelled; one at its tool ends
    /// cancelled if the tool only reads, else unknown. A call that is over is left alone.
    pub fn cancel(&self, run: &Arc<Run>, call: &str) {
        let _ = (run, call);
    }
}
