//! A checked binding: everything is parsed and every secret read; no file or connection is open.

use std::sync::Arc;
use std::time::Duration;

use super::read_back::ReadBack;
use super::roles::StatedRoles;
use super::schema::Schema;
use super::secret::Secret;
use crate::domain::digest::Digest;
use crate::domain::id::ToolName;
use crate::domain::taint::ToolRoles;
use crate::domain::tier::Tier;

pub use super::Kind;
pub use super::fetch::Fetch;
pub use super::file::{Listing, Root, Writing};
pub use super::http::Http;
pub use super::model::{Api, Model, ModelUpstream};

/// How one tool is really reached.
#[derive(Debug)]
pub struct Binding {
    /// Its name.
    pub name: ToolName,
    /// The description that agents see.
    pub description: String,
    /// What arguments it takes.
    pub schema: Schema,
    /// How it is reached.
    pub kind: Kind,
    /// At least this tier.
    pub tier: Tier,
    /// The operator states that a call changes nothing.
    pub read_only: bool,
    /// The operator states that running it twice is the same as running it once.
    pub idempotent: bool,
    /// From permit to the end of the call.
    pub timeout: Duration,
    /// Result bytes.
    pub result_bytes_max: u64,
    /// The cost of one call, if the operator states it; millionths of a US dollar.
    pub cost_micro_usd: Option<u64>,
    /// For how long the same call under another id is the first one.
    pub dedupe: Option<Duration>,
    /// What its answers bring into a run, and where its arguments can get to.
    pub roles: ToolRoles,
    /// What of that the operator wrote.
    pub stated: StatedRoles,
    /// The check after each call that completed.
    pub read_back: Option<Arc<ReadBack>>,
    /// The whole MCP tool object as agents see it, its name qualified, canonical; `None` for other
    /// kinds.
    pub shown: Option<Arc<[u8]>>,
    /// SHA-256 of the agents' view and the effective binding without secrets.
    pub definition: Digest,
}

/// One secret and its destination.
#[derive(Clone, Debug)]
pub struct Credential {
    /// Header or query parameter.
    pub place: CredentialTarget,
    /// Put before the secret in a header.
    pub prefix: String,
    /// The secret.
    pub secret: Secret,
    /// `file:<path>` or `env:<name>`, as it was written.
    pub reference: String,
}

/// The destination of a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CredentialTarget {
    /// A request header.
    Header(http::HeaderName),
    /// A query parameter. It is part of no effect facts and no entry.
    Query(String),
}
