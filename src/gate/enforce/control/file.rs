//! The local switch file: it stops calls while it exists, even if everything else is down.
//!
//! One line per stop: `stop all`, `stop agent NAME`, `stop tool NAME`, `stop run ID`. Empty lines
//! and lines that begin with `#` are ignored. A file that exists and does not name a stop (empty,
//! unreadable, an unknown word) stops everything. The file can only stop calls: without it, the
//! list of orders alone decides.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::switches::OrderSubject;
use crate::control::Target;

/// Time between two reads of the file's metadata.
const LOOK: Duration = Duration::from_millis(100);
/// Largest size in bytes that is read.
const BYTES_MAX: u64 = 64 * 1024;

/// Identifies a version of the file by its metadata, without reading the content.
type FileStamp = (u64, u64, u64, i64, i64, i64, i64);

/// The content of the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) enum SwitchState {
    /// The file does not exist.
    #[default]
    Nothing,
    /// The file stops these targets; never empty.
    Stops(Vec<Target>),
    /// The file exists and cannot be understood: everything is stopped.
    Unclear(SwitchFileError),
}

/// Why the file does not say what to stop.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum SwitchFileError {
    #[error("it is no file")]
    NoFile,
    #[error("{0} bytes, at most {BYTES_MAX} are read")]
    Size(u64),
    /// The error of the operating system.
    #[error("{0}")]
    Unread(String),
    #[error("line {0} is no stop")]
    Line(usize),
    #[error("it says nothing")]
    Empty,
}

impl From<std::io::Error> for SwitchFileError {
    fn from(error: std::io::Error) -> Self {
        Self::Unread(error.to_string())
    }
}

impl SwitchState {
    /// The targets that the file stops.
    pub fn targets(&self) -> Vec<Target> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Stops(targets) => targets.clone(),
            Self::Unclear(_) => vec![Target::All],
        }
    }
}

#[derive(Debug, Default)]
struct FileState {
    looked: Option<Duration>,
    stamp: Option<FileStamp>,
    content: Arc<SwitchState>,
}

/// The switch file at its configured path.
#[derive(Debug)]
pub(super) struct SwitchFile {
    path: PathBuf,
    state: Mutex<FileState>,
}

impl SwitchFile {
    pub fn at(path: PathBuf) -> Self {
        Self { path, state: Mutex::default() }
    }

    /// The content, at most 100 ms old. `now` is monotonic.
    pub fn content(&self, now: Duration) -> Arc<SwitchState> {
        let mut seen = self.state.lock();
        if seen.looked.is_some_and(|looked| now.saturating_sub(looked) < LOOK) {
            return Arc::clone(&seen.content);
        }
        seen.looked = Some(now);
        let stamp = match std::fs::metadata(&self.path) {
            Ok(meta) if meta.is_file() => Some(stamp(&meta)),
            Err(error) if is_absent(&error, &self.path) => {
                (seen.stamp, seen.content) = (None, Arc::default());
                return Arc::default();
            }
            // Not a file, or no metadata: the read below reports why.
            Ok(_) | Err(_) => None,
        };
        if stamp.is_none() || stamp != seen.stamp {
            (seen.stamp, seen.content) = (stamp, Arc::new(read(&self.path)));
        }
        Arc::clone(&seen.content)
    }

    /// Why the file stops this subject, if it does.
    pub fn against(&self, about: &OrderSubject<'_>, now: Duration) -> Option<String> {
        match &*self.content(now) {
            SwitchState::Nothing => None,
            SwitchState::Stops(targets) => {
                let hit = targets.iter().find(|target| about.is(target, 0))?;
                Some(format!("the switch file stops {}", named(hit)))
            }
            SwitchState::Unclear(_) => Some(
                "the switch file exists but cannot be understood: everything is stopped".to_owned(),
            ),
        }
    }

    /// What the file stops, as a note for operators.
    pub fn note(&self, now: Duration) -> Option<String> {
        match &*self.content(now) {
            SwitchState::Nothing => None,
            SwitchState::Stops(targets) => {
                let all: Vec<String> = targets.iter().take(8).map(named).collect();
                Some(format!("control: the switch file stops {}", all.join(", ")))
            }
            SwitchState::Unclear(why) => Some(format!(
                "control: the switch file stops everything, because it cannot be understood: {why}"
            )),
        }
    }
}

