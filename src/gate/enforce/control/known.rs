//! Whether what an order is about exists here: a slip in a name stops nothing, and that is told.

use crate::control::Target;
use crate::domain::near;
use crate::enforce::Road;

impl Road {
    /// Names of this kind that are near, if there is none like it here; `None` if it is here.
    pub(super) fn unknown(&self, target: &Target) -> Option<Vec<String>> {
        let rules = self.in_force.now();
        let (manifests, runs) = (rules.agents.manifests(), self.runs.all());
        let here: Vec<String> = match target {
            // Keys of approvers and of break-glass are not known in one place.
            Target::All | Target::Key(_) => return None,
            Target::Agent(_) => {
                let running = runs.iter().map(|run| run.manifest.name.clone());
                manifests.iter().map(|manifest| manifest.name.clone()).chain(running).collect()
            }
            Target::Run(_) => runs.iter().map(|run| run.id.to_string()).collect(),
            Target::Tool(_) => {
                let granted = manifests.iter().flat_map(|manifest| &manifest.tools);
                let granted = granted.map(|grant| grant.name.to_string());
                rules.toolbox.names().map(ToString::to_string).chain(granted).collect()
            }
            Target::Manifest(_) => {
                let running = runs.iter().map(|run| run.manifest.digest.prefixed());
                manifests.iter().map(|manifest| manifest.digest.prefixed()).chain(running).collect()
            }
        };
        let name = target.name();
        (!here.contains(&name)).then(|| near::names(&name, here))
    }
}
