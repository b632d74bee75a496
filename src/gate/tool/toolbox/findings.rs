//! The firewall's findings in a call, as a policy sees them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::catalog::web_url;
use crate::domain::call::ToolCall;
use crate::domain::effect::{Effect, ToolKind};
use crate::domain::facts::{BYPASSED, Finding};
use crate::domain::json::Json;
use crate::firewall;
use crate::judge::guarding::Screening;
use crate::record::conversation::list_member;
use crate::tool::guard;

/// The firewall's findings in the arguments, and in the decoded form of a URL among them, because
/// the receiver reads that form. A kind in a place is one finding: that of the recording if the call is
/// made again, or else that of the arguments, which an audit finds again.
pub(super) fn findings(
    call: &ToolCall,
    screening: &mut Screening,
    (effect, kind): (&Effect, &str),
) -> Vec<Finding> {
    let args = call.args();
    let recorded = match effect {
        Effect::Recorded { findings, .. } => findings.clone(),
        Effect::None
        | Effect::File { .. }
        | Effect::Http { .. }
        | Effect::Command { .. }
        | Effect::Model { .. }
        | Effect::Mcp { .. }
        | Effect::Sql(_)
        | Effect::Grpc(_)
        | Effect::Client { .. } => Vec::new(),
    };
    // The guard has searched the arguments, unless it masked them.
    let seen = screening.seen.take();
    let seen = seen.unwrap_or_else(|| guard::marked(&firewall::scan(args), &screening.marks, args));
    let bypassed = call.dialect().into_iter().flat_map(|request| &request.facts.bypassed);
    let list = list_member(args);
    let bypassed = bypassed.map(|index| Finding::new(BYPASSED, format!("/{list}/{index}")));
    let of_effect = firewall::findings(&decoded(effect, kind)).into_iter();
    let of_effect = of_effect.map(|found| Finding { path: "/url".into(), ..found });
    let mut all = BTreeMap::new();
    for one in recorded.into_iter().chain(seen).chain(bypassed).chain(of_effect) {
        match all.entry((one.kind.clone(), one.path.clone())) {
            Entry::Vacant(place) => {
                place.insert(one);
            }
            // An earlier recording does not tell how sure a finding is.
            Entry::Occupied(mut known) if known.get().confidence.is_none() => {
                let known = known.get_mut();
                (known.confidence, known.how) = (one.confidence, one.how);
            }
            Entry::Occupied(_) => {}
        }
    }
    all.into_values().collect()
}

/// The decoded form of a URL among the arguments: its path, and each name with its value.
pub(super) fn decoded(effect: &Effect, kind: &str) -> Json {
    let Effect::Http { path, query, .. } = effect else { return Json::Null };
    if kind != ToolKind::Fetch.as_str() {
        return Json::Null;
    }
    let pairs = query.iter().map(|(name, value)| format!("{name}={value}"));
    pairs.chain([web_url::unescaped(path)]).map(Json::from).collect::<Vec<_>>().into()
}
