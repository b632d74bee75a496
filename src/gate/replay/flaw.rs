//! Errors of recordings, and why a run cannot be recorded or continued.

use super::recording::{BEFORE, VERSION};
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::domain::json;
use crate::domain::members::Mismatch;
use crate::domain::plural::many;

/// What is wrong with a line of a recording, or with all of them.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Flaw {
    /// The line has no end.
    #[error("it ends in the middle of a line, or the line is too long")]
    Cut,
    /// The line is no strict JSON.
    #[error(transparent)]
    Json(#[from] json::Error),
    /// The line is JSON in a form that is not canonical.
    #[error("it is not in canonical form")]
    Canonical,
    /// A member is missing, or differs from those of its kind of line.
    #[error(transparent)]
    Member(#[from] Mismatch),
    /// A line after the last line of a recording.
    #[error("there are bytes after the last line")]
    Behind,
    /// The first line is not that of a recording.
    #[error("it is no recording")]
    NoRecording,
    /// The kind of a line, which is unknown or out of place.
    #[error("a line of the unknown kind `{0}`, or one too many")]
    Kind(String),
    /// The version of a recording that this build does not read.
    #[error("it is `{0}`, this build reads `{VERSION}` and `{BEFORE}`")]
    Version(String),
    /// The content of a file is not base64.
    #[error("`{file}`: {why}")]
    Base64 {
        /// The file.
        file: String,
        /// What is wrong with its text.
        why: base64::DecodeError,
    },
    /// A file whose digest differs from its line's.
    #[error("`{0}` is not the file that was recorded")]
    File(String),
    /// A file that an earlier line has already.
    #[error("`{0}` is there twice")]
    FileTwice(String),
    /// A child in a version without children.
    #[error("`{BEFORE}` has no children")]
    Children,
    /// A run that an earlier line has already.
    #[error("the run {0} is there twice")]
    RunTwice(RunId),
    /// A run whose parent is missing in earlier lines.
    #[error("the run {0} is a child of none that is there")]
    Orphan(RunId),
    /// A payload that does not open its commitment: its role.
    #[error("`{0}` is not what was recorded")]
    Payload(String),
    /// A payload that its step does not have: its role.
    #[error("no `{0}` is there")]
    NoPayload(String),
    /// A payload without a commitment: its role.
    #[error("`{0}` is bound to no entry")]
    Unbound(String),
    /// The policy's input names another order than the step.
    #[error("the policy saw another break-glass order than is recorded")]
    BreakGlass,
    /// Steps out of order.
    #[error("step {found} is where step {expected} should be")]
    Number {
        /// The number found.
        found: u64,
        /// The number expected.
        expected: u64,
    },
    /// A step of a run that no line has.
    #[error("step {0} is of no run")]
    NoRun(u64),
    /// A step whose input names another manifest than its run.
    #[error("step {0} is of another manifest")]
    Manifest(u64),
    /// The last line has another number of steps.
    #[error("it has {}, and it says another number", many(.0, "step"))]
    Steps(u64),
    /// The digest of the last line is not that of the lines before it.
    #[error("it was changed: its digest is not that of its lines")]
    Changed,
    /// No last line.
    #[error("it is cut off: the last line is missing")]
    Unended,
    /// No line at all.
    #[error("it is empty")]
    Empty,
    /// No file `agent.yaml`.
    #[error("it carries no manifest")]
    NoManifest,
    /// A file `agent.yaml` of another digest than the header's.
    #[error("the manifest it carries is another than it was recorded under")]
    OtherManifest,
    /// No manifest of a child.
    #[error("it carries no manifest of its child run {0}")]
    ChildManifest(RunId),
    /// No line with the tools that the agent was shown.
    #[error("it carries no tools")]
    NoTools,
}

/// Why a run cannot be recorded, or cannot continue from its recording.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReplayObstacle {
    /// Redaction of the list of tools.
    #[error("nothing can be left out of what its agent was shown")]
    Shown,
    /// The ledger has no opening of the run.
    #[error("its opening is not here")]
    NoOpening,
    /// It is a child of this run.
    #[error("it is the child of run {0}, whose recording has it")]
    Child(RunId),
    /// Nothing asked for a recording.
    #[error(
        "it was not recorded: neither its manifest (`replay.mode`) nor its agent asked for that"
    )]
    NotRecorded,
    /// It answered from a recording.
    #[error("it is a replay itself")]
    Replay,
    /// It began with a recording.
    #[error("it goes on from another recording")]
    Fork,
    /// A run of its family is open.
    #[error("run {0} is not sealed yet")]
    Open(RunId),
    /// It made no call.
    #[error("it has no calls")]
    NoCalls,
    /// Its opening names no manifest.
    #[error("it names no manifest")]
    NoManifest,
    /// A file that the state directory lacks.
    #[error("its {what} `{}` was not kept", digest.prefixed())]
    NotKept {
        /// `manifest`, `template` or `policy bundle`.
        what: &'static str,
        /// SHA-256 of the file.
        digest: Digest,
    },
    /// A child whose payloads were not stored.
    #[error("its child run {0} was incognito: nothing of it is stored")]
    Incognito(RunId),
    /// The list of tools does not have the form that gates write.
    #[error("what its agent was shown cannot be read")]
    Tools,
    /// Payloads and calls that cannot be exported, and how many more there are.
    #[error("{}", listed(gaps, *more))]
    Missing {
        /// What is missing.
        gaps: Vec<Gap>,
        /// How many more there are.
        more: usize,
    },
    /// The step from which the live run was to start does not exist.
    #[error("it has {}: it cannot go on from step {at}", many(steps, "step"))]
    NoStep {
        /// The number of steps.
        steps: usize,
        /// The requested step.
        at: u64,
    },
    /// A call that was made before an earlier one was answered.
    #[error("step {early} was asked before step {last} was answered: it cannot go on between them")]
    Between {
        /// The step that was made early.
        early: u64,
        /// The step that had no answer yet.
        last: u64,
    },
    /// A request to a model in a dialect before the first live step.
    #[error(
        "step {step} asked a model in a dialect: it cannot go on from step {at}, only from before that"
    )]
    Dialect {
        /// The requested step.
        at: u64,
        /// The step of the model.
        step: u64,
    },
    /// A child that the live run would not open again.
    #[error("its child run {child} was opened before step {at}: it cannot go on from there")]
    ChildBefore {
        /// The child.
        child: RunId,
        /// The requested step.
        at: u64,
    },
}

