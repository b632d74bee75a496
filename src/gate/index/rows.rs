//! What the index keeps: one row per call and one per run, folded out of entries.
//!
//! Only members of entries are in them, never a payload, so erasing has nothing to erase here.

use super::query::{CallFinding, CallState};
use crate::domain::guarded::Withheld;
use crate::domain::id::{ChainId, RunId, Seq};
use crate::domain::time::Timestamp;
use crate::record::Entry;
use crate::record::approval::{ApprovalGranted, ApprovalRefused};
use crate::record::call::{
    CallCancelled, CallCompleted, CallDenied, CallExpired, CallFailed, CallHeld, CallUnknown,
    GuardedFinding,
};
use crate::record::run::{RunOpened, RunSealed};

/// One call: its decisions and its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallRow {
    /// The chain.
    pub chain: ChainId,
    /// The entry that first decided the call; with the chain, its address.
    pub seq: Seq,
    /// When that was.
    pub at: Timestamp,
    /// The run.
    pub run: String,
    /// The id in the run.
    pub call: String,
    /// The agent, by its manifest.
    pub agent: String,
    /// The version of the manifest.
    pub version: String,
    /// The tool; empty if the call named none that is known.
    pub tool: String,
    /// `T0` to `T3`; empty if unknown.
    pub tier: String,
    /// The newest verdict.
    pub verdict: String,
    /// Whether it was enforced; if not, a denied call ran.
    pub enforced: bool,
    /// How far the call is.
    pub state: CallState,
    /// The code of the first reason; empty if there is none.
    pub code: String,
    /// The finer code below it.
    pub detail: String,
    /// The rule that decided.
    pub rule: String,
    /// How it ended: a status, a class of failure or a cause; empty before its end.
    pub outcome: String,
    /// Microseconds from the permit to the end, if it was measured.
    pub us: Option<u64>,
    /// Places of the result that were masked.
    pub masked: u64,
    /// Approvals that counted.
    pub approvals: u64,
    /// Who approved or refused it, in order.
    pub decided_by: Vec<String>,
    /// Every code and finer code of its reasons, in order.
    pub codes: Vec<String>,
    /// What the gate found in it, in order: [`CallFinding`], and marks of values.
    pub findings: Vec<String>,
    /// The hosts that it reaches, as the configuration of its tool names them.
    pub hosts: Vec<String>,
    /// The newest entry about it.
    pub last: Seq,
}

/// One run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunRow {
    /// Its id.
    pub run: String,
    /// The chain.
    pub chain: ChainId,
    /// Its `run.opened`.
    pub seq: Seq,
    /// When it was opened.
    pub at: Timestamp,
    /// The agent, by its manifest.
    pub agent: String,
    /// The version of the manifest.
    pub version: String,
    /// The digest of the manifest.
    pub manifest: String,
    /// The run that delegated to it; empty if none did.
    pub parent: String,
    /// When it was sealed; `None`: it is open.
    pub sealed: Option<Timestamp>,
    /// Why it was sealed; empty if the agent did it.
    pub reason: String,
    /// Its calls, by state.
    pub counts: CallCounts,
}

/// How often the calls of a run are in one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallCounts {
    /// All calls.
    pub all: u64,
    /// Running ones.
    pub running: u64,
    /// Held ones.
    pub held: u64,
    /// Denied ones.
    pub denied: u64,
}

impl CallCounts {
    /// One call moved from this state to that one; `None`: it begins.
    pub fn moved(&mut self, from: Option<CallState>, to: CallState) {
        match from {
            None => self.all = self.all.saturating_add(1),
            Some(from) => {
                if let Some(count) = self.of(from) {
                    *count = count.saturating_sub(1);
                }
            }
        }
        if let Some(count) = self.of(to) {
            *count = count.saturating_add(1);
        }
    }

    const fn of(&mut self, state: CallState) -> Option<&mut u64> {
        match state {
            CallState::Running => Some(&mut self.running),
            CallState::Held => Some(&mut self.held),
            CallState::Denied => Some(&mut self.denied),
            CallState::Completed
            | CallState::Failed
            | CallState::Unknown
            | CallState::Cancelled
            | CallState::Expired => None,
        }
    }
}

