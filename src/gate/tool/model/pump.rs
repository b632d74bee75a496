//! A streamed answer: each event of the provider read, judged where it is a tool call, and sent on.

use hyper::body::Bytes;

use super::broken::Broken;
use super::exchange::{Exchange, encoded, length, proposed};
use super::hold_back::{HoldBack, HoldsCredential};
use super::masking::EventMask;
use crate::catalog::llm::answer::{AnsweredCall, DeniedCall, Frame, Step, StreamReader};
use crate::catalog::llm::sse;
use crate::ledger::flow::{Clearance, Flow, ProposedCall};

/// A streamed answer on its way from the provider to the agent.
pub(super) struct Pump<'a, 'b> {
    pub exchange: &'a Exchange<'b>,
    pub answer: StreamReader,
    /// What the policy masks, if it masks.
    pub mask: Option<EventMask>,
    pub text: HoldBack<'a>,
    /// Bytes of text and of tool calls that were seen.
    pub shown: u64,
}

impl Pump<'_, '_> {
    pub async fn event(&mut self, event: sse::Event, flow: &mut Flow<'_>) -> Result<(), Broken> {
        let Some(mask) = &mut self.mask else { return self.step(&event, flow).await };
        let events = mask.event(event)?;
        self.exchange.masked(mask.masked());
        for event in events {
            self.step(&event, flow).await?;
        }
        Ok(())
    }

    async fn step(&mut self, event: &sse::Event, flow: &mut Flow<'_>) -> Result<(), Broken> {
        let mut calls = Vec::new();
        for step in self.answer.event(event)? {
            match step {
                Step::Frame { frame, texts } => {
                    let all = texts.iter().map(|piece| length(&piece.text));
                    self.shown = all.fold(self.shown, u64::saturating_add);
                    let bytes = Bytes::from(frame.encode());
                    for bytes in self.text.push(bytes, &texts)? {
                        flow.piece(bytes).await?;
                    }
                }
                Step::Call(call) => calls.push(call),
                Step::Hold => {}
            }
        }
        if !calls.is_empty() {
            self.calls(calls, flow).await?;
        }
        Ok(())
    }

    /// Has the tool calls judged that became complete together.
    async fn calls(&mut self, calls: Vec<AnsweredCall>, flow: &mut Flow<'_>) -> Result<(), Broken> {
        for bytes in self.text.flush() {
            flow.piece(bytes).await?;
        }
        let all = calls.iter().map(|call| length(&call.arguments));
        self.shown = all.fold(self.shown, u64::saturating_add);
        // WHY before they are judged: the agent makes the call with the arguments that left.
        let left: Vec<_> = calls.iter().map(|call| self.masked(&call.arguments)).collect();
        let asked = calls.iter().zip(&left).map(|(call, left)| {
            let leaves = left.as_ref().ok().cloned().flatten();
            ProposedCall { leaves, ..proposed(call) }
        });
        let cleared = flow.propose(asked.collect()).await?;
        for ((call, left), clearance) in calls.iter().zip(left).zip(cleared) {
            match clearance {
                Clearance::Allowed(cleared) => {
                    self.refuse_named(call)?;
                    let masked = match cleared.arguments() {
                        Some(arguments) => self.masked(arguments)?,
                        None => left?,
                    };
                    let frames = match masked.as_deref().or(cleared.arguments()) {
                        Some(arguments) => self.answer.allow_with(call.index, arguments)?,
                        None => self.answer.allow(call.index)?,
                    };
                    let bytes = self.checked(&frames)?;
                    flow.cleared(cleared, bytes).await?;
                }
                Clearance::Denied(denied) => {
                    let denied = self.exchange.denied(call, &denied)?;
                    let denied = self.masked_denial(denied)?;
                    let frames = self.answer.deny(call.index, &denied)?;
                    let bytes = self.checked(&frames)?;
                    flow.piece(bytes).await?;
                }
                Clearance::Undecided => return Err(Broken::Undecided),
            }
        }
        Ok(())
    }

    /// The bytes of frames without a credential.
    fn checked(&self, frames: &[Frame]) -> Result<Bytes, Broken> {
        let bytes = encoded(frames);
        if self.text.hides_in(&bytes) { Err(HoldsCredential.into()) } else { Ok(bytes) }
    }

    /// Refuses a tool call that may leave, if its id or its name must be masked.
    fn refuse_named(&self, call: &AnsweredCall) -> Result<(), Broken> {
        let Some(mask) = &self.mask else { return Ok(()) };
        mask.refuse_named(call)?;
        Ok(())
    }

    /// The denial, masked: the model chose the name of the tool, and a rule may repeat its arguments.
    fn masked_denial(&mut self, denied: DeniedCall) -> Result<DeniedCall, Broken> {
        let Some(mask) = &mut self.mask else { return Ok(denied) };
        let (tool, message) = (mask.text(&denied.tool)?, mask.text(&denied.message)?);
        self.exchange.masked(mask.masked());
        Ok(DeniedCall { tool, message, ..denied })
    }

    /// The arguments of a tool call, if something in them is masked.
    fn masked(&mut self, arguments: &str) -> Result<Option<String>, Broken> {
        let Some(mask) = &mut self.mask else { return Ok(None) };
        let masked = mask.arguments(arguments)?;
        self.exchange.masked(mask.masked());
        Ok(masked)
    }
}
