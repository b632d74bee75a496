//! What `deploy/` holds: the chart and the kustomize tree as Helm and kubectl render them, judged by the schemas of Kubernetes and by
//! checkov, alerts and dashboard by promtool, the image's contents started as the image would, and what a release is made of.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "tests may stop at the first surprise"
)]

mod chart;
mod image;
mod injector;
mod kustomize;
mod names;
mod papers;
mod readme;
mod release;
mod roles;

use std::path::{Path, PathBuf};
use wicketgate_support::{ca, observed as gate, waiting};

/// A file of the repository.
fn top(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
