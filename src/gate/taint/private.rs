//! The private data that a run had read, for those who look whether a text carries some of it.

use std::sync::Arc;

use super::marks::{self, MarkKey};
use super::{Marker, SharedReading, Taint};
use crate::domain::taint::Label;
use crate::judge::guarding::ReadBefore;

/// The private data that a run has read, by its marks.
#[derive(Debug)]
struct PrivateReading {
    key: MarkKey,
    reading: SharedReading,
    /// What it had read is not known any more: everything may be a copy.
    unknown: bool,
}

impl ReadBefore for PrivateReading {
    fn is_copied_in(&self, text: &str) -> bool {
        let marks = marks::every(self.key, text);
        let reading = self.reading.lock();
        marks.iter().any(|mark| reading.source(Label::Private, mark.hash).is_some())
    }

    fn is_unknown(&self) -> bool {
        self.unknown
    }
}

impl Marker {
    /// The private data that a run has read; `None` if it has read none.
    #[must_use]
    pub fn private(&self, taint: &Taint) -> Option<Arc<dyn ReadBefore>> {
        let shared = taint.reading();
        let reading = shared.lock();
        let unknown = reading.is_unknown() && reading.labels().contains_key(&Label::Private);
        let is_known = reading.has_sources(Label::Private);
        drop(reading);
        let private = || PrivateReading { key: self.key, reading: Arc::clone(shared), unknown };
        (unknown || is_known).then(|| Arc::new(private()) as Arc<dyn ReadBefore>)
    }
}
