//! What the ledger records about a call that an agent repeats.

use std::collections::BTreeSet;

use super::permit::{Recalled, RecalledState, Receipt};
use super::store::{PayloadRef, PayloadRow, StoreError};
use super::{Error, Ledger, vault};
use crate::domain::call::ToolCall;
use crate::domain::code::Code;
use crate::domain::commitment::opens;
use crate::domain::decision::{LayerReason, Verdict};
use crate::domain::digest::Digest;
use crate::domain::guarded::{GuardAction, Withheld};
use crate::domain::id::{CallId, RunId, Seq, ToolName};
use crate::domain::outcome::{FailureClass, Outcome};
use crate::record::call::{
    AskedIn, CallAuthorized, CallCancelled, CallCompleted, CallDenied, CallExpired, CallFailed,
    CallHeld, CallUnknown, Decision,
};
use crate::record::{self, Body, Entry, Kind, Role};

/// A recorded call with its arguments, to compare a retry with.
#[derive(Clone, PartialEq, Debug)]
pub struct Remembered {
    /// The recorded state of the call.
    pub recalled: Recalled,
    /// The tool.
    pub tool: Option<ToolName>,
    /// The canonical arguments, unless erased or withheld.
    pub args: Option<Vec<u8>>,
    /// The keyed digest of the call, if its entry has one.
    pub mark: Option<Digest>,
    /// The form of a request to a model that was held.
    pub asked_in: Option<AskedIn>,
    /// The kinds of which every finding in the arguments is masked.
    pub masked: Vec<String>,
}

/// One recorded call as a step of a loop.
#[derive(Clone, Debug)]
pub struct LedgerStep {
    /// The recorded state of the call.
    pub recalled: Recalled,
    /// The tool.
    pub tool: Option<ToolName>,
    /// The request of the agent that it is a step of.
    pub parent: Option<CallId>,
    /// Whether the gate offered its tools as instructions.
    pub has_tools_text: bool,
    /// The newest verdict.
    pub verdict: Option<Verdict>,
    /// Whether that is enforced.
    pub enforced: bool,
    /// The model that answered.
    pub model: Option<String>,
    /// The tables that were queried.
    pub tables: Vec<String>,
}

/// Whether a requested call is the recorded one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Likeness {
    /// The same tool and the same bytes.
    Same,
    /// Another tool or other bytes.
    Other,
    /// The recorded arguments are not stored. The gate never treats this as [`Likeness::Same`].
    Unknown,
}

/// The kinds of which every finding in the arguments is masked.
pub(super) fn masked_kinds(decision: &Decision<'_>) -> Vec<String> {
    if let Some(masked) = decision.masked {
        return masked.iter().map(str::to_owned).collect();
    }
    // Earlier gates recorded them among the findings only.
    let (masked, others): (Vec<_>, Vec<_>) =
        decision.findings.iter().partition(|one| one.action == GuardAction::Redact);
    let passed: BTreeSet<&str> = others.into_iter().map(|one| one.kind.as_str()).collect();
    let kinds: BTreeSet<&str> = masked.into_iter().map(|one| one.kind.as_str()).collect();
    kinds.difference(&passed).map(|kind| (*kind).to_owned()).collect()
}

impl Remembered {
    /// Compares these arguments of this tool with the record: with the arguments where they are
    /// stored, else with the mark. `mark` is the mark that the requested call would have.
    #[must_use]
    pub fn likeness(&self, tool: &ToolName, args: &[u8], mark: Option<Digest>) -> Likeness {
        if self.tool.as_ref().is_some_and(|known| known != tool) {
            return Likeness::Other;
        }
        let by_args = self.args.as_ref().map(|known| known == args);
        // A mark covers the tool too; without a mark and a recorded tool, the tools cannot be
        // compared.
        let by_args = by_args.filter(|same| !same || self.tool.is_some());
        let by_mark = || Some(self.mark? == mark?);
        match by_args.or_else(by_mark) {
            Some(true) => Likeness::Same,
            Some(false) => Likeness::Other,
            None => Likeness::Unknown,
        }
    }
}

