//! Entries that the gate must record whatever happens: outcomes, and the ends of held calls.

use std::time::Duration;

use tokio::sync::oneshot;

use super::item::{Claim, Completion, Item};
use super::permit::{Finished, Receipt, Settled};
use super::store::StoreError;
use super::{Error, Ledger, drafts};
use crate::ledger::drafts::DraftWithPayloads;

impl Ledger {
    /// Records an entry that must not be lost (the end of a held call); waits as long as that
    /// takes.
    ///
    /// # Errors
    /// The writer ended first, or the entry violates the rules of its call.
    pub async fn owe(&self, written: DraftWithPayloads) -> Result<Receipt, Error> {
        let (reply, answer) = oneshot::channel();
        let done = Completion::Event { reply: Some(reply) };
        let item = Item { written, claim: Claim::default(), done };
        self.due.send(item).await.map_err(|_| Error::Unknown)?;
        answer.await.unwrap_or(Err(Error::Unknown))
    }

    /// Records the outcome of a permitted call, however long that takes, because the outcome must
    /// not be lost. A caller that answers the agent earlier must report the outcome as unknown.
    ///
    /// # Errors
    /// The writer ended first: the next one closes the call as unknown.
    pub async fn settle(&self, mut finished: Finished) -> Result<Settled, Error> {
        let mut written = drafts::ended(&*self.shared.entropy, &finished);
        self.confine(&mut written)?;
        let mut pause = Duration::from_millis(20);
        while let Err(failure) = self.park(&mut written).await {
            match failure {
                StoreError::Conflict(_) => return Err(Error::Unknown),
                // WHY: no later writer would close the call while this one continues, and its
                // callers would wait.
                StoreError::Broken(why) => {
                    tracing::error!(%why, "a result cannot be stored: the outcome of its call is recorded as unknown");
                    finished = finished.lost();
                    written = drafts::ended(&*self.shared.entropy, &finished);
                    self.confine(&mut written)?;
                }
                StoreError::Unavailable(_) | StoreError::Full(_) | StoreError::Unknown(_) => {
                    tokio::time::sleep(pause).await;
                    pause = pause.saturating_mul(2).min(Duration::from_millis(500));
                }
            }
        }
        let (reply, answer) = oneshot::channel();
        let done = Completion::Finished { finished: Box::new(finished), reply };
        let item = Item { written, claim: Claim::default(), done };
        self.due.send(item).await.map_err(|_| Error::Unknown)?;
        answer.await.unwrap_or(Err(Error::Unknown))
    }
}
