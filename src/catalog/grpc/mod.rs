//! The `grpc` kind: one unary method of a service, as a pinned descriptor set describes it.
//!
//! What a service says of itself is asked by an operator's command and written to a file; a gate reads that
//! file at start and nothing else, so what agents are shown and what is sent cannot move under a policy.

mod check;
pub mod config;
mod known;
mod schema;

pub(super) use check::{check, definition};
pub use known::Known;

#[cfg(test)]
mod tests;

use prost_reflect::MethodDescriptor;

use super::address::Cidr;
use super::binding::Credential;
use super::host::Origin;
use crate::domain::digest::Digest;

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
    /// Bytes of one request message.
    pub request_bytes_max: u64,
    /// Ranges outside the public Internet that the binding opens.
    pub private_addresses: Vec<Cidr>,
    /// PEM text of the only certificate authorities to trust; the public ones if absent.
    pub ca: Option<Vec<u8>>,
}
