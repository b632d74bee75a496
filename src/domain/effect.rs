//! What a call would touch, as typed facts: policies read these and never parse strings.

use super::json::Json;

/// The facts of one prepared call (`input.effect`).
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// Nothing was resolved: the call was refused before, or the tool has no effect of its own.
    None,
    /// One HTTP request.
    Http {
        /// `GET`, `POST`, …
        method: String,
        /// `http` or `https`, from the binding.
        scheme: String,
        /// Lowercase host, from the binding.
        host: String,
        /// TCP port.
        port: u16,
        /// The exact path that will be sent, percent-encoded.
        path: String,
        /// The query as decoded pairs, in order.
        query: Vec<(String, String)>,
        /// Body bytes.
        body_bytes: u64,
    },
    /// One file that is already open.
    File {
        /// `read`, `write`, `list`.
        access: String,
        /// Name of the configured root.
        root: String,
        /// Path below the root, as it was resolved.
        path: String,
        /// `regular`.
        kind: String,
        /// Bytes, by fstat on the descriptor.
        size: u64,
        /// Permission bits, by fstat.
        mode: u32,
    },
    /// One request to an MCP server.
    Mcp {
        /// The server.
        server: String,
        /// `stdio` or `http`.
        transport: String,
        /// `tools/call`, `resources/read`, …
        method: String,
        /// The server's own name of the tool or prompt, or the URI of the resource; empty if there is none.
        name: String,
    },
}

impl Effect {
    /// The facts as the policy input and the effect digest see them.
    #[must_use]
    pub fn to_json(&self) -> Json {
        match self {
            Self::None => Json::object([("kind", Json::from("none"))]),
            Self::Http { method, scheme, host, port, path, query, body_bytes } => Json::object([
                ("kind", Json::from("http")),
                ("method", Json::from(method.as_str())),
                ("scheme", Json::from(scheme.as_str())),
                ("host", Json::from(host.as_str())),
                ("port", Json::from(u64::from(*port))),
                ("path", Json::from(path.as_str())),
                ("query", query.iter().map(pair).collect::<Vec<_>>().into()),
                ("body_bytes", Json::from(*body_bytes)),
            ]),
            Self::File { access, root, path, kind, size, mode } => Json::object([
                ("kind", Json::from("file")),
                ("access", Json::from(access.as_str())),
                ("root", Json::from(root.as_str())),
                ("path", Json::from(path.as_str())),
                ("file_kind", Json::from(kind.as_str())),
                ("size", Json::from(*size)),
                ("mode", Json::from(u64::from(*mode))),
            ]),
            Self::Mcp { server, transport, method, name } => Json::object([
                ("kind", Json::from("mcp")),
                ("server", Json::from(server.as_str())),
                ("transport", Json::from(transport.as_str())),
                ("method", Json::from(method.as_str())),
                ("name", Json::from(name.as_str())),
            ]),
        }
    }
}

fn pair((name, value): &(String, String)) -> Json {
    Json::object([("name", Json::from(name.as_str())), ("value", Json::from(value.as_str()))])
}
