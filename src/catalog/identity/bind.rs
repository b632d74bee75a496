//! Compares an agent's claims about itself with its manifest.

use std::collections::BTreeSet;

use super::manifest::{DELEGATION_DEPTH_MAX, Incognito, Manifest, Status};
use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::domain::digest::Digest;
use crate::domain::tier::{Binding, Face};

/// The agent is not the one of its manifest.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", .reasons.iter().map(|r| r.message.as_str()).collect::<Vec<_>>().join("; "))]
pub struct Mismatch {
    /// Every difference; never empty. All have the code `manifest.mismatch`, or all `binding.insufficient`.
    pub reasons: Vec<LayerReason>,
}

/// Compares the claims of `OpenRun` with the manifest: status, exact model id if any is listed,
/// every claimed instructions hash (64 hex digits, `sha256:` allowed) listed and at least one
/// claimed if any is listed, loaded tools all granted. Claims stay claims: the answer is
/// [`Binding::Claimed`], or [`Binding::Unclaimed`] for an agent that claims neither model nor
/// instructions nor tools. [`accept`] decides whether that is enough.
///
/// # Errors
/// Every mismatch, not only the first.
pub fn bind(
    manifest: &Manifest,
    model: &str,
    instructions: &[String],
    tools: &[String],
) -> Result<Binding, Mismatch> {
    if model.is_empty() && instructions.is_empty() && tools.is_empty() {
        return bind_unclaimed(manifest);
    }
    let mut reasons: Vec<LayerReason> = inactive(manifest).into_iter().collect();
    let mut add = |detail: &str, message: String| reasons.push(mismatch(detail, message));
    let listed = &manifest.model_names;
    if !listed.is_empty() && !listed.iter().any(|name| name == model) {
        add("manifest.model", format!("model `{model}` is not one of the manifest's"));
    }
    if instructions.is_empty() && !manifest.instructions.is_empty() {
        add("manifest.instructions", "no instructions hash was claimed".to_owned());
    }
    for claimed in instructions {
        let listed = Digest::parse(claimed)
            .is_some_and(|hash| manifest.instructions.iter().any(|i| i.sha256 == hash));
        if !listed {
            let message = format!("instructions `{claimed}` are not listed in the manifest");
            add("manifest.instructions", message);
        }
    }
    let granted: BTreeSet<&str> = manifest.tools.iter().map(|grant| grant.name.as_str()).collect();
    for tool in tools {
        if !granted.contains(tool.as_str()) {
            add("manifest.tools", format!("loaded tool `{tool}` is not granted"));
        }
    }
    if reasons.is_empty() { Ok(Binding::Claimed) } else { Err(Mismatch { reasons }) }
}

/// Binds an agent without claims: model, instructions and tools stay unclaimed, the manifest's
/// status still counts.
///
/// # Errors
/// The manifest is not active.
pub fn bind_unclaimed(manifest: &Manifest) -> Result<Binding, Mismatch> {
    match inactive(manifest) {
        None => Ok(Binding::Unclaimed),
        Some(reason) => Err(Mismatch { reasons: vec![reason] }),
    }
}

/// Whether the ledger keeps only commitments to the payloads of a run: if the run asks for that
/// (`asked`) or the run above it is such a run (`above`), whose children must not record more than
/// it does.
///
/// # Errors
/// `manifest.incognito`: the manifest forbids it.
pub fn incognito(manifest: &Manifest, requested: bool, above: bool) -> Result<bool, Mismatch> {
    match manifest.incognito {
        Incognito::Required => Ok(true),
        Incognito::Allowed => Ok(requested || above),
        Incognito::Forbidden if requested || above => {
            let who =
                if requested { "the run asks for it" } else { "the run above it is incognito" };
            let message = format!("{who}, and `spec.incognito` of the manifest forbids it");
            Err(Mismatch { reasons: vec![mismatch("manifest.incognito", message)] })
        }
        Incognito::Forbidden => Ok(false),
    }
}

/// Whether the manifest accepts a run of this face with this binding (`spec.binding`).
///
/// # Errors
/// `binding.face`: the face is switched off. `binding.minimum`: too little is known of the model.
pub fn accept(manifest: &Manifest, face: Face, binding: Binding) -> Result<(), Mismatch> {
    let (accepts, agent) = (&manifest.binding, &manifest.name);
    let (detail, message) = if !accepts.faces.contains(&face) {
        let open: Vec<&str> = accepts.faces.iter().map(|face| face.as_str()).collect();
        let message = format!(
            "the manifest of agent `{agent}` switches the face `{}` off; use `{}`, or add it to \
             `spec.binding.faces`",
            face.as_str(),
            open.join("` or `")
        );
        ("binding.face", message)
    } else if binding < accepts.minimum {
        let message = format!(
            "the run is `{}` and the manifest of agent `{agent}` accepts none below `{}`; claim the \
             model and instructions with `OpenRun`, or sign `spec.binding: {{minimum: {}}}`",
            binding.as_str(),
            accepts.minimum.as_str(),
            binding.as_str()
        );
        ("binding.minimum", message)
    } else {
        return Ok(());
    };
    let reason = LayerReason { code: Code::BindingInsufficient, ..mismatch(detail, message) };
    Err(Mismatch { reasons: vec![reason] })
}

/// Whether a run under `parent`, with `above` runs above it, may be the parent of one under the manifest
/// with this digest.
///
/// # Errors
/// `delegate.not_named`: the parent's manifest does not name it. `delegate.depth`: the chain of delegations
/// would be longer than [`DELEGATION_DEPTH_MAX`].
pub fn delegates(parent: &Manifest, above: usize, child: &Digest) -> Result<(), Mismatch> {
    if !parent.delegates.contains(child) {
        let agent = &parent.name;
        let message = format!("the manifest of agent `{agent}` does not delegate to this one");
        return Err(undelegated("delegate.not_named", message));
    }
    if above >= DELEGATION_DEPTH_MAX {
        let message = format!("a chain of more than {DELEGATION_DEPTH_MAX} delegations");
        return Err(undelegated("delegate.depth", message));
    }
    Ok(())
}

/// A run that may not be opened as a child, for this one reason.
pub fn undelegated(detail: &str, message: String) -> Mismatch {
    Mismatch { reasons: vec![mismatch(detail, message)] }
}

fn inactive(manifest: &Manifest) -> Option<LayerReason> {
    let status = manifest.status.as_str();
    (manifest.status != Status::Active).then(|| {
        let message = format!("the manifest is `{status}`, no run may be opened");
        mismatch("manifest.status", message)
    })
}

/// One reason with the code `manifest.mismatch`.
pub(super) fn mismatch(detail: &str, message: String) -> LayerReason {
    LayerReason {
        code: Code::ManifestMismatch,
        detail: detail.to_owned(),
        message,
        rule: "manifest".to_owned(),
    }
}
