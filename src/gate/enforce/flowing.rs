//! The answer of a model on its way to the agent.

use std::pin::Pin;
use std::sync::Arc;

use super::Road;
use super::answer::{Answer, Fault};
use super::listening::ClientPlace;
use super::run::Run;
use crate::domain::code::Code;
use crate::domain::id::CallId;
use crate::ledger::flow::{FlowHead, FlowItem, FlowReceiver, Last, Piece, SealedEnd};
use crate::telemetry::metrics::InFlight;
use crate::tool;

/// The next part of an answer.
#[derive(Debug)]
pub enum FlowPart {
    /// Bytes to send.
    Piece(Piece),
    /// The last bytes to send.
    Last(Last),
    /// The answer ends without its end: the agent is to read of the fault, and of no end.
    Broken(Box<Fault>),
}

pub(super) type AnswerToCome = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// An answer that is on its way. Dropping it stops the call, unless another request waits for the
/// same.
pub struct Flowing {
    /// The provider's status and headers.
    pub head: FlowHead,
    pub(super) items: FlowReceiver,
    pub(super) answer: AnswerToCome,
    pub(super) end: Option<SealedEnd>,
    pub(super) over: bool,
    pub(super) leaving: LeaveGuard,
    /// Counts the stream while it is open.
    pub(super) _open: InFlight,
}

crate::record::debug_by!(Flowing: head);

impl Flowing {
    /// The next part; waits for it. After `Last` or `Broken` there is none. It may be dropped while
    /// it waits, and called again.
    pub async fn next(&mut self) -> FlowPart {
        while !self.over {
            match self.items.next().await {
                Some(FlowItem::Piece(piece)) => return FlowPart::Piece(piece),
                Some(FlowItem::End(end)) => self.end = Some(end),
                Some(FlowItem::Head(_)) => {}
                None => self.over = true,
            }
        }
        let answer = (&mut self.answer).await;
        self.leaving.disarm();
        self.answer = Box::pin(std::future::pending());
        match (answer, self.end.take()) {
            // WHY not one whose outcome is only queued: the end is the proof that it is durable.
            (Ok(released), Some(end)) if !released.is_pending() => {
                FlowPart::Last(Last::of(end, released.receipt().clone()))
            }
            (Ok(_), _) => FlowPart::Broken(Box::new(Fault::of(Code::CallUnknown))),
            (Err(fault), _) => FlowPart::Broken(Box::new(fault)),
        }
    }
}

/// Stops the call of a client that waited for an approver and left before the end of its answer, unless
/// another request waits for the same. One that is held again goes on to wait: the agent may ask for
/// the same again.
pub(super) struct LeaveGuard {
    pub road: Arc<Road>,
    pub run: Arc<Run>,
    pub call: CallId,
    pub armed: bool,
    /// Where the client counts while the call is on the road again: a request that joins it and leaves
    /// must not stop it.
    pub place: ClientPlace,
}

impl LeaveGuard {
    pub fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for LeaveGuard {
    fn drop(&mut self) {
        self.place.leave();
        if self.armed && !self.run.is_awaited(&self.call) {
            self.run.stop_on_road(&self.call, tool::LEFT);
        }
    }
}
