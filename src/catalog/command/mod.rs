//! A command: one pinned program, a template of its arguments, and the least isolation it may run in.
//!
//! The operator writes every option; an agent's value is one whole item of the argument list and can
//! become neither two items, nor an option, nor another program. Where the agent gives the list
//! itself, the list has one of the operator's forms, item by item.

pub mod argv;
mod check;
pub mod config;
mod elf;

pub(super) use check::{program, together};
pub use elf::{Elf, ElfError, inspect};

use std::path::{Path, PathBuf};

use self::argv::{ArgumentMismatch, Element};
use super::secret::Secret;
use super::{Reach, definition};
use crate::domain::closed::texts;
use crate::domain::digest::Digest;
use crate::domain::effect::ToolKind;
use crate::domain::json::{Json, json};

/// Why a text is not a level allowed in this field.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LevelError {
    /// `S3`, which this gate cannot provide; the levels that this field allows.
    #[error(
        "`S3` is a kernel of its own (gVisor, Kata, a microVM), which this gate can neither make nor vouch for: run \
         the program there and bind it by its URL; here {0} are known"
    )]
    Kernel(&'static str),
    /// Another text; the levels that are known there.
    #[error("`{0}` is not one of {1}")]
    Unknown(String, &'static str),
}

/// How far apart from everything else a command runs; more is greater.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
pub enum Level {
    /// Limits, no privileges, no network, and only the files of its sandbox (Landlock, seccomp).
    S1,
    /// `S1`, and namespaces of its own for users, mounts, processes, network, IPC and names.
    S2,
}

impl Level {
    /// `S1` or `S2`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::S1 => "S1",
            Self::S2 => "S2",
        }
    }

    /// Reads it. `known` lists the values allowed in this field, for the error.
    ///
    /// # Errors
    /// See [`LevelError`].
    pub fn parse(text: &str, known: &'static str) -> Result<Self, LevelError> {
        match text {
            "S1" => Ok(Self::S1),
            "S2" => Ok(Self::S2),
            "S3" => Err(LevelError::Kernel(known)),
            _ => Err(LevelError::Unknown(text.to_owned(), known)),
        }
    }
}

texts! {
    /// A directory in memory, 64 MiB, that a command runs in and may write.
    pub enum Workspace {
        /// None.
        None = "none",
        /// A directory of the call's own; gone when it ends.
        Call = "per_call",
        /// A directory of the run: every command of the run that has it sees the others' files, also
        /// while they run. Gone with the run, and when the gate ends.
        Run = "run",
    }
}

/// Where a program's arguments come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ArgumentSource {
    /// The operator's list, with places for the values of arguments.
    Template(Vec<Element>),
    /// The agent's own list, if it has one of these forms.
    Forms(Vec<Vec<Element>>),
}

impl ArgumentSource {
    /// The argument list of a call with these arguments.
    ///
    /// # Errors
    /// As [`argv::fill`] and [`argv::choose`].
    pub fn list(&self, args: &Json) -> Result<Vec<String>, ArgumentMismatch> {
        match self {
            Self::Template(template) => argv::fill(template, args),
            Self::Forms(forms) => argv::choose(forms, args),
        }
    }

    /// Each list of places that it has.
    fn lists(&self) -> &[Vec<Element>] {
        match self {
            Self::Template(template) => std::slice::from_ref(template),
            Self::Forms(forms) => forms,
        }
    }
}

/// The directory that a command runs in and may write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WorkDirectory {
    /// One in memory, or none.
    Memory(Workspace),
    /// One of the operator's, on disk: absolute, without symbolic links. It stays.
    Disk(PathBuf),
}

impl WorkDirectory {
    /// What effects, policies and definitions call a directory on disk.
    const DISK: &'static str = "directory";

    /// `directory`, or the text of the workspace.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Memory(workspace) => workspace.as_str(),
            Self::Disk(_) => Self::DISK,
        }
    }

    /// The directory on disk.
    pub fn disk(&self) -> Option<&Path> {
        match self {
            Self::Memory(_) => None,
            Self::Disk(path) => Some(path),
        }
    }
}

