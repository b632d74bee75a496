//! The anchor file, as a sidecar sees it: whenever somebody outside has seen a new head, that goes into
//! the sidecar's own chain, so that later entries are shown to be later than it.

use std::path::PathBuf;
use std::time::SystemTime;

use crate::ledger::Ledger;
use crate::ledger::drafts::DraftWithPayloads;
use crate::ledger::fleet::file::AnchorFile;
use crate::record::Draft;

/// The file, and what it was when it was last written down.
#[derive(Debug)]
pub(super) struct Anchors {
    path: Option<PathBuf>,
    seen: Option<(SystemTime, u64)>,
}

impl Anchors {
    pub const fn new(path: Option<PathBuf>) -> Self {
        Self { path, seen: None }
    }

    /// Writes down what is new. What cannot be queued now is tried at the next look.
    pub fn look(&mut self, ledger: &Ledger) {
        let Some(path) = &self.path else { return };
        let Ok(meta) = std::fs::metadata(path) else { return };
        let Ok(changed) = meta.modified() else { return };
        let now = Some((changed, meta.len()));
        if self.seen == now {
            return;
        }
        match AnchorFile::load(path) {
            Ok(Some(file)) => {
                for observed in file.observed {
                    let draft = Draft::of(observed);
                    // Nobody waits for it: it is on the books with the next batch or not at all.
                    if ledger.submit_event(DraftWithPayloads::bare(draft)).is_err() {
                        return;
                    }
                }
            }
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "the anchor file cannot be read");
            }
        }
        self.seen = now;
    }
}
