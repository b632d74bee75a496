//! Whether the model behind a call is the manifest's.

use super::bind::{Mismatch, mismatch};
use super::manifest::Manifest;

/// Compares a request with `spec.model`: the requested id is listed, and `provider`, that of the
/// upstream which is asked, is the manifest's. Nothing is demanded if the manifest names no model.
///
/// # Errors
/// `manifest.model`: every difference. An upstream without a provider is one.
pub fn model(manifest: &Manifest, requested: &str, provider: Option<&str>) -> Result<(), Mismatch> {
    if manifest.model_names.is_empty() {
        return Ok(());
    }
    let mut reasons = Vec::new();
    let mut add = |message: String| reasons.push(mismatch("manifest.model", message));
    if !manifest.model_names.iter().any(|name| name == requested) {
        add(format!("model `{requested}` is not one of the manifest's"));
    }
    let named = &manifest.model_provider;
    match provider {
        Some(provider) if provider == named => {}
        Some(provider) => add(format!(
            "the upstream belongs to provider `{provider}`, and the manifest names `{named}`"
        )),
        None => add(format!(
            "the upstream has no `provider` in the configuration, and the manifest names `{named}`"
        )),
    }
    if reasons.is_empty() { Ok(()) } else { Err(Mismatch { reasons }) }
}

/// Whether an answer may name this model (`spec.model.responded`): one of the ids, or one that
/// begins with what stands before a `*`. Every model may answer, if the manifest lists none.
pub fn responded(manifest: &Manifest, model: &str) -> bool {
    let listed = &manifest.model_responded;
    let fits = |pattern: &String| match pattern.strip_suffix('*') {
        Some(start) => model.starts_with(start),
        None => model == pattern,
    };
    listed.is_empty() || listed.iter().any(fits)
}
