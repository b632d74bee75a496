//! Why something cannot be confined. Whatever it is, the program has not begun.

use std::ffi::NulError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::Resource;

use crate::catalog::command::{ElfError, Level};

/// What cannot be taken away from a program, made for it, or tried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What the system says where nothing of ours says more.
    #[error(transparent)]
    System(#[from] io::Error),
    /// A step on the way to the program.
    #[error("{step}: {source}")]
    Step {
        /// What was to be done, or what came of it: `no session`.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A file or directory.
    #[error("`{}`: {source}", path.display())]
    Path {
        /// Where it is in the sandbox.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something that the program is given.
    #[error("cannot open `{}`: {source}", path.display())]
    Open {
        /// Where it is.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A mount.
    #[error("{}: {source}", at.display())]
    Mount {
        /// Where it was to be.
        at: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Where the program is to run.
    #[error("cannot run in `{}`: {source}", path.display())]
    Cwd {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A limit of the process.
    #[error("limit {resource:?}: {source}")]
    Limit {
        /// What is limited.
        resource: Resource,
        /// What the system said.
        source: io::Error,
    },
    /// The one processor of the run.
    #[error("processor {cpu}: {source}")]
    Processor {
        /// Its number.
        cpu: usize,
        /// What the system said.
        source: io::Error,
    },
    /// A file that writes what is mapped of namespaces.
    #[error("{file}: {source}")]
    Map {
        /// The file below `/proc`.
        file: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// An argument or a variable holds a zero byte.
    #[error(transparent)]
    Text(#[from] NulError),
    /// The program cannot be executed.
    #[error("cannot be executed: {0}")]
    Execute(#[source] nix::errno::Errno),
    /// Something that the program is given, as Landlock opens it.
    #[error("cannot open `{}`: {source}", path.display())]
    Beneath {
        /// Where it is.
        path: PathBuf,
        /// What the system said.
        source: landlock::PathFdError,
    },
    /// Landlock refuses a rule.
    #[error("landlock: {0}")]
    Landlock(#[from] landlock::RulesetError),
    /// The kernel's Landlock is too old.
    #[error("landlock: the kernel enforces only a part")]
    LandlockPart,
    /// The rules about system calls make no filter.
    #[error("seccomp: {0}")]
    Filter(#[from] seccompiler::BackendError),
    /// The kernel does not take the filter.
    #[error("seccomp: {0}")]
    Seccomp(#[from] seccompiler::Error),
    /// None of the directories is there that the new root could be mounted at.
    #[error("no directory to mount at")]
    NoBase,
    /// A plan that contradicts itself.
    #[error("a network of its own needs `S2`")]
    NetworkLevel,
    /// The listener of the program's network did not come.
    #[error("no network of its own: the helper is gone")]
    NoListener,
    /// Control groups: this system has none.
    #[error("no hierarchy is mounted")]
    NoHierarchy,
    /// The probe is no program.
    #[error(transparent)]
    Program(#[from] ElfError),
    /// The helper ended without a report.
    #[error("the helper said nothing")]
    NoReport,
    /// The helper's report: what stopped it, in its own words. It is another process, so only its text comes here.
    #[error("{0}")]
    Helper(String),
    /// The probe's answer cannot be read.
    #[error("the probe said nothing: {0}")]
    Probe(#[source] serde_json::Error),
    /// The probe ended before it was done.
    #[error("the probe ended with code {code:?}, signal {signal:?}")]
    ProbeEnd {
        /// Its exit code.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
    /// What the probe could do in the sandbox and must not.
    #[error("a probe inside could {}", .0.join(", "))]
    Holes(Vec<String>),
}

impl Error {
    /// The error of a step, for `map_err`.
    pub(super) fn step<E: Into<io::Error>>(step: &'static str) -> impl Fn(E) -> Self {
        move |source| Self::Step { step, source: source.into() }
    }

    /// The error about a path, for `map_err`.
    pub(super) fn path(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Path { path: path.to_owned(), source }
    }

    /// The error of opening a path, for `map_err`.
    pub(super) fn open<E: Into<io::Error>>(path: &Path) -> impl Fn(E) -> Self {
        move |source| Self::Open { path: path.to_owned(), source: source.into() }
    }

    /// The error of a mount, for `map_err`.
    pub(super) fn mount<E: Into<io::Error>>(at: &Path) -> impl Fn(E) -> Self {
        move |source| Self::Mount { at: at.to_owned(), source: source.into() }
    }
}

/// What a binding demands and this system does not give, for as long as the process runs.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LevelError {
    /// A level of the sandbox.
    #[error("sandbox.unavailable: {} is not there: {why}", level.as_str())]
    Level {
        /// The level.
        level: Level,
        /// What is missing, or what a probe could do in there.
        why: Arc<Error>,
    },
    /// Control groups.
    #[error("sandbox.unavailable: cgroups are not there: {0}")]
    Cgroups(Arc<Error>),
}
