//! Why a step of the quickstart did not go as it has to.

use std::process::ExitStatus;

use super::agent::DemoRefusal;
use super::own::CommandOutput;
use super::tools::Hits;
use crate::approval::approvers;
use crate::cli::error::Occupied;
use crate::cli::{BundleError, FileError};
use crate::crypto::{keys, openssh};
use crate::domain::closed::texts;
use crate::domain::plural::many;
use crate::identity;

texts! {
    /// A process that the quickstart starts.
    pub enum DemoPart {
        /// The gate.
        Gate = "gate",
        /// The server of the tools.
        Tools = "tool server",
        /// The auditor's witness.
        Witness = "witness",
    }
}

/// Why a step did not go as it has to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the directory cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The directory is in use.
    #[error(transparent)]
    Occupied(#[from] Occupied),
    /// A key is not stored.
    #[error(transparent)]
    Key(#[from] keys::Error),
    /// A key of a person is not stored.
    #[error(transparent)]
    PersonKey(#[from] openssh::Error),
    /// The manifest is not signed.
    #[error(transparent)]
    Manifest(#[from] identity::Error),
    /// The list of approvers is not signed.
    #[error(transparent)]
    Approvers(#[from] approvers::Error),
    /// The policy does not load.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The database of the invoices cannot be made.
    #[error("the invoices: {0}")]
    Invoices(#[from] rusqlite::Error),
    /// A file of the example lacks a value that this machine has to replace.
    #[error("the example does not contain `{0}`")]
    Example(String),
    /// The keys of the auditor lack that of the witness.
    #[error("the witness has no key")]
    NoWitnessKey,
    /// This program does not find itself.
    #[error("this program: {0}")]
    Program(#[source] std::io::Error),
    /// A signal cannot be waited for.
    #[error(transparent)]
    Signal(std::io::Error),
    /// A command cannot be run.
    #[error("`wicketgate {command}`: {source}")]
    Command {
        /// Its arguments.
        command: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// A command takes too long.
    #[error("`wicketgate {0}` did not end in time")]
    Endless(String),
    /// A command's output differs from the expected one.
    #[error("`wicketgate {command}` ended with {ran}")]
    Unexpected {
        /// Its arguments.
        command: String,
        /// Its output.
        ran: CommandOutput,
    },
    /// A process cannot be started, written to or waited for.
    #[error("the {part}: {source}")]
    Process {
        /// Which one.
        part: DemoPart,
        /// The system's error.
        source: std::io::Error,
    },
    /// A process has no pipe to talk through.
    #[error("the {0} has no pipe")]
    NoPipe(DemoPart),
    /// A process does not answer.
    #[error("the {0} does not answer")]
    Silent(DemoPart),
    /// A process ended before its time.
    #[error("the {0} ended")]
    Ended(DemoPart),
    /// A process does not end when it has to.
    #[error("the {0} did not end in time")]
    Running(DemoPart),
    /// The gate ended badly, or before its time.
    #[error("the gate ended with {status}; see {log}")]
    GateEnded {
        /// How.
        status: ExitStatus,
        /// Its log.
        log: String,
    },
    /// A process does not begin to answer.
    #[error("the {part} did not become ready; see {log}")]
    NotReady {
        /// Which one.
        part: DemoPart,
        /// Its log.
        log: String,
    },
    /// The gate's log names no operator address.
    #[error("the log names no address of the operator API; see {0}")]
    NoAddress(String),
    /// The socket of the gate is not connected to.
    #[error("the gate: {0}")]
    Connect(#[from] tonic::transport::Error),
    /// The tool server counted otherwise.
    #[error("{} allowed, but the tool server counted {}", many(allowed, "call"), hits.all)]
    Count {
        /// Calls that it had to see.
        allowed: u64,
        /// What it saw.
        hits: Hits,
    },
    /// The tool server's counters cannot be read.
    #[error("the counters of the tool server: {0}")]
    Counters(#[from] serde_json::Error),
    /// A request of the agent is refused.
    #[error("{request}: {refused}")]
    Refused {
        /// What it was about.
        request: &'static str,
        /// Why.
        refused: DemoRefusal,
    },
    /// A request of the agent is not refused.
    #[error("the gate did not refuse {0}")]
    NotRefused(&'static str),
    /// The agent sees other tools than its manifest grants.
    #[error("the agent sees {}, but {granted} were granted", many(seen, "tool"))]
    Tools {
        /// How many it sees.
        seen: usize,
        /// How many it has to see.
        granted: usize,
    },
    /// A call did not go as it has to.
    #[error("call `{call}`: {fault}")]
    Call {
        /// Its id.
        call: &'static str,
        /// What is wrong.
        fault: CallFault,
    },
    /// An approval leads to another state of the call.
    #[error("`{subject}` approved, but the call is {state:?}: {ran}")]
    Approval {
        /// The approver.
        subject: &'static str,
        /// The state of the call, if the command names one.
        state: Option<String>,
        /// The command's output.
        ran: CommandOutput,
    },
    /// No payload can be tampered with.
    #[error("no payload in the evidence contains the amount")]
    NoPayload,
}

/// What is wrong with a call.
#[derive(Debug, thiserror::Error)]
pub enum CallFault {
    /// It has another result.
    #[error("the result is `{0}`")]
    Result(String),
    /// Its result holds the credential of the tool.
    #[error("the result holds a credential")]
    Credential,
    /// It is refused.
    #[error(transparent)]
    Refused(DemoRefusal),
    /// Other rules refused it.
    #[error("{refused} by {:?}", refused.rules)]
    Rules {
        /// The refusal.
        refused: DemoRefusal,
    },
    /// It ran.
    #[error("it ran; expected {0}")]
    Ran(&'static str),
}
