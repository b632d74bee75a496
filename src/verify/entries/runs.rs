//! One run: its own numbering and links, its end, and the state of each of its calls.

use std::collections::BTreeMap;

use super::approved::{Hold, is_break_glass};
use super::read::{Damage, EntryLine};
use crate::domain::decision::Verdict;
use crate::domain::digest::{Digest, call_digest};
use crate::domain::id::{CallId, RunId, ToolName};
use crate::domain::plural::many;
use crate::domain::tier::Tier;
use crate::record::call::CallFailed;
use crate::record::run::{Replay, ReplayMode, RunOpened, RunSealed};
use crate::record::{Kind, Role, RunLink};

/// `run.opened.mode` of a run whose calls are decided and recorded, and never run.
const SIMULATE: &str = "simulate";

/// How an entry contradicts its run or call.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the opening has the wrong `replay` members for a run in mode `{0}`")]
    Origin(ReplayMode),
    #[error("the run continues from itself")]
    Itself,
    #[error("`{kind}` with verdict `{verdict}`{how}")]
    Verdict { kind: String, verdict: &'static str, how: &'static str },
}

/// How far a call got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CallProgress {
    Held,
    /// Held, and an approval has been read.
    Approved,
    /// Held, and an approver refused it.
    Refused,
    Authorized,
    Over,
}

#[derive(Clone, Debug)]
struct RunCall {
    stage: CallProgress,
    tool: Option<ToolName>,
    /// It has an entry of an unknown kind, which may be its approval.
    unread: bool,
    /// The held call and its approvals.
    hold: Option<Hold>,
}

/// One run, as far as it was read.
#[derive(Clone, Debug, Default)]
pub struct Run {
    next: u64,
    prev: Option<Digest>,
    sealed: bool,
    /// Its calls are decided and recorded; none of them runs.
    simulated: bool,
    /// Its first entries were not read, so a call may have begun before.
    cut: bool,
    calls: BTreeMap<CallId, RunCall>,
}

impl Run {
    /// A run whose entries before this place are not read: numbers and links continue from here,
    /// and an unknown call may have begun before.
    pub fn cut(at: &RunLink) -> Self {
        Self { next: at.seq, prev: at.prev, cut: true, ..Self::default() }
    }

    /// Whether `run.sealed` has been read.
    #[must_use]
    pub const fn sealed(&self) -> bool {
        self.sealed
    }

    /// Entries read.
    pub const fn entries(&self) -> u64 {
        self.next
    }

    /// Calls without a final entry.
    pub fn open_calls(&self) -> usize {
        self.calls.values().filter(|call| call.stage != CallProgress::Over).count()
    }

    /// Takes the run's next entry.
    ///
    /// # Errors
    /// `S3`: numbering and links. `S4`: the seal. `S5`: the call automaton. `P2`: a call digest.
    /// `P4`: a call that runs is not the held and approved one.
    pub fn accept(&mut self, run: &RunId, line: &EntryLine) -> Result<(), Damage> {
        let Some(link) = line.entry.run.as_ref().filter(|link| link.run == *run) else {
            return Err(Damage::new("S3", "the entry is not of this run"));
        };
        if self.sealed {
            return Err(Damage::new("S4", format!("`{}` after the run was sealed", line.kind())));
        }
        if link.seq != self.next {
            let why = format!("`run_seq` is {}, expected {}", link.seq, self.next);
            return Err(Damage::new("S3", why));
        }
        if link.prev != self.prev {
            return Err(Damage::new("S3", "`run_prev` is not the run's previous entry"));
        }
        if (self.next == 0) != line.is(Kind::RunOpened) || (self.cut && self.next == 0) {
            return Err(Damage::new("S3", "a run begins with `run.opened`, once"));
        }
        self.next = self.next.saturating_add(1);
        self.prev = Some(line.leaf);
        if line.is(Kind::RunOpened) {
            let opened = line.get::<RunOpened>();
            self.simulated = opened.is_some_and(|opened| opened.mode == SIMULATE);
            let replay = opened.and_then(|opened| opened.replay.as_ref());
            let checked = replay.map_or(Ok(()), |replay| origin(run, replay));
            checked.map_err(|why| Damage::new("S3", why))?;
        }
        if let Some(sealed) = line.get::<RunSealed>() {
            return self.seal(sealed.entries.get());
        }
        line.entry.draft.call.clone().map_or(Ok(()), |call| self.call(run, call, line))
    }