/// A value, unless the list has it.
fn add(list: &mut Vec<String>, value: &str) {
    if !value.is_empty() && !list.iter().any(|there| there == value) {
        list.push(value.to_owned());
    }
}

fn without_nul(text: &mut String) {
    if text.contains('\0') {
        *text = text.replace('\0', "\u{fffd}");
    }
}

impl CallRow {
    /// The row of a call after its first decision, in this run; `None` if the entry is no decision.
    pub fn begun(entry: &Entry, run: Option<&RunRow>) -> Option<Self> {
        let decision = entry.draft.body.decision()?;
        let (link, call) = (entry.run.as_ref()?, entry.draft.call.as_ref()?);
        let of_run = |of: fn(&RunRow) -> &String| run.map(of).cloned().unwrap_or_default();
        let mut row = Self {
            chain: entry.chain,
            seq: entry.seq,
            at: entry.ts,
            run: link.run.to_string(),
            call: call.to_string(),
            agent: of_run(|run| &run.agent),
            version: of_run(|run| &run.version),
            tool: entry.draft.tool.as_ref().map(ToString::to_string).unwrap_or_default(),
            tier: decision.tier.map(|tier| tier.to_string()).unwrap_or_default(),
            verdict: String::new(),
            enforced: true,
            state: CallState::Running,
            code: String::new(),
            detail: String::new(),
            rule: String::new(),
            outcome: String::new(),
            us: None,
            masked: 0,
            approvals: 0,
            decided_by: Vec::new(),
            codes: Vec::new(),
            findings: Vec::new(),
            hosts: Vec::new(),
            last: entry.seq,
        };
        row.advance(entry);
        Some(row)
    }

    /// Moves past one more entry of the call.
    pub fn advance(&mut self, entry: &Entry) {
        let body = &entry.draft.body;
        self.last = entry.seq;
        self.decide(entry);
        if let Some(granted) = body.get::<ApprovalGranted>() {
            // A second approval of one person takes the place of the first: a person is one approval.
            let again =
                self.decided_by.iter().any(|one| one.eq_ignore_ascii_case(&granted.subject));
            self.approvals = self.approvals.saturating_add(u64::from(!again));
            add(&mut self.decided_by, &granted.subject);
        }
        if let Some(refused) = body.get::<ApprovalRefused>() {
            add(&mut self.decided_by, &refused.subject);
        }
        if let Some(ended) = body.get::<CallCompleted>() {
            self.end(CallState::Completed, &ended.status, Some(ended.us.get()));
        }
        if let Some(ended) = body.get::<CallFailed>() {
            self.end(CallState::Failed, &ended.class, Some(ended.us.get()));
        }
        if let Some(ended) = body.get::<CallUnknown>() {
            self.end(CallState::Unknown, &ended.cause, None);
        }
        if let Some(ended) = body.get::<CallCancelled>() {
            self.end(CallState::Cancelled, &ended.reason, None);
        }
        if let Some(ended) = body.get::<CallExpired>() {
            self.end(CallState::Expired, &ended.reason, None);
        }
        let found = body.observed().and_then(|observed| observed.findings.as_deref());
        self.marked(found.unwrap_or_default());
        let redaction = body.observed().and_then(|observed| observed.redaction.as_ref());
        if let Some(redaction) = redaction {
            self.masked = redaction.masked.get();
            let found = [
                (self.masked > 0, CallFinding::Masked),
                (redaction.unscanned.is_some(), CallFinding::Unscanned),
            ];
            for (_, finding) in found.into_iter().filter(|(there, _)| *there) {
                add(&mut self.findings, finding.as_str());
            }
        }
    }