fn named(target: &Target) -> String {
    match target {
        Target::All => "everything".to_owned(),
        Target::Agent(_)
        | Target::Run(_)
        | Target::Tool(_)
        | Target::Manifest(_)
        | Target::Key(_)
        | Target::Face(_)
        | Target::Kind(_)
        | Target::Server(_)
        | Target::Upstream(_) => {
            format!("{} `{}`", target.kind(), target.name())
        }
    }
}

fn stamp(meta: &std::fs::Metadata) -> FileStamp {
    (
        meta.dev(),
        meta.ino(),
        meta.size(),
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec(),
    )
}

/// A dangling symbolic link counts as present, so that it stops everything.
fn is_absent(error: &std::io::Error, path: &Path) -> bool {
    error.kind() == std::io::ErrorKind::NotFound && std::fs::symlink_metadata(path).is_err()
}

fn read(path: &Path) -> SwitchState {
    match text(path) {
        Ok(Some(text)) => parse(&text),
        // The file was removed in between.
        Ok(None) => SwitchState::Nothing,
        Err(why) => SwitchState::Unclear(why),
    }
}

/// The text of the file; `None` if it does not exist.
fn text(path: &Path) -> Result<Option<String>, SwitchFileError> {
    let failed = |e: std::io::Error| {
        if is_absent(&e, path) { Ok(None) } else { Err(e.into()) }
    };
    // WHY: opening a pipe would block until another process opens it for writing.
    match std::fs::metadata(path) {
        Ok(meta) if !meta.is_file() => return Err(SwitchFileError::NoFile),
        Ok(meta) if meta.size() > BYTES_MAX => return Err(SwitchFileError::Size(meta.size())),
        Ok(_) => {}
        Err(error) => return failed(error),
    }
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) => return failed(error),
    };
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(Some(text))
}

fn parse(text: &str) -> SwitchState {
    let mut targets = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match stop(line) {
            Some(target) => targets.push(target),
            None => return SwitchState::Unclear(SwitchFileError::Line(at.saturating_add(1))),
        }
    }
    if targets.is_empty() {
        return SwitchState::Unclear(SwitchFileError::Empty);
    }
    SwitchState::Stops(targets)
}

fn stop(line: &str) -> Option<Target> {
    let mut words = line.split_whitespace();
    let (stop, kind, name) = (words.next()?, words.next()?, words.next().unwrap_or_default());
    let known = ["all", "agent", "tool", "run"].contains(&kind);
    if stop != "stop" || !known || words.next().is_some() {
        return None;
    }
    Target::parse(kind, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(text: &str) -> Vec<Target> {
        parse(text).targets()
    }

    #[test]
    fn a_line_that_is_not_understood_stops_everything() {
        let agent = || Target::Agent("a".into());
        assert_eq!(targets("stop agent a\n"), [agent()]);
        assert_eq!(targets("# why\n\n  stop agent a \nstop all"), [agent(), Target::All]);
        for unclear in [
            "",
            "\n# stop agent a\n",
            "stop",
            "stop agent",
            "stop agent a b",
            "go agent a",
            "stop tool A B",
            "stop all now",
            "STOP ALL",
            "stop manifest x",
            "stop run x",
        ] {
            assert!(matches!(parse(unclear), SwitchState::Unclear(_)), "{unclear}");
            assert_eq!(targets(unclear), [Target::All], "{unclear}");
        }
    }

    #[test]
    fn what_is_there_and_cannot_be_read_stops_everything_and_its_absence_stops_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = SwitchFile::at(dir.path().join("switch"));
        let mut now = Duration::ZERO;
        let mut content = || {
            now += LOOK;
            (*file.content(now)).clone()
        };
        assert_eq!(content(), SwitchState::Nothing);
        std::fs::create_dir(dir.path().join("switch")).unwrap();
        assert!(matches!(content(), SwitchState::Unclear(_)));
        std::fs::remove_dir(dir.path().join("switch")).unwrap();
        std::fs::write(dir.path().join("switch"), [0xff, 0xfe]).unwrap();
        assert!(matches!(content(), SwitchState::Unclear(_)));
        std::fs::write(dir.path().join("switch"), "stop tool work.do").unwrap();
        assert!(matches!(content(), SwitchState::Stops(_)));
        std::fs::write(dir.path().join("switch"), vec![b'\n'; 70_000]).unwrap();
        assert!(matches!(content(), SwitchState::Unclear(_)));
        std::fs::remove_file(dir.path().join("switch")).unwrap();
        assert_eq!(content(), SwitchState::Nothing);
        std::os::unix::fs::symlink("nowhere", dir.path().join("switch")).unwrap();
        assert!(matches!(content(), SwitchState::Unclear(_)), "a link that leads nowhere is there");
    }
}
