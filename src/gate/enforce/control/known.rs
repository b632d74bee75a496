//! Checks that the target of an order exists at this gate. An order with a misspelt name stops
//! nothing, so the report says so.

use crate::control::Target;
use crate::domain::near;
use crate::enforce::Road;

impl Road {
    /// Similar names of this kind, if the target does not exist here; `None` if it does.
    pub(super) fn unknown(&self, target: &Target) -> Option<Vec<String>> {
        let rules = self.in_force.now();
        let (manifests, runs) = (rules.agents.manifests(), self.runs.all());
        let here: Vec<String> = match target {
            // Keys of approvers and break-glass signers are not listed in one place.
            Target::All | Target::Key(_) | Target::Face(_) | Target::Kind(_) => return None,
            Target::Server(_) | Target::Upstream(_) => {
                rules.toolbox.parts(target.recorded()).map(str::to_owned).collect()
            }
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
