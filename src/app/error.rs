//! Why a gate or a hub does not start.

use std::io;

use tokio::task::JoinError;

use crate::approval::ApprovalRefusal;
use crate::crypto::{keys, signer};
use crate::ledger::store::StoreError;
use crate::telemetry::setup;
use crate::{evidence, identity, ledger, serve};

/// Why the gate did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration, or something it names, is wrong: everything that is, a line each.
    #[error("{}", .0.join("\n"))]
    Config(Vec<String>),
    /// Another process has the ledger.
    #[error(transparent)]
    Taken(LedgerError),
    /// The operating system refused a resource.
    #[error(transparent)]
    System(#[from] System),
}

impl Error {
    /// One thing is wrong with the configuration.
    pub(super) fn wrong(why: impl std::fmt::Display) -> Self {
        Self::Config(vec![why.to_string()])
    }
}

impl From<LedgerError> for Error {
    fn from(unopened: LedgerError) -> Self {
        match &unopened.source {
            StoreError::Conflict(_) => Self::Taken(unopened),
            StoreError::Unavailable(_)
            | StoreError::Full(_)
            | StoreError::Unknown(_)
            | StoreError::Broken(_) => Self::System(System::Ledger(unopened)),
        }
    }
}

/// A ledger that is not served.
#[derive(Debug, thiserror::Error)]
#[error("ledger: {source}{}", next(.source, .path.as_deref()))]
pub struct LedgerError {
    /// The store's error.
    pub source: StoreError,
    /// Its file, where it is one.
    pub path: Option<String>,
}

/// What to do about a ledger file that is not served.
fn next(error: &StoreError, path: Option<&str>) -> String {
    let Some(path) = path else { return String::new() };
    match error {
        StoreError::Conflict(_) => {
            "; one gate serves a state directory: end the other, or give this one a `state` of its own"
                .to_owned()
        }
        StoreError::Unavailable(_) | StoreError::Full(_) | StoreError::Unknown(_) => format!(
            "; it is `{path}`: look whether its directory is there, this user may write in it, and the disk has \
             room"
        ),
        StoreError::Broken(_) => format!(
            "; it is `{path}`: keep the file as it is, see what `wicketgate ledger verify --sqlite {path}` says, \
             and serve a copy of it from a backup or another `state`"
        ),
    }
}

/// What the machine did not give.
#[derive(Debug, thiserror::Error)]
pub enum System {
    /// The ledger.
    #[error(transparent)]
    Ledger(LedgerError),
    /// A store beside the ledger.
    #[error("{part}: {source}")]
    Store {
        /// What is kept there.
        part: &'static str,
        /// The store's error.
        source: StoreError,
    },
    /// A directory of the gate's own.
    #[error("{what} `{path}`: {source}")]
    Directory {
        /// What it is for.
        what: &'static str,
        /// Where it is.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The public half of the enrolment key cannot be put where verifiers find it.
    #[error("state directory: {0}")]
    Pin(io::Error),
    /// The key that certifies this machine's writer.
    #[error("enrolment key: {0}")]
    Enrolment(signer::Error),
    /// A new key cannot be stored.
    #[error(transparent)]
    Key(#[from] keys::Error),
    /// The key of run tokens.
    #[error(transparent)]
    Tokens(#[from] identity::Error),
    /// What is kept for evidence.
    #[error(transparent)]
    Evidence(#[from] evidence::Error),
    /// A list of people cannot be recorded.
    #[error("{}", .0.why)]
    List(ApprovalRefusal),
    /// An entry of the start cannot be recorded.
    #[error(transparent)]
    Record(#[from] ledger::Error),
    /// A listener.
    #[error(transparent)]
    Serve(#[from] serve::Error),
    /// Logs and telemetry.
    #[error(transparent)]
    Telemetry(#[from] setup::Error),
    /// A task that panicked.
    #[error(transparent)]
    Task(#[from] JoinError),
    /// Anything else of the system: its runtime, its signals, a file.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl System {
    /// The store of the ledger, as a hub opens it.
    pub(super) fn ledger(source: StoreError) -> Self {
        Self::Store { part: "ledger", source }
    }
}
