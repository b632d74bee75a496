//! The private data that a run had read, for those who look whether a text carries some of it.

use std::sync::Arc;

use super::marks::{self, MarkKey};
use super::{Marker, Taint, TaintSource};
use crate::domain::taint::Label;
use crate::judge::guarding::ReadBefore;

/// The private data that a run had read, by its marks.
#[derive(Debug)]
struct PrivateReading {
    key: MarkKey,
    sources: Vec<Arc<TaintSource>>,
    /// What it had read is not known any more: everything may be a copy.
    unknown: bool,
}

impl ReadBefore for PrivateReading {
    fn is_copied_in(&self, text: &str) -> bool {
        let has = |hash: u64| self.sources.iter().any(|one| one.marks.binary_search(&hash).is_ok());
        marks::every(self.key, text).iter().any(|mark| has(mark.hash))
    }

    fn is_unknown(&self) -> bool {
        self.unknown
    }
}

impl Marker {
    /// The private data that a run has read; `None` if it has read none.
    #[must_use]
    pub fn private(&self, taint: &Taint) -> Option<Arc<dyn ReadBefore>> {
        let is_private = |source: &&Arc<TaintSource>| source.labels.contains(&Label::Private);
        let sources: Vec<_> = taint.sources.iter().filter(is_private).cloned().collect();
        let unknown = taint.unknown && taint.labels.contains_key(&Label::Private);
        let reading = PrivateReading { key: self.key, sources, unknown };
        (unknown || !reading.sources.is_empty()).then(|| Arc::new(reading) as Arc<dyn ReadBefore>)
    }
}
