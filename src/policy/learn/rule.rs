//! The rule of a pattern: written, tried on every recorded input and on neighbours of them, or not given out.

use std::collections::{BTreeMap, BTreeSet};

use super::HoldPattern;
use crate::bundle::Bundle;
use crate::domain::canonical;
use crate::domain::decision::Verdict;
use crate::domain::json::{Json, Limits};
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::fault::{Error, LoadError, list};
use crate::input::time_json;
use crate::rego::{RegoEngine, UNHURRIED};
use crate::suggest::{self, RequiredCall, shape::literal};
use crate::{ask, or_denial};

/// Recorded inputs that become tests.
const TESTED: usize = 5;
/// Calls named in a comment.
const NAMED: usize = 5;

/// Why a pattern has no rule in this bundle.
#[derive(Debug, thiserror::Error)]
pub enum RuleFault {
    /// The bundle decides one of the calls otherwise than it was decided.
    #[error(
        "the bundle does not hold call `{call}` any more: it decides `{verdict}`; name the bundle in force"
    )]
    Decided {
        /// The call.
        call: String,
        /// The verdict of the bundle.
        verdict: Verdict,
    },
    /// No single rule of one layer holds these calls.
    #[error("`{0}` is no single rule of one layer: write the exception by hand")]
    Place(String),
    /// The rule that holds cannot be changed.
    #[error("{0}: the condition of this rule cannot be changed: write the exception by hand")]
    Shape(String),
    /// A rule for these calls would bound only a part of their arguments.
    #[error("the calls differ in a way that no rule bounds: write the exception by hand")]
    Loose,
    /// The changed bundle does not load.
    #[error("the rules do not load: {}", list(.0))]
    Load(Vec<LoadError>),
    /// The engine refuses the bundle.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The changed bundle does not decide a call as people did.
    #[error("the rule does not decide call `{0}` as people did: write it by hand")]
    Undecided(String),
    /// The changed bundle decides a neighbour.
    #[error("the rule also decides a call with {0}: write it by hand")]
    Neighbour(&'static str),
}

impl From<Vec<LoadError>> for RuleFault {
    fn from(errors: Vec<LoadError>) -> Self {
        Self::Load(errors)
    }
}

/// A pattern as a change of a bundle.
#[derive(Debug)]
pub struct LearnedFiles {
    /// The rule.
    pub rule: String,
    /// The files that are new or other than before, by name: the decision table too, which no gate reads.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The changed bundle.
    pub bundle: Bundle,
}

/// The rule of this pattern in this bundle until this time, tried.
///
/// # Errors
/// The bundle does not hold these calls, or the rule cannot be written so that it decides them and no neighbour.
pub fn learned(
    bundle: &Bundle,
    pattern: &HoldPattern,
    not_after: Timestamp,
) -> Result<LearnedFiles, RuleFault> {
    let old = RegoEngine::new(bundle, UNHURRIED)?;
    let inputs: Vec<(String, Json)> = pattern
        .holds
        .iter()
        .filter_map(|hold| Some((hold.call.to_string(), unapproved(hold.input.as_ref()?))))
        .collect();
    let mut places = BTreeSet::new();
    for (call, input) in &inputs {
        let answer = or_denial(ask(&old, &canonical::bytes(input), false));
        if answer.verdict != Verdict::RequireApproval {
            return Err(RuleFault::Decided { call: call.clone(), verdict: answer.verdict });
        }
        places.extend(answer.reasons.into_iter().map(|reason| reason.rule));
    }
    let name = format!("learned_{}", pattern.id);
    let layer = if pattern.approved { layer(&places)? } else { "agent".to_owned() };
    let rule = text((&layer, &name), pattern, &inputs, not_after);
    // WHY: people saw whole calls, and the rule would approve what they did not see.
    if pattern.approved && rule.contains("not constrained") {
        return Err(RuleFault::Loose);
    }
    let mut changed = BTreeMap::from([(format!("{layer}/{name}.rego"), rule.clone().into_bytes())]);
    let mut files: BTreeMap<String, Vec<u8>> =
        bundle.as_written().map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).collect();
    if pattern.approved {
        for place in &places {
            let (file, other) = excepted(&files, place, &name)?;
            files.insert(file.clone(), other.clone());
            changed.insert(file, other);
        }
    }
    changed.extend(described(&files));
    files.extend(changed.clone());
    let bundle = Bundle::of_files(files)?;
    let new = RegoEngine::new(&bundle, UNHURRIED)?;
    let cases = tried((&old, &new), pattern, &inputs, not_after)?;
    let table = Json::object([("cases", Json::from(cases))]);
    changed.insert(format!("tests/{name}.json"), canonical::bytes(&table));
    Ok(LearnedFiles { rule, files: changed, bundle })
}

/// The input as it was before any approval.
fn unapproved(input: &Json) -> Json {
    with(input, "approvals", Json::Array(Vec::new()))
}

fn with(input: &Json, name: &str, value: Json) -> Json {
    let mut input = input.clone();
    if let Json::Object(members) = &mut input {
        members.insert(name.to_owned(), value);
    }
    input
}

