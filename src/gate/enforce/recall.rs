//! Answers a repeated request from the road or from the ledger; the call never runs again.

use super::answer::{self, Answer, Fault};
use super::run::{self, CallStage, PendingAnswer, Run};
use super::{Road, ledger};
use crate::domain::call::ToolCall;
use crate::domain::code::Code;
use crate::domain::id::{CallId, ToolName};
use crate::ledger::permit::{Recalled, RecalledState};
use crate::ledger::recall::{Likeness, Remembered};
use crate::record::call::AskedIn;
use crate::tool::client;

impl Run {
    /// Whether the run has a call of this id.
    #[must_use]
    pub fn has(&self, call: &CallId) -> bool {
        let state = self.state.lock();
        state.calls.contains_key(&state.known(call.clone()))
    }

    /// Waits for the answer of a call on the road.
    pub(super) async fn wait(&self, mut waiting: PendingAnswer) -> Answer {
        let lost = || Fault::of(Code::CallUnknown);
        let answer = match waiting.wait_for(Option::is_some).await {
            Ok(answer) => answer.clone().unwrap_or_else(|| Err(lost())),
            Err(_) => Err(lost()),
        };
        self.give(answer)
    }

    /// Marks an answer as released to the run; later calls record that they came after it.
    pub(super) fn give(&self, answer: Answer) -> Answer {
        let receipt = match &answer {
            Ok(released) => Some(released.receipt()),
            Err(fault) => fault.receipt.as_ref(),
        };
        if let Some(receipt) = receipt {
            self.release(receipt);
        }
        answer
    }
}

impl Road {
    /// The state of a call: the answer that `execute` gave or will give.
    ///
    /// # Errors
    /// As `execute`; `call.not_found`.
    pub async fn call(&self, run: &std::sync::Arc<Run>, call_id: &str) -> Answer {
        let missing = || Fault::of(Code::CallNotFound);
        let call = CallId::parse(call_id).ok_or_else(missing)?;
        let (call, place) = {
            let state = run.state.lock();
            let call = state.known(call);
            let place = state.calls.get(&call).cloned();
            (call, place)
        };
        match place {
            Some(CallStage::OnRoad(at)) => run.wait(at.answer).await,
            Some(CallStage::Held | CallStage::Booked | CallStage::Doubted) => {
                let remembered = self.remembered(run, &call).await?;
                run.give(self.recalled(run, &remembered.recalled))
            }
            None => match run.recorded(&call) {
                Some(answer) => run.give(answer),
                None => Err(missing().about(&call)),
            },
        }
    }

    /// The recorded answer, if the ledger has the same bytes under this id.
    pub(super) async fn recall(&self, run: &Run, call: &ToolCall) -> Answer {
        let remembered = self.remembered(run, call.id()).await?;
        let like = self.is_again(call, &remembered.masked, |args| {
            self.ledger.likeness(&remembered, (run.id(), call.id()), (call.tool(), args))
        });
        match like {
            Likeness::Same => run.give(self.recalled(run, &remembered.recalled)),
            Likeness::Other => Err(run::conflict(call.id())),
            Likeness::Unknown => {
                let why = "what was asked for under this id is not kept: it cannot be compared";
                Err(Fault::new(Code::CallResultUnavailable, why)
                    .about(&remembered.recalled.call().clone()))
            }
        }
    }

    /// The ledger's answer. A decision that was recorded too late was not run and never will be,
    /// even while the entry that closes the call is still queued.
    pub(super) fn recalled(&self, run: &Run, recalled: &Recalled) -> Answer {
        let state = recalled.state();
        if *state == RecalledState::ResultUnavailable
            && let Some(released) = self.runs.large.find(run.id(), recalled.call())
        {
            return Ok(released);
        }
        let in_doubt =
            matches!(run.state.lock().calls.get(recalled.call()), Some(CallStage::Doubted));
        if *state == RecalledState::Running && in_doubt {
            return Err(Fault::of_ledger(&ledger::Error::Unknown).about(recalled.call()));
        }
        answer::of_recalled(recalled)
    }

    /// The call with this tool and these arguments that is held, or was held when the run was
    /// resumed after a restart. A request for the same without an id means that call.
    ///
    /// # Errors
    /// The ledger cannot be read, so it may hold such a call.
    pub async fn held_like(
        &self,
        run: &Run,
        tool: &str,
        args: &[u8],
    ) -> Result<Option<CallId>, Fault> {
        let Some(named) = ToolName::parse(tool) else { return Ok(None) };
        self.held_in(run, (&named, args), None).await
    }

    /// Such a call of an agent, whose arguments the gate may have masked when it held it.
    fn maskable(run: &Run, tool: &ToolName, args: &[u8]) -> Option<ToolCall> {
        // A tool call of an answer is never masked.
        if tool.as_str().starts_with(client::PREFIX) {
            return None;
        }
        let like = run.origin(CallId::parse("like")?, None);
        ToolCall::parse(like, tool.as_str(), args).ok()
    }

    /// The same for a request in this form: to a model in a dialect, or of a tool.
    pub(super) async fn held_in(
        &self,
        run: &Run,
        (tool, args): (&ToolName, &[u8]),
        form: Option<&AskedIn>,
    ) -> Result<Option<CallId>, Fault> {
        let held = run.held_of(tool.as_str());
        let is_maskable = form.is_none() && !held.is_empty();
        let asked = is_maskable.then(|| Self::maskable(run, tool, args)).flatten();
        for call in held {
            let remembered = self.remembered(run, &call).await?;
            if remembered.asked_in.as_ref() != form {
                continue;
            }
            let compare =
                |args: &[u8]| self.ledger.likeness(&remembered, (run.id(), &call), (tool, args));
            let like = match &asked {
                Some(asked) => self.is_again(asked, &remembered.masked, compare),
                None => compare(args),
            };
            if like == Likeness::Same {
                run.state.lock().taken_up.remove(&call);
                return Ok(Some(call));
            }
        }
        Ok(None)
    }

    pub(super) async fn remembered(&self, run: &Run, call: &CallId) -> Result<Remembered, Fault> {
        match self.ledger.recall(run.id(), call).await {
            Ok(Some(remembered)) => Ok(remembered),
            // The call was queued and is still in doubt.
            Ok(None) => Err(Fault::of_ledger(&ledger::Error::Unknown).about(call)),
            Err(error) => Err(Fault::unread(&error).about(call)),
        }
    }
}
