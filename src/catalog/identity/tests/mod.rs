//! Manifests: what they say, whose they are, and what fits them.

mod bound;
mod read;
mod signed;
mod wrong;

use super::client_tools::UnknownTools;
use super::lineage::Grants;
use super::manifest::{Manifest, Mode};
use super::models::{model, responded};
use super::{Error, PAYLOAD_TYPE, accept, bind, bind_unclaimed, envelope_path, succeeds};
use crate::clock::SystemEntropy;
use crate::crypto::dsse;
use crate::crypto::keys::SecretKey;
use crate::domain::digest::Digest;
use crate::domain::id::ToolName;
use crate::domain::tier::{Binding, Face, Tier};
use crate::domain::time::Timestamp;

pub(super) const TEXT: &str = r#"apiVersion: wicketgate.dev/v1
kind: AgentManifest
metadata: {name: code-review-agent, version: 1.4.0, owner: platform@example.com, labels: {team: payments}}
spec:
  status: active
  model: {provider: openai, names: [gpt-5-mini]}
  instructions:
    - {sha256: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", scope: whole}
    - {sha256: "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", scope: "prefix:4096"}
  policy: {agent: "sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"}
  tools:
    - {name: repo.read_file, tier: T0}
    - {name: tickets.create, tier: T2, definition: "sha256:dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"}
  limits: {calls: 500, calls_per_minute: 60, concurrency: 4, wall_seconds: 3600, consecutive_errors: 3, repeated_calls: 2}
  replay: {mode: "off"}
  delegates: []
  validity: {not_before: 2026-11-01T00:00:00Z, not_after: 2027-05-01T00:00:00Z}
"#;

pub(super) fn now() -> Timestamp {
    Timestamp::parse("2026-11-21T12:00:00.000Z").unwrap()
}

pub(super) fn key() -> SecretKey {
    SecretKey::generate(&SystemEntropy)
}

fn verify(
    text: &str,
    keys: &[&SecretKey],
    trusted: &[&SecretKey],
    threshold: usize,
) -> Result<Manifest, Error> {
    let trusted: Vec<_> = trusted.iter().map(|k| k.public()).collect();
    let envelope = dsse::sign(PAYLOAD_TYPE, text.as_bytes(), keys);
    Manifest::verify("agent.yaml", text.as_bytes(), envelope, &trusted, threshold, now())
}

fn refused(text: &str) -> (&'static str, String) {
    let key = key();
    let error = verify(text, &[&key], &[&key], 1).unwrap_err();
    (error.code(), error.to_string())
}