/// The one layer whose rules hold these calls.
fn layer(places: &BTreeSet<String>) -> Result<String, RuleFault> {
    let of = |place: &String| {
        let layer = place.strip_prefix("wicketgate.")?.split_once(".require_approval ")?.0;
        ["org", "team", "agent"].contains(&layer).then(|| layer.to_owned())
    };
    let mut layers = BTreeSet::new();
    for place in places {
        layers.insert(of(place).ok_or_else(|| RuleFault::Place(place.clone()))?);
    }
    let all = || RuleFault::Place(places.iter().cloned().collect::<Vec<_>>().join("`, `"));
    let first = layers.pop_first().ok_or_else(all)?;
    if layers.is_empty() { Ok(first) } else { Err(all()) }
}

/// The text of the rule.
fn text(
    (layer, name): (&str, &str),
    pattern: &HoldPattern,
    inputs: &[(String, Json)],
    not_after: Timestamp,
) -> String {
    let calls: Vec<RequiredCall> = inputs
        .iter()
        .map(|(call, input)| RequiredCall { call: call.clone(), input: input.clone() })
        .collect();
    let body = suggest::rule(&pattern.tool, &calls.iter().collect::<Vec<_>>());
    let named: Vec<&str> = inputs.iter().rev().take(NAMED).map(|(call, _)| &**call).collect();
    let done = if pattern.approved { "approved" } else { "refused" };
    let agent = literal(&Json::from(pattern.agent.as_str()));
    let definition = literal(&Json::from(pattern.definition.prefixed()));
    let mut out = format!(
        "# Learned by `wicketgate policy learn`: {} {done} {}, the last of them {}.\n\
         # not_after {not_after}: from then on people decide again.\n\
         package wicketgate.{layer}\n\nimport rego.v1\n\n{name} if {{\n\
         \tinput.time.unix < {}\n\tinput.agent.id == {agent}\n\tinput.tool.definition == {definition}\n\
         \tinput.tool.tier in {{\"T0\", \"T1\", \"T2\"}}\n\tcount(input.findings) == 0\n\
         \tcount([label | label := input.taint.labels[_]]) == 0\n{body}}}\n",
        many(pattern.people.len(), "person"),
        many(calls.len(), "call"),
        named.join(", "),
        not_after.seconds(),
    );
    if !pattern.approved {
        let message = literal(&Json::from(format!(
            "people refused {} like this one (pattern {})",
            many(calls.len(), "call"),
            pattern.id
        )));
        out.push_str(&format!(
            "\ndeny contains {{\"code\": \"learned\", \"message\": {message}}} if {name}\n"
        ));
    }
    out
}

/// The file of a rule that holds, with this exception.
fn excepted(
    files: &BTreeMap<String, Vec<u8>>,
    place: &str,
    name: &str,
) -> Result<(String, Vec<u8>), RuleFault> {
    let unclear = || RuleFault::Place(place.to_owned());
    let (file, line) =
        place.rsplit_once(' ').and_then(|(_, place)| place.rsplit_once(':')).ok_or_else(unclear)?;
    let line: usize = line.parse().map_err(|_| unclear())?;
    let text = files.get(file).and_then(|bytes| std::str::from_utf8(bytes).ok());
    let text = text.ok_or_else(unclear)?;
    let other = exception(text, line, &format!("not {name}"));
    let other = other.ok_or_else(|| RuleFault::Shape(format!("{file}:{line}")))?;
    Ok((file.to_owned(), other.into_bytes()))
}

/// The text with one more condition in the rule that begins in this line. It adds no line: tests name rules by theirs.
fn exception(text: &str, line: usize, condition: &str) -> Option<String> {
    let start: usize = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let (before, rule) = text.split_at_checked(start)?;
    let words = top_words(rule);
    let end = words.iter().find(|word| word.2 == "\n").map_or(rule.len(), |word| word.0);
    let head_end = words.iter().find(|word| word.2 == "if" && word.0 < end);
    let Some((_, after, _)) = head_end else {
        let (head, rest) = rule.split_at_checked(end)?;
        return Some(format!("{before}{} if {condition}{rest}", head.trim_end()));
    };
    let (head, body) = rule.split_at_checked(*after)?;
    let trimmed = body.trim_start();
    if let Some(inside) = trimmed.strip_prefix('{') {
        let follows = inside.trim_start_matches([' ', '\t']);
        let mark = if follows.starts_with(['\n', '\r']) { "" } else { ";" };
        return Some(format!("{before}{head} {{ {condition}{mark}{inside}"));
    }
    let (one, rest) = rule.split_at_checked(end)?;
    let one = one.get(*after..)?.trim();
    (!one.is_empty()).then(|| format!("{before}{head} {{ {condition}; {one} }}{rest}"))
}

