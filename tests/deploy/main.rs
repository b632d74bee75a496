//! What `deploy/` holds: the chart rendered by Helm's own code and judged by the schemas of Kubernetes and by
//! checkov, the image's contents started as the image would, the names that alerts and commands use.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests may stop at the first surprise"
)]

mod chart;
mod image;
mod names;
mod release;
#[allow(dead_code, reason = "other tests ask it more")]
#[path = "../support/waiting.rs"]
mod waiting;

use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long another process may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A file of the repository.
fn top(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
