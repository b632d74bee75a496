//! One run: its own numbering and links, its end, and the state of each of its calls.

use std::collections::BTreeMap;

use super::approved::{Hold, is_break_glass};
use super::read::{Damage, EntryLine};
use super::stream;
use crate::domain::decision::Verdict;
use crate::domain::digest::{Digest, call_digest};
use crate::domain::id::{CallId, RunId, ToolName};
use crate::domain::plural::many;
use crate::domain::tier::{Binding, Tier};
use crate::record::call::{CallFailed, CallProgress};
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
    #[error("`proposed_by` names `{0}`, which is no earlier call of the run that was allowed")]
    Proposer(String),
    #[error("`proposed_by`, but the binding is `{0}`")]
    Unobserved(Binding),
    #[error("`gate_of` names `{0}`, which is no earlier call of the run that was allowed")]
    Checked(CallId),
}

/// How far a call got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CallPhase {
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
    stage: CallPhase,
    tool: Option<ToolName>,
    /// It has an entry of an unknown kind, which may be its approval.
    unread: bool,
    /// It was allowed, or that may stand in an entry that was not read.
    allowed: bool,
    /// How much of its answer left, by its newest progress.
    progress: Option<CallProgress>,
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
        self.calls.values().filter(|call| call.stage != CallPhase::Over).count()
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
        let open = self.calls.iter().find(|(_, call)| call.stage != CallPhase::Over);
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
        self.proposed(&id, line).map_err(|why| damage(why.to_string()))?;
        self.checks(&id, line).map_err(|why| damage(why.to_string()))?;
        let started = draft.get::<CallFailed>().is_some_and(|failed| failed.started);
        let ran = matches!(draft.kind(), Kind::CallCompleted | Kind::CallProgress);
        if self.simulated && (started || ran) {
            return Err(damage(format!("`{}` in a run that is only simulated", line.kind())));
        }
        digest_fits(run, &id, line)?;
        let tool = draft.tool.clone().or_else(|| before.and_then(|c| c.tool.clone()));
        let unread = before.is_some_and(|c| c.unread);
        let allowed = (start_unread && !draft.kind().decides())
            || before.is_some_and(|c| c.allowed)
            || draft.kind() == Kind::CallAuthorized;
        let mut progress = before.and_then(|c| c.progress.clone());
        stream::accept(&mut progress, line, start_unread).map_err(|why| damage(why.to_string()))?;
        let mut hold = self.calls.remove(&id).and_then(|c| c.hold);
        // An entry of an unknown kind may have changed the hold, so a comparison is impossible.
        if !unread {
            Hold::accept(&mut hold, line, start_unread)
                .map_err(|why| Damage::new("P4", format!("call `{id}`: {why}")))?;
        }
        self.calls.insert(id, RunCall { stage, tool, unread, allowed, progress, hold });
        Ok(())
    }

    /// A call that a model asked for names the call of that model: an earlier one of the run that was
    /// allowed. The gate saw the answer, so the binding is *observed*.
    fn proposed(&self, id: &CallId, line: &EntryLine) -> Result<(), Error> {
        let Some(decision) = line.decision() else { return Ok(()) };
        let Some(by) = decision.proposed_by else { return Ok(()) };
        if decision.binding != Binding::Observed {
            return Err(Error::Unobserved(decision.binding));
        }
        let other = CallId::parse(by).filter(|by| by != id);
        let allowed = other.map(|by| self.calls.get(&by).map_or(self.cut, |call| call.allowed));
        if allowed == Some(true) { Ok(()) } else { Err(Error::Proposer(by.to_owned())) }
    }

    /// A call of the gate's own names the call that it checks or takes back: an earlier one of the run that
    /// was allowed.
    fn checks(&self, id: &CallId, line: &EntryLine) -> Result<(), Error> {
        let Some(of) = line.decision().and_then(|decision| decision.gate_of) else { return Ok(()) };
        let allowed = self.calls.get(of).map_or(self.cut, |call| call.allowed);
        if of != id && allowed { Ok(()) } else { Err(Error::Checked(of.clone())) }
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
        Some(CallPhase::Held) => "a hold",
        Some(CallPhase::Approved) => "an approval",
        Some(CallPhase::Refused) => "a refusal",
        Some(CallPhase::Authorized) => "an authorisation",
        Some(CallPhase::Over) => "the call's end",
    }
}

