//! What runs had read, by their entries: labels survive the process that brought them.

use std::collections::{BTreeMap, BTreeSet};

use super::standing::first_at;
use super::store::{EntryRange, EntryRow, StoreError};
use super::{Error, Ledger};
use crate::domain::call::CallerAuth;
use crate::domain::id::{RunId, Seq};
use crate::domain::taint::{Label, LabelOrigin};
use crate::domain::time::Timestamp;
use crate::record::run::{Delegate, RunOpened};
use crate::record::{Entry, Kind};

/// Entries read at once.
const PAGE: u32 = 1000;

/// What a run had read, by its entries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PastReading {
    labels: BTreeMap<Label, PastLabel>,
    /// What orders took away: from this run, and not from the others that had learnt of it.
    taken: BTreeMap<Label, PastLabel>,
    /// The entry of the newest order that took its labels away.
    cleared: Option<Seq>,
}

/// A label that a run had.
#[derive(Clone, PartialEq, Eq, Debug)]
struct PastLabel {
    /// The first call that brought it.
    origin: LabelOrigin,
    /// The newest entry that says so.
    newest: Seq,
}

impl PastReading {
    /// Takes the next entry of the run, or of a run below it.
    pub fn take(&mut self, entry: &Entry) {
        let draft = &entry.draft;
        if draft.kind() == Kind::TaintCleared {
            self.clear(entry.seq);
        }
        let begins = draft.get::<RunOpened>().and_then(|opened| opened.taint.as_deref());
        // WHY of decisions: what another run of the caller read is in no other entry of this one.
        let decided = draft.body.decision().and_then(|decision| Some(&*decision.taint?.labels));
        for one in begins.into_iter().chain(decided).flatten() {
            let Some(run) = one.run.or(draft.run) else { continue };
            let origin = LabelOrigin { run, call: one.call.clone() };
            self.labels.entry(one.label).or_insert(PastLabel { origin, newest: entry.seq });
        }
        let brought = draft.body.observed().and_then(|observed| observed.labels.as_deref());
        for label in brought.into_iter().flatten() {
            let (Some(run), Some(call)) = (draft.run, draft.call.clone()) else { continue };
            self.bring(*label, LabelOrigin { run, call }, entry.seq);
        }
    }

    /// Takes the labels away, by this entry.
    pub fn clear(&mut self, at: Seq) {
        for (label, known) in std::mem::take(&mut self.labels) {
            let taken = self.taken.entry(label).or_insert_with(|| known.clone());
            taken.newest = taken.newest.max(known.newest);
        }
        self.cleared = self.cleared.max(Some(at));
    }

    /// Adds a label that an answer brought, as this entry says.
    pub fn bring(&mut self, label: Label, origin: LabelOrigin, at: Seq) {
        let known = self.labels.entry(label).or_insert(PastLabel { origin, newest: at });
        known.newest = known.newest.max(at);
    }

    /// Adds what another run had read, without what came before the labels of this run were taken away.
    pub fn add(&mut self, other: &Self) {
        for (label, PastLabel { origin, newest }) in &other.labels {
            if self.cleared.is_none_or(|cleared| cleared < *newest) {
                self.bring(*label, origin.clone(), *newest);
            }
        }
    }

    /// Adds what another run had read since this entry, at which this run was open: it learnt of that at once,
    /// whatever was taken from the other one or became of it later.
    pub fn learn(&mut self, other: &Self, since: Seq) {
        for (label, one) in other.labels.iter().chain(&other.taken) {
            let is_known = one.newest > since;
            if is_known && self.cleared.is_none_or(|cleared| cleared < one.newest) {
                self.bring(*label, one.origin.clone(), one.newest);
            }
        }
    }

    /// Adds all that another run had ever read, whatever was taken from it.
    pub fn collect(&mut self, other: &Self) {
        for (label, one) in other.labels.iter().chain(&other.taken) {
            self.bring(*label, one.origin.clone(), one.newest);
        }
    }

    /// The labels, each with the first call that brought it.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<Label, LabelOrigin> {
        self.labels.iter().map(|(label, known)| (*label, known.origin.clone())).collect()
    }
}

/// What a run had read that is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SealedReading {
    /// Its agent, or one above that may have opened it.
    pub agent: String,
    /// Its caller.
    pub auth: CallerAuth,
    /// What it had read.
    pub reading: PastReading,
    /// When it was sealed.
    pub sealed_at: Timestamp,
    /// Whether an order took away afterwards what lingered for its caller.
    pub is_cleared: bool,
}

/// One run, as far as its entries have been read.
#[derive(Default)]
struct ReadRun {
    opened: Option<(Vec<String>, CallerAuth)>,
    /// The agent that opened it; `None` for a run that was opened for another agent than its caller's.
    opener: Option<String>,
    above: Vec<RunId>,
    reading: PastReading,
    sealed: Option<(Seq, Timestamp)>,
}

