//! Mutates an input to test the rules: drops, nulls, retypes and empties each place of each input.
//! No such mutant may be allowed where the input itself was not.

use std::collections::BTreeMap;

use super::PolicyEngine;
use super::lint::schema;
use crate::domain::canonical;
use crate::domain::decision::Verdict;
use crate::domain::json::Json;

/// Places of one input that are tried; an input with more is tried at the first of them.
const PLACES_MAX: usize = 4096;

crate::domain::closed::texts! {
    /// What was done to a place.
    pub enum Change {
        /// The member is removed.
        Drop = "drop",
        /// It is `null`.
        Null = "null",
        /// It is a value of another type.
        Retype = "retype",
        /// It is the empty value of its type.
        Empty = "empty",
    }
}

/// A mutant that is allowed where its input was not.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NewAllow {
    /// `input.args.amount`, `input.findings[0].kind`.
    pub place: String,
    /// What was done there.
    pub change: Change,
    /// The rules that denied the input, and do not deny the mutant.
    pub rules: Vec<String>,
    /// Whether a gate could make the mutant: it is still of the input's schema. What it never makes is a
    /// rule that counts on it.
    pub possible: bool,
}

/// The outcome for one input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MutationOutcome {
    /// What is decided about the input itself.
    pub verdict: Verdict,
    /// Mutants that were judged.
    pub mutants: u64,
    /// Those that fail.
    pub new_allows: Vec<NewAllow>,
    /// Whether there were more places than are tried.
    pub cut: bool,
}

/// Which places are tried, as prefixes of whole names: `input.args`, `input.findings`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MutationPlaces {
    /// Mutate only these places and those below them; empty: all.
    pub below: Vec<String>,
    /// Leave these places and those below them alone.
    pub except: Vec<String>,
}

impl MutationPlaces {
    fn hold(&self, place: &str) -> bool {
        let one_of = |list: &[String]| list.iter().any(|prefix| within(place, prefix));
        (self.below.is_empty() || one_of(&self.below)) && !one_of(&self.except)
    }
}

/// Tries every mutant of an input. An allowed input has no failing mutant. A missing answer is a
/// denial.
pub fn mutate(engine: &dyn PolicyEngine, input: &Json, wanted: &MutationPlaces) -> MutationOutcome {
    let answer = super::or_denial(engine.decide(&canonical::bytes(input)));
    let mut tried =
        MutationOutcome { verdict: answer.verdict, mutants: 0, new_allows: Vec::new(), cut: false };
    if answer.verdict == Verdict::Allow {
        return tried;
    }
    let mut rules: Vec<String> = answer.reasons.into_iter().map(|reason| reason.rule).collect();
    rules.dedup();
    // What a recorded input of an earlier version lacks is no fault of its mutants.
    let known = schema::violations(input);
    let mut places = Vec::new();
    collect(input, &mut Vec::new(), &mut places);
    tried.cut = places.len() > PLACES_MAX;
    for place in places.iter().take(PLACES_MAX) {
        let shown = shown(place);
        if !wanted.hold(&shown) {
            continue;
        }
        for change in Change::ALL.iter().copied() {
            let mut mutant = input.clone();
            if !apply(&mut mutant, place, change) {
                continue;
            }
            tried.mutants = tried.mutants.saturating_add(1);
            let answer = super::or_denial(engine.decide(&canonical::bytes(&mutant)));
            if answer.verdict == Verdict::Allow {
                let violations = schema::violations(&mutant);
                let possible = violations.iter().all(|one| known.contains(one));
                let (place, rules) = (shown.clone(), rules.clone());
                tried.new_allows.push(NewAllow { place, change, rules, possible });
            }
        }
    }
    tried
}

/// One step to a place.
#[derive(Clone, PartialEq, Eq, Debug)]
enum MutationStep {
    Name(String),
    Index(usize),
}

/// Every place of a document but the whole, outer ones first.
fn collect(at: &Json, path: &mut Vec<MutationStep>, places: &mut Vec<Vec<MutationStep>>) {
    if places.len() > PLACES_MAX {
        return;
    }
    let mut visit = |step: MutationStep, value: &Json| {
        path.push(step);
        places.push(path.clone());
        collect(value, path, places);
        path.pop();
    };
    match at {
        Json::Object(members) => {
            members.iter().for_each(|(name, value)| visit(MutationStep::Name(name.clone()), value));
        }
        Json::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, value)| visit(MutationStep::Index(index), value));
        }
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => {}
    }
}