impl Ledger {
    /// The mark of this call, if marks are kept.
    pub(super) fn mark(&self, call: &ToolCall) -> Option<Digest> {
        self.shared.settings.marks.as_deref().map(|marks| marks.mark_of(call))
    }

    /// Compares a requested call, under the id `call` of `run`, with the recorded one.
    #[must_use]
    pub fn likeness(
        &self,
        known: &Remembered,
        (run, call): (&RunId, &CallId),
        (tool, args): (&ToolName, &[u8]),
    ) -> Likeness {
        let marks = self.shared.settings.marks.as_deref();
        known.likeness(tool, args, marks.map(|marks| marks.mark(run, call, tool, args)))
    }

    /// The recorded answer to a call, or `None` if this run never made it.
    ///
    /// # Errors
    /// The store cannot be read, so the answer is unknown.
    pub async fn recall(&self, run: &RunId, call: &CallId) -> Result<Option<Remembered>, Error> {
        let entries = self.entries_of(run, call).await?;
        let Some((first, _, recalled)) = self.newest(call, &entries).await? else {
            return Ok(None);
        };
        let decision = first.draft.body.decision();
        // Arguments that are stored in parts are compared by the mark.
        let in_parts = decision.is_some_and(|decision| decision.args_bytes.is_some());
        let args = if in_parts { None } else { self.opening(first, Role::Args).await? };
        let mark = decision.and_then(|decision| decision.mark);
        let asked_in = first.draft.get::<CallHeld>().and_then(|held| held.asked_in.clone());
        let masked = decision.map(|decision| masked_kinds(&decision)).unwrap_or_default();
        let tool = first.draft.tool.clone();
        Ok(Some(Remembered { recalled, tool, args, mark, asked_in, masked }))
    }

    /// A recorded call as a step of a loop, or `None` if this run never made it.
    ///
    /// # Errors
    /// As [`Self::recall`].
    pub async fn step(&self, run: &RunId, call: &CallId) -> Result<Option<LedgerStep>, Error> {
        let entries = self.entries_of(run, call).await?;
        let Some((first, last, recalled)) = self.newest(call, &entries).await? else {
            return Ok(None);
        };
        let decided = entries
            .iter()
            .rev()
            .find_map(|(entry, _)| Some((entry.draft.body.decision()?, entry.draft.verdict)));
        let observed = observed(&last.draft.body);
        let tables = observed.and_then(|seen| seen.tables_queried.as_ref());
        Ok(Some(LedgerStep {
            recalled,
            tool: first.draft.tool.clone(),
            parent: decided.and_then(|(decision, _)| decision.parent.cloned()),
            has_tools_text: decided.is_some_and(|(decision, _)| decision.tools_text.is_some()),
            verdict: decided.and_then(|(_, verdict)| verdict),
            enforced: decided.is_some_and(|(decision, _)| decision.enforced),
            model: observed.and_then(|seen| Some(seen.model.as_ref()?.to_string())),
            tables: tables
                .into_iter()
                .flat_map(|all| all.iter().map(ToString::to_string))
                .collect(),
        }))
    }

