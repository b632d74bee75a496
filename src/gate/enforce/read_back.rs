//! The check of a call after its tool completed it (`read_back`), and what a failed check takes back.
//!
//! The gate makes these calls itself, in the same run and down the same road: each is prepared, judged,
//! recorded and answered like a call of the agent. The checked call ends only after them, so its last entry
//! says what came of the check, and a repeated request gets the same answer.

use std::pin::Pin;
use std::sync::Arc;

use super::answer::{self, Answer, Fault};
use super::run::Run;
use super::trip::{CallExtras, Entered, Entry, Passage};
use super::{CallRequest, Road};
use crate::catalog::read_back::{CheckedCall, ReadBack};
use crate::domain::canonical;
use crate::domain::id::CallId;
use crate::domain::json::{Json, Limits};
use crate::domain::outcome::Outcome;
use crate::domain::plural::many;
use crate::identity::manifest::Mode;
use crate::judge::guarding::without_secrets;
use crate::ledger::permit::{Finished, Permit};
use crate::limits::BudgetOutcome;

/// Files that are named in the answer at most.
const NAMED_MAX: usize = 3;

/// The check of a call that is about to run.
pub(super) struct Checking {
    check: Arc<ReadBack>,
    args: Json,
}

/// A call whose tool is done, and how it counts for the budget.
type EndedCall = (Finished, BudgetOutcome);

impl Road {
    /// The check of this call, if its tool has one. A replay takes all outcomes from its recording.
    pub(super) fn checking(&self, at: &Passage, permit: &Permit) -> Option<Checking> {
        let call = permit.call();
        let runs = at.run.mode == Mode::Enforce && !self.replaying.is_whole();
        let toolbox = self.in_force.toolbox();
        let check = toolbox.read_back(call.tool()).filter(|_| runs && !call.is_of_gate())?;
        Some(Checking { check: Arc::clone(check), args: call.args().clone() })
    }

    /// Checks what the call did, if its tool completed it. Boxed, because the calls that follow take the
    /// same road.
    pub(super) fn checked<'a>(
        self: &'a Arc<Self>,
        at: &'a Passage,
        checking: Checking,
        (finished, charged): EndedCall,
    ) -> Pin<Box<dyn Future<Output = EndedCall> + Send + 'a>> {
        Box::pin(async move {
            let Outcome::Completed { result, .. } = &finished.ended().outcome else {
                return (finished, charged);
            };
            let result = Json::parse(result, &Limits::FILE).unwrap_or_default();
            let Err(why) = self.read_back(at, &checking, &result).await else {
                return (finished, charged);
            };
            // WHY: the message is in the entry itself, which no erasure reaches, and it names paths.
            let back = without_secrets(&self.take_back(at).await);
            let tool = &checking.check.tool;
            tracing::warn!(run = %at.run.id, call = %at.id, %tool, why, back, "the check of a call failed");
            let message = format!("the check by `{tool}` failed: {why}; {back}");
            (finished.unverified(message), BudgetOutcome::Wrong)
        })
    }

    /// Calls the tool that reads, and compares.
    async fn read_back(
        self: &Arc<Self>,
        at: &Passage,
        Checking { check, args }: &Checking,
        result: &Json,
    ) -> Result<(), String> {
        let call = CheckedCall { args, result };
        let asked = check.args(call).map_err(|error| error.to_string())?;
        let why = format!("the gate checks what call {} did", at.id);
        let found = self.own_call(at, (check.tool.as_str(), &asked), why).await;
        let found = found.map_err(|fault| refused("it could not be read back", &fault))?;
        let found =
            Json::parse(found.result(), &Limits::FILE).map_err(|error| error.to_string())?;
        match check.differs(call, &found).map_err(|error| error.to_string())? {
            None => Ok(()),
            Some(path) => Err(format!("`{path}` of its result is not what was expected")),
        }
    }

    /// Restores the files that calls of tier T1 of the run changed, and says what came of it.
    async fn take_back(self: &Arc<Self>, at: &Passage) -> String {
        let undo = match self.ledger.undo_of(&at.run.id, &at.id).await {
            Ok(undo) => undo,
            Err(error) => return refused("no file was restored", &Fault::of_ledger(&error)),
        };
        let (mut restored, mut left) = (0_usize, Vec::new());
        // The last written first.
        for file in undo.iter().rev() {
            if let Some(why) = &file.lost {
                left.push(format!("`{}` ({why})", file.path));
                continue;
            }
            let args = match file.restoring() {
                Ok(Some(args)) => args,
                Ok(None) => continue,
                Err(why) => {
                    left.push(format!("`{}` ({why})", file.path));
                    continue;
                }
            };
            let why = format!(
                "the gate takes back what run {} wrote: call {} failed its check",
                at.run.id, at.id
            );
            match self.own_call(at, (&file.tool, &Json::of(&args)), why).await {
                Ok(_released) => restored = restored.saturating_add(1),
                Err(fault) => left.push(format!("`{}` ({})", file.path, fault.code.as_str())),
            }
        }
        let restored = format!("{} restored", many(restored, "file"));
        if left.is_empty() {
            return restored;
        }
        let more = left.len().saturating_sub(NAMED_MAX);
        left.truncate(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{restored}, not restored: {}{more}", left.join(", "))
    }

    /// One call of the gate's own, about a call that has not ended. No limit of the run refuses it.
    async fn own_call(
        self: &Arc<Self>,
        at: &Passage,
        (tool, args): (&str, &Json),
        why: String,
    ) -> Answer {
        let run: &Arc<Run> = &at.run;
        let id = run.fresh(&at.id, "g").ok_or_else(|| answer::unknown_for_now(&at.id))?;
        let request = CallRequest {
            tool: tool.to_owned(),
            arguments: canonical::bytes(args),
            call_id: id.as_str().to_owned(),
            ..CallRequest::default()
        };
        let call = self.decode(run, request)?.of_gate(at.id.clone()).justified(Some(why));
        let slot = Some(self.runs.slots(&call).keep(&run.opener.name));
        let entered = self.enter(run, call, (slot, None), CallExtras::default())?;
        let entry = match entered {
            Entered::Known(entry) => entry,
            Entered::Ready(ready) => {
                let id: CallId = ready.trip.call.id().clone();
                let listening = run.listen(&id);
                self.set_out(*ready);
                Entry::Wait(listening.ok_or_else(|| answer::unknown_for_now(&id))?)
            }
        };
        self.answered(run, Ok(entry)).await
    }
}

fn refused(what: &str, fault: &Fault) -> String {
    let detail = if fault.detail.is_empty() { fault.code.as_str() } else { &fault.detail };
    format!("{what} (`{detail}`)")
}
