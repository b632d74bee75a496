//! An approver's other arguments for a held call: a call of its own, judged like any other.

use std::sync::Arc;

use super::answer::Fault;
use super::approve::Heard;
use super::run::Run;
use super::{CallRequest, Entered, Ready, Road};
use crate::domain::code::Code;
use crate::domain::id::{CallId, RunId};
use crate::ledger;

impl Road {
    /// Ends a held call and asks the same with other arguments, as a call of its own that is judged like
    /// any other. Returns its id.
    ///
    /// # Errors
    /// `call.not_found` if the call is not held, and whatever speaks against the new one.
    pub async fn modify(
        self: &Arc<Self>,
        run: &RunId,
        call: &CallId,
        arguments: &str,
    ) -> Option<Result<CallId, Fault>> {
        let run = self.runs.of_id(run)?;
        let _turn = run.words.lock().await;
        Some(self.modified(&run, call, arguments).await)
    }

    async fn modified(
        self: &Arc<Self>,
        run: &Arc<Run>,
        call: &CallId,
        arguments: &str,
    ) -> Result<CallId, Fault> {
        let missing = || {
            Fault::new(Code::CallNotFound, format!("call `{call}` does not wait for an approval"))
        };
        let unread = |heard: Heard| match heard {
            Heard::Unavailable(why) => Fault::new(Code::LedgerUnavailable, why),
            Heard::Counted(_) | Heard::Refused(_) | Heard::NotHeld => missing(),
        };
        let hold = self.held(run, call).await.map_err(unread)?.ok_or_else(missing)?;
        let id = self.fresh(run, call).ok_or_else(missing)?;
        let request = CallRequest {
            tool: hold.tool.to_string(),
            arguments: arguments.as_bytes().to_vec(),
            call_id: id.to_string(),
            traceparent: hold.traceparent.clone(),
        };
        // Before the old one ends: what cannot be asked changes nothing.
        let other = self.decode(run, request)?;
        let slot = Some(self.slots.wait(self.agents.load().count(), &run.opener.name).await);
        let Entered::Ready(ready) = self.enter(run, other, slot)? else { return Err(missing()) };
        let reason = format!("modified: asked again as `{id}`");
        let ended = ledger::closing::held_ended(*run.id(), call, false, &reason);
        if let Err(error) = self.ledger.owe(ended).await {
            self.turn_back(*ready);
            // It ended otherwise in the same moment.
            let over = error == ledger::Error::CallTaken;
            return Err(if over { missing() } else { Fault::of_ledger(&error) });
        }
        run.unheld(call);
        self.set_out(*ready);
        Ok(id)
    }

    /// Takes back a call that did not set out. Whoever stands behind it in the row still comes after the one before.
    fn turn_back(&self, ready: Ready) {
        ready.trip.run.forget(ready.trip.call.id());
        if let Some(turn) = ready.turn {
            self.tasks.spawn(turn.given_up());
        }
    }

    /// A free id that shows where it comes from.
    fn fresh(&self, run: &Run, call: &CallId) -> Option<CallId> {
        let state = run.state.lock();
        let stem: String = call.as_str().chars().take(56).collect();
        let ids = (1..=999_u32).filter_map(|n| CallId::parse(&format!("{stem}.m{n}")));
        ids.into_iter().find(|id| !state.calls.contains_key(id))
    }
}
