//! What is wrong with a client's file, and where.

use super::shape::BYTES_MAX;

/// One thing that is wrong with a client's file.
#[derive(Debug, thiserror::Error)]
#[error("{file}{}{}: {fault}", at(*place), below(field))]
pub struct InitProblem {
    /// The file, as it was named.
    pub file: String,
    /// Line and column, from 1; `None` for the whole file.
    pub place: Option<(usize, usize)>,
    /// The field; empty for the file itself.
    pub field: String,
    /// What is wrong with it.
    #[source]
    pub fault: InitFault,
}

impl InitProblem {
    /// A problem of the whole file, or of a field without a place.
    pub fn whole(file: &str, field: &str, fault: InitFault) -> Self {
        Self { file: file.to_owned(), place: None, field: field.to_owned(), fault }
    }
}

fn at(place: Option<(usize, usize)>) -> String {
    place.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default()
}

fn below(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!(": {field}") }
}

/// What is wrong with a client's file or a field of it.
#[derive(Debug, thiserror::Error)]
pub enum InitFault {
    /// The system does not give it.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The file is too large to be a client's configuration.
    #[error("more than {BYTES_MAX} bytes")]
    Long,
    /// The file is not JSON with comments.
    #[error("{0}")]
    Syntax(String),
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// It is of no known client.
    #[error("the file has neither `mcpServers` (Claude, Cursor) nor `servers` (VS Code)")]
    NoServers,
    /// Nothing is below the known name.
    #[error("the file has no servers")]
    NoServer,
    /// Servers are below two names.
    #[error("`{0}` is set too: keep one of them")]
    TwoShapes(String),
    /// Two members have one name.
    #[error("this name occurs twice")]
    Twice,
    /// The value has another type.
    #[error("expected {0}")]
    Type(&'static str),
    /// No client is known to have it.
    #[error("unknown field")]
    Unknown,
    /// It would name a file of variables.
    #[error("is not supported: write its variables into `env`")]
    EnvFile,
    /// The server is reached in a way that is not known.
    #[error("`{0}` is not a transport; use stdio, http, streamable-http or sse")]
    Transport(String),
    /// A program has no headers.
    #[error("`headers` needs `url`")]
    Headers,
    /// A URL has no arguments.
    #[error("`args`, `env` and `cwd` need `command`")]
    Arguments,
    /// The server is a program and a URL.
    #[error("`command` and `url` are both set: keep one of them")]
    Both,
    /// The server is neither.
    #[error("missing field `{0}`")]
    Missing(&'static str),
}
