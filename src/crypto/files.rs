//! Files that are replaced while the process runs: secrets, certificates, configuration.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What tells one state of a file from another without reading it.
type Mark = Option<(i64, i64, u64, u64)>;

/// Files as they were when they were last read. Symbolic links are followed: a directory that is swapped by one
/// link, as Kubernetes does with `..data`, holds other files.
#[derive(Clone, Debug, Default)]
pub struct Seen(Vec<(PathBuf, Mark)>);

impl Seen {
    /// These files, as they are now.
    pub fn of(files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(files.into_iter().map(|path| (path.clone(), mark(&path))).collect())
    }

    /// Whether one of them is another file now.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.0.iter().any(|(path, seen)| mark(path) != *seen)
    }

    /// These and those.
    #[must_use]
    pub fn and(self, more: Self) -> Self {
        Self([self.0, more.0].concat())
    }
}

fn mark(path: &Path) -> Mark {
    let facts = std::fs::metadata(path).ok()?;
    Some((facts.mtime(), facts.mtime_nsec(), facts.ino(), facts.size()))
}
