//! P4, as far as entries alone tell: what runs after a hold is what was held, approved in time, by different
//! people. Whether their signatures hold is told by evidence, which has the payloads.

use std::collections::BTreeSet;

use super::read::Line;
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::domain::time::Timestamp;
use crate::ledger::entry::Kind;
use crate::ledger::hold::{asked_by, layers};

/// How long after a hold's end an entry may still stand that was decided before it: an entry waits for
/// its commit.
pub const LATE_MILLIS: i64 = 5_000;

/// What was held, and who has approved it.
#[derive(Clone, Debug)]
pub struct Hold {
    data: Json,
    given: BTreeSet<String>,
}

impl Hold {
    /// Takes a call's next entry. `cut`: entries of the call before it may not have been read.
    ///
    /// # Errors
    /// How the entry does not fit the hold.
    pub fn accept(hold: &mut Option<Self>, line: &Line, cut: bool) -> Result<(), String> {
        let by = asked_by(&line.entry.draft.data).map(|by| by.approval.subject);
        if line.is(Kind::CallAuthorized) && hold.is_none() && by.is_some() && !cut {
            return Err("an approver wrote its arguments, and it was not held".into());
        }
        if line.is(Kind::CallHeld) {
            let data = line.entry.draft.data.clone();
            *hold = Some(Self { data, given: BTreeSet::new() });
            return Ok(());
        }
        let named = line.entry.draft.data.get("approvals").is_some();
        in_glass_time(line)?;
        match hold {
            Some(hold) if line.is(Kind::ApprovalGranted) => hold.granted(line),
            // That nothing but a denial follows is the automaton's business.
            Some(hold) if line.is(Kind::ApprovalRefused) => hold.about(line),
            Some(hold) if line.is(Kind::CallAuthorized) => hold.released(line, cut),
            None if named && !cut => Err("it names approvals, and was not held".into()),
            Some(_) | None => Ok(()),
        }
    }

    fn granted(&mut self, line: &Line) -> Result<(), String> {
        self.about(line)?;
        if self.text("expires") != line.text("expires") {
            return Err("the approval ends at another time than the hold".into());
        }
        let subject = line.text("subject").unwrap_or_default();
        if asked_by(&self.data).is_some_and(|by| by.is(subject)) {
            return Err(format!("`{subject}` approves arguments of its own"));
        }
        if self.given.insert(subject.to_ascii_lowercase()) {
            Ok(())
        } else {
            Err(format!("`{subject}` approves it a second time"))
        }
    }

    /// Whether a word is about this hold, and not after its end.
    fn about(&self, line: &Line) -> Result<(), String> {
        if !self.same(line, "call_digest") || self.text("nonce") != line.text("nonce") {
            return Err(format!("`{}` is about another call or hold", line.kind()));
        }
        self.in_time(line)
    }

    fn released(&self, line: &Line, cut: bool) -> Result<(), String> {
        let changed = ["call_digest", "definition", "effect"].into_iter();
        if let Some(name) = changed.into_iter().find(|name| !self.same(line, name)) {
            return Err(format!("`{name}` is not what was held"));
        }
        if self.data.get("asked_by") != line.entry.draft.data.get("asked_by") {
            return Err("`asked_by` is not what was held".into());
        }
        // No order stands in for the second person, and no policy that is merely observed.
        if self.data.get("asked_by").is_some() && self.given.is_empty() && !cut {
            return Err("an approver wrote its arguments, and nobody else approved it".into());
        }
        if layers(&self.data) != layers(&line.entry.draft.data) {
            return Err("`layers` are not those it was held under".into());
        }
        let list = line.entry.draft.data.get("approvals").and_then(Json::as_array);
        let list = list.unwrap_or_default();
        let of_hold =
            |nonce: &Json| nonce.as_str().is_some() && nonce.as_str() == self.text("nonce");
        let named = !list.is_empty() && list.len() <= self.given.len() && list.iter().all(of_hold);
        // Whether the order that it names stands in for approvers is told by evidence, which has it.
        if !named && !cut && !breaks_glass(line) {
            return Err("it runs, and `approvals` does not name what was granted".into());
        }
        self.in_time(line)
    }

    fn in_time(&self, line: &Line) -> Result<(), String> {
        let Some(end) = self.text("expires").and_then(Timestamp::parse) else { return Ok(()) };
        if line.entry.ts.millis() < end.millis().saturating_add(LATE_MILLIS) {
            Ok(())
        } else {
            Err(format!("`{}` after the hold ended at {end}", line.kind()))
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.data.get(name).and_then(Json::as_str)
    }

    /// Whether a digest is that of the hold, or is in neither.
    fn same(&self, line: &Line, name: &str) -> bool {
        let digest = |text: Option<&str>| text.map(Digest::parse);
        digest(self.text(name)) == digest(line.text(name))
    }
}

/// Whether this is the authorisation of a call that runs under a break-glass order.
#[must_use]
pub fn breaks_glass(line: &Line) -> bool {
    line.is(Kind::CallAuthorized) && line.entry.draft.data.get("break_glass").is_some()
}

/// No call begins under an order that has ended.
fn in_glass_time(line: &Line) -> Result<(), String> {
    if !breaks_glass(line) {
        return Ok(());
    }
    let until = line.entry.draft.data.get("break_glass").and_then(|open| open.get("until"));
    let until = until.and_then(Json::as_str).and_then(Timestamp::parse);
    let until = until.ok_or("`break_glass` names no end")?;
    if line.entry.ts.millis() < until.millis().saturating_add(LATE_MILLIS) {
        Ok(())
    } else {
        Err(format!("it runs under a break-glass order that ended at {until}"))
    }
}