    /// The decision of an entry, if it is one. A later decision without reasons, as after an approval, leaves the reasons
    /// why the call was held.
    fn decide(&mut self, entry: &Entry) {
        let draft = &entry.draft;
        let Some(decision) = draft.body.decision() else { return };
        self.state = if draft.get::<CallHeld>().is_some() {
            CallState::Held
        } else if draft.get::<CallDenied>().is_some() {
            CallState::Denied
        } else {
            CallState::Running
        };
        self.verdict = draft.verdict.map(|verdict| verdict.to_string()).unwrap_or_default();
        self.enforced = decision.enforced;
        let withheld = decision.args_withheld.map(|why| match why {
            Withheld::Credential => CallFinding::Credential,
            Withheld::Secret => CallFinding::Secret,
            Withheld::Personal => CallFinding::Personal,
            Withheld::Firewall => CallFinding::Firewall,
        });
        if let Some(found) = withheld {
            add(&mut self.findings, found.as_str());
        }
        if decision.taint.is_some_and(|taint| taint.spans.is_some()) {
            add(&mut self.findings, CallFinding::Copied.as_str());
        }
        self.marked(decision.findings);
        for host in decision.hosts {
            add(&mut self.hosts, host);
        }
        if let Some(rule) = &draft.rule {
            self.rule = rule.to_string();
        }
        if let Some(reason) = decision.reasons.first() {
            self.code = reason.code.to_string();
            self.detail = reason.detail.to_string();
        }
        for reason in decision.reasons {
            add(&mut self.codes, &reason.code);
            add(&mut self.codes, &reason.detail);
        }
    }

    /// Findings are found again by the marks of their values.
    fn marked(&mut self, findings: &[GuardedFinding]) {
        for mark in findings.iter().filter_map(|one| one.mark) {
            add(&mut self.findings, &mark.to_string());
        }
    }

    fn end(&mut self, state: CallState, outcome: &str, us: Option<u64>) {
        self.state = state;
        outcome.clone_into(&mut self.outcome);
        self.us = us;
    }

    /// What a search finds it by besides its columns: kind and value.
    pub(super) fn marks(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("code", &self.codes),
            ("by", &self.decided_by),
            ("finding", &self.findings),
            ("host", &self.hosts),
        ];
        all.into_iter()
            .flat_map(|(kind, values)| values.iter().map(move |one| (kind, one.as_str())))
    }

    /// The row without the one character that PostgreSQL keeps in no text.
    pub(super) fn storable(mut self) -> Self {
        let texts = [
            &mut self.agent,
            &mut self.version,
            &mut self.tool,
            &mut self.code,
            &mut self.detail,
            &mut self.rule,
            &mut self.outcome,
        ];
        let lists = [&mut self.decided_by, &mut self.codes, &mut self.hosts];
        texts.into_iter().chain(lists.into_iter().flatten()).for_each(without_nul);
        self
    }

    /// The row of a call, folded out of the entries of its run; `None` if they do not decide it.
    pub fn of<'a>(
        entries: impl IntoIterator<Item = &'a Entry>,
        run: Option<&RunRow>,
    ) -> Option<Self> {
        let mut row: Option<Self> = None;
        for entry in entries {
            match &mut row {
                Some(row) => row.advance(entry),
                None => row = Self::begun(entry, run),
            }
        }
        row
    }
}

impl RunRow {
    /// The row of a run that this entry opens; `None` if it opens none.
    pub fn opened(entry: &Entry) -> Option<Self> {
        let opened = entry.draft.get::<RunOpened>()?;
        Some(Self {
            run: entry.run.as_ref()?.run.to_string(),
            chain: entry.chain,
            seq: entry.seq,
            at: entry.ts,
            agent: opened.agent.to_string(),
            version: opened.version.to_string(),
            manifest: opened.manifest.to_string(),
            parent: opened.parent.as_ref().map(RunId::to_string).unwrap_or_default(),
            sealed: None,
            reason: String::new(),
            counts: CallCounts::default(),
        })
    }

    /// As [`CallRow::storable`].
    pub(super) fn storable(mut self) -> Self {
        [&mut self.agent, &mut self.version, &mut self.reason].into_iter().for_each(without_nul);
        self
    }

    /// Moves past the entry that seals it; others change nothing.
    pub fn advance(&mut self, entry: &Entry) {
        if let Some(sealed) = entry.draft.get::<RunSealed>() {
            self.sealed = Some(entry.ts);
            self.reason = sealed.reason.as_deref().unwrap_or_default().to_owned();
        }
    }
}
