//! A streamed answer: each event of the provider read, judged where it is a tool call, and sent on.

use hyper::body::Bytes;

use super::exchange::{Broken, Exchange, encoded, length, proposed};
use super::hold_back::{HoldBack, HoldsCredential};
use crate::catalog::llm::answer::{AnsweredCall, Frame, Step, StreamReader};
use crate::catalog::llm::sse;
use crate::ledger::flow::{Clearance, Flow};

/// A streamed answer on its way from the provider to the agent.
pub(super) struct Pump<'a, 'b> {
    pub exchange: &'a Exchange<'b>,
    pub answer: StreamReader,
    pub text: HoldBack<'a>,
    /// Pieces that wait for the end of the answer, if they must.
    pub kept: Option<Vec<Bytes>>,
    /// Bytes of text and of tool calls that were seen.
    pub shown: u64,
}

impl Pump<'_, '_> {
    pub async fn event(&mut self, event: &sse::Event, flow: &mut Flow<'_>) -> Result<(), Broken> {
        let mut calls = Vec::new();
        for step in self.answer.event(event)? {
            match step {
                Step::Frame { frame, text } => {
                    self.shown = self.shown.saturating_add(length(&text));
                    let bytes = Bytes::from(frame.encode());
                    for bytes in self.text.push(bytes, &text)? {
                        self.send(bytes, flow).await?;
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
            self.send(bytes, flow).await?;
        }
        let all = calls.iter().map(|call| length(&call.arguments));
        self.shown = all.fold(self.shown, u64::saturating_add);
        let cleared = flow.propose(calls.iter().map(proposed).collect()).await;
        for (call, clearance) in calls.iter().zip(cleared) {
            match clearance {
                Clearance::Allowed(cleared) => {
                    let frames = match cleared.arguments() {
                        Some(arguments) => self.answer.allow_with(call.index, arguments)?,
                        None => self.answer.allow(call.index)?,
                    };
                    let bytes = self.checked(&frames)?;
                    match &mut self.kept {
                        Some(kept) => kept.push(bytes),
                        None => flow.cleared(cleared, bytes).await?,
                    }
                }
                Clearance::Denied(denied) => {
                    let denied = self.exchange.denied(call, &denied)?;
                    let frames = self.answer.deny(call.index, &denied)?;
                    let bytes = self.checked(&frames)?;
                    self.send(bytes, flow).await?;
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

    async fn send(&mut self, bytes: Bytes, flow: &mut Flow<'_>) -> Result<(), Broken> {
        match &mut self.kept {
            Some(kept) => kept.push(bytes),
            None => flow.piece(bytes).await?,
        }
        Ok(())
    }
}
