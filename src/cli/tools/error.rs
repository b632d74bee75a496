//! Why a command about tools fails.

use std::path::PathBuf;

use crate::catalog::lock::printable;
use crate::cli::Cause;
use crate::tool::mcp::ProbeError;

/// Why a command about tools fails.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The configuration, or a file it names, is wrong: every problem, a line each.
    #[error("{}", .0.join("\n"))]
    Config(Vec<String>),
    /// No server has the name.
    #[error("no server `{}` is configured", printable(.0))]
    Server(String),
    /// No tool has the name.
    #[error("no tool `{}` is configured", printable(.0))]
    Tool(String),
    /// No tool is of the kind.
    #[error("no tool of kind `{}` is configured", printable(.0))]
    Kind(String),
    /// No server is configured.
    #[error("no servers are configured")]
    NoServers,
    /// Some servers do not list their tools.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Unreached(Vec<ProbeError>),
    /// No key that signs is trusted.
    #[error("none of these keys is among `trust.lock_keys`: the gate would not accept the lock")]
    Untrusted,
    /// The differences were not agreed to.
    #[error("nothing was written: check the differences, then add --yes")]
    NotAgreed,
    /// The address of a server has no meaning.
    #[error("`--from`: {0}")]
    From(Cause),
    /// The address of a server has a path.
    #[error("`--from` has no path")]
    Path,
    /// An address range has no meaning.
    #[error("`--private-address`: {0}")]
    Range(Cause),
    /// The certificate authorities cannot be used.
    #[error("`--ca-file`: {0}")]
    Authorities(Cause),
    /// The file is there.
    #[error("`{}` exists; add `--yes` to replace it", .0.display())]
    Exists(PathBuf),
    /// A server does not describe itself.
    #[error("`{from}`: {}", printable(&cause.to_string()))]
    Undescribed {
        /// Its address.
        from: String,
        /// What happened.
        cause: Cause,
    },
}
