//! The whole road on one screen. Every face calls this and only this.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::code::Code;
use crate::domain::decision::Reason;
use crate::domain::id::{CallId, RunId};
use crate::domain::time::Timestamp;
use crate::identity::{Caller, Peer};
use crate::ledger::permit::Receipt;

/// What an agent claims when it opens a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Opening {
    /// Requested model id.
    pub model: String,
    /// SHA-256 of the instructions the agent runs with, 64 hex digits each.
    pub instructions: Vec<String>,
    /// Tools the agent has loaded.
    pub tools: Vec<String>,
    /// `enforce` or empty.
    pub mode: String,
    /// Labels: claims, never authority.
    pub labels: BTreeMap<String, String>,
    /// W3C trace context from the caller.
    pub traceparent: Option<String>,
}

/// A run that was opened. The token is given once and never stored.
#[derive(Debug)]
pub struct Opened {
    /// The run.
    pub run: RunId,
    /// The run token.
    pub token: String,
    /// Until when the token works at the latest.
    pub expires: Option<Timestamp>,
    /// `claimed` or `observed`.
    pub binding: &'static str,
    /// Where it is on the books.
    pub receipt: Receipt,
}

/// A run that was sealed.
#[derive(Debug)]
pub struct Sealed {
    /// Entries of the run, `run.opened` and `run.sealed` included.
    pub entries: u64,
    /// Where it is on the books.
    pub receipt: Receipt,
}

/// One tool as the agent is shown it.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolView {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema (2020-12) of its arguments, canonical.
    pub input_schema: Vec<u8>,
    /// Effective tier.
    pub tier: &'static str,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// `sha256:` definition digest.
    pub definition: String,
}

/// One request to run a tool, not yet admitted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CallRequest {
    /// The tool.
    pub tool: String,
    /// UTF-8 JSON.
    pub arguments: Vec<u8>,
    /// The agent's id for the call; empty means minted and no idempotency.
    pub call_id: String,
    /// W3C trace context from the caller.
    pub traceparent: Option<String>,
}

/// Something the caller is told that is no result: the source of every error on the wire.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The stable code.
    pub code: Code,
    /// The finer code: `json.duplicate_key`, `schema.required`, …; empty if there is none.
    pub detail: String,
    /// For a person.
    pub message: String,
    /// The call, once it has an id.
    pub call: Option<CallId>,
    /// Every reason of a recorded denial or hold.
    pub reasons: Vec<Reason>,
    /// Until when a held call waits.
    pub expires: Option<Timestamp>,
    /// When trying again makes sense.
    pub retry_after: Option<std::time::Duration>,
    /// Where it is on the books; absent for what was refused before admission.
    pub receipt: Option<Receipt>,
}

/// A result that may be released, and where it is on the books.
#[derive(Debug)]
pub struct Released {
    /// The call.
    pub call: CallId,
    /// UTF-8 JSON.
    pub result: Vec<u8>,
    /// The tool's own status.
    pub status: String,
    /// Where the outcome is on the books.
    pub receipt: Receipt,
}

/// An open run as the faces hold it.
#[derive(Debug)]
pub struct Run {
    id: RunId,
}

impl Run {
    /// Its id.
    #[must_use]
    pub const fn id(&self) -> &RunId {
        &self.id
    }
}

/// The gate: the one way to a tool.
#[derive(Debug)]
pub struct Road {}

impl Road {
    /// Opens a run for this caller, after its claims were held against its manifest.
    ///
    /// # Errors
    /// `manifest.mismatch`, `not_ready`, `ledger.*`, `shutdown`, `overloaded`.
    pub async fn open_run(&self, _caller: &Caller, _opening: Opening) -> Result<Opened, Fault> {
        unimplemented!()
    }

    /// The open run this token belongs to, if this peer may use it. A sealed run is found too.
    ///
    /// # Errors
    /// `identity.missing`, `run.unknown`.
    pub fn find_run(&self, _peer: &Peer, _token: &str) -> Result<Arc<Run>, Fault> {
        unimplemented!()
    }

    /// The tools that exist for this run's agent, by name.
    ///
    /// # Errors
    /// `run.sealed`.
    pub fn list_tools(&self, _run: &Arc<Run>) -> Result<Vec<ToolView>, Fault> {
        unimplemented!()
    }

    /// Walks one call down the road. The work goes on if the caller hangs up.
    ///
    /// # Errors
    /// Everything that is no result.
    pub async fn execute(
        self: &Arc<Self>,
        _run: &Arc<Run>,
        _request: CallRequest,
    ) -> Result<Released, Fault> {
        unimplemented!()
    }

    /// How far a call got, from the books: the same answer `execute` gave or will give.
    ///
    /// # Errors
    /// As `execute`; `call.not_found`.
    pub async fn call(&self, _run: &Arc<Run>, _call_id: &str) -> Result<Released, Fault> {
        unimplemented!()
    }

    /// Ends the run: waits for its calls, cancels held ones, writes `run.sealed`.
    ///
    /// # Errors
    /// `run.sealed`, `ledger.*`.
    pub async fn seal_run(self: &Arc<Self>, _run: &Arc<Run>) -> Result<Sealed, Fault> {
        unimplemented!()
    }
}
