//! What is put on the books whatever happens: outcomes, and ends of what was held.

use std::time::Duration;

use tokio::sync::oneshot;

use super::item::{Claim, Completion, Item};
use super::permit::{Finished, Receipt, Settled};
use super::store::StoreError;
use super::{Error, Ledger, drafts};
use crate::ledger::drafts::DraftWithPayloads;

impl Ledger {
    /// Puts something on the books that is owed whatever happens (a held call that ended); waits for
    /// as long as it takes.
    ///
    /// # Errors
    /// The writer ended first, or the entry would break its call's life.
    pub async fn owe(&self, written: DraftWithPayloads) -> Result<Receipt, Error> {
        let (reply, answer) = oneshot::channel();
        let done = Completion::Event { reply: Some(reply) };
        let item = Item { written, claim: Claim::default(), done };
        self.owed.send(item).await.map_err(|_| Error::Unknown)?;
        answer.await.unwrap_or(Err(Error::Unknown))
    }

    /// Puts the outcome of a permitted call on the books, for as long as it takes: the outcome is
    /// owed. Whoever answers the caller earlier must say that the outcome is unknown.
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
                // WHY: no later life would close the call while this one goes on, and its callers would wait.
                StoreError::Broken(why) => {
                    tracing::error!(%why, "a result cannot be stored: its call ends unknown");
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
        self.owed.send(item).await.map_err(|_| Error::Unknown)?;
        answer.await.unwrap_or(Err(Error::Unknown))
    }
}
