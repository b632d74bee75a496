//! P4, for lists of people: each was active on its chain when an approval counted by it, and no
//! replaced list came back.

use std::collections::BTreeMap;

use super::case::Case;
use crate::approvals::{break_glass_list, exception_lists, is_verdict, list_of, order_list};
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::time::Timestamp;
use crate::entries::approved::LATE_MILLIS;
use crate::record::Kind;
use crate::record::chain::{SignerList, SignersBound};

/// How a list contradicts the lists that its chain activated.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("seq {0}: {1}")]
    Seq(Seq, #[source] Box<Self>),
    #[error("the entry has no time")]
    Time,
    #[error("version {0} of a list follows version {1}")]
    Version(u64, u64),
    #[error("the list {} was not in force on this chain", .0.prefixed())]
    Unbound(Digest),
    #[error("the list {} was in force until {end} only", .0.prefixed(), end = .1)]
    Ended(Digest, Timestamp),
}

/// One activated list.
struct Bound {
    /// The end of its validity: it expired or was replaced, whichever came first.
    until: Option<Timestamp>,
}

/// The lists of one purpose, along a chain.
#[derive(Default)]
struct Lists {
    newest: Option<(u64, Digest)>,
    bound: BTreeMap<Digest, Bound>,
}

impl Lists {
    fn bind(&mut self, ts: Timestamp, bound: &SignersBound) -> Result<(), Error> {
        let (version, digest) = (bound.version.get(), bound.digest.0);
        let expires = bound.expires.as_ref().map(|at| Timestamp::parse(at).ok_or(Error::Time));
        let expires = expires.transpose()?;
        if let Some((newest, of)) = &self.newest
            && (version < *newest || (version == *newest && digest != *of))
        {
            return Err(Error::Version(version, *newest));
        }
        if let Some((_, of)) =
            self.newest.replace((version, digest)).filter(|(_, of)| *of != digest)
            && let Some(old) = self.bound.get_mut(&of)
        {
            old.until = Some(old.until.map_or(ts, |until| until.min(ts)));
        }
        self.bound.insert(digest, Bound { until: expires });
        Ok(())
    }

    fn has(&self, digest: &Digest, at: Option<Timestamp>) -> Result<(), Error> {
        let bound = self.bound.get(digest).ok_or(Error::Unbound(*digest))?;
        match (bound.until, at) {
            // The gate checks an approval a moment before it writes the entry.
            (Some(end), Some(at)) if at.millis() >= end.millis().saturating_add(LATE_MILLIS) => {
                Err(Error::Ended(*digest, end))
            }
            (_, _) => Ok(()),
        }
    }
}

/// Checks every list that an entry names against the lists that its chain activated.
pub(super) fn check(case: &Case<'_>) -> Result<(), Error> {
    for slice in &case.slices {
        let (mut approvers, mut breakers) = (Lists::default(), Lists::default());
        for line in &slice.lines {
            let at = |why| Error::Seq(line.entry.seq, Box::new(why));
            if let Some(bound) = line.get::<SignersBound>() {
                let breaking = bound.list == SignerList::BreakGlass;
                let lists = if breaking { &mut breakers } else { &mut approvers };
                lists.bind(line.entry.ts, bound).map_err(at)?;
            }
            if !slice.selects(line) {
                continue;
            }
            if let Some(digest) = list_of(line) {
                // A proposal stays valid even if its author leaves the list later.
                let answered_at = is_verdict(line).then_some(line.entry.ts);
                approvers.has(&digest, answered_at).map_err(at)?;
            }
            if let Some(digest) = order_list(line).filter(|_| line.is(Kind::ControlApplied)) {
                approvers.has(&digest, Some(line.entry.ts)).map_err(at)?;
            }
            for digest in exception_lists(line) {
                // A value passes until its order ends, even if the list was replaced since.
                approvers.has(&digest, None).map_err(at)?;
            }
            if let Some(digest) = break_glass_list(line) {
                breakers.has(&digest, None).map_err(at)?;
            }
        }
    }
    Ok(())
}