/// The words and line ends of a text outside brackets, texts and comments: begin, end, word. Ends with the rule's line.
fn top_words(text: &str) -> Vec<(usize, usize, &str)> {
    let (mut found, mut depth, mut chars) = (Vec::new(), 0_usize, text.char_indices().peekable());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                while let Some((_, c)) = chars.next() {
                    match c {
                        '\\' => drop(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '`' => drop(chars.by_ref().find(|(_, c)| *c == '`')),
            '#' => while chars.next_if(|(_, c)| *c != '\n').is_some() {},
            '{' | '[' | '(' => depth = depth.saturating_add(1),
            '}' | ']' | ')' => depth = depth.saturating_sub(1),
            '\n' if depth == 0 => {
                found.push((at, at.saturating_add(1), "\n"));
                return found;
            }
            c if c.is_alphanumeric() || c == '_' => {
                let mut end = at.saturating_add(c.len_utf8());
                while let Some((next, c)) =
                    chars.next_if(|(_, c)| c.is_alphanumeric() || *c == '_' || *c == '.')
                {
                    end = next.saturating_add(c.len_utf8());
                }
                if depth == 0 {
                    found.extend(text.get(at..end).map(|word| (at, end, word)));
                }
            }
            _ => {}
        }
    }
    found
}

/// `bundle.json` with the next version.
fn described(files: &BTreeMap<String, Vec<u8>>) -> Option<(String, Vec<u8>)> {
    const META: &str = "bundle.json";
    let meta = Json::parse(files.get(META)?, &Limits::FILE).ok()?;
    let mut version: semver::Version = meta.get("version")?.as_str()?.parse().ok()?;
    version.patch = version.patch.checked_add(1)?;
    (version.pre, version.build) = (semver::Prerelease::EMPTY, semver::BuildMetadata::EMPTY);
    let meta = with(&meta, "version", Json::from(version.to_string()));
    Some((META.to_owned(), canonical::bytes(&meta)))
}

/// Tries the changed bundle; returns the cases of a decision table.
fn tried(
    (old, new): (&RegoEngine, &RegoEngine),
    pattern: &HoldPattern,
    inputs: &[(String, Json)],
    not_after: Timestamp,
) -> Result<Vec<Json>, RuleFault> {
    let decide = |engine: &RegoEngine, input: &Json| {
        or_denial(ask(engine, &canonical::bytes(input), false)).verdict
    };
    let wanted = if pattern.approved { Verdict::Allow } else { Verdict::Deny };
    let case = |name: String, input: &Json, verdict: Verdict| {
        Json::object([
            ("name", Json::from(name)),
            ("input", input.clone()),
            ("decision", Json::from(verdict.as_str())),
        ])
    };
    let mut cases = Vec::new();
    for (call, input) in inputs {
        if decide(new, input) != wanted {
            return Err(RuleFault::Undecided(call.clone()));
        }
    }
    for (call, input) in inputs.iter().rev().take(TESTED) {
        cases.push(case(format!("recorded call {call}"), input, wanted));
    }
    let Some((_, last)) = inputs.last() else { return Ok(cases) };
    for (what, input) in neighbours(last, not_after) {
        let (before, after) = (decide(old, &input), decide(new, &input));
        if before != after {
            return Err(RuleFault::Neighbour(what));
        }
        cases.push(case(format!("not {what}"), &input, before));
    }
    Ok(cases)
}

/// Inputs that are almost this one.
fn neighbours(input: &Json, not_after: Timestamp) -> Vec<(&'static str, Json)> {
    let inside = |name: &str, member: &str, value: Json| {
        let part = input.get(name).cloned().unwrap_or_else(|| Json::object::<&str>([]));
        with(input, name, with(&part, member, value))
    };
    let finding = Json::object([
        ("class", Json::from("personal")),
        ("kind", Json::from("card")),
        ("path", Json::from("/number")),
        ("since", Json::from("new")),
    ]);
    let other = format!("sha256:{}", "0".repeat(64));
    vec![
        ("another agent", inside("agent", "id", Json::from("another-agent"))),
        ("another definition", inside("tool", "definition", Json::from(other))),
        ("one argument more", inside("args", "one_argument_more", Json::Bool(true))),
        ("a finding", with(input, "findings", Json::Array(vec![finding]))),
        ("a later time", with(input, "time", time_json(not_after))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_stands_in_the_line_of_its_rule() {
        let with = |text: &str, line| exception(text, line, "not x");
        for (text, line, expected) in [
            ("a if b\nc := 1\n", 1, "a if { not x; b }\nc := 1\n"),
            (
                "p\na contains {\"m\": \"if {\"} if {\n\tb\n}\nc\n",
                2,
                "p\na contains {\"m\": \"if {\"} if { not x\n\tb\n}\nc\n",
            ),
            ("a contains \"m\" if { b; c }\n", 1, "a contains \"m\" if { not x; b; c }\n"),
            ("a contains \"m\"\nd if e\n", 1, "a contains \"m\" if not x\nd if e\n"),
            (
                "a contains {\n\t\"m\": 1,\n} if {\n\tb\n}\n",
                1,
                "a contains {\n\t\"m\": 1,\n} if { not x\n\tb\n}\n",
            ),
            ("a if input.x in {1, 2}", 1, "a if { not x; input.x in {1, 2} }"),
        ] {
            assert_eq!(with(text, line).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(with("a if b", 0), None);
    }
}
