//! Tool bindings: how a tool is really reached, as the operator wrote it and as it was checked.
//!
//! A `Config` is read from YAML, says everything that is wrong with it at once, and becomes
//! `Binding`s: hosts and paths are parsed, schemas compiled, secrets read once. A binding that
//! exists is valid. Nothing here opens a connection.
//!
//! Beside the tools stands what else an operator binds: [`identity`] reads signed manifests and knows callers by their
//! tokens and certificates, [`limits`] counts budgets, pools and fair shares, [`mcp`] is the framing and the names of
//! the Model Context Protocol.

use wicketgate_crypto as crypto;
use wicketgate_record::{clock, domain, yaml};

pub mod address;
pub mod binding;
mod bound;
mod check;
pub mod command;
pub mod config;
mod definition;
pub mod drift;
pub mod fetch;
pub mod file_name;
pub mod form;
pub mod grpc;
pub mod hidden;
pub mod host;
mod http;
pub mod identity;
pub mod limits;
pub mod lock;
pub mod mcp;
mod model;
pub mod schema;
pub mod secret;
pub mod server;
pub mod sql;
pub mod template;
pub mod web_url;

pub use binding::Binding;
pub use bound::Bound;
pub use check::{Checked, Surroundings};
pub use config::Config;

/// One thing that is wrong with the `tools:` or the `servers:` list, or with the lock.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
#[error("{path}: {message}")]
pub struct ConfigError {
    /// Where: `tools[0].http.url`, `servers[0].stdio.command`.
    pub path: String,
    /// What is wrong and what would be right.
    pub message: String,
}

/// Everything found wrong so far.
#[derive(Default)]
struct Problems(Vec<ConfigError>);

impl Problems {
    fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(ConfigError { path: path.into(), message: message.into() });
    }

    /// The value, or nothing and one more problem.
    fn take<T, E: ToString>(&mut self, path: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.add(path, error.to_string())).ok()
    }
}
