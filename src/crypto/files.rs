//! Files that are replaced while the process runs: secrets, certificates, configuration.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The most files to watch below one directory. For more files, only a swap of the directory is
/// noticed.
const FILES_MAX: usize = 4_096;

/// Distinguishes states of a file without reading it.
type Mark = Option<(i64, i64, u64, u64)>;

/// The state of files when they were last read. Symbolic links are followed, so swapping a
/// directory by one link, as Kubernetes does with `..data`, counts as other files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileMarks(Vec<(PathBuf, Mark)>);

impl FileMarks {
    /// The current state of these files.
    pub fn of(files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(files.into_iter().map(|path| (path.clone(), mark(&path))).collect())
    }

    /// The current state of the same files.
    pub fn again(&self) -> Self {
        Self::of(self.0.iter().map(|(path, _)| path.clone()))
    }

    /// The current state of a directory and everything below it.
    pub fn below(dir: &Path) -> Self {
        let mut found = vec![dir.to_owned()];
        let mut next = 0;
        while let Some(path) = found.get(next).cloned() {
            next += 1;
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            found.extend(
                entries.map(|entry| entry.path()).take(FILES_MAX.saturating_sub(found.len())),
            );
        }
        Self::of(found)
    }

    /// Whether one of them has changed since.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.again() != *self
    }

    /// Both sets.
    #[must_use]
    pub fn and(self, more: Self) -> Self {
        Self([self.0, more.0].concat())
    }
}

/// The file beside another one whose name is longer by this ending: `tools.lock.sig.json`.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn mark(path: &Path) -> Mark {
    let facts = std::fs::metadata(path).ok()?;
    Some((facts.mtime(), facts.mtime_nsec(), facts.ino(), facts.size()))
}