/// One program as it was when it was checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// Absolute, without symbolic links.
    pub path: PathBuf,
    /// SHA-256 of its bytes.
    pub digest: Digest,
    /// The loader that its header names, if it is linked dynamically.
    pub interpreter: Option<PathBuf>,
}

/// What a command or server demands of the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// The level it runs in.
    pub level: Level,
    /// Whether its limits must hold for all its processes together.
    pub together: bool,
}

/// What one run may use up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct CommandLimits {
    /// Address space of each process, bytes; with control groups also the memory of all of them
    /// together.
    pub memory_bytes: u64,
    /// Processor time of each process, seconds.
    pub cpu_seconds: u64,
    /// Processes and threads together; holds in `S2`, and with control groups in `S1` too.
    pub pids: u64,
    /// Control groups are demanded, not only used where there are any.
    pub together: bool,
}

/// A checked command.
#[derive(Debug)]
pub struct Command {
    /// What is run.
    pub program: Program,
    /// Its arguments.
    pub argv: ArgumentSource,
    /// The argument that is its standard input.
    pub stdin: Option<String>,
    /// Literal variables in name order.
    pub env: Vec<(String, String)>,
    /// Secret variables: name, secret, reference.
    pub secrets: Vec<(String, Secret, String)>,
    /// What it may read: absolute, without symbolic links.
    pub read: Vec<PathBuf>,
    /// What it may start itself.
    pub children: Vec<Program>,
    /// Which directory it may write.
    pub workspace: WorkDirectory,
    /// It runs in exactly this, or not at all.
    pub level: Level,
    /// What it may use up.
    pub limits: CommandLimits,
    /// Exit codes that count as an answer; every one if absent.
    pub exit_codes: Option<Vec<u8>>,
}

impl Reach for Command {
    fn kind(&self) -> ToolKind {
        ToolKind::Command
    }

    fn definition(&self) -> Json {
        let path = |path: &PathBuf| path.to_string_lossy().into_owned();
        let places = |list: &Vec<Element>| list.iter().map(Element::to_json).collect::<Json>();
        let (argv, forms) = match &self.argv {
            ArgumentSource::Template(template) => (places(template), None),
            ArgumentSource::Forms(forms) => {
                (Json::Array(Vec::new()), Some(forms.iter().map(places).collect::<Json>()))
            }
        };
        let program = |program: &Program| json!({"path": path(&program.path), "digest": program.digest.prefixed()});
        let members = serde_json::json!({
            "program": program(&self.program),
            "argv": argv,
            "stdin": self.stdin,
            "env": definition::hashed(self.env.iter().map(|(name, value)| (name, value))),
            "credentials": definition::variables(&self.secrets),
            "read": self.read.iter().map(path).collect::<Vec<_>>(),
            "children": self.children.iter().map(program).collect::<Json>(),
            "workspace": self.workspace.as_str(),
            "isolation": self.level,
            "memory_bytes": self.limits.memory_bytes,
            "cpu_seconds": self.limits.cpu_seconds,
            "pids": self.limits.pids,
            "exit_codes": self.exit_codes,
        });
        let cgroup = self.limits.together.then(|| "required".into());
        let forms = forms.map(|forms| serde_json::json!(forms));
        let disk = self.workspace.disk().map(|path| path.to_string_lossy().into());
        let more = [("cgroup", cgroup), ("forms", forms), ("directory", disk)];
        definition::with(members, more).into()
    }

    fn secrets(&self) -> Vec<Secret> {
        self.secrets.iter().map(|(_, secret, _)| secret.clone()).collect()
    }

    fn demand(&self) -> Option<Demand> {
        Some(self.demand())
    }
}

impl Command {
    /// What it demands of the system.
    pub const fn demand(&self) -> Demand {
        Demand { level: self.level, together: self.limits.together }
    }
}

#[cfg(test)]
mod tests;
