//! P4, as far as entries alone show: a call that runs after a hold is the held one, approved in
//! time, by different people. The evidence verifier, which has the payloads, checks the signatures.

use std::collections::BTreeMap;

use super::read::EntryLine;
use crate::domain::time::Timestamp;
use crate::entries::approval::proposer;
use crate::record::approval::{ApprovalGranted, ApprovalRefused, KeyKind};
use crate::record::call::{CallAuthorized, CallHeld};
use crate::record::{HexDigest, Nonce};

/// How long after a hold's end its entries may still appear: the gate decides before the end, and
/// the entry waits for its commit.
pub const LATE_MILLIS: i64 = 5_000;

/// How an entry of a call does not fit its hold.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// It names the author of its arguments, but no call was held.
    #[error("an approver wrote its arguments, but the call was not held")]
    ArgumentsUnheld,
    /// It names approvals, but no call was held.
    #[error("it names approvals, but the call was not held")]
    ApprovalsUnheld,
    /// An approval with another `expires`.
    #[error("the approval ends at another time than the hold")]
    Ends,
    /// An approval by the subject that wrote the arguments.
    #[error("`{0}` approves arguments that the same person wrote")]
    Own(String),
    /// A second approval of one subject.
    #[error("`{0}` approves it a second time")]
    Again(String),
    /// An answer of this kind with another digest or nonce.
    #[error("`{0}` is about a different call or hold")]
    Other(String),
    /// This member differs from the hold.
    #[error("`{0}` differs from the held call's")]
    Changed(&'static str),
    /// No second person approved arguments that an approver wrote.
    #[error("an approver wrote its arguments, but no other approver approved the call")]
    Alone,
    /// The layers differ from those of the hold.
    #[error("`layers` differ from the ones that held the call")]
    Layers,
    /// It runs without an approval among the entries read.
    #[error("it runs, but `approvals` does not name the approvals that were granted")]
    Ungranted,
    /// An entry of this kind after the end of the hold.
    #[error("`{0}` is recorded after the hold ended at {1}")]
    Late(String, Timestamp),
    /// It begins after the end of the order that it names.
    #[error("it runs under a break-glass order that ended at {0}")]
    GlassEnded(Timestamp),
}

/// The held call and its approvals.
#[derive(Clone, Debug)]
pub struct Hold {
    held: CallHeld,
    /// Who approved it, and whether by passkey.
    given: BTreeMap<String, bool>,
}

impl Hold {
    /// Takes a call's next entry. `cut`: entries of the call before it may not have been read.
    ///
    /// # Errors
    /// How the entry does not fit the hold.
    pub fn accept(hold: &mut Option<Self>, line: &EntryLine, cut: bool) -> Result<(), Error> {
        if let Some(held) = line.get::<CallHeld>() {
            *hold = Some(Self { held: held.clone(), given: BTreeMap::new() });
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

    /// Takes an approver's answer. The call automaton checks that only a denial follows a refusal.
    fn answered(&mut self, line: &EntryLine) -> Result<(), Error> {
        if let Some(refusal) = line.get::<ApprovalRefused>() {
            return self.about(line, (refusal.call_digest, refusal.nonce));
        }
        let Some(grant) = line.get::<ApprovalGranted>() else { return Ok(()) };
        self.about(line, (grant.call_digest, grant.nonce))?;
        if self.held.expires != Some(grant.expires) {
            return Err(Error::Ends);
        }
        let subject = grant.subject.as_str();
        let proposer = self.held.asked_by.as_ref().map(proposer);
        if proposer.is_some_and(|by| by.is(subject)) {
            return Err(Error::Own(subject.to_owned()));
        }
        let by_passkey = grant.key_kind == Some(KeyKind::Passkey);
        // Another key of the same person replaces a passkey.
        match self.given.insert(subject.to_ascii_lowercase(), by_passkey) {
            None => Ok(()),
            Some(before) if before && !by_passkey => Ok(()),
            Some(_) => Err(Error::Again(subject.to_owned())),
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
            ("proposed_by", held.proposed_by == call.proposed_by),
            ("gate_of", held.gate_of == call.gate_of),
        ];
        if let Some((name, _)) = same.into_iter().find(|(_, same)| !same) {
            return Err(Error::Changed(name));
        }
        // Neither a break-glass order nor an observed policy replaces the second person.
        if held.asked_by.is_some() && self.given.is_empty() && !cut {
            return Err(Error::Alone);
        }
        if held.layers != call.layers {
            return Err(Error::Layers);
        }
        let list = call.approvals.as_deref().unwrap_or_default();
        let of_hold = |nonce: &Nonce| held.nonce == Some(*nonce);
        let named = !list.is_empty() && list.len() <= self.given.len() && list.iter().all(of_hold);
        // The evidence verifier checks whether the named order replaces approvers.
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
pub fn is_break_glass(line: &EntryLine) -> bool {
    line.get::<CallAuthorized>().is_some_and(|call| call.break_glass.is_some())
}

/// A call must not begin under an order that has ended.
fn in_glass_time(line: &EntryLine, call: &CallAuthorized) -> Result<(), Error> {
    let Some(until) = call.break_glass.as_ref().map(|order| order.until) else { return Ok(()) };
    if line.entry.ts.millis() < until.millis().saturating_add(LATE_MILLIS) {
        Ok(())
    } else {
        Err(Error::GlassEnded(until))
    }
}
