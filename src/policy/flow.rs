//! The floor of taint: what the gate demands of a call of a labelled run, whatever its policy says.
//!
//! The floor is a pure function of the policy's input and answer, so that an audit and a backtest
//! apply it again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Answer;
use crate::approval::Approval;
use crate::domain::canonical;
use crate::domain::code::Code;
use crate::domain::decision::{LayerReason, Verdict};
use crate::domain::effect::ToolKind;
use crate::domain::json::Json;
use crate::domain::taint::{Egress, Flow, FlowAction, Label, LabelOrigin, TaintSpan};
use crate::domain::tier::Tier;

/// The rule of every reason of the floor.
pub const RULE: &str = "taint";

/// What the configuration says about calls of labelled runs (`taint`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowFloor {
    /// What happens if the labels alone are there.
    pub label_only: FlowAction,
    /// What happens if what brought them is in the call.
    pub trifecta: FlowAction,
}

impl Default for FlowFloor {
    fn default() -> Self {
        Self { label_only: FlowAction::Alert, trifecta: FlowAction::Approve }
    }
}

/// What a run has read when a call of it is judged, and what of that is in the call.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TaintFacts {
    /// The labels, each with the first call that brought it.
    pub labels: BTreeMap<Label, LabelOrigin>,
    /// Passages of the call that are copies.
    pub spans: Vec<TaintSpan>,
    /// Whether copies could be in it that the gate cannot find: it was restarted since.
    pub unknown: bool,
    /// The configuration.
    pub floor: FlowFloor,
    /// In a replay, what the recording says instead.
    pub recorded: Option<TaintInput>,
}

impl TaintFacts {
    /// The facts as a policy sees them, for a tool with this way out.
    pub fn input(&self, egress: Egress) -> TaintInput {
        if let Some(recorded) = &self.recorded {
            return recorded.clone();
        }
        let count = |label: Label| {
            let copies = self.spans.iter().filter(|span| span.label == label).count();
            let copies = u64::try_from(copies).unwrap_or(u64::MAX);
            let may_be = self.unknown && self.labels.contains_key(&label);
            copies.max(u64::from(may_be))
        };
        let influence = InfluenceInput {
            private: count(Label::Private),
            unknown: self.unknown,
            untrusted: count(Label::Untrusted),
        };
        let has = |label: Label| self.labels.contains_key(&label);
        let trifecta = has(Label::Untrusted) && has(Label::Private) && egress == Egress::Outside;
        let is_influenced = influence.private > 0 || influence.untrusted > 0;
        let since = |(label, origin): (&Label, &LabelOrigin)| (*label, origin.call.to_string());
        TaintInput {
            egress,
            floor: self.floor,
            influence,
            labels: self.labels.keys().copied().collect(),
            since: self.labels.iter().map(since).collect(),
            trifecta,
            trifecta_influenced: trifecta && is_influenced,
        }
    }
}

/// `input.taint`: what the run has read, and what of that is in the call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaintInput {
    /// Where the arguments of the tool can get to.
    pub egress: Egress,
    /// What the configuration demands.
    pub floor: FlowFloor,
    /// How many passages of the call are copies.
    pub influence: InfluenceInput,
    /// The labels of the run, sorted.
    pub labels: Vec<Label>,
    /// The first call that brought each.
    pub since: BTreeMap<Label, String>,
    /// Untrusted content and private data were read, and the call leads outside.
    pub trifecta: bool,
    /// And the call holds some of it, or may.
    pub trifecta_influenced: bool,
}

/// `input.taint.influence`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InfluenceInput {
    /// Copies of private data; at least 1 if that is not known.
    pub private: u64,
    /// Whether there may be more copies: the gate was restarted since.
    pub unknown: bool,
    /// Copies of untrusted content; at least 1 if that is not known.
    pub untrusted: u64,
}

impl TaintInput {
    /// That of a recorded call whose input had none.
    #[must_use]
    pub const fn none() -> Self {
        let off = FlowAction::Off;
        Self {
            egress: Egress::Inside,
            floor: FlowFloor { label_only: off, trifecta: off },
            influence: InfluenceInput { private: 0, unknown: false, untrusted: 0 },
            labels: Vec::new(),
            since: BTreeMap::new(),
            trifecta: false,
            trifecta_influenced: false,
        }
    }