fn shown(path: &[MutationStep]) -> String {
    let steps = path.iter().map(|step| match step {
        MutationStep::Name(name) => format!(".{name}"),
        MutationStep::Index(index) => format!("[{index}]"),
    });
    format!("input{}", steps.collect::<String>())
}

/// Whether a place is this one or below it.
fn within(place: &str, prefix: &str) -> bool {
    place.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Makes the mutant; false if it would be the input again.
fn apply(document: &mut Json, path: &[MutationStep], change: Change) -> bool {
    let Some((last, before)) = path.split_last() else { return false };
    let mut at = document;
    for step in before {
        let next = match (at, step) {
            (Json::Object(members), MutationStep::Name(name)) => members.get_mut(name),
            (Json::Array(items), MutationStep::Index(index)) => items.get_mut(*index),
            (_, _) => None,
        };
        let Some(next) = next else { return false };
        at = next;
    }
    match (at, last) {
        (Json::Object(members), MutationStep::Name(name)) => change_member(members, name, change),
        (Json::Array(items), MutationStep::Index(index)) if change == Change::Drop => {
            let there = *index < items.len();
            if there {
                items.remove(*index);
            }
            there
        }
        (Json::Array(items), MutationStep::Index(index)) => {
            items.get_mut(*index).is_some_and(|value| replace(value, change))
        }
        (_, _) => false,
    }
}

fn change_member(members: &mut BTreeMap<String, Json>, name: &str, change: Change) -> bool {
    if change == Change::Drop {
        return members.remove(name).is_some();
    }
    members.get_mut(name).is_some_and(|value| replace(value, change))
}

fn replace(value: &mut Json, change: Change) -> bool {
    let text = |text: &str| Json::from(text);
    let other = match (change, &*value) {
        (Change::Drop, _) => return false,
        (Change::Null, _) => Json::Null,
        (Change::Retype, Json::Null | Json::Bool(_)) => text("true"),
        (Change::Retype, Json::Int(number)) => Json::from(number.to_string()),
        (Change::Retype, Json::Float(number)) => Json::from(number.to_string()),
        (Change::Retype, Json::String(_)) => Json::Array(vec![value.clone()]),
        (Change::Retype, Json::Array(_)) => Json::object::<String>([]),
        (Change::Retype, Json::Object(_)) => Json::Array(Vec::new()),
        (Change::Empty, Json::Null) => return false,
        (Change::Empty, Json::Bool(_)) => Json::Bool(false),
        (Change::Empty, Json::Int(_) | Json::Float(_)) => Json::Int(0),
        (Change::Empty, Json::String(_)) => text(""),
        (Change::Empty, Json::Array(_)) => Json::Array(Vec::new()),
        (Change::Empty, Json::Object(_)) => Json::object::<String>([]),
    };
    if *value == other {
        return false;
    }
    *value = other;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::Limits;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes(), &Limits::ARGUMENTS).unwrap()
    }

    #[test]
    fn every_place_is_dropped_nulled_retyped_and_emptied() {
        let input = json(r#"{"a":{"b":["x"]},"n":3,"t":true}"#);
        let mut places = Vec::new();
        collect(&input, &mut Vec::new(), &mut places);
        let names: Vec<String> = places.iter().map(|place| shown(place)).collect();
        assert_eq!(names, ["input.a", "input.a.b", "input.a.b[0]", "input.n", "input.t"]);
        let mutant = |place: usize, change| {
            let mut mutant = input.clone();
            apply(&mut mutant, &places[place], change).then(|| canonical::text(&mutant))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(mutant(2, Change::Drop), some(r#"{"a":{"b":[]},"n":3,"t":true}"#));
        assert_eq!(mutant(2, Change::Retype), some(r#"{"a":{"b":[["x"]]},"n":3,"t":true}"#));
        assert_eq!(mutant(0, Change::Empty), some(r#"{"a":{},"n":3,"t":true}"#));
        assert_eq!(mutant(3, Change::Retype), some(r#"{"a":{"b":["x"]},"n":"3","t":true}"#));
        assert_eq!(mutant(3, Change::Null), some(r#"{"a":{"b":["x"]},"n":null,"t":true}"#));
        assert_eq!(mutant(4, Change::Drop), some(r#"{"a":{"b":["x"]},"n":3}"#));
        assert_eq!(mutant(4, Change::Empty), some(r#"{"a":{"b":["x"]},"n":3,"t":false}"#));
    }

    #[test]
    fn a_place_is_below_another_by_whole_names() {
        assert!(within("input.args.a", "input.args") && within("input.args", "input.args"));
        assert!(within("input.args[0]", "input.args") && !within("input.argsx", "input.args"));
    }
}