    /// The first and the last of these entries of a call, and the state that they record; none of no entry.
    async fn newest<'e>(
        &self,
        call: &CallId,
        entries: &'e [(Entry, Digest)],
    ) -> Result<Option<(&'e Entry, &'e Entry, Recalled)>, Error> {
        let (Some((first, _)), Some((last, leaf))) = (entries.first(), entries.last()) else {
            return Ok(None);
        };
        let receipt = self.receipt_of(first, (last, *leaf));
        let result = self.opening(last, Role::Result).await?;
        let state =
            state(last, result).ok_or_else(|| Error::Unavailable("entry not understood".into()))?;
        Ok(Some((first, last, Recalled::mint(call.clone(), state, receipt))))
    }

    /// The recorded states of a call before its end, in order: held, allowed.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn stages(&self, run: &RunId, call: &CallId) -> Result<Vec<Recalled>, Error> {
        let entries = self.entries_of(run, call).await?;
        let Some((first, _)) = entries.first() else { return Ok(Vec::new()) };
        let stage = |(entry, leaf): &(Entry, Digest)| {
            let state = state(entry, None)?;
            let open = matches!(state, RecalledState::Held(..) | RecalledState::Running);
            let receipt = || self.receipt_of(first, (entry, *leaf));
            open.then(|| Recalled::mint(call.clone(), state, receipt()))
        };
        Ok(entries.iter().filter_map(stage).collect())
    }

    /// The entries of a call that say how far it has come, each with its leaf. Approvals and progress do
    /// not.
    async fn entries_of(&self, run: &RunId, call: &CallId) -> Result<Vec<(Entry, Digest)>, Error> {
        let unread = |e: StoreError| Error::Unavailable(e.to_string());
        let rows = self.shared.store.call_entries(self.key()?, run, call).await.map_err(unread)?;
        let mut entries = Vec::with_capacity(rows.len());
        for row in &rows {
            let entry = Entry::parse(&row.body).map_err(|e| Error::Unavailable(e.to_string()))?;
            let kind = entry.draft.kind();
            if kind.as_str().starts_with("call.") && kind != Kind::CallProgress {
                entries.push((entry, row.leaf));
            }
        }
        Ok(entries)
    }

    /// The receipt of an entry of a call, with the binding of its first one: the entry that decided
    /// the call has it, not the one that ended it.
    fn receipt_of(&self, first: &Entry, (entry, leaf): (&Entry, Digest)) -> Receipt {
        let binding = first.draft.body.decision().map(|decision| decision.binding);
        Receipt { binding, ..self.receipt(entry, leaf) }
    }

    /// The position of the entry that seals this run.
    ///
    /// # Errors
    /// `RunNotOpen`: the run is not sealed. `Unavailable`: the store cannot be read.
    pub async fn seal_of(&self, run: &RunId) -> Result<Receipt, Error> {
        let unread = |e: StoreError| Error::Unavailable(e.to_string());
        let rows = self.shared.store.run_entries(self.key()?, run).await.map_err(unread)?;
        let row = rows.last().ok_or(Error::RunNotOpen)?;
        let last = Entry::parse(&row.body).map_err(|e| Error::Unavailable(e.to_string()))?;
        if last.draft.kind() == Kind::RunSealed {
            Ok(self.receipt(&last, row.leaf))
        } else {
            Err(Error::RunNotOpen)
        }
    }

    fn receipt(&self, entry: &Entry, leaf: Digest) -> Receipt {
        let leased = self.shared.leased.get();
        Receipt {
            origin: leased.map_or_else(|| "".into(), |l| l.origin.as_str().into()),
            chain: entry.chain,
            seq: entry.seq,
            leaf,
            run_seq: entry.run.as_ref().map_or(0, |link| link.seq),
            binding: None,
        }
    }

    /// The payload that an entry commits to in this role, if it is stored and opens the commitment.
    async fn opening(&self, entry: &Entry, role: Role) -> Result<Option<Vec<u8>>, Error> {
        let Some(c) = entry.draft.committed(role) else { return Ok(None) };
        Ok(self.payload_row(entry.seq, &c.c.0).await?.map(|row| row.body))
    }

    /// The payload with its salt, if it is stored and opens the commitment.
    pub(super) async fn payload_row(
        &self,
        entry: Seq,
        c: &Digest,
    ) -> Result<Option<PayloadRow>, Error> {
        let found = self.shared.store.payload(self.key()?, &PayloadRef::of(entry, c)).await;
        let found = found.map_err(|e| Error::Unavailable(e.to_string()))?;
        let unread = |e: vault::Error| Error::Unavailable(e.to_string());
        let vault = self.shared.settings.vault.as_deref();
        let opened = found.map(|row| vault::open(vault, &self.key()?.chain, row).map_err(unread));
        let opened = opened.transpose()?;
        Ok(opened.filter(|p| opens(c, &p.salt, &p.body).is_some()))
    }
}

/// What the gate measured of a call that ended.
fn observed(body: &Body) -> Option<&record::call::Observed> {
    let completed = body.get::<CallCompleted>().and_then(|end| end.observed.as_ref());
    let failed = || body.get::<CallFailed>().and_then(|end| end.observed.as_ref());
    completed.or_else(failed)
}

