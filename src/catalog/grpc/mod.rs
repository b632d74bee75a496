//! The `grpc` kind: one unary method of a service, as a pinned descriptor set describes it.
//!
//! An operator's command asks a service for its descriptors and writes them to a file; a gate reads
//! only that file, at its start. So neither the agents' view nor the requests can change under a
//! policy.

mod check;
pub mod config;
mod known;
mod schema;

pub use known::WellKnownType;

#[cfg(test)]
mod tests;

use prost_reflect::MethodDescriptor;

use super::address::Cidr;
use super::binding::Credential;
use super::host::Origin;
use super::secret::Secret;
use super::{Reach, definition};
use crate::domain::digest::Digest;
use crate::domain::effect::ToolKind;
use crate::domain::json::{Json, json};

/// A checked `grpc` binding.
#[derive(Debug)]
pub struct Grpc {
    /// Scheme, host and port.
    pub origin: Origin,
    /// The method: unary, with all the types it names.
    pub method: MethodDescriptor,
    /// SHA-256 of the descriptor set's bytes.
    pub descriptors: Digest,
    /// Literal metadata.
    pub metadata: Vec<(http::HeaderName, http::HeaderValue)>,
    /// What requests are authenticated with: metadata only.
    pub credentials: Vec<Credential>,
    /// Maximum size of one request message in bytes.
    pub request_bytes_max: u64,
    /// Ranges outside the public Internet that the binding opens.
    pub private_addresses: Vec<Cidr>,
    /// PEM text of the only certificate authorities to trust; the public ones if absent.
    pub ca: Option<Vec<u8>>,
}

impl Reach for Grpc {
    fn kind(&self) -> ToolKind {
        ToolKind::Grpc
    }

    fn definition(&self) -> Json {
        let url = format!("{}://{}", self.origin.scheme(), self.origin.authority());
        json!({
            "url": url,
            "descriptors": self.descriptors.hex(),
            "service": self.method.parent_service().full_name(),
            "method": self.method.name(),
            "metadata": definition::headers(&self.metadata),
            "request_bytes_max": self.request_bytes_max,
            "private_addresses": definition::ranges(&self.private_addresses),
            "ca": definition::authorities(self.ca.as_deref()),
            "credentials": definition::credentials(&self.credentials),
            "isolation": "none",
        })
    }

    fn origins(&self) -> Vec<Origin> {
        vec![self.origin.clone()]
    }

    fn secrets(&self) -> Vec<Secret> {
        self.credentials.iter().map(|one| one.secret.clone()).collect()
    }
}
