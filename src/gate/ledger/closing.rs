//! Closes what the last writer of a slot left open: its calls, its held calls, its runs.

use super::RecoveredRun;
use super::drafts::DraftWithPayloads;
use super::sequencer::{Ending, Sequencer};
use super::store::Leased;
use crate::domain::id::{CallId, RunId};
use crate::domain::time::Timestamp;
use crate::record::call::{CallCancelled, CallExpired, CallUnknown};
use crate::record::calls::Phase;
use crate::record::run::RunSealed;
use crate::record::{Body, Draft, List};

/// The cause of a call whose end was lost with its writer.
pub(super) const WRITER_LOST: &str = "writer_lost";
/// How the reason begins for which a held call ends whose arguments an approver replaced: the call that is named
/// takes its place.
pub(crate) const MODIFIED: &str = "modified: asked again as ";
/// Runs closed or taken up in one batch.
const RUNS_PER_BATCH: usize = 64;

/// Closes what the last writer left open. If this writer is the same process restarted, it keeps
/// the runs and held calls. Any other writer cannot honour the tokens of those runs and seals them.
pub(super) async fn close(
    sequencer: &mut Sequencer,
    leased: &Leased,
    mut runs: Vec<RecoveredRun>,
) -> Result<Vec<RecoveredRun>, Ending> {
    let mut open = Vec::new();
    // Newest first: a run is sealed after the runs it delegated to.
    runs.sort_by_key(|run| std::cmp::Reverse(run.opened.seq));
    let now = sequencer.moment().wall;
    for group in runs.chunks(RUNS_PER_BATCH) {
        let mut events = Vec::new();
        for run in group {
            for (call, phase) in run.calls.iter() {
                events.extend(closing(run, call, phase, (leased.same_writer, now)));
            }
            if !leased.same_writer {
                events.push(sealing(run.run, "orphaned"));
            }
        }
        sequencer.write(events).await?;
    }
    if leased.same_writer {
        for mut run in runs {
            if let Some(tail) = sequencer.chain.tails().get(&run.run) {
                run.last_seq = tail.next_seq.saturating_sub(1);
                run.calls.clone_from(&tail.calls);
            }
            open.push(run);
        }
    }
    Ok(open)
}

fn closing(
    run: &RecoveredRun,
    call: &CallId,
    phase: Phase,
    (same_writer, now): (bool, Timestamp),
) -> Option<DraftWithPayloads> {
    let body = match phase {
        // Bytes that left after the newest progress were known to the last writer only.
        Phase::Authorized => CallUnknown {
            cause: WRITER_LOST.into(),
            covered_bytes: run.calls.covered_bytes(call).map(Into::into),
            observed: None,
        },
        Phase::Held(until) if !same_writer && until < now => {
            return Some(held_ended(run.run, call, true, "no approval in time"));
        }
        Phase::Held(_) | Phase::Approved(_) | Phase::Refused(_) if !same_writer => {
            return Some(held_ended(run.run, call, false, "orphaned"));
        }
        Phase::Held(_) | Phase::Approved(_) | Phase::Refused(_) | Phase::Over(_) => return None,
    };
    let draft = Draft { run: Some(run.run), call: Some(call.clone()), ..Draft::of(body) };
    Some(DraftWithPayloads::bare(draft))
}

/// The draft that seals a run; the chain adds the counts.
pub fn sealing(run: RunId, reason: &str) -> DraftWithPayloads {
    let body =
        RunSealed { calls: List::default(), entries: 2_u64.into(), reason: Some(reason.into()) };
    DraftWithPayloads::bare(Draft { run: Some(run), ..Draft::of(body) })
}

/// The draft that ends a held call.
pub fn held_ended(run: RunId, call: &CallId, expired: bool, reason: &str) -> DraftWithPayloads {
    let reason = reason.into();
    let body: Body = if expired {
        CallExpired { reason }.into()
    } else {
        CallCancelled { observed: None, reason }.into()
    };
    DraftWithPayloads::bare(Draft { run: Some(run), call: Some(call.clone()), ..Draft::of(body) })
}