fn state(entry: &Entry, result: Option<Vec<u8>>) -> Option<RecalledState> {
    let body = &entry.draft.body;
    if let Some(denied) = body.get::<CallDenied>() {
        let recorded = reasons(&denied.reasons);
        let alarm = denied.args_withheld.and_then(Withheld::alarm);
        let shown = alarm.map(|alarm| alarm.agent_reasons(recorded.clone()));
        return Some(RecalledState::Denied(shown.unwrap_or(recorded)));
    }
    if let Some(held) = body.get::<CallHeld>() {
        return Some(RecalledState::Held(reasons(&held.reasons), held.expires?));
    }
    if let Some(cancelled) = body.get::<CallCancelled>() {
        return Some(RecalledState::Cancelled(cancelled.reason.to_string()));
    }
    if body.get::<CallAuthorized>().is_some() {
        return Some(RecalledState::Running);
    }
    if body.get::<CallExpired>().is_some() {
        return Some(RecalledState::Expired);
    }
    if body.get::<CallCompleted>().is_some() && result.is_none() {
        return Some(RecalledState::ResultUnavailable);
    }
    ended(body, result).map(RecalledState::Ended)
}

/// The outcome of a call, from its last entry and its opened result.
#[must_use]
pub fn ended(body: &Body, result: Option<Vec<u8>>) -> Option<Outcome> {
    if let Some(completed) = body.get::<CallCompleted>() {
        let status = completed.status.to_string();
        return Some(Outcome::Completed { result: result?, status });
    }
    if let Some(failed) = body.get::<CallFailed>() {
        let class = FailureClass::parse(&failed.class)?;
        let message = failed.message.to_string();
        return Some(Outcome::Failed { class, started: failed.started, message });
    }
    let unknown = body.get::<CallUnknown>()?;
    Some(Outcome::Unknown { cause: unknown.cause.to_string() })
}

/// The reasons that an entry records.
pub fn reasons(list: &[record::call::Reason]) -> Vec<LayerReason> {
    let one = |reason: &record::call::Reason| LayerReason {
        code: Code::parse(&reason.code).unwrap_or(Code::PolicyDenied),
        detail: reason.detail.to_string(),
        message: reason.message.to_string(),
        rule: reason.rule.to_string(),
    };
    list.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::ChainId;

    #[test]
    fn what_is_not_known_is_never_the_same() {
        let tool = |name: &str| ToolName::parse(name).unwrap();
        let (a, b) = (Digest::of(&[b"a"]), Digest::of(&[b"b"]));
        let receipt = || Receipt {
            origin: "".into(),
            chain: ChainId::from_bytes([0; 16]),
            seq: 0,
            leaf: a,
            run_seq: 0,
            binding: None,
        };
        let known = |tool: Option<ToolName>, args: Option<&[u8]>, mark| Remembered {
            asked_in: None,
            masked: Vec::new(),
            recalled: Recalled::mint(
                CallId::parse("c").unwrap(),
                RecalledState::Running,
                receipt(),
            ),
            tool,
            args: args.map(<[u8]>::to_vec),
            mark,
        };
        let t = || Some(tool("t"));
        let none: Option<&[u8]> = None;
        for (known, mark, wanted) in [
            (known(t(), Some(b"{}"), None), None, Likeness::Same),
            (known(t(), Some(b"{}"), Some(b)), Some(a), Likeness::Same),
            (known(t(), Some(b"[]"), Some(a)), Some(a), Likeness::Other),
            (known(t(), none, Some(a)), Some(a), Likeness::Same),
            (known(t(), none, Some(b)), Some(a), Likeness::Other),
            (known(t(), none, Some(a)), None, Likeness::Unknown),
            (known(t(), none, None), Some(a), Likeness::Unknown),
            (known(t(), none, None), None, Likeness::Unknown),
            (known(None, Some(b"{}"), None), None, Likeness::Unknown),
            (known(None, Some(b"{}"), Some(a)), Some(a), Likeness::Same),
            (known(None, Some(b"[]"), None), None, Likeness::Other),
            (known(None, none, None), Some(a), Likeness::Unknown),
            (known(Some(tool("u")), Some(b"{}"), Some(a)), Some(a), Likeness::Other),
        ] {
            assert_eq!(known.likeness(&tool("t"), b"{}", mark), wanted, "{known:?}");
        }
    }
}
