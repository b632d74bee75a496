//! P5: decisions made again offline. Honest ones come out the same; whoever holds every key and writes
//! the whole log again is still held to what the recorded policy says about the recorded input.

use crate::forged::Draft;
use wicketgate::domain::canonical;
use wicketgate::domain::commitment::derived;
use wicketgate::domain::decision::{Course, Decision, Verdict};
use wicketgate::domain::digest::{Digest, call_digest};
use wicketgate::domain::id::{CallId, ToolName};
use wicketgate::domain::json::Json;
use wicketgate::domain::time::Timestamp;
use wicketgate::evidence::bundle::{PAGE, POLICY};
use wicketgate::evidence::trust::Trust;
use wicketgate::evidence::verify::{Outcome, Report, verify_files};
use wicketgate::firewall;
use wicketgate::policy::bundle::Bundle;
use wicketgate::policy::rego::{ENGINE, RegoEngine};
use wicketgate::policy::{self, Answer, PolicyEngine as _, input};
use wicketgate::record::Kind;
use wicketgate::record::decided;

use crate::bundle::*;
use crate::forged::{TestLedger, YAML, json, key, run_id};

/// The ledger' own time is a little after this.
const NOW: &str = "2026-11-18T11:06:40.000Z";
const OBSERVED: &str =
    r#","enforcement":{"agent":{"mode":"observe","until":"2026-12-01T00:00:00Z"}}"#;
const RULES: &str = r#"package wicketgate.agent
import rego.v1
allow if input.tool.name == "repo.read_file"
deny contains "no keys" if endswith(input.args.path, ".pem")
require_approval contains "large" if input.args.bytes > 9
obligations contains {"type": "redact", "kinds": ["email"]}
deny contains "odd" if input.args.odd
"#;

fn policies(rules: &str, enforcement: &str) -> Bundle {
    let meta = format!(r#"{{"name":"t","version":"1.0.0"{enforcement}}}"#);
    let files = [("bundle.json", meta.as_str()), ("agent/a.rego", rules)];
    let files = files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
    Bundle::of_files(files.into()).unwrap()
}

/// The input about a call with these arguments, as the gate would have written it.
fn asked(id: &str, args: &str, observe: &str) -> Json {
    let (run, manifest) = (run_id(1), Digest::of(&[YAML]).prefixed());
    let time = canonical::text(&input::time_json(Timestamp::parse(NOW).unwrap()));
    let definition = Digest::of(&[b"definition"]).prefixed();
    json(&format!(
        r#"{{"v":"wicketgate/input/1","agent":{{"id":"reviewer","version":"1.0.0","owner":"","labels":{{}},"manifest":"{manifest}","binding":"claimed","delegation":[]}},
        "run":{{"id":"{run}","mode":"enforce","incognito":false,"opened_at":"{NOW}","calls":0,"errors":0,"cost":0,"labels":{{"ticket":"<script>"}}}},
        "tool":{{"name":"repo.read_file","kind":"file.read","tier":"T1","read_only":true,"definition":"{definition}"}},
        "call":{{"id":"{id}"}},"args":{args},"effect":{{"kind":"none"}},"context":{{"attested":{{}},"claimed":{{"ticket":"<script>"}}}},
        "time":{time},"findings":[],"approvals":[],"pools":[],"quorum":{{"by_hand":[]}},"break_glass":{{"open":false,"nonce":"","until":"","by":[]}},"observe":{observe},"history":{{"calls":0,"errors":0,"denied":0}}}}"#
    ))
}

/// What the gate would have put on the ledger: the engine is really asked.
fn decided(ledger: &mut TestLedger, bundle: &Bundle, asked: &Json) -> Draft {
    let engine = RegoEngine::new(bundle, policy::rego::DEADLINE).unwrap();
    let bytes = canonical::bytes(asked);
    let observing = asked.get("observe").unwrap() != &Json::Array(Vec::new());
    let answer = policy::or_denial(policy::ask(&engine, &bytes, observing));
    written(ledger, bundle, asked, &answer)
}

