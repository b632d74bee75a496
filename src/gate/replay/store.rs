//! The recordings from which a gate lets runs continue: files in one directory, each named by its
//! digest.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::Error;
use super::fork::Forked;
use super::recording::Recording;
use crate::domain::digest::Digest;
use crate::enforce::{ForkPrefix, Recordings};

/// One directory.
#[derive(Debug)]
pub struct RecordingStore {
    dir: PathBuf,
    /// Serializes reads: a file is read to its end before any of it counts.
    turn: Mutex<()>,
}

impl RecordingStore {
    /// The recordings of this directory: `<SHA-256 in hex>.recording`.
    pub fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), turn: Mutex::default() }
    }
}

#[async_trait]
impl Recordings for RecordingStore {
    async fn fork_prefix(
        &self,
        recording: &Digest,
        at: u64,
    ) -> Result<Arc<dyn ForkPrefix>, String> {
        let (path, digest) = (self.dir.join(format!("{}.recording", recording.hex())), *recording);
        let _turn = self.turn.lock().await;
        let reading = tokio::task::spawn_blocking(move || read(&path, digest, at));
        let forked = reading.await.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        Ok(Arc::new(forked))
    }
}

/// Why a run cannot continue from a recording, as the agent sees it. It hides where files lie.
#[derive(Debug, thiserror::Error)]
enum UnfitName {
    #[error("there is no recording `{}` here", .0.prefixed())]
    Absent(Digest),
    #[error("the recording `{}` is not whole", .0.prefixed())]
    Damaged(Digest),
    #[error(transparent)]
    Step(Error),
}

fn read(path: &Path, digest: Digest, at: u64) -> Result<Forked, UnfitName> {
    if !path.is_file() {
        return Err(UnfitName::Absent(digest));
    }
    let unreadable = |why: &dyn std::fmt::Display| {
        tracing::warn!(file = %path.display(), %why, "the recording that a new run should continue from cannot be used");
        UnfitName::Damaged(digest)
    };
    let found = Recording::open(path).map_err(|e| unreadable(&e))?;
    if found.digest != digest {
        return Err(unreadable(&"its digest differs from its file name"));
    }
    let volatile = found.volatile().map_err(|e| unreadable(&e))?;
    Forked::new(found, at, volatile).map_err(UnfitName::Step)
}
