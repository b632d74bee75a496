//! What can be wrong with an exchange before the gate reads the request in it: one table for every
//! face that speaks HTTP.

use http::StatusCode;

use super::Problem;
use crate::domain::code::Code;
use crate::mcp::rpc;

/// How one broken exchange is rendered.
#[derive(Clone, Copy, Debug)]
pub struct BrokenRule {
    /// HTTP status where requests stand alone.
    pub http: StatusCode,
    /// HTTP status inside a session of MCP (2025): JSON-RPC errors about a request travel in a 200.
    pub http_in_session: StatusCode,
    /// JSON-RPC error code.
    pub rpc: i64,
    /// The finer code, unless the code that found the error supplies a better one.
    pub detail: &'static str,
}

macro_rules! broken {
    ($($(#[$doc:meta])* $name:ident = $http:ident $in_session:ident $rpc:ident $detail:literal;)*) => {
        /// What can be wrong with an exchange before the gate reads the request in it.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Broken { $($(#[$doc])* $name,)* }

        impl Broken {
            /// Every row of the table, in its order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The row of the table.
            #[must_use]
            pub const fn rule(self) -> BrokenRule {
                match self { $(Self::$name => BrokenRule {
                    http: StatusCode::$http,
                    http_in_session: StatusCode::$in_session,
                    rpc: rpc::$rpc,
                    detail: $detail,
                },)* }
            }
        }
    };
}

// Columns: status, status inside a session, JSON-RPC code, finer code.
broken! {
    /// The body is not JSON that every parser reads alike.
    Json = BAD_REQUEST BAD_REQUEST PARSE_ERROR "json.syntax";
    /// The body is not a single message of the face.
    Message = BAD_REQUEST BAD_REQUEST INVALID_REQUEST "rpc.message";
    /// Parameters are missing or of the wrong kind.
    Params = BAD_REQUEST OK INVALID_PARAMS "rpc.params";
    /// The method is unknown.
    Method = NOT_FOUND OK METHOD_NOT_FOUND "rpc.method";
    /// A header is missing, or contradicts the body.
    Mirror = BAD_REQUEST BAD_REQUEST HEADER_MISMATCH "http.mirror";
    /// The protocol version is not spoken.
    Version = BAD_REQUEST BAD_REQUEST UNSUPPORTED_VERSION "mcp.version";
    /// A server needs a capability that the client does not have.
    Capability = BAD_REQUEST OK MISSING_CAPABILITY "mcp.capability";
    /// A header is repeated, or the framing can be read in two ways.
    Ambiguous = BAD_REQUEST BAD_REQUEST INVALID_REQUEST "http.ambiguous";
    /// The request comes from a page of another origin.
    Origin = FORBIDDEN FORBIDDEN INVALID_REQUEST "http.origin";
    /// The host is not a name of this machine.
    Host = FORBIDDEN FORBIDDEN INVALID_REQUEST "http.host";
    /// No such path.
    Route = NOT_FOUND NOT_FOUND INVALID_REQUEST "http.route";
    /// The path is there and the HTTP method is not.
    Verb = METHOD_NOT_ALLOWED METHOD_NOT_ALLOWED INVALID_REQUEST "http.method";
    /// The client takes no format of the answer.
    Accept = NOT_ACCEPTABLE NOT_ACCEPTABLE INVALID_REQUEST "http.accept";
    /// The body's media type is not JSON.
    MediaType = UNSUPPORTED_MEDIA_TYPE UNSUPPORTED_MEDIA_TYPE INVALID_REQUEST "http.content_type";
    /// The body is too large.
    TooLarge = PAYLOAD_TOO_LARGE PAYLOAD_TOO_LARGE INVALID_REQUEST "message.size";
    /// The headers are too large.
    Headers = REQUEST_HEADER_FIELDS_TOO_LARGE REQUEST_HEADER_FIELDS_TOO_LARGE INVALID_REQUEST "http.headers";
    /// The body did not arrive in time.
    Late = REQUEST_TIMEOUT REQUEST_TIMEOUT INVALID_REQUEST "message.late";
    /// The range is not part of the result.
    Range = RANGE_NOT_SATISFIABLE RANGE_NOT_SATISFIABLE INVALID_REQUEST "http.range";
    /// The request names no session.
    SessionMissing = BAD_REQUEST BAD_REQUEST INVALID_REQUEST "mcp.session_missing";
    /// There is no such session, or it is another caller's.
    SessionUnknown = NOT_FOUND NOT_FOUND INVALID_REQUEST "mcp.session_unknown";
    /// The session has its stream already, or too many streams are open.
    StreamTaken = CONFLICT CONFLICT INVALID_REQUEST "mcp.stream";
}

impl Broken {
    /// The code of a broken exchange.
    #[must_use]
    pub fn code(self) -> Code {
        if self == Self::Route { Code::RouteUnknown } else { Code::RequestMalformed }
    }

    /// The exchange is wrong in this way, with the finer code of the table.
    pub(in crate::serve) fn because(self, message: impl Into<String>) -> Breach {
        Breach { what: self, detail: self.rule().detail, message: message.into() }
    }
}

/// One broken exchange, not yet worded for a face.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::serve) struct Breach {
    /// Which row of the table it is.
    pub what: Broken,
    /// The finer code.
    pub detail: &'static str,
    /// What is wrong, for a person.
    pub message: String,
}

impl Breach {
    /// The same with a finer code.
    pub fn detail(self, detail: &'static str) -> Self {
        Self { detail, ..self }
    }
}

impl From<Breach> for Problem {
    fn from(breach: Breach) -> Self {
        let Breach { what, detail, message } = breach;
        Self::new(what.code(), detail, message).at(what.rule().http)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9457, 3.1.2: the status in the body is the one of the status line.
    #[test]
    fn the_status_in_a_problem_is_that_of_its_status_line() {
        let broken = Broken::ALL.iter().map(|what| Problem::from(what.because("m")));
        let codes = Code::ALL.iter().map(|code| Problem::of(*code, ""));
        let mut seen = std::collections::BTreeSet::new();
        for problem in broken.chain(codes) {
            let response = problem.response();
            let body: serde_json::Value = serde_json::from_str(response.body()).unwrap();
            assert_eq!(body["status"], response.status().as_u16(), "{problem:?}");
            seen.insert(response.status().as_u16());
        }
        for status in [400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 416, 429, 431, 503] {
            assert!(seen.contains(&status), "{status}");
        }
    }
}