    /// Writes the members of `input.taint`.
    pub(crate) fn write(&self, out: &mut canonical::Members) {
        out.text("egress", self.egress.as_str());
        out.object("floor", |out| {
            out.text("label_only", self.floor.label_only.as_str());
            out.text("trifecta", self.floor.trifecta.as_str());
        });
        out.object("influence", |out| {
            out.put("private", &Json::from(self.influence.private));
            out.put("unknown", &Json::from(self.influence.unknown));
            out.put("untrusted", &Json::from(self.influence.untrusted));
        });
        out.put("labels", &Json::of(&self.labels));
        out.object("since", |out| {
            for (label, call) in &self.since {
                out.text(label.as_str(), call);
            }
        });
        out.put("trifecta", &Json::from(self.trifecta));
        out.put("trifecta_influenced", &Json::from(self.trifecta_influenced));
    }

    /// What the floor does about a call, and why; `None`: there is nothing to look at. `irreversible`: see
    /// [`is_irreversible`].
    #[must_use]
    pub fn demand(&self, irreversible: bool) -> Option<(Flow, FlowAction)> {
        let by_copy = if self.trifecta_influenced { self.floor.trifecta } else { FlowAction::Off };
        let cannot_be_undone = irreversible && self.labels.contains(&Label::Untrusted);
        let by_label = if self.trifecta { self.floor.label_only } else { FlowAction::Off };
        // WHY whatever the configuration says: such a call cannot be taken back.
        let least = if cannot_be_undone { FlowAction::Approve } else { FlowAction::Off };
        let by_label = by_label.max(least);
        // The strictest counts, and a copy says more than labels alone.
        let flow = if by_copy >= by_label { Flow::Trifecta } else { Flow::Label };
        let action = by_copy.max(by_label);
        (action > FlowAction::Off).then_some((flow, action))
    }
}

/// Whether the gate would run something that cannot be taken back. A tool that the agent runs itself has
/// the tier T3 because nothing is known of it, and the gate runs nothing.
#[must_use]
pub fn is_irreversible(tier: Tier, kind: &str) -> bool {
    tier == Tier::T3 && kind != ToolKind::Client.as_str()
}

/// Whether an approver other than the one who wrote the arguments approved the call.
#[must_use]
pub fn is_released(proposer: Option<&str>, approvals: &[Approval]) -> bool {
    let is_other = |one: &Approval| {
        proposer.is_none_or(|proposer| !one.subject.eq_ignore_ascii_case(proposer))
    };
    approvals.iter().any(is_other)
}

