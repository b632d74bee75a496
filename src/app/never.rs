//! Grants that no policy can ever let run: the reason, and what to write instead.

use std::sync::Arc;

use serde_json::Value;

use crate::config::Config;
use crate::domain::tier::{Binding, Face, Tier};
use crate::identity::manifest::{Acceptance, Manifest};

/// Every agent that cannot open a run, and every granted tool that no call of its agent can reach.
/// `tools`: the bound tools with the tier of their binding, T3 where it names none; `asked`: those
/// that agents ask in the dialects of models; `approvers`: people who may approve.
pub fn never(
    manifests: &[Arc<Manifest>],
    tools: &[(String, Tier)],
    (asked, approvers): (&[String], usize),
) -> Vec<String> {
    manifests.iter().flat_map(|one| of_agent(one, tools, (asked, approvers))).collect()
}

/// The tools of this configuration that agents ask in the dialects of models.
pub fn asked_in_dialects(config: &Config) -> Vec<String> {
    let speaks = |tool: &&Value| {
        tool.pointer("/model/faces").and_then(Value::as_array).is_some_and(|all| !all.is_empty())
    };
    let models = config.tools.iter().filter(speaks);
    models.filter_map(|tool| Some(tool.get("name")?.as_str()?.to_owned())).collect()
}

fn of_agent(
    manifest: &Manifest,
    tools: &[(String, Tier)],
    (asked, approvers): (&[String], usize),
) -> Vec<String> {
    let (agent, accepts) = (&manifest.name, &manifest.binding);
    let reach = match accepts.reach() {
        None => {
            return vec![format!(
                "agent `{agent}` can never open a run: this build serves none of the faces {}; add \
                 {} to `spec.binding.faces`",
                quoted(&accepts.faces, ", "),
                quoted(Face::ALL.iter().filter(|face| face.best().is_some()), " or ")
            )];
        }
        Some(reach) if reach < accepts.minimum => {
            return vec![format!(
                "agent `{agent}` can never open a run: its manifest accepts none below `{}`, and the \
                 faces {} give `{}` at most; sign `spec.binding: {{minimum: {}}}`",
                accepts.minimum.as_str(),
                quoted(&accepts.faces, ", "),
                reach.as_str(),
                reach.as_str()
            )];
        }
        Some(reach) => reach,
    };
    // A call of any face is observed if a model that the agent asks through the gate asks for it.
    let sees = accepts.faces.contains(&Face::Llm)
        && manifest.tools.iter().any(|grant| asked.iter().any(|name| name == grant.name.as_str()));
    let reach = if sees { Binding::Observed } else { reach };
    let tier = |name: &str| tools.iter().find(|(tool, _)| tool == name).map(|(_, tier)| *tier);
    let mut found = Vec::new();
    for grant in &manifest.tools {
        let Some(bound) = tier(grant.name.as_str()) else { continue };
        if grant.tier.map_or(bound, |granted| granted.max(bound)) == Tier::T3 {
            let against = against(accepts, reach, approvers);
            found.extend(against.map(|why| {
                format!("agent `{agent}` can never run the tool `{}`: {why}", grant.name)
            }));
        }
    }
    found
}

/// The obstacle to every T3 call, and its remedy.
fn against(accepts: &Acceptance, reach: Binding, approvers: usize) -> Option<String> {
    if reach < accepts.tier3 {
        return Some(format!(
            "it is T3, as every tool without `tier` is, and `spec.binding.tier3` of the manifest is `{}` \
             while the faces {} give `{}` at most; give it its tier, grant a model with `model.faces` and \
             let the agent ask it through the gate, or accept that with `spec.binding: {{tier3: {}}}`",
            accepts.tier3.as_str(),
            quoted(&accepts.faces, ", "),
            reach.as_str(),
            reach.as_str()
        ));
    }
    (approvers == 0).then(|| {
        "it is T3, as every tool without `tier` is, so it waits for an approval, and no approvers are configured; \
         name approvers in `approvals.signers`, or give it its tier"
            .to_owned()
    })
}

fn quoted<'a>(faces: impl IntoIterator<Item = &'a Face>, between: &str) -> String {
    let names = faces.into_iter().map(|face| format!("`{}`", face.as_str()));
    names.collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For every acceptance: the check reports a tool as never runnable exactly where no face of
    /// this build meets it.
    #[test]
    fn a_t3_tool_never_runs_exactly_where_no_face_reaches_what_the_manifest_accepts() {
        for bits in 1_u8..16 {
            let open = |i: &usize| bits >> i & 1 == 1;
            let faces: Vec<Face> = (0..4).filter(open).map(|i| Face::ALL[i]).collect();
            for tier3 in Binding::ALL.iter().copied() {
                for approvers in [0, 2] {
                    let faces = faces.iter().copied().collect();
                    let accepts = Acceptance { minimum: Binding::Unclaimed, tier3, faces };
                    let Some(reach) = accepts.reach() else {
                        panic!("each face is served");
                    };
                    let claims = bits & 0b1101 != 0;
                    assert_eq!(reach, if claims { Binding::Claimed } else { Binding::Unclaimed });
                    let runs = approvers > 0
                        && (tier3 == Binding::Unclaimed || tier3 == Binding::Claimed && claims);
                    let why = against(&accepts, reach, approvers);
                    assert_eq!(why.is_none(), runs, "{accepts:?} {approvers} {why:?}");
                }
            }
        }
    }
}
