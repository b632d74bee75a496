//! What makes a pattern, and what does not.

use super::*;
use crate::bundle::Bundle;
use crate::domain::decision::Verdict;
use crate::domain::json::Limits;
use crate::input::time_json;
use crate::lint::{Level, Surroundings, lint};
use crate::rego::{RegoEngine, UNHURRIED};
use crate::testing::sample;
use crate::{ask, or_denial};

const NOW: Timestamp = Timestamp::from_millis(1_795_003_200_000);
const RULES: &str = r#"package wicketgate.agent

import rego.v1

allow if input.tool.name == "pay.send"

require_approval contains {"code": "large", "message": "ask"} if input.args.amount > 10
"#;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), &Limits::FILE).unwrap()
}

fn definition() -> Digest {
    Digest::of(&[b"definition"])
}

fn input(args: &str) -> Json {
    let mut input = sample::document(&[]);
    let more = format!(
        r#"{{"agent":{{"id":"triage"}},"args":{args},"tool":{{"name":"pay.send","tier":"T2","definition":"{}"}},"effect":{{"kind":"http"}}}}"#,
        definition().prefixed()
    );
    sample::merge(&mut input, &json(&more));
    sample::merge(&mut input, &Json::object([("time", time_json(NOW))]));
    input
}

fn hold(number: u64, approved: bool) -> DecidedHold {
    let person = ["anna", "bo"][usize::try_from(number % 2).unwrap()];
    DecidedHold {
        chain: ChainId::from_bytes([1; 16]),
        seq: number,
        run: RunId::from_random([1; 16]),
        call: CallId::parse(&format!("c-{number}")).unwrap(),
        at: Timestamp::from_millis(NOW.millis() - 1_000_000 + i64::try_from(number).unwrap()),
        agent: None,
        tool: "pay.send".into(),
        definition: definition(),
        tier: Some(Tier::T2),
        rules: BTreeSet::from(["wicketgate.agent.require_approval large".to_owned()]),
        approved,
        people: BTreeSet::from([person.to_owned()]),
        unfit: None,
        commit: None,
        input: None,
    }
}