/// The entry about this input with this answer, whether or not it follows from it.
fn written(ledger: &mut TestLedger, bundle: &Bundle, asked: &Json, answer: &Answer) -> Draft {
    let engine = RegoEngine::new(bundle, policy::rego::DEADLINE).unwrap();
    let text = |part: &str, name: &str| {
        asked.get(part).unwrap().get(name).unwrap().as_str().unwrap().to_owned()
    };
    let call = CallId::parse(&text("call", "id")).unwrap();
    let tool = ToolName::parse("repo.read_file").unwrap();
    let args = ledger.commit("args", &canonical::bytes(asked.get("args").unwrap()));
    let told = ledger.commit("policy_input", &canonical::bytes(asked));
    let digest = call_digest(&run_id(1), &call, &tool, &args.c).hex();
    let salt = ledger.payloads[&args.c].salt;
    let effect = derived(&salt, &[b"effect:", &canonical::bytes(asked.get("effect").unwrap())]);
    let effect = hex::encode(effect);
    let decision = Decision {
        verdict: answer.verdict,
        reasons: answer.reasons.clone(),
        ground: None,
        obligations: answer.obligations.clone(),
        policy: bundle.digest(),
        layers: engine.layers().to_vec(),
        enforced: answer.enforced,
        engine: ENGINE.into(),
        input: None,
        alarm: None,
        hold: None,
    };
    let kind = match decision.course() {
        Course::Run => Kind::CallAuthorized,
        Course::Refuse => Kind::CallDenied,
        Course::Wait => Kind::CallHeld,
    };
    let mut data = vec![
        ("call_digest", Json::from(digest)),
        ("tier", Json::from(text("tool", "tier"))),
        ("reasons", Json::of(&decided::reasons(&decision.reasons))),
        ("obligations", Json::of(&decided::obligations(&decision.obligations))),
        ("layers", Json::of(&decided::layers(&decision.layers))),
        ("enforced", Json::from(decision.enforced)),
        ("binding", Json::from("claimed")),
        ("executor", Json::from("sidecar")),
        ("after", Json::from(0_u64)),
        ("engine", Json::from(ENGINE)),
        ("auth", json(r#"{"method":"uds"}"#)),
        ("definition", Json::from(Digest::of(&[b"definition"]).prefixed())),
        ("effect", Json::from(effect)),
        ("firewall", Json::from(firewall::rules_digest().prefixed())),
    ];
    if kind == Kind::CallHeld {
        data.push(("expires", Json::from("2026-11-18T12:06:40.000Z")));
    }
    Draft {
        run: Some(run_id(1)),
        call: Some(call),
        tool: Some(tool),
        verdict: Some(answer.verdict),
        rule: rule(&engine, asked, answer),
        policy: Some(bundle.digest()),
        commit: vec![args, told],
        ..Draft::of(kind, Json::object(data))
    }
}

/// The rule that the gate would name.
fn rule(engine: &RegoEngine, asked: &Json, answer: &Answer) -> Option<String> {
    match answer.verdict {
        Verdict::Allow => engine.decide_naming(&canonical::bytes(asked)).unwrap().1,
        Verdict::Deny | Verdict::RequireApproval => {
            decided::rule(&answer.reasons).map(|rule| rule.to_string())
        }
    }
}

/// The last word about a call, whatever was decided.
fn finish(ledger: &mut TestLedger, draft: &Draft) {
    let id = draft.call.as_ref().unwrap().as_str().to_owned();
    if draft.kind == Kind::CallAuthorized {
        ledger.complete(run_id(1), &id);
    } else if draft.kind == Kind::CallHeld {
        ledger.end(run_id(1), &id, Kind::CallCancelled, r#"{"reason":"sealed"}"#);
    }
}

fn trusting(bundle: &Bundle) -> Trust {
    Trust { policies: vec![bundle.digest()], replay: true, ..trust() }
}

/// A sealed run of these entries, verified with replay.
fn replayed(bundle: &Bundle, fill: impl FnOnce(&mut TestLedger) -> Vec<Draft>) -> Report {
    let ledger = ledger_of(bundle, fill);
    verify_files(&export_of(&ledger, run_id(1), &[]), &trusting(bundle))
}

fn ledger_of(bundle: &Bundle, fill: impl FnOnce(&mut TestLedger) -> Vec<Draft>) -> TestLedger {
    let mut ledger = TestLedger::under(1, key(ENROLMENT), bundle.tar());
    ledger.open(run_id(1));
    for draft in fill(&mut ledger) {
        ledger.add(draft.clone());
        finish(&mut ledger, &draft);
    }
    ledger.seal(run_id(1));
    ledger
}

/// One call with these arguments, its honest entry changed by a holder of every key.
fn forged(args: &str, change: impl FnOnce(&mut Draft)) -> Report {
    let bundle = policies(RULES, "");
    replayed(&bundle, |ledger| {
        let mut draft = decided(ledger, &bundle, &asked("c1", args, "[]"));
        change(&mut draft);
        vec![draft]
    })
}

fn set(draft: &mut Draft, name: &str, value: &str) {
    let Json::Object(data) = &mut draft.data else { panic!() };
    data.insert(name.into(), json(value));
}

fn said(report: &Report) -> &str {
    report.outcome("P5").unwrap().detail()
}

const READ: &str = r#"{"path":"a.rs"}"#;
const SECRET: &str = r#"{"path":"a.pem"}"#;
const LARGE: &str = r#"{"bytes":10,"path":"a.rs"}"#;
const FAULTY: &str = r#"{"path":1}"#;

#[test]
fn honest_decisions_of_every_kind_are_made_again_and_counted() {
    let bundle = policies(RULES, "");
    let report = replayed(&bundle, |ledger| {
        let calls = [("c1", READ), ("c2", SECRET), ("c3", LARGE), ("c4", FAULTY)];
        let drafts = calls.map(|(id, args)| decided(ledger, &bundle, &asked(id, args, "[]")));
        let kinds = drafts.each_ref().map(|draft| draft.kind);
        let refused = Kind::CallDenied;
        assert_eq!(kinds, [Kind::CallAuthorized, refused, Kind::CallHeld, refused]);
        drafts.into()
    });
    assert_eq!(report.exit_code(), 0, "{}", report.to_text());
    assert_eq!(said(&report), "4 decisions reproduced with the same result");
    assert!(!report.to_text().contains("would decide the same again"), "{}", report.to_text());
}

#[test]
fn no_decision_is_replayed_unless_replay_is_requested() {
    let bundle = policies(RULES, "");
    let ledger = ledger_of(&bundle, |b| vec![decided(b, &bundle, &asked("c1", READ, "[]"))]);
    let trust = Trust { replay: false, ..trusting(&bundle) };
    let report = verify_files(&export_of(&ledger, run_id(1), &[]), &trust);
    assert_eq!(report.outcome("P5"), None);
    assert!(report.to_text().contains("would decide the same again"), "{}", report.to_text());
}

#[test]
fn what_only_observed_is_made_again_as_such_and_irreversible_calls_are_not_observed() {
    let bundle = policies(RULES, OBSERVED);
    let report = replayed(&bundle, |ledger| {
        let draft = decided(ledger, &bundle, &asked("c1", SECRET, r#"["agent"]"#));
        assert_eq!((draft.kind, draft.verdict), (Kind::CallAuthorized, Some(Verdict::Deny)));
        vec![draft]
    });
    assert_eq!(report.exit_code(), 0, "{}", report.to_text());
    // The bundle observes, and the input does not say so: the decision was not made by this gate.
    let report = replayed(&bundle, |b| vec![decided(b, &bundle, &asked("c1", SECRET, "[]"))]);
    caught(&report, "P5");
    assert!(said(&report).contains("layers in observe mode"), "{}", said(&report));
}

#[test]
fn a_policy_that_had_ended_decided_nothing() {
    let until = |end: &str| policies(RULES, &format!(r#","not_after":"{end}""#));
    for (end, why) in [("2026-11-18T11:06:40Z", "already expired"), ("2026-11-18T11:06:41Z", "")] {
        let bundle = until(end);
        let report = replayed(&bundle, |b| vec![decided(b, &bundle, &asked("c1", READ, "[]"))]);
        if why.is_empty() {
            assert_eq!(report.exit_code(), 0, "{}", report.to_text());
        } else {
            caught(&report, "P5");
            assert!(said(&report).contains(why), "{}", said(&report));
        }
    }
}

#[test]
fn a_decision_flipped_by_somebody_who_holds_every_key_is_not_what_the_policy_says() {
    // A denial that becomes a permission, consistently: kind, verdict, reasons, everything signed again.
    let bundle = policies(RULES, "");
    let permission = Answer {
        verdict: Verdict::Allow,
        reasons: Vec::new(),
        obligations: Vec::new(),
        enforced: true,
    };
    let log = |ledger: &mut TestLedger| {
        vec![written(ledger, &bundle, &asked("c1", SECRET, "[]"), &permission)]
    };
    let report = replayed(&bundle, log);
    caught(&report, "P5");
    assert!(
        said(&report).contains("recorded: `allow`; the policy says `deny`"),
        "{}",
        said(&report)
    );
    // Without replay the very same bundle passes: LIMIT-1.
    let trust = Trust { replay: false, ..trusting(&bundle) };
    let files = export_of(&ledger_of(&bundle, log), run_id(1), &[]);
    assert_eq!(verify_files(&files, &trust).exit_code(), 0, "not detected, as documented");
    // A permission that becomes a denial.
    let refusal = policy::or_denial(Err(policy::EngineError::Undefined));
    let report = replayed(&bundle, |ledger| {
        vec![written(ledger, &bundle, &asked("c1", READ, "[]"), &refusal)]
    });
    caught(&report, "P5");
}

#[test]
fn rule_reasons_obligations_layers_and_enforcement_are_compared_too() {
    for (args, name, value) in [
        (
            SECRET,
            "reasons",
            r#"[{"code":"policy.denied","detail":"message","message":"other","rule":"wicketgate.agent.deny agent/a.rego:4"}]"#,
        ),
        (READ, "obligations", "[]"),
        (READ, "layers", "[]"),
    ] {
        let report = forged(args, |draft| set(draft, name, value));
        caught(&report, "P5");
        assert!(said(&report).contains(&format!("`{name}`")), "{}", said(&report));
    }
    caught(&forged(SECRET, |draft| draft.rule = Some("wicketgate.org.deny".into())), "P5");
}

#[test]
fn the_rule_that_an_allow_names_is_the_one_it_follows_from() {
    let bundle = policies(RULES, "");
    let mut named = None;
    let ledger = ledger_of(&bundle, |ledger| {
        let draft = decided(ledger, &bundle, &asked("c1", READ, "[]"));
        named.clone_from(&draft.rule);
        vec![draft]
    });
    assert_eq!(named.as_deref(), Some("wicketgate.agent.allow agent/a.rego:3"));
    let files = export_of(&ledger, run_id(1), &[]);
    assert_eq!(verify_files(&files, &trusting(&bundle)).exit_code(), 0);
    let page = String::from_utf8(files.get(PAGE).unwrap().to_vec()).unwrap();
    assert!(page.contains("wicketgate.agent.allow agent/a.rego:3"), "{page}");
    // Another line, another layer, and the library, which allows nothing by itself.
    for other in [
        "wicketgate.agent.allow agent/a.rego:4",
        "wicketgate.team.allow agent/a.rego:3",
        "wicketgate.decision",
    ] {
        let report = forged(READ, |draft| draft.rule = Some(other.into()));
        caught(&report, "P5");
        assert!(said(&report).contains("the recorded rule is not"), "{}", said(&report));
    }
    // Earlier builds named none: that claims less.
    let report = forged(READ, |draft| draft.rule = None);
    assert_eq!(report.exit_code(), 0, "{}", report.to_text());
}

#[test]
fn an_input_of_another_decision_is_refused() {
    // Everything the input says about the entry, changed one by one; the engine's answer stays allow.
    let bundle = policies(RULES, "");
    for (from, to, what) in [
        ("reviewer", "somebody", "agent.id"),
        (r#""version":"1.0.0""#, r#""version":"1.0.1""#, "agent.version"),
        (r#""binding":"claimed""#, r#""binding":"observed""#, "agent.binding"),
        (
            r#""binding":"claimed","delegation""#,
            r#""binding":"claimed","tier3":"claimed","delegation""#,
            "agent.tier3",
        ),
        (r#""id":"c1""#, r#""id":"c9""#, "call.id"),
        (r#""tier":"T1""#, r#""tier":"T0""#, "tool.tier"),
        (r#""mode":"enforce""#, r#""mode":"simulate""#, "run.mode"),
        (r#""owner":"""#, r#""owner":"me""#, "owner"),
        (
            r#""opened_at":"2026-11-18T11"#,
            r#""opened_at":"2026-11-18T10"#,
            "opening time of the run",
        ),
        (r#""rfc3339":"2026-11-18T11"#, r#""rfc3339":"2026-11-18T10"#, "the entry is of"),
        (r#""hour":11"#, r#""hour":10"#, "two different times"),
        (r#""ticket":"<script>""#, r#""ticket":"""#, "labels"),
        (r#""approvals":[]"#, r#""approvals":["me"]"#, "approvals"),
        (r#""kind":"none""#, r#""kind":"http""#, "effect"),
        (r#""findings":[]"#, r#""findings":[{"kind":"email","path":""}]"#, "findings"),
        (r#""denied":0,"errors":0"#, r#""denied":0,"errors":1"#, "the same counter"),
        (r#""path":"a.rs""#, r#""path":"b.rs""#, "arguments"),
        (
            r#""v":"wicketgate/input/1""#,
            r#""v":"wicketgate/input/1","w":1"#,
            "unexpected or missing members",
        ),
    ] {
        let report = replayed(&bundle, |ledger| {
            let honest = asked("c1", READ, "[]");
            let mut draft = decided(ledger, &bundle, &honest);
            let text = canonical::text(&honest);
            assert!(text.contains(from), "{from}");
            let swapped = canonical::bytes(&json(&text.replacen(from, to, 1)));
            draft.commit[1] = ledger.commit("policy_input", &swapped);
            vec![draft]
        });
        caught(&report, "P5");
        assert!(said(&report).contains(what), "{what}: {}", said(&report));
    }
    // The whole input of another decision of the same run.
    let report = replayed(&bundle, |ledger| {
        let first = decided(ledger, &bundle, &asked("c1", READ, "[]"));
        let mut second = decided(ledger, &bundle, &asked("c2", SECRET, "[]"));
        second.commit[1] = first.commit[1].clone();
        vec![first, second]
    });
    caught(&report, "P5");
}

/// The input of a call of a run that has read private data, with a finding in its arguments.
fn asked_after_reading() -> String {
    let args = r#"{"path":"a.pem","to":"ann@example.com"}"#;
    let rules = firewall::rules_digest().prefixed();
    let later = format!(
        r#""findings":[{{"class":"personal","confidence":"high","how":"plain","kind":"email","path":"/to","since":"new"}}],
        "firewall":{{"complete":true,"masked":false,"rules":"{rules}"}},
        "taint":{{"egress":"inside","floor":{{"label_only":"alert","trifecta":"approve"}},
        "influence":{{"private":1,"unknown":false,"untrusted":0}},"labels":["private"],"since":{{"private":"c0"}},
        "trifecta":false,"trifecta_influenced":false}}"#
    );
    let first = canonical::text(&asked("c1", args, "[]"));
    let second = first.replacen(r#""findings":[]"#, &later, 1);
    canonical::text(&json(&second.replacen("input/1", "input/2", 1)))
}

/// A run whose first call brought private data, and whose second one is recorded so. `seen`: the input that is
/// committed to for it.
fn read_first(seen: &str) -> Report {
    let bundle = policies(RULES, "");
    let ledger = ledger_of(&bundle, |ledger| {
        let first = decided(ledger, &bundle, &asked("c0", READ, "[]"));
        ledger.add(first);
        let brought =
            r#"{"us":1200,"status":"200","attempts":1,"observed":{"labels":["private"]}}"#;
        let mut end = Draft::of(Kind::CallCompleted, json(brought));
        (end.run, end.call) = (Some(run_id(1)), CallId::parse("c0"));
        end.commit = vec![ledger.commit("result", b"{}")];
        ledger.add(end);
        let mut draft = decided(ledger, &bundle, &json(&asked_after_reading()));
        let span = r#"{"call":"c0","end":9,"label":"private","path":"/to","start":0}"#;
        let labels = r#"[{"call":"c0","label":"private"}]"#;
        let taint = format!(r#"{{"influenced":["private"],"labels":{labels},"spans":[{span}]}}"#);
        set(&mut draft, "taint", &taint);
        let named = r#"[{"action":"warn","class":"personal","confidence":"high","kind":"email","path":""}]"#;
        set(&mut draft, "findings", named);
        draft.commit[1] = ledger.commit("policy_input", seen.as_bytes());
        vec![draft]
    });
    verify_files(&export_of(&ledger, run_id(1), &[]), &trusting(&bundle))
}

#[test]
fn what_a_policy_saw_of_earlier_answers_and_of_findings_is_what_is_recorded() {
    let honest = asked_after_reading();
    let rules = firewall::rules_digest().prefixed();
    let other = Digest::of(&[b"other rules"]).prefixed();
    let report = read_first(&honest);
    assert_eq!(report.exit_code(), 0, "{}", report.to_text());
    for (from, to, what) in [
        (
            r#""labels":["private"],"since":{"private":"c0"}"#,
            r#""labels":[],"since":{}"#,
            "taint.labels",
        ),
        (r#""labels":["private"]"#, r#""labels":["untrusted"]"#, "taint.since"),
        (r#""private":"c0""#, r#""private":"c9""#, "taint.since"),
        (r#""private":1"#, r#""private":0"#, "taint.influence"),
        (r#""private":1"#, r#""private":2"#, "taint.influence"),
        (r#""unknown":false"#, r#""unknown":true"#, "taint.influence"),
        (r#""trifecta":false"#, r#""trifecta":true"#, "taint.trifecta"),
        ("influenced\":false", "influenced\":true", "taint.trifecta_influenced"),
        (r#""masked":false"#, r#""masked":true"#, "firewall.masked"),
        (r#""complete":true"#, r#""complete":false"#, "firewall.complete"),
        (rules.as_str(), other.as_str(), "firewall.rules"),
        (r#""confidence":"high""#, r#""confidence":"low""#, "lack a recorded one"),
        (r#""how":"plain""#, r#""how":"decoded""#, "do not follow from the arguments"),
        (r#""kind":"email""#, r#""kind":"card""#, "lack a recorded one"),
    ] {
        assert!(honest.contains(from), "{from}");
        let seen = honest.replacen(from, to, 1);
        let report = read_first(&seen);
        caught(&report, "P5");
        assert!(said(&report).contains(what), "{what}: {}", said(&report));
    }
}

#[test]
fn a_policy_exchanged_for_another_does_not_say_the_same() {
    // The lenient bundle was in force, and the strict one is what the log is made to name.
    let (lenient, strict) = (policies(&RULES.replace(".pem", ".key"), ""), policies(RULES, ""));
    let report = replayed(&strict, |ledger| {
        let mut draft = decided(ledger, &lenient, &asked("c1", SECRET, "[]"));
        assert_eq!(draft.verdict, Some(Verdict::Allow));
        draft.policy = Some(strict.digest());
        let layers = canonical::text(&Json::of(&decided::layers(strict.layers())));
        set(&mut draft, "layers", &layers);
        vec![draft]
    });
    caught(&report, "P5");
    // Bytes that are no policy at all cannot be asked.
    let mut ledger = two_runs();
    let denial = ledger.decided(run_id(1), "c9", Kind::CallDenied, Verdict::Deny);
    assert_eq!(denial.policy, Some(Digest::of(&[crate::forged::TAR])));
    let files = export_of(&ledger, run_id(1), &[]);
    caught(&verify_files(&files, &Trust { replay: true, ..trust() }), "P5");
}

#[test]
fn a_decision_whose_input_policy_or_arguments_are_not_here_cannot_be_made_again() {
    let bundle = policies(RULES, "");
    let all = |ledger: &mut TestLedger| {
        let args = |id| format!(r#"{{"path":"{id}.rs"}}"#);
        ["c1", "c2"].map(|id| decided(ledger, &bundle, &asked(id, &args(id), "[]"))).to_vec()
    };
    for (role, why) in [("policy_input", "input is not disclosed"), ("args", "arguments are not")] {
        let mut ledger = ledger_of(&bundle, all);
        let one = ledger.payloads.iter().find(|(_, p)| p.role == role).map(|(c, _)| *c).unwrap();
        ledger.payloads.remove(&one);
        let report = verify_files(&export_of(&ledger, run_id(1), &[]), &trusting(&bundle));
        assert_eq!(report.exit_code(), 2, "{}", report.to_text());
        assert!(
            said(&report).starts_with("1 decision reproduced with the same result; 1 not: "),
            "{}",
            said(&report)
        );
        assert!(said(&report).contains(why), "{}", said(&report));
    }
    let mut files = export_of(&ledger_of(&bundle, all), run_id(1), &[]);
    files.0.remove(POLICY).unwrap();
    remake(&mut files, &key(EVIDENCE));
    let report = verify_files(&files, &trusting(&bundle));
    assert_eq!(report.exit_code(), 2, "{}", report.to_text());
    assert!(
        said(&report).contains("2 not: the bundle does not include the bytes of"),
        "{}",
        said(&report)
    );
}

#[test]
fn replay_skips_and_reports_policy_timeouts_and_decisions_of_another_engine() {
    let bundle = policies(RULES, "");
    let late = policy::EngineError::Deadline(policy::rego::DEADLINE);
    let report = replayed(&bundle, |ledger| {
        let late = policy::or_denial(Err(late));
        vec![written(ledger, &bundle, &asked("c1", READ, "[]"), &late)]
    });
    assert_eq!(report.exit_code(), 2, "{}", report.to_text());
    assert!(said(&report).contains("took too long"), "{}", said(&report));
    let report = forged(READ, |draft| set(draft, "engine", r#""regorus/0.1.0""#));
    assert_eq!(report.exit_code(), 2, "{}", report.to_text());
    assert!(said(&report).contains("decided by `regorus/0.1.0`"), "{}", said(&report));
}

#[test]
fn replay_counts_denials_before_any_policy_separately_and_accepts_only_those() {
    let bundle = policies(RULES, "");
    let before = |ledger: &mut TestLedger, code: &str, kind: Kind, verdict: Verdict| {
        let mut draft = decided(ledger, &bundle, &asked("c2", SECRET, "[]"));
        draft.commit.truncate(1);
        draft.kind = kind;
        draft.verdict = Some(verdict);
        let reason = format!(r#"[{{"code":"{code}","detail":"","message":"m","rule":"limits"}}]"#);
        set(&mut draft, "reasons", &reason);
        draft.rule = Some("limits".into());
        draft
    };
    let report = replayed(&bundle, |ledger| {
        let first = decided(ledger, &bundle, &asked("c1", READ, "[]"));
        vec![first, before(ledger, "limit.exceeded", Kind::CallDenied, Verdict::Deny)]
    });
    assert_eq!(report.exit_code(), 0, "{}", report.to_text());
    assert_eq!(
        said(&report),
        "1 decision reproduced with the same result; 1 refused before any policy was evaluated"
    );
    for (code, kind, verdict, why) in [
        ("policy.denied", Kind::CallDenied, Verdict::Deny, "commits to no policy input"),
        ("policy.error", Kind::CallDenied, Verdict::Deny, "commits to no policy input"),
        ("limit.exceeded", Kind::CallAuthorized, Verdict::Allow, "no policy was evaluated"),
    ] {
        let report = replayed(&bundle, |ledger| vec![before(ledger, code, kind, verdict)]);
        caught(&report, "P5");
        assert!(said(&report).contains(why), "{}", said(&report));
    }
}

#[test]
fn nothing_is_evaluated_for_a_bundle_that_has_failed_already() {
    let bundle = policies(RULES, "");
    let ledger = ledger_of(&bundle, |b| vec![decided(b, &bundle, &asked("c1", READ, "[]"))]);
    let mut files = export_of(&ledger, run_id(1), &[]);
    files.put("extra.txt", "x");
    let report = verify_files(&files, &trusting(&bundle));
    assert!(matches!(report.outcome("P5"), Some(Outcome::Unverifiable(why)) if why.contains("B2")));
}
