//! The scope of a bundle: one run, a span of one chain, or a span of every chain.

use std::collections::{BTreeMap, BTreeSet};

use super::bundle::{FLEET, Files, POPULATION, RANGE};
use super::payloads::Payloads;
use super::projection::{BundleMaterial, Cut, decides};
use crate::crypto::note::Checkpoint;
use crate::domain::id::{RunId, Seq};
use crate::entries::EntryLine;
use crate::entries::epochs::Epochs;
use crate::record::Kind;

crate::domain::closed::texts! {
    /// The scope that was requested for the bundle.
    pub enum Scope {
        /// One run.
        Run = "run",
        /// Every entry of a span of one chain.
        Range = "range",
        /// Every entry of a span of every chain, and what a query matches in them.
        Population = "population",
    }
}

impl Scope {
    /// The scope that the files of a bundle imply, whatever its statement says; `B4` compares the
    /// two.
    pub fn of(files: &Files) -> Self {
        if files.get(POPULATION).is_some() {
            Self::Population
        } else if files.get(RANGE).is_some() {
            Self::Range
        } else {
            Self::Run
        }
    }
}

/// Kinds that introduce others, or tell of them, and belong to no run.
pub const CONTEXT: [Kind; 10] = [
    Kind::ChainGenesis,
    Kind::WriterStarted,
    Kind::PolicyActivated,
    Kind::ManifestBound,
    Kind::SignersBound,
    Kind::AnchorObserved,
    Kind::AmendmentProposed,
    Kind::AmendmentApproved,
    Kind::AmendmentRefused,
    Kind::AlertRaised,
];

/// Entries `from <= seq < to` of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The first.
    pub from: Seq,
    /// The one after the last.
    pub to: Seq,
}

impl Span {
    /// Whether this place is in the span.
    #[must_use]
    pub const fn has(self, seq: Seq) -> bool {
        self.from <= seq && seq < self.to
    }
}

/// What a bundle holds of one chain.
#[derive(Debug)]
pub struct ChainSlice {
    /// `ledger`, or `chains/0`.
    pub folder: String,
    /// Its entries, ascending.
    pub lines: Vec<EntryLine>,
    /// The keys its entries introduce; empty until checked.
    pub epochs: Epochs,
    /// The checkpoint everything is proven under, if it holds.
    pub checkpoint: Option<Checkpoint>,
    /// The complete span, if a range was requested and its proof was read.
    pub span: Option<Span>,
}

impl ChainSlice {
    /// Whether a line is selected: for a range the lines in the span, for a run all.
    #[must_use]
    pub fn selects(&self, line: &EntryLine) -> bool {
        self.span.is_none_or(|span| span.has(line.entry.seq))
    }

    /// The selected lines.
    pub fn selected(&self) -> impl Iterator<Item = &EntryLine> {
        self.lines.iter().filter(|line| self.selects(line))
    }

    /// Whether a line outside the span still belongs to it: the opening of a run that continues in
    /// the span, or one of the two entries beside it, which show that its ends are correct.
    #[must_use]
    pub fn introduces(&self, line: &EntryLine) -> bool {
        let Some(span) = self.span else { return false };
        let seq = line.entry.seq;
        let adjacent = seq == span.to || seq.checked_add(1) == Some(span.from);
        let opens = |line: &EntryLine| {
            let run = line.entry.run.as_ref().map(|link| link.run);
            let later = |l: &&EntryLine| l.entry.run.as_ref().map(|link| link.run) == run;
            line.is(Kind::RunOpened) && self.selected().any(|l| later(&l))
        };
        adjacent || (seq < span.from && opens(line))
    }

    /// Entries with a stand-alone proof: the first and the last selected, and in a bundle of one
    /// run every decision. No entry of the fleet log, which only introduces others.
    pub fn alone(&self) -> BTreeSet<Seq> {
        if self.folder == FLEET {
            return BTreeSet::new();
        }
        let one_run = self.span.is_none();
        let own = || self.selected().filter(|line| !one_run || line.entry.run.is_some());
        let decisions = own().filter(|line| one_run && decides(line));
        let ends = own().next().into_iter().chain(own().last());
        ends.chain(decisions).map(|line| line.entry.seq).collect()
    }

    /// Name of the log; empty if its checkpoint does not hold.
    pub fn origin(&self) -> &str {
        self.checkpoint.as_ref().map_or("", |checkpoint| checkpoint.origin.as_str())
    }

    /// Which ends of a run with these lines lie outside of the span.
    pub fn cut(&self, own: &[&EntryLine]) -> Cut {
        let (Some(span), Some(first)) = (self.span, own.first()) else { return Cut::default() };
        let ends = self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.size == span.to);
        Cut {
            begin: !first.is(Kind::RunOpened),
            end: !ends && !own.iter().any(|line| line.is(Kind::RunSealed)),
        }
    }

    /// The selected runs, by their first entries, with their lines.
    pub fn runs(&self) -> Vec<(&RunId, Vec<&EntryLine>)> {
        runs_of(self.selected())
    }

    /// One [`BundleMaterial`] for each run.
    pub fn materials<'a>(&'a self, payloads: &'a Payloads) -> Vec<BundleMaterial<'a>> {
        let runs = self.runs().into_iter();
        runs.map(|(run, own)| {
            let cut = self.cut(&own);
            BundleMaterial::part(run, self.origin(), (&self.lines, own), cut, payloads)
        })
        .collect()
    }
}

/// The runs among these lines, by their first entries.
pub fn runs_of<'a>(
    lines: impl Iterator<Item = &'a EntryLine>,
) -> Vec<(&'a RunId, Vec<&'a EntryLine>)> {
    let mut places = BTreeMap::new();
    let mut runs: Vec<(&RunId, Vec<&EntryLine>)> = Vec::new();
    for line in lines {
        let Some(link) = &line.entry.run else { continue };
        let index = *places.entry(&link.run).or_insert(runs.len());
        match runs.get_mut(index) {
            Some((_, own)) => own.push(line),
            None => runs.push((&link.run, vec![line])),
        }
    }
    runs
}
