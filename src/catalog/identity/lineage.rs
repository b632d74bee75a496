//! The tools that a run may use: those of its manifest, and for a delegated run only those that
//! every manifest above it grants too.

use std::sync::Arc;

use super::manifest::{Grant, Manifest};
use crate::domain::id::ToolName;

/// The tools that exist for one run.
#[derive(Clone, Debug)]
pub struct Grants {
    manifest: Arc<Manifest>,
    /// Of a delegated run: the intersection along its lineage.
    narrowed: Option<NarrowedGrants>,
}

/// The grants of a manifest that every manifest above it has too, in the order of the manifest.
#[derive(Clone, Debug)]
struct NarrowedGrants {
    tools: Vec<Grant>,
    /// Of tools that the agent runs itself.
    clients: Vec<Grant>,
}

impl Grants {
    /// All that this manifest grants.
    pub const fn of(manifest: Arc<Manifest>) -> Self {
        Self { manifest, narrowed: None }
    }

    /// What this manifest grants below a run that may use `self`: never more than that run.
    pub fn below(&self, manifest: Arc<Manifest>) -> Self {
        let tools = manifest.tools.iter().filter_map(|own| both(own, self.get(&own.name)?));
        let clients = manifest.client_tools.iter().filter_map(|tool| {
            both(&manifest.client_grant(&tool.name)?, &self.client(&tool.name)?)
        });
        let narrowed = NarrowedGrants { tools: tools.collect(), clients: clients.collect() };
        Self { manifest, narrowed: Some(narrowed) }
    }

    /// Every grant, in the order of the manifest.
    pub fn all(&self) -> &[Grant] {
        self.narrowed.as_ref().map_or(&self.manifest.tools, |narrowed| &narrowed.tools)
    }

    /// The grant of this tool, if it exists for the run.
    pub fn get(&self, tool: &ToolName) -> Option<&Grant> {
        self.all().iter().find(|grant| &grant.name == tool)
    }

    /// The grant of the tool of this name that the agent runs itself (`spec.client_tools`), if it
    /// exists for the run.
    pub fn client(&self, name: &str) -> Option<Grant> {
        let own = self.manifest.client_grant(name)?;
        match &self.narrowed {
            None => Some(own),
            Some(narrowed) => narrowed.clients.iter().find(|grant| grant.name == own.name).cloned(),
        }
    }
}

/// The common part of two grants; `None`, if no definition satisfies both.
fn both(own: &Grant, above: &Grant) -> Option<Grant> {
    let pinned = [own.definition, above.definition];
    if let [Some(own), Some(above)] = pinned
        && own != above
    {
        return None;
    }
    let mut signers = own.signers.clone();
    signers.extend(above.signers.iter().filter(|key| !own.signers.contains(key)).cloned());
    Some(Grant {
        name: own.name.clone(),
        tier: own.tier.max(above.tier),
        definition: own.definition.or(above.definition),
        server: own.server.clone().or_else(|| above.server.clone()),
        signers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::digest::Digest;
    use crate::domain::tier::Tier;

    fn grant(name: &str) -> Grant {
        Grant::of(ToolName::parse(name).unwrap())
    }

    #[test]
    fn the_greater_tier_every_signer_and_the_one_pinned_definition_count() {
        let pin = Some(Digest::of(&[b"d"]));
        let own = Grant { tier: Some(Tier::T1), signers: vec!["a".into()], ..grant("t") };
        let above = Grant {
            tier: Some(Tier::T2),
            definition: pin,
            signers: vec!["a".into(), "b".into()],
            ..grant("t")
        };
        for (one, other) in [(&own, &above), (&above, &own)] {
            let merged = both(one, other).unwrap();
            assert_eq!((merged.tier, merged.definition), (Some(Tier::T2), pin));
            assert_eq!(merged.signers, ["a", "b"]);
        }
        assert_eq!(both(&grant("t"), &grant("t")), Some(grant("t")));
    }

    #[test]
    fn two_different_pins_leave_nothing() {
        let pin = |text: &[u8]| Grant { definition: Some(Digest::of(&[text])), ..grant("t") };
        assert_eq!(both(&pin(b"a"), &pin(b"b")), None);
    }
}
