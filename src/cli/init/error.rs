//! Why a client's servers are not governed.

use std::path::{Path, PathBuf};

use super::confine::{ConfineError, SandboxError};
use super::draft::DraftError;
use super::probe::{CheckError, InitProbeError};
use super::problem::InitProblem;
use crate::catalog::lock;
use crate::cli::error::Occupied;
use crate::cli::reader::ConfigError;
use crate::cli::{BundleError, Cause, FileError};
use crate::config::SOCKET_PATH_MAX;
use crate::crypto::keys;
use crate::identity;
use crate::policy::fault;

/// Why no configuration is written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client's file is wrong.
    #[error("{}", lines(.0))]
    Source(Vec<InitProblem>),
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// What would be written is there already.
    #[error(transparent)]
    Occupied(#[from] Occupied),
    /// The directory holds something.
    #[error(
        "`{}` exists and is not replaced: it may hold keys and a ledger. Choose another --dir, or move it away",
        .0.display()
    )]
    InUse(PathBuf),
    /// The directory is the root of the file system.
    #[error("the directory needs a name")]
    NoName,
    /// The socket of the gate could not be bound.
    #[error(
        "`{}`: the path of a socket has at most {SOCKET_PATH_MAX} bytes, this one would have {}: choose a shorter \
         directory", .0.display(), .0.as_os_str().len()
    )]
    SocketPath(PathBuf),
    /// This program does not find itself.
    #[error("this program: {0}")]
    Program(#[source] std::io::Error),
    /// The servers run through a gate already.
    #[error(
        "`{}`: `{server}` already uses wicketgate; if --write changed it, the original without credentials is in `{}`",
        file.display(),
        kept.display()
    )]
    Governed {
        /// The client's file.
        file: PathBuf,
        /// The first of its servers that does.
        server: String,
        /// Where the original is kept.
        kept: PathBuf,
    },
    /// Something is allowed to a server that is not there.
    #[error("--allow {server}: `{}` has no server of this name; it has {}", file.display(), quoted(servers))]
    UnknownServer {
        /// The server's name.
        server: String,
        /// The client's file.
        file: PathBuf,
        /// The servers in it.
        servers: Vec<String>,
    },
    /// The sandboxes are not to be had.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// No server is governed, or one is not and all have to be.
    #[error("{}error: nothing was written", left_out(.0))]
    NothingWritten(Vec<UngovernedServer>),
    /// A key cannot be stored or read.
    #[error(transparent)]
    Key(#[from] keys::Error),
    /// The lock is not signed.
    #[error(transparent)]
    Lock(#[from] lock::Error),
    /// The manifest is not signed, or cannot be read.
    #[error(transparent)]
    Manifest(#[from] identity::Error),
    /// The policy does not load.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The policy cannot be evaluated, or is not valid now.
    #[error(transparent)]
    Policy(#[from] fault::Error),
    /// A value has no form in YAML.
    #[error(transparent)]
    Yaml(#[from] serde_saphyr::ser::Error),
    /// The configuration that was written is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// What the configuration names is wrong.
    #[error("{}", .0.join("\n"))]
    Bindings(Vec<String>),
    /// The callers of the configuration are wrong.
    #[error("{}", lines(.0))]
    Callers(Vec<identity::Error>),
    /// The client's file is not the one that was read.
    #[error("`{0}` is no longer there")]
    Moved(String),
    /// The client's file cannot be read again.
    #[error(transparent)]
    Reread(Cause),
    /// The configuration is written, and the client's file is not changed.
    #[error("{error}; `{}` is written, but your file is unchanged. Change it to:\n{entries}", dir.display())]
    NotRewritten {
        /// Why it is not changed.
        #[source]
        error: Box<Error>,
        /// What is written.
        dir: PathBuf,
        /// The entries it has to have.
        entries: String,
    },
}

impl Error {
    /// The lines to print: problems of a file stand alone with their place.
    pub fn lines(&self) -> Vec<String> {
        let alone = matches!(self, Self::Source(_) | Self::NothingWritten(_));
        vec![if alone { self.to_string() } else { format!("error: {self}") }]
    }

    /// The socket of a gate in this directory, if it can be bound.
    pub fn socket(path: &Path) -> Result<(), Self> {
        if path.as_os_str().len() > SOCKET_PATH_MAX {
            return Err(Self::SocketPath(path.to_owned()));
        }
        Ok(())
    }
}

/// A server that stays ungoverned.
#[derive(Debug)]
pub struct UngovernedServer {
    /// What the client calls it.
    pub client_name: String,
    /// Why.
    pub why: Exclusion,
}

/// Why a server stays ungoverned.
#[derive(Debug, thiserror::Error)]
pub enum Exclusion {
    /// Its owner does not use it.
    #[error("is disabled in the client")]
    Disabled,
    /// Its entry has no form here.
    #[error(transparent)]
    Draft(#[from] DraftError),
    /// It needs a path that no sandbox can give.
    #[error(transparent)]
    Confine(#[from] ConfineError),
    /// The gate would not take it.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// It offers no tool that the gate can serve.
    #[error("{error}{advice}")]
    Probe {
        /// What happened.
        #[source]
        error: InitProbeError,
        /// What may help.
        advice: String,
    },
}

fn lines<T: ToString>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn left_out(all: &[UngovernedServer]) -> String {
    all.iter().map(|one| format!("{}: {}\n", one.client_name, one.why)).collect()
}
