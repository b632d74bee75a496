//! The outcome of a decision, and how two outcomes differ.

use crate::domain::closed::texts;
use crate::domain::code::Code;
use crate::domain::decision::{Course, Verdict};
use crate::domain::json::Json;
use crate::policy::Answer;
use crate::record::call::{Obligation, Reason};
use crate::record::decided;
use crate::record::{Entry, Kind};

/// The recorded or hypothetical decision about one input.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// What happens to the call.
    pub course: Course,
    /// The verdict; differs from the course where layers only observe.
    pub verdict: Verdict,
    /// As entries record them.
    pub reasons: Vec<Reason>,
    /// As entries record them.
    pub obligations: Vec<Obligation>,
    /// An error in the engine, with file and line; such an outcome is a denial.
    pub fault: Option<String>,
}

impl Outcome {
    /// The decision that the gate recorded.
    #[must_use]
    pub fn recorded(entry: &Entry) -> Option<Self> {
        let draft = &entry.draft;
        let courses = [
            (Kind::CallAuthorized, Course::Run),
            (Kind::CallHeld, Course::Wait),
            (Kind::CallDenied, Course::Refuse),
        ];
        let course = courses
            .into_iter()
            .find_map(|(kind, course)| (draft.kind() == kind).then_some(course))?;
        let decision = draft.body.decision()?;
        let (reasons, obligations) = (decision.reasons.to_vec(), decision.obligations.to_vec());
        let error = |reason: &&Reason| reason.code == Code::PolicyError.as_str();
        let fault = reasons.first().filter(error);
        let fault = fault.map(|reason| format!("{}: {}", reason.detail, reason.message));
        Some(Self { course, verdict: draft.verdict?, reasons, obligations, fault })
    }

    /// The engine's current decision. `fault`: the engine failed, and `answer` is the resulting
    /// denial.
    pub fn now(answer: &Answer, fault: Option<String>) -> Self {
        let course = match (answer.verdict, answer.enforced) {
            (Verdict::Allow, _) | (_, false) => Course::Run,
            (Verdict::Deny, true) => Course::Refuse,
            (Verdict::RequireApproval, true) => Course::Wait,
        };
        Self {
            course,
            verdict: answer.verdict,
            reasons: decided::reasons(&answer.reasons).to_vec(),
            obligations: decided::obligations(&answer.obligations).to_vec(),
            fault,
        }
    }

    /// The rule that decided, with file and line if known, and the kind of decision.
    pub fn label(&self) -> String {
        if let Some(fault) = &self.fault {
            return format!("engine fault: {fault}");
        }
        let open = if self.course == Course::Run && self.verdict != Verdict::Allow {
            " (not enforced)"
        } else {
            ""
        };
        let first = self.reasons.first();
        let rule = first.map_or("", |reason| &reason.rule);
        match rule.split_once(' ') {
            None if rule.is_empty() => "allow".to_owned(),
            // A rule without a line has a code that identifies its message.
            None => format!("{rule} {}{open}", first.map_or("", |reason| &reason.detail)),
            Some(_) => format!("{rule}{open}"),
        }
    }

    /// The reasons without their lines: a rule that only moved is unchanged.
    fn texts(&self) -> Vec<[&str; 4]> {
        let mut texts = Vec::with_capacity(self.reasons.len());
        for reason in &self.reasons {
            let rule = reason.rule.split(' ').next().unwrap_or_default();
            texts.push([&*reason.code, &*reason.detail, &*reason.message, rule]);
        }
        texts
    }

    /// As a list of changes shows it.
    pub fn to_json(&self) -> Json {
        let course = match self.course {
            Course::Run => "allow",
            Course::Refuse => "deny",
            Course::Wait => "hold",
        };
        let mut members = vec![
            ("course", Json::from(course)),
            ("verdict", Json::from(self.verdict.as_str())),
            ("rule", Json::from(self.label())),
            ("reasons", Json::of(&self.reasons)),
            ("obligations", Json::of(&self.obligations)),
        ];
        members.extend(self.fault.as_ref().map(|fault| ("fault", Json::from(fault.as_str()))));
        Json::object(members)
    }
}

