//! The anchor file, as a sidecar sees it: whenever a witness has seen a new head, the sidecar
//! records that in its own chain, which proves that later entries are later than that head.

use std::path::PathBuf;
use std::time::SystemTime;

use crate::ledger::Ledger;
use crate::ledger::drafts::DraftWithPayloads;
use crate::ledger::fleet::file::AnchorFile;
use crate::record::Draft;

/// The file, and its state when it was last recorded.
#[derive(Debug)]
pub(super) struct Anchors {
    path: Option<PathBuf>,
    seen: Option<(SystemTime, u64)>,
}

impl Anchors {
    pub const fn new(path: Option<PathBuf>) -> Self {
        Self { path, seen: None }
    }

    /// Records new heads. An entry that cannot be queued now is tried again at the next look.
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
                    // No caller waits for it: the next batch records it, or it is lost.
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