/// So many calls, each with its own amount.
fn holds(count: u64, approved: bool) -> Vec<DecidedHold> {
    let one = |number: u64| {
        let mut one = hold(number, approved);
        one.read(input(&format!(r#"{{"amount":{},"to":"alice"}}"#, 20 + number)));
        one
    };
    (0..count).map(one).collect()
}

fn why(holds: Vec<DecidedHold>) -> String {
    let report = patterns(holds, NOW);
    assert_eq!(report.patterns, []);
    report.gaps.into_iter().map(|gap| gap.why).collect::<Vec<_>>().join(", ")
}

#[test]
fn twenty_equal_decisions_by_two_people_are_a_pattern_and_less_is_none() {
    let found = patterns(holds(20, true), NOW).patterns;
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].agent.as_str(), found[0].holds.len()), ("triage", 20));
    assert_eq!(why(holds(19, true)), "19 of 20 decisions");
    let mut alone = holds(20, true);
    alone.iter_mut().for_each(|hold| hold.people = BTreeSet::from(["anna".to_owned()]));
    assert_eq!(why(alone), "decided by 1 person of 2");
    let mut differing = holds(30, true);
    differing[3].approved = false;
    assert_eq!(why(differing), "call c-3 was decided otherwise");
    let mut irreversible = holds(20, true);
    irreversible.iter_mut().for_each(|hold| hold.tier = Some(Tier::T3));
    assert!(why(irreversible).contains("T3"));
    let mut marked = holds(25, true);
    let found = Json::object([("findings", Json::Array(vec![Json::Null]))]);
    let mut with_finding = marked[7].input.clone().unwrap();
    sample::merge(&mut with_finding, &found);
    marked[7].read(with_finding);
    assert_eq!(why(marked), "call c-7 has a finding of the firewall");
    let mut labelled = holds(25, true);
    let taint = json(r#"{"taint":{"labels":["untrusted"]}}"#);
    let mut with_label = labelled[9].input.clone().unwrap();
    sample::merge(&mut with_label, &taint);
    labelled[9].read(with_label);
    assert_eq!(why(labelled), "call c-9 has a label of the run");
    let mut hidden = holds(20, true);
    hidden.push(hold(40, false));
    assert!(why(hidden).contains("c-40 was decided otherwise, and its arguments cannot be read"));
}

#[test]
fn only_what_is_recent_counts_and_a_pattern_ends() {
    let mut old = holds(20, true);
    old.iter_mut()
        .for_each(|hold| hold.at = Timestamp::from_millis(hold.at.millis() - 31 * 86_400_000));
    assert_eq!(why(old), "nothing was decided for 30 days");
    let mut forgotten = holds(21, true);
    forgotten[0].approved = false;
    forgotten[0].at = Timestamp::from_millis(NOW.millis() - 91 * 86_400_000);
    assert_eq!(patterns(forgotten, NOW).patterns.len(), 1);
}

#[test]
fn at_most_fifty_patterns_are_open() {
    let mut all = Vec::new();
    for agent in 0..60 {
        for mut one in holds(20, true) {
            one.agent = Some(format!("agent-{agent}"));
            all.push(one);
        }
    }
    let report = patterns(all, NOW);
    assert_eq!((report.patterns.len(), report.more), (OPEN_MAX, 10));
}

fn bundle() -> Bundle {
    let meta = br#"{"name":"main","version":"1.4.2"}"#.to_vec();
    let rules = RULES.as_bytes().to_vec();
    let files = [("bundle.json".to_owned(), meta), ("agent/main.rego".to_owned(), rules)];
    Bundle::of_files(files.into()).unwrap()
}

fn verdict(bundle: &Bundle, input: &Json) -> Verdict {
    let engine = RegoEngine::new(bundle, UNHURRIED).unwrap();
    or_denial(ask(&engine, &canonical::bytes(input), false)).verdict
}

#[test]
fn the_rule_decides_the_shape_and_no_neighbour_until_its_end() {
    let pattern = patterns(holds(20, true), NOW).patterns.remove(0);
    let end = NOW.plus(Duration::from_secs(86_400));
    let made = learned(&bundle(), &pattern, end).unwrap();
    assert_eq!(made.bundle.version().to_string(), "1.4.3");
    assert!(made.files.contains_key(&format!("tests/learned_{}.json", pattern.id)));
    let surroundings = Surroundings { tools: &[], approvers: usize::MAX, webhook: false };
    let findings = lint(&made.bundle, &surroundings);
    assert!(findings.iter().all(|finding| finding.level != Level::Error), "{findings:?}");
    let decide = |args: &str| verdict(&made.bundle, &input(args));
    assert_eq!(decide(r#"{"amount":25,"to":"alice"}"#), Verdict::Allow);
    for other in [
        r#"{"amount":40,"to":"alice"}"#,
        r#"{"amount":25,"to":"mallory"}"#,
        r#"{"amount":25,"to":"alice","more":1}"#,
        r#"{"amount":25}"#,
    ] {
        assert_eq!(decide(other), Verdict::RequireApproval, "{other}");
    }
}

#[test]
fn refused_again_and_again_becomes_a_denial() {
    let pattern = patterns(holds(20, false), NOW).patterns.remove(0);
    let made = learned(&bundle(), &pattern, NOW.plus(Duration::from_secs(86_400))).unwrap();
    let decide = |args: &str| verdict(&made.bundle, &input(args));
    assert_eq!(decide(r#"{"amount":25,"to":"alice"}"#), Verdict::Deny);
    assert_eq!(decide(r#"{"amount":25,"to":"bob"}"#), Verdict::RequireApproval);
}
