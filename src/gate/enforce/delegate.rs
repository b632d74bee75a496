//! Opens a run below another: which callers may, under which manifest, and how deep.
//!
//! A caller with the parent's token opens the child. The child's manifest is that of its own
//! caller, proved by listener or credential (*attested*). For a sub-agent in the parent's process,
//! the parent's caller names it (*claimed*). In both cases the parent's signed manifest must name
//! it.

use std::sync::Arc;

use super::Road;
use super::answer::Fault;
use super::budget;
use super::lineage::ChildSlot;
use super::run::Run;
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;
use crate::identity::manifest::Manifest;
use crate::identity::{self, Caller, Mismatch};
use crate::record::debug_by;

/// The parent of a new run, as its opener names it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ParentClaim {
    /// The parent's id.
    pub run: String,
    /// The parent's run token, which proves control of the parent.
    pub token: String,
    /// The manifest of the child, `sha256:` and 64 hex digits; empty: that of its own caller.
    pub delegate: String,
}

debug_by!(ParentClaim: run);

/// How the manifest of a child is established.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Proof {
    /// The child's own listener or credential maps to it.
    Attested,
    /// The caller of its parent names it.
    Claimed,
}

impl Proof {
    /// `attested` or `claimed`, as in `run.opened.delegate`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Attested => "attested",
            Self::Claimed => "claimed",
        }
    }
}

/// Where a child is opened.
pub(super) struct ChildPosition {
    pub slot: ChildSlot,
    pub proof: Proof,
    /// The manifest of the caller whose credential opens and uses the child.
    pub opener: Arc<Manifest>,
}

impl ChildPosition {
    pub const fn parent(&self) -> &Arc<Run> {
        self.slot.parent()
    }
}

impl Road {
    /// Finds the position of the child, and its caller with the child's manifest.
    ///
    /// # Errors
    /// `run.unknown` for a parent that does not exist, is over or is not the opener's, with the
    /// same message for all; `limit.exceeded` if it is suspended; `manifest.mismatch` with the
    /// reason the child is refused.
    pub(super) async fn below(
        &self,
        caller: &Caller,
        claim: &ParentClaim,
    ) -> Result<(Caller, ChildPosition), Fault> {
        let unknown = || Fault::of(Code::RunUnknown);
        let hash = self.runs.tokens.hash(&claim.token).ok_or_else(unknown)?;
        let parent = self.runs.find(&hash, &caller.auth)?;
        if parent.id.to_string() != claim.run {
            return Err(unknown());
        }
        let slot = parent.reserve_child(self.clock.now()).ok_or_else(unknown)?;
        budget::not_suspended(&parent, parent.state.lock().suspended)?;
        let (manifest, proof) = match self.child_manifest(caller, &parent, &claim.delegate) {
            Ok(found) => found,
            Err(mismatch) => return Err(self.refused(&caller.manifest.name, mismatch).await),
        };
        let depth = parent.above().count();
        let named = identity::delegates(&parent.manifest, depth, &manifest.digest);
        if let Err(mismatch) = named {
            return Err(self.refused(&manifest.name, mismatch).await);
        }
        let opener = Arc::clone(&caller.manifest);
        let child = Caller { manifest, auth: caller.auth.clone() };
        Ok((child, ChildPosition { slot, proof, opener }))
    }

    /// The manifest of a child. A caller cannot change the manifest of its credential; only the
    /// parent's caller may name that of a sub-agent in its process.
    fn child_manifest(
        &self,
        caller: &Caller,
        parent: &Run,
        delegate: &str,
    ) -> Result<(Arc<Manifest>, Proof), Mismatch> {
        let own = caller.manifest.digest.prefixed();
        if delegate.is_empty() || delegate == own {
            return Ok((Arc::clone(&caller.manifest), Proof::Attested));
        }
        let refuse = |detail: &str, why: &str| identity::undelegated(detail, why.to_owned());
        // INVARIANT: the opener of a run was admitted by its own manifest and by every run above.
        let same = caller.auth.identity() == parent.auth.identity();
        if !same || caller.manifest.digest != parent.opener.digest {
            let why = "only the caller of the parent may name the manifest of a child";
            return Err(refuse("delegate.caller", why));
        }
        let digest = delegate.strip_prefix("sha256:").and_then(|_| Digest::parse(delegate));
        let named = digest.filter(|digest| parent.manifest.delegates.contains(digest));
        let why = "the manifest of the parent does not delegate to this one";
        let named = named.ok_or_else(|| refuse("delegate.not_named", why))?;
        let rules = self.in_force.now();
        let found = rules.agents.manifests().iter().find(|manifest| manifest.digest == named);
        let why = "no configured agent has the manifest of the child";
        let found = found.ok_or_else(|| refuse("delegate.not_configured", why))?;
        Ok((Arc::clone(found), Proof::Claimed))
    }
}

/// A run above whose manifest is outside its validity: its grants have lapsed.
pub(super) fn lapsed(parent: Option<&Run>, now: Timestamp) -> Option<Mismatch> {
    let parent = parent?;
    let mut lineage = std::iter::once(parent).chain(parent.above());
    let lapsed = lineage.find(|run| {
        let manifest = &run.manifest;
        now < manifest.not_before || manifest.not_after <= now
    })?;
    let message = format!("the manifest of agent `{}` is outside its validity", lapsed.agent.id);
    Some(identity::undelegated("delegate.expired", message))
}
