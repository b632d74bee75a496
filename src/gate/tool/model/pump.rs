//! A streamed answer: each event of the provider read, judged where it is a tool call, and sent on.

use hyper::body::Bytes;

use super::broken::Broken;
use super::exchange::{Exchange, length};
use super::hold_back::{HoldBack, HoldsCredential, Leaving};
use super::masking::EventMask;
use super::proposed::Proposed;
use crate::catalog::llm::answer::{AnsweredCall, DeniedCall, Frame, FrameText, Step, StreamReader};
use crate::catalog::llm::framing::FrameWriter;
use crate::catalog::llm::sse;
use crate::ledger::flow::{Clearance, Flow, FlowStopped};

/// A streamed answer on its way from the provider to the agent.
pub(super) struct Pump<'a, 'b> {
    pub exchange: &'a Exchange<'b>,
    pub answer: StreamReader,
    /// Writes what leaves, in this order.
    pub writer: FrameWriter,
    /// What the policy masks, if it masks.
    pub mask: Option<EventMask>,
    pub text: HoldBack<'a>,
    /// Frames that came together and have not left yet, each with the texts that it shows.
    pub frames: Vec<(Bytes, Vec<FrameText>)>,
    /// Bytes of text and of tool calls that were seen.
    pub shown: u64,
}

impl Pump<'_, '_> {
    /// Takes the events that came together.
    pub async fn events(
        &mut self,
        events: Vec<sse::Event>,
        flow: &mut Flow<'_>,
    ) -> Result<(), Broken> {
        for event in events {
            if self.answer.is_over() {
                break;
            }
            if let Err(broken) = self.event(event, flow).await {
                // What came before it may leave.
                self.leave(flow).await?;
                return Err(broken);
            }
        }
        self.leave(flow).await
    }

    async fn event(&mut self, event: sse::Event, flow: &mut Flow<'_>) -> Result<(), Broken> {
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
                    // What stands behind a tool call leaves behind it.
                    if !calls.is_empty() {
                        self.calls(std::mem::take(&mut calls), flow).await?;
                    }
                    let all = texts.iter().map(|piece| length(&piece.text));
                    self.shown = all.fold(self.shown, u64::saturating_add);
                    self.frames.push((Bytes::from(self.writer.write(&[frame])), texts));
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
        self.leave(flow).await?;
        let all = calls.iter().map(|call| length(&call.arguments));
        self.shown = all.fold(self.shown, u64::saturating_add);
        let asked = self.exchange.proposed(&calls, self.mask.as_mut())?;
        let cleared = flow.propose(asked.iter().map(Proposed::asked).collect()).await?;
        for (asked, clearance) in asked.iter().zip(cleared) {
            let index = asked.call.index;
            let part = match clearance {
                Clearance::Allowed(cleared) => {
                    self.refuse_named(asked.call)?;
                    let frames = match self.exchange.leaves(asked, &cleared, self.mask.as_mut())? {
                        Some(arguments) => self.answer.allow_with(index, &arguments)?,
                        None => self.answer.allow(index)?,
                    };
                    Leaving::Call(cleared, self.checked(&frames)?)
                }
                Clearance::Denied(denied) => {
                    let denied = self.exchange.denied(asked.call, &denied)?;
                    let denied = self.masked_denial(denied)?;
                    let frames = self.answer.deny(index, &denied)?;
                    Leaving::Piece(self.checked(&frames)?)
                }
                Clearance::Undecided => return Err(Broken::Undecided),
            };
            leave(self.text.follow(part), flow).await?;
        }
        Ok(())
    }

    /// Has the frames leave that wait for the end of what came together.
    async fn leave(&mut self, flow: &mut Flow<'_>) -> Result<(), Broken> {
        let frames = std::mem::take(&mut self.frames);
        if let Some(parts) = self.text.push_all(&frames) {
            return Ok(leave(parts, flow).await?);
        }
        for (frame, texts) in frames {
            leave(self.text.push(frame, &texts)?, flow).await?;
        }
        Ok(())
    }

    /// Bytes of the answer that came so far, about.
    pub fn seen(&self) -> u64 {
        self.shown.saturating_add(self.mask.as_ref().map_or(0, EventMask::waiting))
    }

    /// The bytes of frames without a credential.
    fn checked(&mut self, frames: &[Frame]) -> Result<Bytes, Broken> {
        let bytes = Bytes::from(self.writer.write(frames));
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
}

/// Sends these parts.
pub(super) async fn leave(parts: Vec<Leaving>, flow: &mut Flow<'_>) -> Result<(), FlowStopped> {
    for part in parts {
        match part {
            Leaving::Piece(bytes) => flow.piece(bytes).await?,
            Leaving::Call(cleared, bytes) => flow.cleared(cleared, bytes).await?,
        }
    }
    Ok(())
}
