//! What sealed runs used of the limits of an open run above them. Only the entries of the
//! descendants record it, not those of the open run.

use std::collections::{BTreeMap, BTreeSet};

use super::recovered::{Delegated, args_bytes, usage};
use crate::domain::id::{CallId, RunId};
use crate::record::run::RunOpened;
use crate::record::{Entry, Kind};

/// A descendant run, while its entries are read.
struct DelegatedRun {
    above: Vec<RunId>,
    simulated: bool,
    calls: BTreeSet<CallId>,
    /// Bytes of the arguments of unfinished calls, by call.
    asked: BTreeMap<CallId, u64>,
}

/// Reads the entries in ascending order, from the opening of the first run that may delegate.
#[derive(Default)]
pub(super) struct DelegationTally {
    below: BTreeMap<RunId, DelegatedRun>,
    used: BTreeMap<RunId, Delegated>,
}

impl DelegationTally {
    /// Takes the next entry of the chain.
    pub fn accept(&mut self, entry: &Entry) {
        let draft = &entry.draft;
        let Some(run) = draft.run else { return };
        if let Some(opened) = draft.get::<RunOpened>() {
            let above = opened.delegation.iter().flat_map(|list| list.iter());
            let above: Vec<RunId> = above.map(|one| one.run).collect();
            if !above.is_empty() {
                for above in &above {
                    self.used.entry(*above).or_default().reading.take(entry);
                }
                let simulated = opened.mode == "simulate";
                let (calls, asked) = (BTreeSet::new(), BTreeMap::new());
                self.below.insert(run, DelegatedRun { above, simulated, calls, asked });
            }
            return;
        }
        if draft.kind() == Kind::RunSealed {
            self.below.remove(&run);
            return;
        }
        if draft.kind() == Kind::TaintCleared
            && let Some(used) = self.used.get_mut(&run)
        {
            used.reading.clear(entry.seq);
        }
        let (Some(below), Some(call)) = (self.below.get_mut(&run), &draft.call) else { return };
        if let (Some(usage), Some(tool)) = (usage(entry), &draft.tool) {
            let bytes = below.asked.remove(call).unwrap_or_default();
            for above in &below.above {
                self.used.entry(*above).or_default().spending.measured(tool, bytes, usage);
            }
        }
        for above in &below.above {
            self.used.entry(*above).or_default().reading.take(entry);
        }
        if !draft.kind().decides() {
            return;
        }
        let first = below.calls.insert(call.clone());
        let ran = draft.kind() == Kind::CallAuthorized && !below.simulated;
        let bytes = args_bytes(entry);
        if ran {
            below.asked.insert(call.clone(), bytes);
        }
        for above in &below.above {
            let used = self.used.entry(*above).or_default();
            used.calls = used.calls.saturating_add(u64::from(first));
            if let Some(tool) = draft.tool.as_ref().filter(|_| ran) {
                used.spending.authorized(tool, bytes);
            }
        }
    }

    /// The part of this run's limits that descendants used.
    pub fn of(&mut self, run: &RunId) -> Delegated {
        self.used.remove(run).unwrap_or_default()
    }
}
