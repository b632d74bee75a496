//! What a policy wants masked in arguments, beside what the configuration says.

use super::screen::RULE;
use super::{HitAction, UNAVAILABLE};
use crate::domain::decision::LayerReason;
use crate::domain::guarded::GuardAction;
use crate::firewall::{Class, Hit, How};

pub(super) fn unknown_kind(kind: &str) -> LayerReason {
    let why = format!(
        "the policy wants `{kind}` masked in the arguments, and the firewall knows no such kind"
    );
    LayerReason::effect_refused(RULE, UNAVAILABLE, why)
}

/// Raises what happens to the kinds that the policy wants masked: no configuration and no signed order lets them
/// pass.
pub(super) fn demand<'a>(all: &mut Vec<HitAction<'a>>, hits: &'a [Hit], demanded: &[String]) {
    if demanded.is_empty() {
        return;
    }
    for hit in hits {
        let is_cut = hit.class == Class::Unscanned;
        if !is_cut && !demanded.iter().any(|kind| kind == hit.kind) {
            continue;
        }
        // A mask has no place in any of the texts that it is spread over, nor where the search ended.
        let action = match is_cut || hit.how == How::Joined {
            true => GuardAction::Block,
            false => GuardAction::Redact,
        };
        let known = all.iter_mut().find(|one| std::ptr::eq(one.hit, hit));
        match known {
            Some(one) => {
                one.action = one.action.max(action);
                one.excused.clear();
                one.demanded = true;
            }
            None => all.push(HitAction { hit, action, excused: Vec::new(), demanded: true }),
        }
    }
}
