//! Why a server is not reachable or not usable. For operators; agents receive
//! `traffic::TrafficError`.

use std::io;
use std::path::PathBuf;

use super::list::{LIST_BYTES_MAX, PAGES_MAX, TOOLS_MAX};
use super::traffic::TrafficError;
use crate::catalog::command::ElfError;
use crate::domain::json;
use crate::domain::plural::many;
use crate::mcp::lines::Endless;
use crate::tool::request::RequestError;
use crate::tool::{net, sandbox};

/// An error between the gate and one server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the server's command line cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A program or script cannot be opened.
    #[error("cannot open `{}`: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file is not the one that the lock pins.
    #[error(
        "`{0}` is not the file that the lock pins, so the server is not started: find out what changed it, then sign a new lock (`wicketgate tools lock`, or `--relock` of `mcp wrap`)"
    )]
    Changed(String),
    /// The search path has no program of this name.
    #[error("`{0}` is not found in the PATH")]
    NoProgram(String),
    /// The file is not executable or is a directory.
    #[error("`{}` is no executable file", .0.display())]
    NotExecutable(PathBuf),
    /// The program is neither ELF nor a script.
    #[error("`{}` {why}", path.display())]
    Format {
        /// The program.
        path: PathBuf,
        /// How its format is wrong.
        why: ElfError,
    },
    /// A script's first line names no interpreter.
    #[error("`{}` names none", .0.display())]
    NoInterpreter(PathBuf),
    /// A chain of scripts that are interpreters of scripts is too long.
    #[error("`{0}` is a script of a script of a script")]
    Scripts(String),
    /// The operating system does not start the program.
    #[error("`{program}` cannot be started: {source}")]
    Start {
        /// The program, as configured.
        program: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A server behind a URL cannot be started as a program.
    #[error("the server is no program")]
    NoCommand,
    /// The program was started without its standard streams.
    #[error("the server has no streams")]
    NoStreams,
    /// The task that starts the program ended before it was done.
    #[error(transparent)]
    Task(#[from] tokio::task::JoinError),
    /// This system does not offer the sandbox that the server demands.
    #[error(transparent)]
    Level(#[from] sandbox::LevelError),
    /// The network of the sandbox could not be created.
    #[error(transparent)]
    Sandbox(#[from] sandbox::Error),
    /// The server's origin cannot be connected to as it is configured.
    #[error(transparent)]
    Connection(#[from] net::Error),
    /// A credential of the server does not fit a header.
    #[error(transparent)]
    Credential(#[from] RequestError),
    /// The server's URL cannot be written as a URI.
    #[error("its URL cannot be written")]
    Url,
    /// The gate is stopping.
    #[error("stopped")]
    Stopped,
    /// No attempt to connect has succeeded since the connection was requested.
    #[error("server `{0}` cannot be reached")]
    Unreached(String),
    /// The gate no longer uses the server.
    #[error("server `{0}` is closed")]
    Closed(String),
    /// The handshake did not finish in time.
    #[error("the handshake takes too long")]
    HandshakeLate,
    /// The list of tools did not arrive in time.
    #[error("`tools/list` takes too long")]
    ListLate,
    /// The server did not list its tools in the time that the operator gave it.
    #[error("no answer within {}{last}", many(seconds, "second"))]
    Silent {
        /// That time.
        seconds: u64,
        /// A blank and the error of the last attempt to connect, if one failed.
        last: String,
    },
    /// One of the gate's own requests got no response.
    #[error("`{method}`: {why}")]
    Request {
        /// The method of the request.
        method: &'static str,
        /// The failure of the request.
        why: TrafficError,
    },
    /// One of the gate's own requests got an error response.
    #[error("`{method}` was answered with error {code}")]
    Code {
        /// The method of the request.
        method: &'static str,
        /// The code of the error.
        code: i64,
    },
    /// The response to `initialize` is not an object.
    #[error("`initialize` was answered with no object")]
    Initialize,
    /// The response to `initialize` names a version without a handshake, or one that the gate does
    /// not know.
    #[error("`initialize` was answered with version `{0}`")]
    Version(String),
    /// `server/discover` failed.
    #[error("`server/discover`: {0}")]
    Discover(DiscoverError),
    /// None of the server's versions is one of the gate's.
    #[error("the server speaks no version this gate knows")]
    NoVersion,
    /// Both ways to start a session failed.
    #[error("{first}; {second}")]
    Both {
        /// The failure of the first way.
        first: Box<Self>,
        /// The failure of the second way.
        second: Box<Self>,
    },
    /// A page of the list of tools is not an object with a list, or its cursor is not a text.
    #[error("`tools/list` gave no page of tools: {0}")]
    Page(#[source] serde_json::Error),
    /// The cursor to the next page is longer than the gate accepts.
    #[error("`tools/list`: the cursor is too long")]
    CursorSize,
    /// The pages have more bytes together than the gate reads.
    #[error("`tools/list` has more than {LIST_BYTES_MAX} bytes")]
    ListSize,
    /// The server has more tools than the gate governs.
    #[error("`tools/list` has more than {TOOLS_MAX} tools")]
    Tools,
    /// The list has more pages than the gate reads.
    #[error("`tools/list` has more than {PAGES_MAX} pages")]
    Pages,
    /// The list of tools contains a credential that the gate gave to the server.
    #[error("its list of tools holds a credential it was given")]
    Secret,
    /// A tool in the lock is not strict JSON.
    #[error("the pinned tool cannot be read: {0}")]
    Pinned(#[source] json::Error),
    /// One of these errors, with the last output of the server on standard error.
    #[error("{why}; it says: {tail}")]
    Tail {
        /// Why the connection is unusable.
        why: Box<Self>,
        /// What the server wrote, on one line.
        tail: String,
    },
    /// The error of the last attempt, for the operator, with the server's secrets masked.
    #[error("{0}")]
    Masked(String),
}

/// Why a session cannot start without a handshake.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// The response did not arrive in time.
    #[error("no answer")]
    Late,
    /// The request failed.
    #[error(transparent)]
    Broken(#[from] TrafficError),
    /// The server answers with an error of this code.
    #[error("error {0}")]
    Code(i64),
    /// The response is not an object.
    #[error("the answer is no object")]
    NoObject,
    /// The response has no list of versions.
    #[error("the answer names no versions")]
    NoVersions,
    /// The list contains only other versions.
    #[error("the server does not speak 2026-07-28")]
    Version,
}

/// Why the gate stops reading a server's output and ends the connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutputError {
    #[error("the connection ended")]
    Ended,
    #[error("the server closed its output")]
    Closed,
    #[error("the server's output cannot be read: {0}")]
    Read(#[source] io::Error),
    #[error("the server writes a line without end")]
    Line(#[from] Endless),
    #[error("the server writes to its output what is no message")]
    NoMessage,
    #[error("the server does not stop sending messages that answer no request")]
    Unasked,
}
