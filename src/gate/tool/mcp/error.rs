//! Why a server is not reached, or not used as it is. For operators; what agents read is `traffic::Broken`.

use std::io;
use std::path::PathBuf;

use super::list::{LIST_BYTES_MAX, PAGES_MAX, TOOLS_MAX};
use super::traffic::TrafficError;
use crate::catalog::command::ElfError;
use crate::domain::json;
use crate::tool::request::RequestError;
use crate::tool::{net, sandbox};

/// What stands between the gate and one server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the server's command line cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A program or script cannot be opened.
    #[error("cannot open `{}`: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not the one that the lock pins.
    #[error(
        "`{0}` is not the file that the lock pins, so the server is not started: find out what changed it, then sign a new lock (`wicketgate tools lock`, or `--relock` of `mcp wrap`)"
    )]
    Changed(String),
    /// No program of this name is where programs are looked for.
    #[error("`{0}` is not found in the PATH")]
    NoProgram(String),
    /// The program has no right to run, or is a directory.
    #[error("`{}` is no executable file", .0.display())]
    NotExecutable(PathBuf),
    /// The program is neither ELF nor a script.
    #[error("`{}` {why}", path.display())]
    Format {
        /// The program.
        path: PathBuf,
        /// What it is.
        why: ElfError,
    },
    /// A script's first line names no interpreter.
    #[error("`{}` names none", .0.display())]
    NoInterpreter(PathBuf),
    /// Interpreters that are scripts, one after the other.
    #[error("`{0}` is a script of a script of a script")]
    Scripts(String),
    /// The system does not start the program.
    #[error("`{program}` cannot be started: {source}")]
    Start {
        /// As it is configured.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// A server behind a URL is started as if it were a program.
    #[error("the server is no program")]
    NoCommand,
    /// The program was started without its standard streams.
    #[error("the server has no streams")]
    NoStreams,
    /// The task that starts the program ended before it was done.
    #[error(transparent)]
    Task(#[from] tokio::task::JoinError),
    /// This system does not give the sandbox that the server demands.
    #[error(transparent)]
    Level(#[from] sandbox::LevelError),
    /// The network of the sandbox was not made.
    #[error(transparent)]
    Sandbox(#[from] sandbox::Error),
    /// The server's origin cannot be connected to as it is configured.
    #[error(transparent)]
    Connection(#[from] net::Error),
    /// A credential of the server fits no header.
    #[error(transparent)]
    Credential(#[from] RequestError),
    /// The server's URL has no form as a URI.
    #[error("its URL cannot be written")]
    Url,
    /// The gate ends.
    #[error("stopped")]
    Stopped,
    /// No attempt has made a connection since it was asked for.
    #[error("server `{0}` cannot be reached")]
    Unreached(String),
    /// The gate uses the server no more.
    #[error("server `{0}` is closed")]
    Closed(String),
    /// The two sides do not come to an agreement in time.
    #[error("the handshake takes too long")]
    HandshakeLate,
    /// The list of tools does not come in time.
    #[error("`tools/list` takes too long")]
    ListLate,
    /// A request of the gate's own has no answer.
    #[error("`{method}`: {why}")]
    Request {
        /// Its method.
        method: &'static str,
        /// What became of it.
        why: TrafficError,
    },
    /// A request of the gate's own was answered with an error.
    #[error("`{method}` was answered with error {code}")]
    Code {
        /// Its method.
        method: &'static str,
        /// The code of the error.
        code: i64,
    },
    /// `initialize` was answered with something else than an object.
    #[error("`initialize` was answered with no object")]
    Initialize,
    /// `initialize` was answered with a version that has no handshake, or that the gate does not know.
    #[error("`initialize` was answered with version `{0}`")]
    Version(String),
    /// `server/discover` came to nothing.
    #[error("`server/discover`: {0}")]
    Discover(DiscoverError),
    /// None of the server's versions is one of the gate's.
    #[error("the server speaks no version this gate knows")]
    NoVersion,
    /// Both ways to begin came to nothing.
    #[error("{first}; {second}")]
    Both {
        /// The first.
        first: Box<Self>,
        /// The second.
        second: Box<Self>,
    },
    /// A page of the list of tools is no object with a list, or its cursor is no text.
    #[error("`tools/list` gave no page of tools: {0}")]
    Page(#[source] serde_json::Error),
    /// The cursor to the next page has more bytes than the gate keeps.
    #[error("`tools/list`: the cursor is too long")]
    CursorSize,
    /// The pages have more bytes together than the gate reads.
    #[error("`tools/list` has more than {LIST_BYTES_MAX} bytes")]
    ListSize,
    /// The server has more tools than the gate governs.
    #[error("`tools/list` has more than {TOOLS_MAX} tools")]
    Tools,
    /// The list does not end.
    #[error("`tools/list` has more than {PAGES_MAX} pages")]
    Pages,
    /// The list of tools holds a credential that the server was given.
    #[error("its list of tools holds a credential it was given")]
    Secret,
    /// A tool of the lock is no strict JSON.
    #[error("the pinned tool cannot be read: {0}")]
    Pinned(#[source] json::Error),
    /// Any of these, with what the server wrote to its standard error last.
    #[error("{why}; it says: {tail}")]
    Tail {
        /// Why the connection is of no use.
        why: Box<Self>,
        /// What the server wrote, on one line.
        tail: String,
    },
    /// The last of these that an attempt came to, as an operator may read it: without the secrets of the server.
    #[error("{0}")]
    Masked(String),
}

/// Why a server does not begin without a handshake.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// Nothing comes in time.
    #[error("no answer")]
    Late,
    /// The request came to nothing.
    #[error(transparent)]
    Broken(#[from] TrafficError),
    /// The server answers with an error of this code.
    #[error("error {0}")]
    Code(i64),
    /// The answer is something else than an object.
    #[error("the answer is no object")]
    NoObject,
    /// The answer has no list of versions.
    #[error("the answer names no versions")]
    NoVersions,
    /// The list has another version alone.
    #[error("the server does not speak 2026-07-28")]
    Version,
}

/// Why the output of a server is read no further, and its connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutputError {
    #[error("the connection ended")]
    Ended,
    #[error("the server closed its output")]
    Closed,
    #[error("the server's output cannot be read: {0}")]
    Read(#[source] io::Error),
    #[error("the server writes a line without end")]
    Line,
    #[error("the server writes to its output what is no message")]
    NoMessage,
    #[error("the server does not stop sending messages that answer no request")]
    Unasked,
}
