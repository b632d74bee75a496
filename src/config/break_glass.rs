//! `trust.break_glass`: the people who may, for a short time, replace approvers.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::trust::KeyFiles;
use crate::approval::break_glass::{MINUTES_MAX, QUORUM_MIN, SIGNATURES_MAX};
use crate::catalog::form::FilePath;

/// `trust.break_glass`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BreakGlass {
    /// The people who may sign: an OpenSSH `allowed_signers` file, with its signature envelope
    /// beside it as `<file>.sig.json`.
    #[schemars(with = "FilePath")]
    pub signers: PathBuf,
    /// Public key files (PEM) that verify the list of signers. Each key may have only one use.
    #[schemars(with = "KeyFiles")]
    pub keys: Vec<PathBuf>,
    /// How many of these keys must sign the list.
    #[serde(default = "super::trust::one")]
    #[schemars(range(min = 1, max = 64))]
    pub threshold: usize,
    /// How many different people must sign a statement.
    #[serde(default = "quorum")]
    #[schemars(range(min = QUORUM_MIN, max = SIGNATURES_MAX))]
    pub quorum: usize,
    /// Longest validity of a statement in minutes.
    #[serde(default = "max_minutes")]
    #[schemars(range(min = 1, max = MINUTES_MAX))]
    pub max_minutes: u64,
}

const fn quorum() -> usize {
    QUORUM_MIN
}

const fn max_minutes() -> u64 {
    MINUTES_MAX
}
