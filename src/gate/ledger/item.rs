//! The work items of the sequencer: a draft, and the caller that waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::oneshot;

use super::Error;
use super::drafts::DraftWithPayloads;
use super::permit::{Committed, Finished, Receipt, Settled};
use crate::domain::time::Timestamp;
use crate::judge::Judged;

/// One piece of work for the sequencer.
#[derive(Debug)]
pub(super) struct Item {
    pub written: DraftWithPayloads,
    pub claim: Claim,
    pub done: Completion,
}

/// The waiting caller, and what it receives once the entry is durable.
#[derive(Debug)]
pub(super) enum Completion {
    /// A judged call waits to become a permit, a refusal or a hold.
    Judged { judged: Box<Judged>, expires: Timestamp, reply: Reply<Committed> },
    /// An outcome waits to be released. It is written even if its receiver is gone.
    Finished { finished: Box<Finished>, reply: Reply<Settled> },
    /// An entry other than a decision or an outcome.
    Event { reply: Option<Reply<Receipt>> },
}

pub(super) type Reply<T> = oneshot::Sender<Result<T, Error>>;

impl Completion {
    /// Tells the waiting caller that its entry was not written.
    pub fn refuse(self, error: Error) {
        match self {
            Self::Judged { reply, .. } => drop(reply.send(Err(error))),
            Self::Finished { reply, .. } => drop(reply.send(Err(error))),
            Self::Event { reply } => drop(reply.map(|reply| reply.send(Err(error)))),
        }
    }
}

const QUEUED: u8 = 0;
const TAKEN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// Whether an item is still queued: its caller may withdraw it, the sequencer may take it, and
/// exactly one of them succeeds.
#[derive(Clone, Debug, Default)]
pub(super) struct Claim(Arc<AtomicU8>);

impl Claim {
    /// The sequencer's side: true if the item must be written now.
    pub fn take(&self) -> bool {
        self.0.compare_exchange(QUEUED, TAKEN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The caller's side: true if the item will certainly not be written.
    pub fn withdraw(&self) -> bool {
        self.0.compare_exchange(QUEUED, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
