//! What became of a call under a decision, and how two of them differ.

use crate::domain::decision::{Course, Verdict};
use crate::domain::json::Json;
use crate::ledger::drafts;
use crate::ledger::entry::{Entry, Kind};
use crate::policy::Answer;

/// What was, or would be, decided about one input.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// What follows.
    pub course: Course,
    /// The verdict; differs from the course while layers only observe.
    pub verdict: Verdict,
    /// As entries show them.
    pub reasons: Json,
    /// As entries show them.
    pub obligations: Json,
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
            .find_map(|(kind, course)| (draft.kind == kind).then_some(course))?;
        let list = |name| draft.data.get(name).cloned().unwrap_or(Json::Array(Vec::new()));
        let (reasons, obligations) = (list("reasons"), list("obligations"));
        let mut outcome =
            Self { course, verdict: draft.verdict?, reasons, obligations, fault: None };
        if outcome.first("code") == "policy.error" {
            outcome.fault =
                Some(format!("{}: {}", outcome.first("detail"), outcome.first("message")));
        }
        Some(outcome)
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
            reasons: drafts::reasons(&answer.reasons),
            obligations: drafts::obligations(&answer.obligations),
            fault,
        }
    }

    fn first(&self, name: &str) -> &str {
        let reason = self.reasons.as_array().and_then(<[Json]>::first);
        reason.and_then(|reason| reason.get(name)).and_then(Json::as_str).unwrap_or_default()
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
        let rule = self.first("rule");
        match rule.split_once(' ') {
            None if rule.is_empty() => "allow".to_owned(),
            // What has no line has a code that says which of its words it was.
            None => format!("{rule} {}{open}", self.first("detail")),
            Some(_) => format!("{rule}{open}"),
        }
    }

    /// The reasons without the lines they stand in: a rule that only moved says the same.
    fn words(&self) -> Vec<[&str; 4]> {
        let list = self.reasons.as_array().unwrap_or_default();
        let mut words = Vec::with_capacity(list.len());
        for reason in list {
            let text = |name| reason.get(name).and_then(Json::as_str).unwrap_or_default();
            let rule = text("rule").split(' ').next().unwrap_or_default();
            words.push([text("code"), text("detail"), text("message"), rule]);
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
            ("reasons", self.reasons.clone()),
            ("obligations", self.obligations.clone()),
        ];
        members.extend(self.fault.as_ref().map(|fault| ("fault", Json::from(fault.as_str()))));
        Json::object(members)
    }
}

/// How a decision changes. In the order in which a report shows them: what opens first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Change {
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

impl Change {
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
    use crate::domain::json::Limits;

    fn outcome(course: Course, rule: &str, message: &str) -> Outcome {
        let reason = format!(
            r#"[{{"code":"policy.denied","detail":"d","message":"{message}","rule":"{rule}"}}]"#
        );
        Outcome {
            course,
            verdict: Verdict::Deny,
            reasons: Json::parse(reason.as_bytes(), &Limits::FILE).unwrap(),
            obligations: Json::Array(Vec::new()),
            fault: None,
        }
    }

    #[test]
    fn a_rule_that_only_moved_says_the_same_and_one_with_other_words_does_not() {
        let old = outcome(Course::Refuse, "wicketgate.agent.deny agent/a.rego:3", "no");
        let moved = outcome(Course::Refuse, "wicketgate.agent.deny agent/b.rego:9", "no");
        assert_eq!(Change::between(&old, &moved), None);
        let other = outcome(Course::Refuse, "wicketgate.agent.deny agent/a.rego:3", "never");
        assert_eq!(Change::between(&old, &other), Some(Change::Reasons));
        let ran = outcome(Course::Run, "wicketgate.agent.deny agent/a.rego:3", "no");
        assert_eq!(Change::between(&old, &ran), Some(Change::DenyToAllow));
        assert!(ran.label().ends_with("(not enforced)"), "{}", ran.label());
    }

    #[test]
    fn what_is_no_longer_redacted_is_a_flip() {
        let mut old = outcome(Course::Run, "", "");
        let new = old.clone();
        old.obligations = Json::from(vec![Json::from("redact")]);
        let change = Change::between(&old, &new).unwrap();
        assert_eq!(change, Change::Obligations);
        assert!(change.flips() && !Change::Reasons.flips());
    }

    #[test]
    fn every_change_is_in_the_list_in_order() {
        assert!(Change::ALL.is_sorted());
        let names: std::collections::BTreeSet<_> = Change::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(names.len(), Change::ALL.len());
    }
}
