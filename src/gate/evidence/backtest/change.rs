//! What became of a call under a decision, and how two of them differ.

use crate::domain::code::Code;
use crate::domain::decision::{Course, Verdict};
use crate::domain::json::Json;
use crate::policy::Answer;
use crate::record::call::{Obligation, Reason};
use crate::record::decided;
use crate::record::{Entry, Kind};

/// What was, or would be, decided about one input.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// What follows.
    pub course: Course,
    /// The verdict; differs from the course while layers only observe.
    pub verdict: Verdict,
    /// As entries show them.
    pub reasons: Vec<Reason>,
    /// As entries show them.
    pub obligations: Vec<Obligation>,
    /// What went wrong in the engine, with file and line; such an outcome is a denial.
    pub fault: Option<String>,
}

impl Outcome {
    /// What the gate wrote down.
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

    /// What the engine says now. `fault`: it had no answer, and this is the denial that follows.
    #[must_use]
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

    /// The rule that decided, with file and line where they are known, and what kind of decision it was.
    #[must_use]
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
            // What has no line has a code that says which of its words it was.
            None => format!("{rule} {}{open}", first.map_or("", |reason| &reason.detail)),
            Some(_) => format!("{rule}{open}"),
        }
    }

    /// The reasons without the lines they stand in: a rule that only moved says the same.
    fn words(&self) -> Vec<[&str; 4]> {
        let mut words = Vec::with_capacity(self.reasons.len());
        for reason in &self.reasons {
            let rule = reason.rule.split(' ').next().unwrap_or_default();
            words.push([&*reason.code, &*reason.detail, &*reason.message, rule]);
        }
        words
    }

    /// As a list of changes shows it.
    #[must_use]
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

/// How a decision changes. In the order in which a report shows them: what opens first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DecisionChange {
    /// What was refused would run.
    DenyToAllow,
    /// What waited for a person would run.
    HoldToAllow,
    /// What ran would be refused.
    AllowToDeny,
    /// What waited for a person would be refused.
    HoldToDeny,
    /// What ran would wait for a person.
    AllowToHold,
    /// What was refused would wait for a person.
    DenyToHold,
    /// The same happens, with other obligations.
    Obligations,
    /// The same happens, for other reasons.
    Reasons,
}

impl DecisionChange {
    /// Every change, in order.
    pub const ALL: [Self; 8] = [
        Self::DenyToAllow,
        Self::HoldToAllow,
        Self::AllowToDeny,
        Self::HoldToDeny,
        Self::AllowToHold,
        Self::DenyToHold,
        Self::Obligations,
        Self::Reasons,
    ];

    /// Its name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DenyToAllow => "deny_to_allow",
            Self::HoldToAllow => "hold_to_allow",
            Self::AllowToDeny => "allow_to_deny",
            Self::HoldToDeny => "hold_to_deny",
            Self::AllowToHold => "allow_to_hold",
            Self::DenyToHold => "deny_to_hold",
            Self::Obligations => "obligations",
            Self::Reasons => "reasons",
        }
    }

    /// Whether something else happens than did: everything but other words for the same.
    #[must_use]
    pub fn flips(self) -> bool {
        self != Self::Reasons
    }

    /// How `new` differs from `old`; `None` if it does not.
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
                } else if old.verdict != new.verdict || old.words() != new.words() {
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
    fn a_rule_that_only_moved_says_the_same_and_one_with_other_words_does_not() {
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
        old.obligations =
            vec![Obligation { bytes: None, kinds: None, opaque: None, r#type: "redact".into() }];
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
