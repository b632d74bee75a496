//! Rules of the operator beside ours: shapes of keys of their own, rules in the form of gitleaks, and marks by which
//! the same value is known again.

use serde_json::{Value, json};

use crate::private::private;
use crate::world::World;
use wicketgate_support::ran::Ran;

/// WHY in parts: a scanner of this repository finds none.
fn key(n: u8) -> String {
    ["labk_", "q7rt2mvx9bk4wz1hd8f3", &format!("n{n}pc")].concat()
}

fn token() -> String {
    ["lab", "token = ", "b8x1kq7zr2w4lm1nc8vd"].concat()
}

const SHAPES: &str = "shapes:\n  - kind: lab_key\n    about: key of a robot of the lab\n    prefixes: [labk_]\n    \
    alphabet: lower\n    min: 20\n    max: 40\n  - kind: lab_badge\n    prefixes: [badge-]\n    alphabet: digit\n    \
    min: 8\n    max: 8\n    distinct_min: 2\n    left: any\n    right: any\n";

const RULES: &str = "title = \"ours\"\n[[rules]]\nid = \"lab-token\"\ndescription = \"token of the lab\"\n\
    regex = '''(?i)labtoken\\s*=\\s*([a-z0-9]{20})'''\nkeywords = [\"labtoken\"]\nentropy = 3.0\n\
    [[rules.allowlists]]\nstopwords = [\"sample\"]\n";

async fn world() -> World {
    let firewall = json!({"shapes": ["lab.yaml"], "gitleaks": ["ours.toml"], "marks": {"key_file": "marks.key"},
        "tools": {"argv": {"arguments": {"secret": "redact"}}}});
    let files = [("lab.yaml", SHAPES), ("ours.toml", RULES), ("marks.key", MARKS)];
    World::furnished(Vec::new(), "", firewall, &files).await
}