    fn seal(&mut self, count: u64) -> Result<(), Damage> {
        self.sealed = true;
        if count != self.next {
            let why = format!("the seal counts {}, found are {}", many(count, "entry"), self.next);
            return Err(Damage::new("S4", why));
        }
        let open = self.calls.iter().find(|(_, call)| call.stage != CallProgress::Over);
        open.map_or(Ok(()), |(id, _)| {
            Err(Damage::new("S5", format!("call `{id}` is open when the run is sealed")))
        })
    }

    fn call(&mut self, run: &RunId, id: CallId, line: &EntryLine) -> Result<(), Damage> {
        let damage = |why: String| Damage::new("S5", format!("call `{id}`: {why}"));
        let draft = &line.entry.draft;
        if line.unknown.is_some() {
            if let Some(call) = self.calls.get_mut(&id) {
                call.unread = true;
            }
            return Ok(());
        }
        let before = self.calls.get(&id);
        let start_unread = before.is_none() && self.cut;
        let stage = next_stage(before, draft.kind())
            .or_else(|| under_glass(before, line))
            .or_else(|| start_unread.then(|| stage_of(draft.kind())).flatten())
            .ok_or_else(|| {
                damage(format!("`{}` does not follow {}", line.kind(), progress_text(before)))
            })?;
        if let (Some(was), Some(is)) = (before.and_then(|c| c.tool.as_ref()), &draft.tool)
            && was != is
        {
            return Err(damage(format!("the tool was `{was}` and is `{is}`")));
        }
        verdict_fits(line).map_err(|why| damage(why.to_string()))?;
        let started = draft.get::<CallFailed>().is_some_and(|failed| failed.started);
        if self.simulated && (started || draft.kind() == Kind::CallCompleted) {
            return Err(damage(format!("`{}` in a run that is only simulated", line.kind())));
        }
        digest_fits(run, &id, line)?;
        let tool = draft.tool.clone().or_else(|| before.and_then(|c| c.tool.clone()));
        let unread = before.is_some_and(|c| c.unread);
        let mut hold = self.calls.remove(&id).and_then(|c| c.hold);
        // An entry of an unknown kind may have changed the hold, so a comparison is impossible.
        if !unread {
            Hold::accept(&mut hold, line, start_unread)
                .map_err(|why| Damage::new("P4", format!("call `{id}`: {why}")))?;
        }
        self.calls.insert(id, RunCall { stage, tool, unread, hold });
        Ok(())
    }
}

/// A run names the replayed run, or the point in another run from which it continues: all members
/// or none.
fn origin(run: &RunId, replay: &Replay) -> Result<(), Error> {
    let mode = replay.mode;
    let named = (replay.recording.is_some(), replay.run.is_some(), replay.at.is_some());
    let expected = match mode {
        ReplayMode::Fork => (true, true, true),
        ReplayMode::Replay => (true, false, false),
        ReplayMode::Record | ReplayMode::Deterministic => (false, false, false),
    };
    if named != expected {
        return Err(Error::Origin(mode));
    }
    if replay.run.as_ref() == Some(run) {
        return Err(Error::Itself);
    }
    Ok(())
}

fn progress_text(call: Option<&RunCall>) -> &'static str {
    match call.map(|c| c.stage) {
        None => "nothing",
        Some(CallProgress::Held) => "a hold",
        Some(CallProgress::Approved) => "an approval",
        Some(CallProgress::Refused) => "a refusal",
        Some(CallProgress::Authorized) => "an authorisation",
        Some(CallProgress::Over) => "the call's end",
    }
}

