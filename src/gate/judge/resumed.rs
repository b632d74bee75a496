//! A call that was held and is judged again: what its approvers saw must still be so.

use crate::approval::Approval;
use crate::domain::canonical;
use crate::domain::code::Code;
use crate::domain::commitment::derived;
use crate::domain::decision::LayerReason;
use crate::domain::digest::{Digest, Salt};

use super::{Criteria, Prepared};
use crate::record::Nonce;

/// The hold of a call, as it stands on the books, and who approved it since.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resumed {
    /// The salt of the arguments: with it the call has the same digest as when it was held.
    pub salt: Salt,
    /// Drawn when it was held; used up by the authorisation.
    pub nonce: Nonce,
    /// The layers of the policy bundle that held it.
    pub layers: Vec<(String, Digest)>,
    /// The manifest of its run.
    pub manifest: Digest,
    /// What its tool was.
    pub definition: Option<Digest>,
    /// What it would have touched: [`effect_digest`].
    pub effect: Option<Digest>,
    /// Who approved it, each subject once.
    pub approvals: Vec<Approval>,
}

/// What a call touches, keyed with the salt of its arguments: it is made of them, so its digest must not
/// outlive them.
#[must_use]
pub fn effect_digest(salt: &Salt, prepared: &Prepared) -> Digest {
    let effect = canonical::bytes(&prepared.effect().to_json());
    Digest::from_bytes(derived(salt, &[b"effect:", &effect]))
}

impl Resumed {
    /// What has changed since the call was held. Each makes every approval void.
    pub(super) fn void(&self, bench: &Criteria<'_>, prepared: &Prepared) -> Vec<LayerReason> {
        let layers = bench.engine.map(|engine| engine.layers()).unwrap_or_default();
        let same_layers = layers.len() == self.layers.len()
            && layers
                .iter()
                .zip(&self.layers)
                .all(|(a, (layer, digest))| a.layer == *layer && a.digest == *digest);
        let definition = prepared.tool().map(|tool| tool.definition);
        let effect = prepared.is_ready().then(|| effect_digest(&self.salt, prepared));
        let checks = [
            ("layers", "the policy", same_layers),
            ("manifest", "the manifest", bench.agent.manifest == self.manifest),
            ("definition", "the tool", definition == self.definition),
            // What could not be prepared says itself why.
            ("effect", "what the call touches", effect.is_none() || effect == self.effect),
        ];
        let changed = checks.into_iter().filter(|(_, _, same)| !same);
        changed.map(|(detail, what, _)| void(detail, what)).collect()
    }
}

fn void(detail: &str, what: &str) -> LayerReason {
    LayerReason {
        code: Code::PolicyDenied,
        detail: format!("approval.void.{detail}"),
        message: format!("{what} is not what it was when the call was held: approvals are void"),
        rule: "approval".into(),
    }
}