const MARKS: &str = "6a6b6c6d6e6f707172737475767778797a6162636465666768696a6b6c6d6e6f\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_an_operator_are_refused_by_their_kind_and_a_verifier_searches_with_the_same_rules()
{
    let world = world().await;
    let refusals = [
        ("lab_key", format!("use {} now", key(1))),
        ("lab_key", format!("again {}", key(1))),
        ("lab_key", format!("another {}", key(2))),
        ("lab_token", token()),
        ("lab_badge", "xbadge-123456789".to_owned()),
    ];
    for (kind, text) in &refusals {
        let refused = world.call("http", &json!({"text": text})).await.unwrap_err();
        assert_eq!(refused.detail, "dlp.secret", "{kind}: {refused:?}");
        assert!(refused.message.contains(kind), "{refused:?}");
    }
    for passes in [
        "labk_short".to_owned(),
        token().replace("b8x1kq", "sample"),
        token().replace("8x1kq7zr2w4lm1nc8vd", &"b".repeat(19)),
        "badge-11111111".to_owned(),
        format!("x{}", key(1)),
    ] {
        let said = world.call("http", &json!({"text": passes})).await;
        said.unwrap_or_else(|why| panic!("{passes}: {why:?}"));
    }
    // A mask names the kind.
    let said = world.call("argv", &json!({"a": key(1)})).await.unwrap();
    assert!(said.contains("[REDACTED:lab_key]"), "{said}");
    let counted = world.gate.metrics().await;
    let of_arguments = |line: &&str| line.contains("findings_total") && line.contains("\"block\"");
    let lines: Vec<&str> = counted.lines().filter(of_arguments).collect();
    assert!(lines.iter().any(|line| line.contains("kind=\"own\"")), "{lines:?}");
    assert!(!counted.contains("lab_"), "kinds of operators are no labels: {lines:?}");
    world.agent.seal().await.unwrap();
    let World { estate, gate, agent, .. } = world;
    gate.finish();
    let found: Vec<Value> =
        estate.entries("call.denied").iter().map(|data| data["findings"][0].clone()).collect();
    let kinds: Vec<&str> = found.iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, refusals.map(|(kind, _)| kind));
    let mark = |n: usize| found[n]["mark"].as_str().unwrap();
    assert_eq!((mark(0), mark(0).len()), (mark(1), 32), "the same value has the same mark");
    assert_ne!(mark(0), mark(2));
    let masked = &estate.entries("call.authorized").pop().unwrap();
    assert_eq!(masked["findings"][0]["mark"], mark(0), "{masked}");
    let rules = masked["firewall"].as_str().unwrap().strip_prefix("sha256:").unwrap();

    let export = ["evidence", "export", "--config", "wicketgate.yaml", "--run", &agent.run];
    estate.run(&[&export[..], &["--out", "proof", "--key", "evidence"]].concat());
    let carried = estate.path(&format!("proof/firewall/{rules}.json"));
    let text = std::fs::read_to_string(&carried).unwrap();
    assert!(text.contains("labk_") && !text.contains(&key(1)), "{text}");
    let trust = "evidence-key evidence.pub\nenrolment-key state/enrolment.key.pub\nmanifest-key manifest.pub\n";
    std::fs::write(estate.path("trust.txt"), trust).unwrap();
    let verify = ["evidence", "verify", "--json", "--replay", "--trust", "trust.txt", "proof"];
    let verified = Ran::gate(estate.path(""), verify).text();
    assert!(verified.contains("reproduced with the same result"), "{verified}");
    assert!(!verified.contains("another rule set"), "{verified}");
    // Without the file a verifier says that it has other rules; with another one the bundle is not sound.
    std::fs::write(&carried, text.replace("labk_", "labq_")).unwrap();
    let verified = Ran::gate(estate.path(""), verify).text();
    assert!(verified.contains("is not what was signed"), "{verified}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn marks_of_personal_data_are_asked_for_and_without_a_key_there_are_none() {
    let mail = json!({"text": "write to ann@example.com"});
    let mark = async |marks: Value| {
        let firewall = if marks.is_null() { json!({}) } else { json!({"marks": marks}) };
        let world = World::furnished(Vec::new(), "", firewall, &[("marks.key", MARKS)]).await;
        world.call("http", &mail).await.unwrap();
        world.agent.seal().await.unwrap();
        let World { estate, gate, .. } = world;
        gate.finish();
        let found = estate.entries("call.authorized")[0]["findings"][0].clone();
        assert_eq!(found["kind"], "email", "{found}");
        found["mark"].clone()
    };
    assert_eq!(mark(Value::Null).await, Value::Null);
    assert_eq!(mark(json!({"key_file": "marks.key"})).await, Value::Null);
    let personal = mark(json!({"key_file": "marks.key", "personal": true})).await;
    assert_eq!(personal.as_str().map(str::len), Some(32), "{personal}");
}

/// Letters that decode to text in each of four ways.
fn encoded() -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    STANDARD.encode("a line of an ordinary report, which goes on. ".repeat(9000))
}

