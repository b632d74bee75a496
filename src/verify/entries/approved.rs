//! P4, as far as entries alone tell: what runs after a hold is what was held, approved in time, by different
//! people. Whether their signatures hold is told by evidence, which has the payloads.

use std::collections::BTreeSet;

use super::read::EntryLine;
use crate::domain::time::Timestamp;
use crate::entries::word::proposer;
use crate::record::approval::{ApprovalGranted, ApprovalRefused};
use crate::record::call::{CallAuthorized, CallHeld};
use crate::record::{HexDigest, Nonce};

/// How long after a hold's end an entry may still stand that was decided before it: an entry waits for
/// its commit.
pub const LATE_MILLIS: i64 = 5_000;

/// How an entry of a call does not fit its hold.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// It names who wrote its arguments, and nothing was held.
    #[error("an approver wrote its arguments, and it was not held")]
    ArgumentsUnheld,
    /// It names approvals, and nothing was held.
    #[error("it names approvals, and was not held")]
    ApprovalsUnheld,
    /// An approval with another `expires`.
    #[error("the approval ends at another time than the hold")]
    Ends,
    /// An approval by the subject that wrote the arguments.
    #[error("`{0}` approves arguments of its own")]
    Own(String),
    /// A second approval of one subject.
    #[error("`{0}` approves it a second time")]
    Again(String),
    /// An answer of this kind with another digest or nonce.
    #[error("`{0}` is about another call or hold")]
    Other(String),
    /// This member differs from the hold.
    #[error("`{0}` is not what was held")]
    Changed(&'static str),
    /// No second person approved what an approver wrote.
    #[error("an approver wrote its arguments, and no other approver approved it")]
    Alone,
    /// The layers differ from those of the hold.
    #[error("`layers` are not those it was held under")]
    Layers,
    /// It runs without an approval that was read.
    #[error("it runs, and `approvals` does not name what was granted")]
    Ungranted,
    /// An entry of this kind after the end of the hold.
    #[error("`{0}` after the hold ended at {1}")]
    Late(String, Timestamp),
    /// It begins after the end of the order that it names.
    #[error("it runs under a break-glass order that ended at {0}")]
    GlassEnded(Timestamp),
}

/// What was held, and who has approved it.
#[derive(Clone, Debug)]
pub struct Hold {
    held: CallHeld,
    given: BTreeSet<String>,
}

impl Hold {
    /// Takes a call's next entry. `cut`: entries of the call before it may not have been read.
    ///
    /// # Errors
    /// How the entry does not fit the hold.
    pub fn accept(hold: &mut Option<Self>, line: &EntryLine, cut: bool) -> Result<(), Error> {
        if let Some(held) = line.get::<CallHeld>() {
            *hold = Some(Self { held: held.clone(), given: BTreeSet::new() });
            return Ok(());
        }
        let Some(call) = line.get::<CallAuthorized>() else {
            return hold.as_mut().map_or(Ok(()), |hold| hold.answered(line));
        };
        if hold.is_none() && call.asked_by.is_some() && !cut {
            return Err(Error::ArgumentsUnheld);
        }
        in_glass_time(line, call)?;
        match hold {
            Some(hold) => hold.released(line, call, cut),
            None if call.approvals.is_some() && !cut => Err(Error::ApprovalsUnheld),
            None => Ok(()),
        }
    }

    /// Takes an approver's answer. That nothing but a denial follows a refusal is the automaton's business.
    fn answered(&mut self, line: &EntryLine) -> Result<(), Error> {
        if let Some(said) = line.get::<ApprovalRefused>() {
            return self.about(line, (said.call_digest, said.nonce));
        }
        let Some(said) = line.get::<ApprovalGranted>() else { return Ok(()) };
        self.about(line, (said.call_digest, said.nonce))?;
        if self.held.expires != Some(said.expires) {
            return Err(Error::Ends);
        }
        let subject = said.subject.as_str();
        let proposer = self.held.asked_by.as_ref().map(proposer);
        if proposer.is_some_and(|by| by.is(subject)) {
            return Err(Error::Own(subject.to_owned()));
        }
        if self.given.insert(subject.to_ascii_lowercase()) {
            Ok(())
        } else {
            Err(Error::Again(subject.to_owned()))
        }
    }

    /// Whether an answer is about this hold, and not after its end.
    fn about(&self, line: &EntryLine, (digest, nonce): (HexDigest, Nonce)) -> Result<(), Error> {
        if self.held.call_digest != Some(digest) || self.held.nonce != Some(nonce) {
            return Err(Error::Other(line.kind().to_owned()));
        }
        self.in_time(line)
    }

    fn released(&self, line: &EntryLine, call: &CallAuthorized, cut: bool) -> Result<(), Error> {
        let held = &self.held;
        let same = [
            ("call_digest", held.call_digest == call.call_digest),
            ("definition", held.definition == call.definition),
            ("effect", held.effect == call.effect),
            ("asked_by", held.asked_by == call.asked_by),
        ];
        if let Some((name, _)) = same.into_iter().find(|(_, same)| !same) {
            return Err(Error::Changed(name));
        }
        // No order stands in for the second person, and no policy that is merely observed.
        if held.asked_by.is_some() && self.given.is_empty() && !cut {
            return Err(Error::Alone);
        }
        if held.layers != call.layers {
            return Err(Error::Layers);
        }
        let list = call.approvals.as_deref().unwrap_or_default();
        let of_hold = |nonce: &Nonce| held.nonce == Some(*nonce);
        let named = !list.is_empty() && list.len() <= self.given.len() && list.iter().all(of_hold);
        // Whether the order that it names stands in for approvers is told by evidence, which has it.
        if !named && !cut && call.break_glass.is_none() {
            return Err(Error::Ungranted);
        }
        self.in_time(line)
    }

    fn in_time(&self, line: &EntryLine) -> Result<(), Error> {
        let Some(end) = self.held.expires else { return Ok(()) };
        if line.entry.ts.millis() < end.millis().saturating_add(LATE_MILLIS) {
            Ok(())
        } else {
            Err(Error::Late(line.kind().to_owned(), end))
        }
    }
}

/// Whether this is the authorisation of a call that runs under a break-glass order.
#[must_use]
pub fn breaks_glass(line: &EntryLine) -> bool {
    line.get::<CallAuthorized>().is_some_and(|call| call.break_glass.is_some())
}

/// No call begins under an order that has ended.
fn in_glass_time(line: &EntryLine, call: &CallAuthorized) -> Result<(), Error> {
    let Some(until) = call.break_glass.as_ref().map(|order| order.until) else { return Ok(()) };
    if line.entry.ts.millis() < until.millis().saturating_add(LATE_MILLIS) {
        Ok(())
    } else {
        Err(Error::GlassEnded(until))
    }
}