fn listed(gaps: &[Gap], more: usize) -> String {
    let gaps: Vec<String> = gaps.iter().map(ToString::to_string).collect();
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{}{more}", gaps.join("; "))
}

/// One thing that the recording would lack.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Gap {
    /// The list of tools.
    #[error("what its agent was shown {0}")]
    Shown(Absence),
    /// A payload of a step.
    #[error("step {step}: {gap}")]
    Step {
        /// Its number.
        step: u64,
        /// What is missing.
        gap: StepGap,
    },
}

/// What a step would lack.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StepGap {
    /// No entry decided the call.
    #[error("it was never decided")]
    Undecided,
    /// The tool's definition differs from the one the agent was shown.
    #[error("`{0}` was changed while the run was open")]
    Changed(String),
    /// The call has no end.
    #[error("`{0}` is not over")]
    Open(String),
    /// The agent asked a model in a dialect, and the list of tools does not say which requests the tool
    /// takes.
    #[error(
        "`{0}` was asked as a model in a dialect, and an earlier version recorded it, which did not keep \
         what a replay of that needs; record the run again"
    )]
    Dialect(String),
    /// A tool call of an answer that was decided only after the answer had ended.
    #[error(
        "`{0}` waited for an approver when the answer that asked for it ended; a replay has no such wait"
    )]
    Outlived(String),
    /// A tool call of an answer whose id does not name the call of its model.
    #[error("`{0}` cannot be assigned to an answer: its id does not name the call of the model")]
    Unassigned(String),
    /// A payload is unavailable.
    #[error("`{role}` of `{tool}` {why}")]
    Payload {
        /// What it is.
        role: crate::record::Role,
        /// The tool.
        tool: String,
        /// Why it is unavailable.
        why: Absence,
    },
    /// A payload is no strict JSON.
    #[error(transparent)]
    Json(#[from] json::Error),
    /// A result is no text.
    #[error(transparent)]
    Utf8(#[from] std::str::Utf8Error),
}

/// Why a payload is unavailable; the sentence continues after the payload's name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Absence {
    /// No entry commits to it.
    #[error("was never recorded")]
    Never,
    /// The fleet log records its erasure.
    #[error("was erased (entry {seq} of `{log}`)")]
    Erased {
        /// The entry.
        seq: u64,
        /// The log that has it.
        log: String,
    },
    /// It is stored encrypted.
    #[error("is encrypted, and the key is not here")]
    Encrypted,
    /// The stored bytes do not open the commitment.
    #[error("was changed where it is stored")]
    Damaged,
    /// No row has it: its size in bytes.
    #[error("was not stored ({0} bytes), or not in such a way that a part of it can be left out")]
    NotStored(u64),
}
