//! A run that outlived its writer: what its entries tell whoever takes it up.

use std::collections::{BTreeMap, VecDeque};

use super::entry::{Entry, Kind};
use super::tail::Phase;
use crate::domain::id::{CallId, RunId, ToolName};
use crate::domain::json::Json;
use crate::domain::time::Timestamp;

/// A run that was open when the last writer ended, as its entries tell it.
#[derive(Clone, Debug)]
pub struct RecoveredRun {
    /// The run.
    pub run: RunId,
    /// Its `run.opened` entry.
    pub opened: Entry,
    /// `run_seq` of its last entry.
    pub last_seq: u64,
    /// Every call and how far it is.
    pub calls: Vec<(CallId, Phase)>,
    /// What its limits remember.
    pub past: Past,
}

/// What of a run's entries its limits go by after a restart.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// Failed or unknown calls since the last one that went well.
    pub errors_in_row: u64,
    /// Authorised calls, by tool.
    pub authorized: BTreeMap<ToolName, u64>,
    /// What the runs it delegated to used of its limits, those that are sealed too.
    pub delegated: Delegated,
    /// When calls were denied, ascending; the last ones only.
    pub denials: VecDeque<Timestamp>,
    /// Denied calls, by tool.
    pub denied: BTreeMap<ToolName, u64>,
}

impl Past {
    /// Denials remembered at most.
    const DENIALS: usize = 1024;

    /// Reads them off the entries of a run, ascending.
    pub(super) fn of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Self {
        let mut past = Self::default();
        for entry in entries {
            let draft = &entry.draft;
            // An MCP tool tells that it failed inside a result that arrived.
            let status = draft.data.get("status").and_then(Json::as_str);
            let failed = matches!(draft.kind, Kind::CallFailed | Kind::CallUnknown)
                || (draft.kind == Kind::CallCompleted && status == Some("error"));
            if failed {
                past.errors_in_row = past.errors_in_row.saturating_add(1);
            } else if draft.kind == Kind::CallCompleted {
                past.errors_in_row = 0;
            } else if draft.kind == Kind::CallDenied {
                if let Some(tool) = &draft.tool {
                    let times = past.denied.entry(tool.clone()).or_default();
                    *times = times.saturating_add(1);
                }
                past.denials.push_back(entry.ts);
                if past.denials.len() > Self::DENIALS {
                    past.denials.pop_front();
                }
            } else if let (Kind::CallAuthorized, Some(tool)) = (draft.kind, &draft.tool) {
                let times = past.authorized.entry(tool.clone()).or_default();
                *times = times.saturating_add(1);
            }
        }
        past
    }
}

/// What the runs below a run used, as far as its limits count them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Delegated {
    /// Calls that were decided.
    pub calls: u64,
    /// Authorised calls of runs that were not only simulated, by tool.
    pub authorized: BTreeMap<ToolName, u64>,
}

impl RecoveredRun {
    /// Held calls that an approver spoke about: they have to be judged again.
    pub fn spoken(&self) -> impl Iterator<Item = &CallId> {
        let spoken = |phase: &Phase| matches!(phase, Phase::Approved(_) | Phase::Refused(_));
        self.calls.iter().filter(move |(_, phase)| spoken(phase)).map(|(call, _)| call)
    }

    /// Held calls and when they expire.
    pub fn held(&self) -> impl Iterator<Item = (&CallId, Timestamp)> {
        self.calls.iter().filter_map(|(call, phase)| match phase {
            Phase::Held(expires) | Phase::Approved(expires) | Phase::Refused(expires) => {
                Some((call, *expires))
            }
            Phase::Authorized | Phase::Over(_) => None,
        })
    }
}