texts! {
    /// How a decision changes, in the order of a report: changes that permit more come first.
    pub enum DecisionChange {
        /// A refused call would run.
        DenyToAllow = "deny_to_allow",
        /// A held call would run.
        HoldToAllow = "hold_to_allow",
        /// A call that ran would be refused.
        AllowToDeny = "allow_to_deny",
        /// A held call would be refused.
        HoldToDeny = "hold_to_deny",
        /// A call that ran would be held.
        AllowToHold = "allow_to_hold",
        /// A refused call would be held.
        DenyToHold = "deny_to_hold",
        /// The same course, with other obligations.
        Obligations = "obligations",
        /// The same course, for other reasons.
        Reasons = "reasons",
    }
}

impl DecisionChange {
    /// Whether the decision itself changes: everything except other reasons for the same one.
    #[must_use]
    pub fn flips(self) -> bool {
        self != Self::Reasons
    }

    /// How `new` differs from `old`; `None` if it is the same.
    #[must_use]
    pub fn between(old: &Outcome, new: &Outcome) -> Option<Self> {
        match (old.course, new.course) {
            (Course::Refuse, Course::Run) => Some(Self::DenyToAllow),
            (Course::Wait, Course::Run) => Some(Self::HoldToAllow),
            (Course::Run, Course::Refuse) => Some(Self::AllowToDeny),
            (Course::Wait, Course::Refuse) => Some(Self::HoldToDeny),
            (Course::Run, Course::Wait) => Some(Self::AllowToHold),
            (Course::Refuse, Course::Wait) => Some(Self::DenyToHold),
            (Course::Run, Course::Run)
            | (Course::Refuse, Course::Refuse)
            | (Course::Wait, Course::Wait) => {
                if old.obligations != new.obligations {
                    Some(Self::Obligations)
                } else if old.verdict != new.verdict || old.texts() != new.texts() {
                    Some(Self::Reasons)
                } else {
                    None
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(course: Course, rule: &str, message: &str) -> Outcome {
        let (code, detail) = ("policy.denied".into(), "d".into());
        let reason = Reason { code, detail, message: message.into(), rule: rule.into() };
        Outcome {
            course,
            verdict: Verdict::Deny,
            reasons: vec![reason],
            obligations: Vec::new(),
            fault: None,
        }
    }

    #[test]
    fn a_moved_rule_is_no_decision_change_but_another_message_is_one() {
        let old = outcome(Course::Refuse, "wicketgate.agent.deny agent/a.rego:3", "no");
        let moved = outcome(Course::Refuse, "wicketgate.agent.deny agent/b.rego:9", "no");
        assert_eq!(DecisionChange::between(&old, &moved), None);
        let other = outcome(Course::Refuse, "wicketgate.agent.deny agent/a.rego:3", "never");
        assert_eq!(DecisionChange::between(&old, &other), Some(DecisionChange::Reasons));
        let ran = outcome(Course::Run, "wicketgate.agent.deny agent/a.rego:3", "no");
        assert_eq!(DecisionChange::between(&old, &ran), Some(DecisionChange::DenyToAllow));
        assert!(ran.label().ends_with("(not enforced)"), "{}", ran.label());
    }

    #[test]
    fn what_is_no_longer_redacted_is_a_flip() {
        let mut old = outcome(Course::Run, "", "");
        let new = old.clone();
        old.obligations = vec![Obligation { r#type: "redact".into(), ..Obligation::default() }];
        let change = DecisionChange::between(&old, &new).unwrap();
        assert_eq!(change, DecisionChange::Obligations);
        assert!(change.flips() && !DecisionChange::Reasons.flips());
    }

    #[test]
    fn every_change_is_in_the_list_in_order() {
        assert!(DecisionChange::ALL.is_sorted());
        let names: std::collections::BTreeSet<_> =
            DecisionChange::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(names.len(), DecisionChange::ALL.len());
    }
}
