//! The one home of the wire forms of the Model Context Protocol: messages, lines, events, headers,
//! lists and names.
//!
//! The gate speaks MCP to agents (`serve::mcp`) and to servers (`tool::mcp`); the bridge passes
//! messages of a client on to the gate (`cli::mcp`). They handle messages raw and keep them byte
//! for byte, member by member, because a typed model drops unknown members. No code here opens a
//! connection.

pub mod header;
pub mod http;
pub mod lines;
pub mod list;
pub mod name;
pub mod raw;
pub mod rpc;

pub use crate::llm::sse;

/// A revision of the protocol that this build speaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Version {
    /// `2024-11-05`: spoken to servers over stdio only.
    V2024_11_05,
    /// `2025-03-26`: spoken to servers, and to clients that send no version header.
    V2025_03_26,
    /// `2025-06-18`.
    V2025_06_18,
    /// `2025-11-25`.
    V2025_11_25,
    /// `2026-07-28`: no handshake, no session.
    V2026_07_28,
}

impl Version {
    /// Every version, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];
    /// The newest version that begins with `initialize`.
    pub const NEWEST_WITH_HANDSHAKE: Self = Self::V2025_11_25;

    /// The date that names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Reads the date.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.as_str() == text)
    }

    /// Whether every request stands alone: no `initialize`, no session, facts in `_meta`.
    #[must_use]
    pub const fn is_stateless(self) -> bool {
        matches!(self, Self::V2026_07_28)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `_meta` of a request that stands alone: its version.
pub const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// `_meta` of such a request: the client's name and version.
pub const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
/// `_meta` of such a request: the client's capabilities.
pub const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// `_meta` of such a request: the least level of log messages that the client wants.
pub const META_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// `_meta` of a result: the name and the version of the server software.
pub const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";
/// `_meta` of a notification: the request that subscribed to it.
pub const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Begins every name in `_meta` and every notification that is ours. What a server puts under it is dropped.
pub const OWN: &str = "wicketgate.dev/";

/// `_meta` of a result: where the ledger records its outcome.
pub const META_RECEIPT: &str = "wicketgate.dev/receipt";
/// `_meta` of a request: why the agent makes the call, in its own words.
pub const META_JUSTIFICATION: &str = "wicketgate.dev/justification";
/// `_meta` of a result: the call's id.
pub const META_CALL: &str = "wicketgate.dev/call";
/// `_meta` of a recorded result: the notifications the server sent while it worked, in order.
pub const META_NOTIFICATIONS: &str = "wicketgate.dev/notifications";
/// `_meta` at the opening of a deterministic run: its seed, 16 hex digits.
pub const META_SEED: &str = "wicketgate.dev/seed";
/// `_meta` at the same opening: its time, which the agent may take for the current time.
pub const META_CLOCK: &str = "wicketgate.dev/clock";
/// `_meta` of a request: the caller's own id for the call; a repeated id gets the same answer.
pub const META_CALL_ID: &str = "wicketgate.dev/call-id";