/// Every fact about findings of the kind `email`, and about the search, as reasons of a denial.
const FACTS: &str = r#"deny contains {"code": "found", "message": concat(" ", [f.how, f.confidence, object.get(f, "mark", "none")])} if {
	some f in input.findings
	f.kind == "email"
}
deny contains {"code": "masked", "message": "a mask is shown"} if input.firewall.masked
deny contains {"code": "cut", "message": input.firewall.rules} if not input.firewall.complete
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_sees_how_sure_a_finding_is_how_it_was_written_its_mark_and_how_it_was_searched_for()
 {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let said = async |marks: Value, text: &str| {
        let firewall = json!({"marks": marks, "tools": {"http": {"arguments": {"secret": "warn"}}},
            "work": {"mib_ms": 25}});
        let mut firewall = firewall;
        if firewall["marks"].is_null() {
            firewall.as_object_mut().unwrap().remove("marks");
        }
        let world = World::furnished(Vec::new(), FACTS, firewall, &[("marks.key", MARKS)]).await;
        let refused = world.call("http", &json!({"text": text})).await.unwrap_err();
        let World { gate, .. } = world;
        gate.finish();
        (refused.detail, refused.message)
    };
    let marked = || json!({"key_file": "marks.key", "personal": true});
    let mail = "write to ann@example.com";
    let (detail, message) = said(marked(), mail).await;
    assert_eq!(detail, "found", "{message}");
    let mark = message.split("plain high ").nth(1).unwrap_or_else(|| panic!("{message}"));
    assert!(mark.len() >= 32 && mark[..32].bytes().all(|b| b.is_ascii_hexdigit()), "{message}");
    let (_, message) = said(Value::Null, mail).await;
    assert!(message.contains("plain high none"), "{message}");
    let (_, message) = said(Value::Null, &STANDARD.encode(mail)).await;
    assert!(message.contains("decoded high none"), "{message}");
    let (detail, message) = said(Value::Null, &["AKIA", "IOSFODNN7EXAMPLE"].concat()).await;
    assert_eq!(detail, "masked", "{message}");
    let (detail, message) = said(Value::Null, &encoded()).await;
    assert_eq!(detail, "cut", "{message}");
    assert!(message.contains("sha256:"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_that_takes_more_work_than_it_may_blocks_and_a_verifier_searches_as_long() {
    let world = World::furnished(Vec::new(), "", json!({"work": {"mib_ms": 25}}), &[]).await;
    let refused = world.call("http", &json!({"text": encoded()})).await.unwrap_err();
    assert_eq!(refused.detail, "dlp.unavailable", "{refused:?}");
    world.call("http", &json!({"text": "an ordinary text"})).await.unwrap();
    world.agent.seal().await.unwrap();
    let World { estate, gate, agent, .. } = world;
    gate.finish();
    let export = ["evidence", "export", "--config", "wicketgate.yaml", "--run", &agent.run];
    estate.run(&[&export[..], &["--out", "proof", "--key", "evidence"]].concat());
    let trust = "evidence-key evidence.pub\nenrolment-key state/enrolment.key.pub\nmanifest-key manifest.pub\n";
    std::fs::write(estate.path("trust.txt"), trust).unwrap();
    let verify = ["evidence", "verify", "--json", "--replay", "--trust", "trust.txt", "proof"];
    let verified = Ran::gate(estate.path(""), verify).text();
    assert!(verified.contains("reproduced with the same result"), "{verified}");
    assert!(!verified.contains("another rule set"), "{verified}");
    // With the work that is the default, all of it is searched.
    std::fs::write(estate.path("long.txt"), encoded()).unwrap();
    let scan = |more: &[&str]| {
        Ran::gate(estate.path(""), [&["policy", "firewall", "scan", "long.txt"][..], more].concat())
    };
    scan(&[]).ok().says("nothing is found");
    scan(&["--mib-ms", "25"]).ok().says("unscanned (unscanned, high");
    scan(&["--mib-ms", "5"]).ends(1).complains("from 25 to 2500");
}

#[test]
fn what_is_wrong_with_a_file_of_rules_or_a_key_is_named_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let scan = |args: &[&str]| {
        let scan = ["policy", "firewall", "rules"];
        Ran::gate(dir, [&scan[..], args].concat())
    };
    private(dir.join("lab.yaml"), SHAPES);
    private(dir.join("ours.toml"), RULES);
    let ours = scan(&[]).ok();
    let all = scan(&["--shapes", "lab.yaml", "--gitleaks", "ours.toml"]).ok();
    let all = all.says("lab_key").says("key of a robot of the lab").says("lab_token");
    assert_ne!(ours.out.lines().last(), all.out.lines().last(), "the digest tells them apart");
    private(dir.join("bad.yaml"), SHAPES.replace("[labk_]", "[x]"));
    scan(&["--shapes", "bad.yaml"]).ends(1).complains("bad.yaml:4:").complains("`x` is none");
    private(dir.join("bad.toml"), RULES.replace("keywords = [\"labtoken\"]\n", ""));
    scan(&["--gitleaks", "bad.toml"])
        .ends(1)
        .complains("bad.toml:2: the rule `lab-token` has no `keywords`");
    private(dir.join("corpus.jsonl"), json!({"text": key(3), "kinds": ["lab_key"]}).to_string());
    let test = ["policy", "firewall", "test", "corpus.jsonl", "--shapes", "lab.yaml"];
    Ran::gate(dir, test).ok().says("1 found, 0 missed, 0 in vain, recall 1.000, precision 1.000");
}
