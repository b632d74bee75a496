//! Why a program cannot be confined. In every case it has not started.

use std::ffi::NulError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::Resource;

use crate::catalog::command::{ElfError, Level};

/// An error in removing a right from a program, creating its environment, or testing the sandbox.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An error of the operating system without further context.
    #[error(transparent)]
    System(#[from] io::Error),
    /// A step before the start of the program.
    #[error("{step}: {source}")]
    Step {
        /// The step, or its result: `no session`.
        step: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file or directory.
    #[error("`{}`: {source}", path.display())]
    Path {
        /// The path in the sandbox.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file or directory that the program needs.
    #[error("cannot open `{}`: {source}", path.display())]
    Open {
        /// The path.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A mount.
    #[error("{}: {source}", at.display())]
    Mount {
        /// The mount point.
        at: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The working directory of the program.
    #[error("cannot run in `{}`: {source}", path.display())]
    Cwd {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A limit of the process.
    #[error("limit {resource:?}: {source}")]
    Limit {
        /// The resource.
        resource: Resource,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The one processor of the run.
    #[error("processor {cpu}: {source}")]
    Processor {
        /// Its number.
        cpu: usize,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file that defines the id mapping of a namespace.
    #[error("{file}: {source}")]
    Map {
        /// The file below `/proc`.
        file: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An argument or a variable contains a zero byte.
    #[error(transparent)]
    Text(#[from] NulError),
    /// The program cannot be executed.
    #[error("cannot be executed: {0}")]
    Execute(#[source] nix::errno::Errno),
    /// A path that Landlock must open for the program.
    #[error("cannot open `{}`: {source}", path.display())]
    Beneath {
        /// The path.
        path: PathBuf,
        /// The error of Landlock.
        source: landlock::PathFdError,
    },
    /// Landlock refuses a rule.
    #[error("landlock: {0}")]
    Landlock(#[from] landlock::RulesetError),
    /// The kernel's Landlock is too old.
    #[error("landlock: the kernel enforces only a part")]
    LandlockPart,
    /// The rules for system calls do not form a filter.
    #[error("seccomp: {0}")]
    Filter(#[from] seccompiler::BackendError),
    /// The kernel refuses the filter.
    #[error("seccomp: {0}")]
    Seccomp(#[from] seccompiler::Error),
    /// No directory exists on which the new root could be mounted.
    #[error("no directory to mount at")]
    NoBase,
    /// The plan contradicts itself.
    #[error("a network of its own needs `S2`")]
    NetworkLevel,
    /// The listener of the program's network did not arrive.
    #[error("no network of its own: the helper is gone")]
    NoListener,
    /// This system has no control groups.
    #[error("no hierarchy is mounted")]
    NoHierarchy,
    /// The probe's program has an unknown format.
    #[error(transparent)]
    Program(#[from] ElfError),
    /// The helper ended without a report.
    #[error("the helper said nothing")]
    NoReport,
    /// The helper's report of what stopped it. The helper is another process, so only its text
    /// arrives here.
    #[error("{0}")]
    Helper(String),
    /// The probe's output cannot be read.
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
    /// Actions that the probe could perform in the sandbox and must not.
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

/// A demand of a binding that this system does not meet, for as long as the process runs.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LevelError {
    /// A level of the sandbox.
    #[error("sandbox.unavailable: {} is not there: {why}", level.as_str())]
    Level {
        /// The level.
        level: Level,
        /// What is missing, or what a probe could do inside.
        why: Arc<Error>,
    },
    /// Control groups.
    #[error("sandbox.unavailable: cgroups are not there: {0}")]
    Cgroups(Arc<Error>),
}
