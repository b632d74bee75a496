//! A `file` section of the configuration, exactly as it may be written.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::check::{DEPTH, DEPTH_MAX, ENTRIES, ENTRIES_MAX, NAMES_MAX};
use crate::form::FilePath;

/// A directory that files are read, listed or written beneath.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The directory, relative to the configuration file. The gate opens it once, at start.
    #[schemars(with = "FilePath")]
    pub root: PathBuf,
    /// Name of the directory in policies and entries: `[A-Za-z0-9_.-]{1,128}`.
    pub name: String,
    /// Names of files and directories that the tool refuses anywhere below the root, besides those it refuses always.
    #[serde(default)]
    #[schemars(length(max = NAMES_MAX), example = ["payroll"])]
    pub protect: Vec<String>,
    /// Exact paths below the root that the tool serves although a name in them is protected.
    #[serde(default)]
    #[schemars(length(max = NAMES_MAX), example = ["config/.env.example"])]
    pub allow: Vec<String>,
    /// Names that the tool serves anywhere below the root although they begin with a dot or steer tools. It does not
    /// serve names of secrets in this way: those need an exact path in `allow`.
    #[serde(default)]
    #[schemars(length(max = NAMES_MAX), example = [".github", "package.json"])]
    pub allow_names: Vec<String>,
    /// Whether a new file may create the directories that it lies in (`file.write`).
    #[serde(default)]
    pub create_parents: bool,
    /// Whether an agent may also give the part of a file that changes, with `mode: edit`, instead of its whole content
    /// (`file.write`).
    #[serde(default)]
    pub edits: bool,
    /// Maximum number of entries in one listing (`file.list`).
    #[schemars(range(min = 1, max = ENTRIES_MAX), extend("default" = ENTRIES))]
    pub entries_max: Option<u64>,
    /// Maximum depth of directories in one listing (`file.list`).
    #[schemars(range(min = 1, max = DEPTH_MAX), extend("default" = DEPTH))]
    pub depth_max: Option<u64>,
}