/// The policy's answer under the floor. `released`: an approver other than the one who wrote the
/// arguments approved the call, or an order of break-glass covers it.
pub fn floored(
    answer: Answer,
    taint: Option<&TaintInput>,
    irreversible: bool,
    released: bool,
) -> Answer {
    let demand = taint.and_then(|taint| taint.demand(irreversible));
    let Some((flow, action)) = demand else { return answer };
    let verdict = match action {
        FlowAction::Off | FlowAction::Alert => return answer,
        FlowAction::Approve if released => return answer,
        FlowAction::Approve => Verdict::RequireApproval,
        FlowAction::Deny => Verdict::Deny,
    };
    let refused = answer.verdict == Verdict::Deny && answer.enforced;
    let waits = answer.verdict == Verdict::RequireApproval && answer.enforced;
    if refused {
        return answer;
    }
    let code = match verdict {
        Verdict::Deny => Code::EffectRefused,
        Verdict::Allow | Verdict::RequireApproval => Code::CallHeld,
    };
    let reason = LayerReason {
        code,
        detail: flow.as_str().into(),
        message: flow.message().into(),
        rule: RULE.into(),
    };
    // What the policy waits for anyway stays the first reason.
    let mut reasons = match (waits, verdict) {
        (true, Verdict::RequireApproval) => answer.reasons,
        (true, Verdict::Allow | Verdict::Deny) | (false, _) => Vec::new(),
    };
    // A call that waits has the duties it runs with: a missing reason or a used-up rate denies it now.
    let obligations = match verdict {
        Verdict::RequireApproval => answer.obligations,
        Verdict::Allow | Verdict::Deny => Vec::new(),
    };
    reasons.push(reason);
    Answer { verdict, reasons, obligations, enforced: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::decision::PolicyObligation;

    fn origin() -> LabelOrigin {
        LabelOrigin {
            run: crate::domain::id::RunId::parse("0192a000-0000-7000-8000-000000000001").unwrap(),
            call: crate::domain::id::CallId::parse("c-1").unwrap(),
        }
    }

    fn facts(labels: &[Label], unknown: bool) -> TaintFacts {
        let labels = labels.iter().map(|label| (*label, origin())).collect();
        TaintFacts { labels, unknown, ..TaintFacts::default() }
    }

    fn allow() -> Answer {
        Answer {
            verdict: Verdict::Allow,
            reasons: Vec::new(),
            obligations: Vec::new(),
            enforced: true,
        }
    }

    #[test]
    fn both_labels_and_a_copy_that_leaves_wait_for_an_approver() {
        let both = [Label::Private, Label::Untrusted];
        let outside = facts(&both, true).input(Egress::Outside);
        assert_eq!(outside.demand(false), Some((Flow::Trifecta, FlowAction::Approve)));
        let held = floored(allow(), Some(&outside), false, false);
        assert_eq!(held.verdict, Verdict::RequireApproval);
        assert_eq!(held.reasons[0].detail, "flow.trifecta");
        assert_eq!(floored(allow(), Some(&outside), false, true), allow(), "approved");
        let inside = facts(&both, true).input(Egress::Inside);
        assert_eq!(inside.demand(false), None, "nothing leaves");
        for one in both {
            assert_eq!(facts(&[one], true).input(Egress::Outside).demand(false), None);
        }
    }

    #[test]
    fn labels_alone_are_recorded_and_the_call_runs() {
        let both = facts(&[Label::Private, Label::Untrusted], false).input(Egress::Outside);
        assert_eq!(both.demand(false), Some((Flow::Label, FlowAction::Alert)));
        assert_eq!(floored(allow(), Some(&both), false, false), allow());
    }

    #[test]
    fn what_cannot_be_undone_waits_in_a_run_that_read_untrusted_content() {
        let mut facts = facts(&[Label::Untrusted], false);
        facts.floor = FlowFloor { label_only: FlowAction::Off, trifecta: FlowAction::Off };
        let input = facts.input(Egress::Inside);
        assert_eq!(input.demand(true), Some((Flow::Label, FlowAction::Approve)));
        assert_eq!(input.demand(false), None);
        let observed = Answer { verdict: Verdict::Deny, enforced: false, ..allow() };
        let held = floored(observed, Some(&input), true, false);
        assert_eq!((held.verdict, held.enforced), (Verdict::RequireApproval, true));
    }

    #[test]
    fn the_strictest_of_copy_labels_and_tier_counts() {
        let both = [Label::Private, Label::Untrusted];
        let demand = |trifecta, label_only, irreversible| {
            let mut facts = facts(&both, true);
            facts.floor = FlowFloor { label_only, trifecta };
            facts.input(Egress::Outside).demand(irreversible)
        };
        use FlowAction::{Alert, Approve, Deny, Off};
        assert_eq!(demand(Alert, Alert, true), Some((Flow::Label, Approve)), "T3 always waits");
        assert_eq!(demand(Approve, Deny, false), Some((Flow::Label, Deny)));
        assert_eq!(demand(Deny, Alert, true), Some((Flow::Trifecta, Deny)));
        assert_eq!(demand(Off, Off, false), None);
    }

    #[test]
    fn a_call_that_waits_keeps_the_duties_it_runs_with() {
        let input = facts(&[Label::Private, Label::Untrusted], true).input(Egress::Outside);
        let duties = vec![PolicyObligation::Justify];
        let held =
            floored(Answer { obligations: duties.clone(), ..allow() }, Some(&input), false, false);
        assert_eq!((held.verdict, held.obligations), (Verdict::RequireApproval, duties));
    }

    #[test]
    fn a_tool_that_the_agent_runs_itself_is_not_taken_for_an_irreversible_one() {
        assert!(is_irreversible(Tier::T3, "http") && !is_irreversible(Tier::T2, "http"));
        assert!(!is_irreversible(Tier::T3, "client"));
    }

    #[test]
    fn the_floor_is_never_milder_than_the_policy() {
        let input = facts(&[Label::Private, Label::Untrusted], true).input(Egress::Outside);
        let denied =
            Answer { verdict: Verdict::Deny, reasons: vec![LayerReason::no_allow()], ..allow() };
        assert_eq!(floored(denied.clone(), Some(&input), true, false), denied);
        assert_eq!(floored(denied.clone(), Some(&input), true, true), denied);
        let waits = Answer { verdict: Verdict::RequireApproval, ..denied };
        let both = floored(waits, Some(&input), false, false);
        assert_eq!(both.verdict, Verdict::RequireApproval);
        assert_eq!(both.reasons.len(), 2);
    }
}