/// The call automaton of ledger.md §A.
fn next_stage(before: Option<&RunCall>, kind: Kind) -> Option<CallProgress> {
    match (before.map(|c| c.stage), kind) {
        (None, Kind::CallAuthorized) => Some(CallProgress::Authorized),
        (None, Kind::CallHeld) => Some(CallProgress::Held),
        (None, Kind::CallDenied) => Some(CallProgress::Over),
        // A hold ends in an authorisation only after an approval, or an entry of a later build's
        // kind.
        (Some(CallProgress::Held), Kind::CallAuthorized) => {
            before.is_some_and(|c| c.unread).then_some(CallProgress::Authorized)
        }
        (Some(CallProgress::Approved), Kind::CallAuthorized) => Some(CallProgress::Authorized),
        (Some(CallProgress::Held | CallProgress::Approved), Kind::ApprovalGranted) => {
            Some(CallProgress::Approved)
        }
        (Some(CallProgress::Held | CallProgress::Approved), Kind::ApprovalRefused) => {
            Some(CallProgress::Refused)
        }
        (
            Some(CallProgress::Held | CallProgress::Approved | CallProgress::Refused),
            Kind::CallDenied | Kind::CallExpired | Kind::CallCancelled,
        )
        | (
            Some(CallProgress::Authorized),
            Kind::CallCompleted | Kind::CallFailed | Kind::CallCancelled | Kind::CallUnknown,
        ) => Some(CallProgress::Over),
        _ => None,
    }
}

/// A held call that a break-glass order allows, without an approval or with too few.
fn under_glass(before: Option<&RunCall>, line: &EntryLine) -> Option<CallProgress> {
    let held = before
        .is_some_and(|call| matches!(call.stage, CallProgress::Held | CallProgress::Approved));
    (held && is_break_glass(line)).then_some(CallProgress::Authorized)
}

/// The state of a call after its first entry that was read, if it began before.
const fn stage_of(kind: Kind) -> Option<CallProgress> {
    if matches!(kind, Kind::CallAuthorized) {
        Some(CallProgress::Authorized)
    } else if matches!(kind, Kind::CallHeld) {
        Some(CallProgress::Held)
    } else if matches!(kind, Kind::ApprovalRefused) {
        Some(CallProgress::Refused)
    } else if matches!(kind, Kind::ApprovalGranted) {
        Some(CallProgress::Approved)
    } else if kind.ends_call() {
        Some(CallProgress::Over)
    } else {
        None
    }
}

/// An enforced authorisation has the verdict allow, a denial deny, and a hold require_approval. An
/// authorisation that is not enforced has another verdict, and never for a T3 tool.
fn verdict_fits(line: &EntryLine) -> Result<(), Error> {
    let draft = &line.entry.draft;
    let decision = line.decision();
    let enforced = decision.is_none_or(|decision| decision.enforced);
    let fits = match (draft.kind(), draft.verdict) {
        (Kind::CallAuthorized, Some(Verdict::Allow)) => enforced,
        // Break-glass is not observation: the policy knows the order and allows the call.
        (Kind::CallAuthorized, _) if is_break_glass(line) => false,
        (Kind::CallAuthorized, Some(Verdict::Deny | Verdict::RequireApproval)) => {
            !enforced && decision.and_then(|d| d.tier).is_some_and(|tier| tier != Tier::T3)
        }
        (Kind::CallAuthorized, None) => false,
        (Kind::CallDenied, verdict) => enforced && verdict == Some(Verdict::Deny),
        (Kind::CallHeld, verdict) => enforced && verdict == Some(Verdict::RequireApproval),
        (_, _) => true,
    };
    if fits {
        return Ok(());
    }
    let verdict = draft.verdict.map_or("none", Verdict::as_str);
    let how = if enforced { "" } else { ", not enforced" };
    Err(Error::Verdict { kind: line.kind().to_owned(), verdict, how })
}

/// The call digest, if present, matches the commitment of the same entry.
fn digest_fits(run: &RunId, id: &CallId, line: &EntryLine) -> Result<(), Damage> {
    let draft = &line.entry.draft;
    // An approver's answer names the digest of the hold and has no arguments: P4 compares the two.
    let recorded = line.decision().and_then(|decision| decision.call_digest);
    let Some(recorded) = recorded else { return Ok(()) };
    let args = draft.committed(Role::Args).map(|c| c.c.0);
    let expected = match (&draft.tool, args) {
        (Some(tool), Some(args)) => Some(call_digest(run, id, tool, &args)),
        (None, _) | (_, None) => None,
    };
    if expected == Some(recorded) {
        Ok(())
    } else {
        Err(Damage::new("P2", format!("call `{id}`: `call_digest` does not match this call")))
    }
}