/// The call automaton of ledger.md §A.
fn next_stage(before: Option<&RunCall>, kind: Kind) -> Option<CallPhase> {
    match (before.map(|c| c.stage), kind) {
        (None, Kind::CallAuthorized) => Some(CallPhase::Authorized),
        (None, Kind::CallHeld) => Some(CallPhase::Held),
        (None, Kind::CallDenied) => Some(CallPhase::Over),
        // A hold ends in an authorisation only after an approval, or an entry of a later build's
        // kind.
        (Some(CallPhase::Held), Kind::CallAuthorized) => {
            before.is_some_and(|c| c.unread).then_some(CallPhase::Authorized)
        }
        (Some(CallPhase::Approved), Kind::CallAuthorized) => Some(CallPhase::Authorized),
        (Some(CallPhase::Held | CallPhase::Approved), Kind::ApprovalGranted) => {
            Some(CallPhase::Approved)
        }
        (Some(CallPhase::Held | CallPhase::Approved), Kind::ApprovalRefused) => {
            Some(CallPhase::Refused)
        }
        (
            Some(CallPhase::Held | CallPhase::Approved | CallPhase::Refused),
            Kind::CallDenied | Kind::CallExpired | Kind::CallCancelled,
        )
        | (
            Some(CallPhase::Authorized),
            Kind::CallCompleted | Kind::CallFailed | Kind::CallCancelled | Kind::CallUnknown,
        ) => Some(CallPhase::Over),
        (Some(CallPhase::Authorized), Kind::CallProgress) => Some(CallPhase::Authorized),
        _ => None,
    }
}

/// A held call that a break-glass order allows, without an approval or with too few.
fn under_glass(before: Option<&RunCall>, line: &EntryLine) -> Option<CallPhase> {
    let held =
        before.is_some_and(|call| matches!(call.stage, CallPhase::Held | CallPhase::Approved));
    (held && is_break_glass(line)).then_some(CallPhase::Authorized)
}

