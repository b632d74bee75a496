//! A held call that is judged again: everything its approvers saw must be unchanged.

use crate::approval::Approval;
use crate::domain::canonical;
use crate::domain::commitment::derived;
use crate::domain::decision::LayerReason;
use crate::domain::digest::{Digest, Salt};

use super::{Criteria, Prepared};
use crate::record::Nonce;

/// The detail of the reason that an approver refused the call.
pub const REFUSED: &str = "approval.refused";

/// The recorded hold of a call, and the approvals since.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resumed {
    /// The salt of the arguments, which gives the call the same digest as when it was held.
    pub salt: Salt,
    /// Drawn when the call was held; the authorisation uses it up.
    pub nonce: Nonce,
    /// The layers of the policy bundle that held it.
    pub layers: Vec<(String, Digest)>,
    /// The manifest of its run.
    pub manifest: Digest,
    /// The definition digest of its tool.
    pub definition: Option<Digest>,
    /// The digest of its effect: [`effect_digest`].
    pub effect: Option<Digest>,
    /// The approvals, at most one per subject.
    pub approvals: Vec<Approval>,
}

/// The digest of a call's effect, keyed with the salt of its arguments. The effect derives from the
/// arguments, so its digest must not outlive them.
pub fn effect_digest(salt: &Salt, prepared: &Prepared) -> Digest {
    let effect = canonical::bytes(&prepared.effect().to_json());
    Digest::from_bytes(derived(salt, &[b"effect:", &effect]))
}

impl Resumed {
    /// The changes since the call was held. Each one voids every approval.
    pub(super) fn void(&self, criteria: &Criteria<'_>, prepared: &Prepared) -> Vec<LayerReason> {
        // A call that an approver refused has no approvals to lose. WHY: it is prepared without its
        // client, whose headers may be part of its effect.
        if criteria.refusals.iter().any(|reason| reason.detail == REFUSED) {
            return Vec::new();
        }
        let layers = criteria.engine.map(|engine| engine.layers()).unwrap_or_default();
        let same_layers = layers.len() == self.layers.len()
            && layers
                .iter()
                .zip(&self.layers)
                .all(|(a, (layer, digest))| a.layer == *layer && a.digest == *digest);
        let definition = prepared.tool().map(|tool| tool.definition);
        let effect = prepared.is_ready().then(|| effect_digest(&self.salt, prepared));
        let checks = [
            ("layers", "the policy", same_layers),
            ("manifest", "the manifest", criteria.agent.manifest == self.manifest),
            ("definition", "the tool", definition == self.definition),
            // A call that could not be prepared carries its own reasons.
            ("effect", "what the call touches", effect.is_none() || effect == self.effect),
        ];
        let changed = checks.into_iter().filter(|(_, _, same)| !same);
        changed.map(|(detail, what, _)| void(detail, what)).collect()
    }

    /// The reason against arguments that the gate masks only since they were held: its approvers signed
    /// them as they were. Those that were masked then have nothing left to mask. WHY apart from the other
    /// changes: in a replay an agent sends again what was masked before it was held.
    #[must_use]
    pub fn masked_since(
        held: Option<&Self>,
        prepared: &Prepared,
        refusals: &[LayerReason],
    ) -> Option<LayerReason> {
        let is_refused = refusals.iter().any(|reason| reason.detail == REFUSED);
        let is_other = held.is_some() && prepared.screening().masked && !is_refused;
        is_other.then(|| void("arguments", "what the gate masks of the arguments"))
    }
}

fn void(detail: &str, what: &str) -> LayerReason {
    let message = format!("{what} is not what it was when the call was held: approvals are void");
    LayerReason::denied("approval", format!("approval.void.{detail}"), message)
}
