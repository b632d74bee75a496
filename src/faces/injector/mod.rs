//! The injector: a server that the API server of Kubernetes asks about each pod (`AdmissionReview` v1).
//!
//! It is stateless, has no permission in the cluster, and is not on the way of any call. `profile` reads what a pod gets,
//! `merge` gives it to a pod and `checks` says what a pod with a gate may not have: both are pure. `same` knows which members
//! the API server adds, `review` reads a review and answers it, `server` is the listener.
//!
//! The one rule: a pod that asked for a gate gets the whole gate, or is refused. What is not understood is refused.

mod checks;
mod merge;
mod profile;
mod review;
mod same;
pub mod server;

pub use profile::{ProfileDirectory, ProfileError};
pub use review::WebhookPath;

/// The label that asks for a gate; its value names the profile.
const GATE_LABEL: &str = "wicketgate.dev/gate";
/// The annotation that names the `ConfigMap` of the gate.
const CONFIG_ANNOTATION: &str = "wicketgate.dev/config";
/// The annotation that names the containers of the agent, with commas between them.
const AGENTS_ANNOTATION: &str = "wicketgate.dev/agents";
/// The annotation with the digest of the profile that a pod was given.
const DIGEST_ANNOTATION: &str = "wicketgate.dev/profile-digest";
/// What labels and annotations of ours begin with.
const OURS: &str = "wicketgate.dev/";
/// The container of the gate.
const GATE: &str = "gate";