/// The state of a call after its first entry that was read, if it began before.
const fn stage_of(kind: Kind) -> Option<CallPhase> {
    if matches!(kind, Kind::CallAuthorized | Kind::CallProgress) {
        Some(CallPhase::Authorized)
    } else if matches!(kind, Kind::CallHeld) {
        Some(CallPhase::Held)
    } else if matches!(kind, Kind::ApprovalRefused) {
        Some(CallPhase::Refused)
    } else if matches!(kind, Kind::ApprovalGranted) {
        Some(CallPhase::Approved)
    } else if kind.ends_call() {
        Some(CallPhase::Over)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::ChainId;
    use crate::domain::json::Json;
    use crate::domain::time::Timestamp;
    use crate::record::{Boot, Draft, Entry};
    use wicketgate_record::sample::body;

    type Members = Vec<(&'static str, Json)>;

    /// Reads a run of these entries about calls; the check that fails first, if any does.
    fn failed(entries: Vec<(&str, Kind, Members)>, cut: bool) -> Option<String> {
        let id = RunId::from_random([1; 16]);
        let link = |seq: u64| RunLink { run: id, seq, prev: Some(Digest::of(&[b"leaf"])) };
        let (mut run, first) = match cut {
            true => (Run::cut(&link(7)), 7),
            false => (Run::default(), 0),
        };
        let opened = (!cut).then(|| ("", Kind::RunOpened, Members::new()));
        for (seq, (call, kind, data)) in (first..).zip(opened.into_iter().chain(entries)) {
            let draft = Draft {
                run: Some(id),
                call: CallId::parse(call),
                tool: kind.of_call().then(|| ToolName::parse("t")).flatten(),
                verdict: (kind == Kind::CallAuthorized)
                    .then_some(Verdict::Allow)
                    .or((kind == Kind::CallDenied).then_some(Verdict::Deny)),
                ..Draft::of(body(kind, data))
            };
            let at = if seq == 0 { RunLink { prev: None, ..link(0) } } else { link(seq) };
            let entry = Entry {
                chain: ChainId::from_bytes([1; 16]),
                epoch: 1,
                seq,
                prev: Digest::of(&[b"before"]),
                ts: Timestamp::from_millis(1),
                boot: Boot::from_random([0; 4]),
                mono: 1,
                run: Some(at),
                draft,
            };
            let leaf = Digest::of(&[b"leaf"]);
            let line = EntryLine { bytes: Vec::new(), entry, leaf, unknown: None };
            if let Err(damage) = run.accept(&id, &line) {
                return Some(format!("{} {}", damage.check, damage.why));
            }
        }
        None
    }

    fn allowed(more: &[(&'static str, &str)]) -> Members {
        let more = more.iter().map(|(name, value)| (*name, Json::from(*value)));
        more.chain([("enforced", Json::from(true))]).collect()
    }

    /// `bytes` in `pieces`; the digest is another one for another `of`.
    fn left(bytes: u64, pieces: u64, of: &str) -> Members {
        let sha256 = Digest::of(&[of.as_bytes()]).hex();
        vec![("bytes", bytes.into()), ("pieces", pieces.into()), ("sha256", sha256.into())]
    }

    fn seen(stream: Members) -> Members {
        vec![("observed", Json::object([("stream", Json::object(stream))]))]
    }

    /// A call with this progress and this end.
    fn streamed(progress: &[Members], end: (Kind, Members)) -> Vec<(&'static str, Kind, Members)> {
        let mut all = vec![("m", Kind::CallAuthorized, allowed(&[]))];
        all.extend(progress.iter().map(|data| ("m", Kind::CallProgress, data.clone())));
        all.push(("m", end.0, end.1));
        all
    }

    #[test]
    fn an_answer_leaves_between_the_permit_of_its_call_and_its_end() {
        use Kind::{CallCancelled, CallCompleted, CallFailed, CallUnknown};
        let two = [left(3, 1, "a"), left(9, 2, "b")];
        for end in [CallCompleted, CallFailed, CallCancelled, CallUnknown] {
            for all in [left(9, 2, "b"), left(9, 3, "b"), left(12, 3, "c")] {
                assert_eq!(failed(streamed(&two, (end, seen(all))), false), None, "{end}");
            }
            for less in [left(8, 3, "c"), left(9, 2, "c"), left(12, 2, "c"), left(9, 1, "b")] {
                let why = failed(streamed(&two, (end, seen(less))), false).unwrap();
                assert!(why.starts_with("S5") && why.contains("contradicts"), "{why}");
            }
            let silent = failed(streamed(&two, (end, Members::new())), false);
            assert_eq!(silent.is_none(), end == CallUnknown, "{end}: {silent:?}");
        }
        for more in [left(3, 2, "b"), left(4, 1, "b"), left(2, 2, "b")] {
            let why = failed(
                vec![
                    ("m", Kind::CallAuthorized, allowed(&[])),
                    ("m", Kind::CallProgress, left(3, 1, "a")),
                    ("m", Kind::CallProgress, more),
                ],
                false,
            );
            assert!(why.unwrap().contains("not beyond 3 bytes in 1 pieces"));
        }
        for (before, what) in [(vec![], "nothing"), (streamed(&[], (CallCompleted, vec![])), "end")]
        {
            let late = before.into_iter().chain([("m", Kind::CallProgress, left(3, 1, "a"))]);
            assert!(failed(late.collect(), false).unwrap().contains(what));
        }
    }

    #[test]
    fn what_is_covered_is_what_the_last_progress_says() {
        let covered = |bytes: u64| (Kind::CallUnknown, vec![("covered_bytes", Json::from(bytes))]);
        let one = [left(3, 1, "a")];
        assert_eq!(failed(streamed(&one, covered(3)), false), None);
        for (progress, bytes) in [(&one[..], 4), (&[][..], 3)] {
            let why = failed(streamed(progress, covered(bytes)), false);
            assert!(why.unwrap().contains("`covered_bytes`"));
        }
        // The progress may stand before the first entry that was read.
        let (kind, data) = covered(3);
        assert_eq!(failed(vec![("m", kind, data)], true), None);
        let cut = vec![("m", Kind::CallProgress, left(3, 1, "a"))];
        assert_eq!(failed(cut, true), None);
    }

    #[test]
    fn a_call_of_the_gate_names_an_earlier_one_that_was_allowed() {
        let run = |first: Kind, of: &'static str| {
            let own = allowed(&[("gate_of", of)]);
            vec![("m", first, allowed(&[])), ("c", Kind::CallAuthorized, own)]
        };
        assert_eq!(failed(run(Kind::CallAuthorized, "m"), false), None);
        for wrong in [
            run(Kind::CallAuthorized, "c"),
            run(Kind::CallAuthorized, "x"),
            run(Kind::CallDenied, "m"),
        ] {
            let why = failed(wrong, false).unwrap();
            assert!(why.starts_with("S5") && why.contains("`gate_of`"), "{why}");
        }
    }

    #[test]
    fn a_call_is_proposed_by_an_earlier_one_that_was_allowed_and_is_observed() {
        let by = |by: &'static str, binding: &'static str| {
            allowed(&[("binding", binding), ("proposed_by", by)])
        };
        let run = |first: Kind, second: Members| {
            vec![("m", first, allowed(&[])), ("c", Kind::CallAuthorized, second)]
        };
        let ok = run(Kind::CallAuthorized, by("m", "observed"));
        assert_eq!(failed(ok, false), None);
        for wrong in [
            run(Kind::CallAuthorized, by("m", "claimed")),
            run(Kind::CallAuthorized, by("c", "observed")),
            run(Kind::CallAuthorized, by("x", "observed")),
            run(Kind::CallDenied, by("m", "observed")),
        ] {
            let why = failed(wrong, false).unwrap();
            assert!(why.starts_with("S5") && why.contains("`proposed_by`"), "{why}");
        }
        let cut = vec![("c", Kind::CallAuthorized, by("x", "observed"))];
        assert_eq!(failed(cut, true), None);
    }
}