impl ReadRun {
    fn take(&mut self, entry: &Entry) {
        let draft = &entry.draft;
        if let Some(opened) = draft.get::<RunOpened>() {
            let above: Vec<_> = opened.delegation.iter().flat_map(|list| list.iter()).collect();
            self.above = above.iter().map(|one| one.run).collect();
            let is_own = opened.delegate != Some(Delegate::Claimed);
            self.opener = is_own.then(|| opened.agent.to_string());
            // WHY all: the entry does not say which of them opened it.
            let agents = std::iter::once(&opened.agent).chain(above.into_iter().map(|one| &one.id));
            let agents: BTreeSet<String> = agents.map(ToString::to_string).collect();
            self.opened = Some((agents.into_iter().collect(), CallerAuth::from(&opened.auth)));
        }
        if draft.kind() == Kind::RunSealed {
            self.sealed = Some((entry.seq, entry.ts));
        }
        self.reading.take(entry);
    }

    /// Whether this caller opened it.
    fn is_by(&self, agent: &str, auth: &CallerAuth) -> bool {
        let same = |(_, of): &(Vec<String>, CallerAuth)| of.identity() == auth.identity();
        self.opener.as_deref() == Some(agent) && self.opened.as_ref().is_some_and(same)
    }
}

/// What the sealed ones of these runs had read.
fn sealed(runs: &BTreeMap<RunId, ReadRun>) -> Vec<SealedReading> {
    let mut all = Vec::new();
    let below: Vec<&ReadRun> = runs.values().filter(|run| !run.above.is_empty()).collect();
    let cleared: Vec<&ReadRun> =
        runs.values().filter(|run| run.reading.cleared.is_some()).collect();
    for (id, run) in runs {
        let (Some((agents, auth)), Some((seq, sealed_at))) = (&run.opened, run.sealed) else {
            continue;
        };
        let mut reading = run.reading.clone();
        let below = below.iter().filter(|below| below.above.contains(id));
        below.for_each(|below| reading.add(&below.reading));
        if reading.labels.is_empty() && reading.taken.is_empty() {
            continue;
        }
        for agent in agents {
            let mut cleared = cleared.iter().filter(|other| other.is_by(agent, auth));
            let is_cleared =
                cleared.any(|other| other.reading.cleared.is_some_and(|cleared| cleared > seq));
            let (agent, auth, reading) = (agent.clone(), auth.clone(), reading.clone());
            all.push(SealedReading { agent, auth, reading, sealed_at, is_cleared });
        }
    }
    all
}

/// What stands in the bytes of every entry that [`ReadRun::take`] reads something from.
const WORDS: [&str; 3] = ["\"labels\"", "\"run.", "\"taint.cleared\""];

/// Whether an entry may say what a run had read. Most say nothing of it, and there may be millions since a moment.
///
/// WHY in the bytes: the columns beside them are no part of the chain, and names of members stand in a canonical form as
/// they are.
fn may_matter(body: &[u8]) -> bool {
    std::str::from_utf8(body).map_or(true, |text| WORDS.iter().any(|word| text.contains(word)))
}

fn parsed(row: &EntryRow) -> Result<Entry, StoreError> {
    Entry::parse(&row.body).map_err(|e| StoreError::Broken(format!("entry {}: {e}", row.seq)))
}

impl Ledger {
    /// What the runs of this chain had read that were sealed since then.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub async fn sealed_since(&self, since: Timestamp) -> Result<Vec<SealedReading>, Error> {
        let read = self.read_sealed(since).await;
        read.map_err(|error| Error::Unavailable(error.to_string()))
    }

    async fn read_sealed(&self, since: Timestamp) -> Result<Vec<SealedReading>, StoreError> {
        let key = self.key().map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let store = &*self.shared.store;
        let mut at = first_at((store, key), since).await?;
        let mut runs: BTreeMap<RunId, ReadRun> = BTreeMap::new();
        loop {
            let rows = store.select(key, EntryRange::From(at, PAGE)).await?;
            let Some(last) = rows.last() else { break };
            at = last.seq.saturating_add(1);
            for row in rows.iter().filter(|row| may_matter(&row.body)) {
                let entry = parsed(row)?;
                if let Some(run) = entry.draft.run {
                    runs.entry(run).or_default().take(&entry);
                }
            }
        }
        let matters = |run: &ReadRun| run.sealed.is_some() || run.reading.cleared.is_some();
        // Runs that were opened earlier: all of their entries are read.
        for (id, run) in runs.iter_mut().filter(|(_, run)| run.opened.is_none() && matters(run)) {
            let mut whole = ReadRun::default();
            for row in store.run_entries(key, id).await? {
                whole.take(&parsed(&row)?);
            }
            *run = whole;
        }
        Ok(sealed(&runs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_entry_that_says_what_a_run_had_read_is_parsed() {
        for kind in [Kind::RunOpened, Kind::RunSealed, Kind::TaintCleared] {
            let body = format!(r#"{{"data":{{}},"kind":"{}"}}"#, kind.as_str());
            assert!(may_matter(body.as_bytes()), "{body}");
        }
        assert!(may_matter(
            br#"{"data":{"observed":{"labels":["private"]}},"kind":"call.completed"}"#
        ));
        assert!(may_matter(br#"{"data":{"taint":{"labels":[{}]}},"kind":"call.authorized"}"#));
        // What a caller writes has its quotes escaped.
        let quoted = br#"{"data":{"reason":"say \"labels\""},"kind":"call.authorized"}"#;
        assert!(!may_matter(quoted));
    }
}
