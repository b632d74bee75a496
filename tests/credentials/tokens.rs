//! Tokens of a gate: in every encoding and at every place of a call they are refused before anything is recorded,
//! and nothing comes out with one; what only looks like one is ordinary text.

use proptest::prelude::*;
use serde_json::{Value, json};
use wicketgate::domain::call::{CallOrigin, CallerAuth, ToolCall};
use wicketgate::domain::id::{CallId, RunId};
use wicketgate::domain::token::{self, Family};
use wicketgate::serve::pb;

use crate::agent::{self, Agent, Refused};
use crate::encodings;
use crate::estate::Estate;
use crate::kinds::{holds, tells, whole};
use crate::private::private;
use crate::world::{MARK, World};

/// The same with another last character: of the same shape, and no token.
fn near(token: &str) -> String {
    let other = if token.ends_with('0') { '1' } else { '0' };
    format!("{}{other}", &token[..token.len() - 1])
}

/// Everywhere in an object that a text may stand; the name of a member has 256 bytes at most.
fn places(text: &str) -> Vec<Value> {
    vec![
        json!({"text": text}),
        if text.len() > 256 { json!({"text": [text]}) } else { json!({"text": "x", text: 1}) },
        json!({"text": "x", "more": [{"deep": ["a", format!("é {text} \"é\"")]}]}),
        json!({"text": json!({"quoted": text}).to_string()}),
    ]
}

fn parsed(id: &str, tool: &str, args: &Value) -> Result<ToolCall, &'static str> {
    let asking = CallOrigin {
        run: RunId::from_random([1; 16]),
        id: CallId::parse(id).unwrap(),
        after: 0,
        agent: "agent".into(),
        auth: CallerAuth::default(),
        traceparent: None,
    };
    ToolCall::parse(asking, tool, args.to_string().as_bytes()).map_err(|error| error.code)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn there_is_no_call_that_holds_a_token_and_one_with_a_wrong_checksum_is_text(
        bits: [u8; 32],
        family in prop::sample::select(Family::ALL),
    ) {
        let token = token::write(family, &bits);
        for ((name, held), (_, free)) in encodings::forms(&token).into_iter().zip(encodings::forms(&near(&token))) {
            for (held, free) in places(&held).iter().zip(&places(&free)) {
                prop_assert_eq!(parsed("c", "t", held).unwrap_err(), "call.token", "{}: {}", name, held);
                prop_assert!(parsed("c", "t", free).is_ok(), "{}: {}", name, free);
            }
        }
        let numbers: Vec<u8> = token.bytes().collect();
        let list = json!({"list": numbers});
        prop_assert!(parsed("c", "t", &list).is_err());
        let none = json!({});
        for named in [token.clone(), token.chars().rev().collect()] {
            prop_assert!(parsed(&named, "t", &none).is_err(), "an id");
            prop_assert!(parsed("c", &named, &none).is_err(), "a tool");
        }
        prop_assert!(parsed(&near(&token), &near(&token), &none).is_ok());
    }
}

fn refused(answer: Result<String, Refused>, about: &str) {
    let refused = answer.expect_err(about);
    let said = (refused.code.as_str(), refused.detail.as_str());
    assert_eq!(said, ("request.malformed", "call.token"), "{about}: {refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_token_goes_into_a_tool_or_into_any_byte_that_is_kept() {
    let world = World::knowing(Vec::new()).await;
    let before = world.reached();
    let made = |family, byte| token::write(family, &[byte; 32]);
    let tokens = [world.agent.token.clone(), made(Family::Agent, 3), made(Family::Operator, 5)];
    assert_eq!(token::parse(&tokens[0]).unwrap().0, Family::Run);
    for token in &tokens {
        for (name, form) in encodings::forms(token) {
            for args in places(&form) {
                refused(world.call("http", &args).await, &format!("{name}: {args}"));
            }
            refused(world.call("nothing.of.this.name", &json!({"a": form})).await, &name);
        }
        refused(world.agent.call("http", token, r#"{"text":"x"}"#).await, "an id");
        refused(world.agent.call(token, "", "{}").await, "a tool");
        let claims = |label: &str, model: &str| pb::OpenRunRequest {
            labels: [(label.to_owned(), token.clone())].into(),
            model: model.to_owned(),
            ..agent::claims()
        };
        for claims in [claims("l", "test-model"), claims(token, "test-model"), claims("l", token)] {
            let status = world.agent.gate.clone().open_run(claims).await.unwrap_err();
            assert_eq!(Refused::of(&status).detail, "run.token");
        }
    }
    assert_eq!(world.reached(), before, "nothing was told of it");
    // The neighbour of a token is a text like any other.
    let free = near(&tokens[0]);
    assert!(world.call("http", &json!({"text": free})).await.unwrap().contains(&free));
    assert!(world.call("http", &json!({"text": MARK})).await.unwrap().contains(MARK));
    let World { estate, gate, .. } = world;
    let log = gate.said();
    gate.finish();
    let kept = [log.into_bytes(), whole(&estate, "state")];
    for token in &tokens {
        for (name, form) in encodings::forms(token) {
            let quoted = json!(form).to_string();
            for part in [form.as_str(), quoted.trim_matches('"')] {
                assert!(!kept.iter().any(|kept| holds(kept, part)), "it is kept: {name}");
            }
        }
    }
    assert!(holds(&kept[1], &free) && holds(&kept[1], MARK));
    // Nothing of those calls stands in the ledger but how many requests were not admitted.
    assert_eq!(estate.entries("call.authorized").len(), 2);
    assert!(estate.entries("call.denied").is_empty());
    let rejected = estate.entries("request.rejected");
    assert!(rejected.iter().all(|one| one["code"] == "request.malformed"), "{rejected:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_comes_out_of_no_tool_and_its_neighbour_does() {
    let token = token::write(Family::Operator, &[9; 32]);
    let mut forms = encodings::forms(&token);
    let many = forms.len();
    forms.extend(encodings::forms(&near(&token)));
    let world = World::knowing(forms).await;
    for (n, (name, form)) in world.forms.iter().enumerate() {
        let said = world.call("http", &json!({"n": n})).await.unwrap();
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(tells(&said, "[REDACTED:credential]"), n < many, "{name}: {said}");
        // What no person sees leaves no tool, token or not.
        assert_eq!(tells(&said, form), n >= many && name != "tags", "{name}: {said}");
    }
}

/// A gate with one tool that reads, these rules and these `operators`.
fn reading(rules: &str, operators: Value) -> Estate {
    let tool = json!({"name": "reads", "description": "reads", "kind": "file.read", "tier": "T0",
        "read_only": true, "file": {"root": "data", "name": "data"}});
    let estate = Estate::new(&[tool]);
    std::fs::write(estate.path("bundle/agent/main.rego"), rules).unwrap();
    let sign = ["policy", "sign", "bundle", "--key", "policy", "--name", "command"];
    estate.run(&[&sign[..], &["--version", "1.0.0"]].concat());
    let config = std::fs::read_to_string(estate.path("wicketgate.yaml")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["operators"] = operators;
    std::fs::write(estate.path("wicketgate.yaml"), config.to_string()).unwrap();
    estate
}

/// What is stored of every payload of this role.
fn stored(estate: &Estate, role: &str) -> Vec<Vec<u8>> {
    let database = rusqlite::Connection::open(estate.path("state/ledger.sqlite")).unwrap();
    let mut asked =
        database.prepare("SELECT body FROM payload WHERE role = ? ORDER BY place").unwrap();
    let rows = asked.query_map([role], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layers_own_reason_decides_nothing_by_its_name() {
    let names = ["plain", "firewall.x", "firewall.credential", "control.killed", "args_withheld"];
    let mut rules = "package wicketgate.agent\nimport rego.v1\n".to_owned();
    for name in names {
        rules += &format!(
            "deny contains {{\"code\": \"{name}\", \"message\": \"the arguments hold a credential of this gate\"}} if input.args.path == \"{name}\"\n"
        );
    }
    let estate = reading(&rules, json!([]));
    names
        .iter()
        .for_each(|name| std::fs::write(estate.path(&format!("data/{name}")), "x").unwrap());
    let gate = estate.serve();
    let agent = gate.open().await;
    for name in names {
        let args = json!({"path": name}).to_string();
        let told = agent.call("reads", name, &args).await.unwrap_err();
        assert_eq!((told.code.as_str(), told.detail.as_str()), ("policy.denied", name));
        assert_eq!(agent.get(name).await.unwrap_err(), told);
    }
    gate.finish();
    let args: Vec<Value> =
        stored(&estate, "args").iter().map(|body| serde_json::from_slice(body).unwrap()).collect();
    assert_eq!(args, names.map(|name| json!({"path": name})));
    assert_eq!(stored(&estate, "policy_input").len(), names.len());
    let denied = estate.entries("call.denied");
    let members = |entry: &Value| entry.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert!(denied.iter().all(|entry| members(entry) == members(&denied[0])), "{denied:?}");
    assert_eq!(denied.len(), names.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_another_shape_that_somebody_shows_this_gate_is_a_credential() {
    const OLD: &str = "an-operators-token-of-no-shape-at-all/0123456789+abc";
    let operators = json!([{"subject": "anna", "roles": ["viewer"], "token_file": "anna.token"}]);
    let estate = reading(
        "package wicketgate.agent\nimport rego.v1\nallow if input.tool.name == \"reads\"\n",
        operators,
    );
    private(estate.path("anna.token"), OLD);
    std::fs::write(estate.path("data/told"), format!("before {OLD} after")).unwrap();
    let gate = estate.serve();
    let agent: Agent = gate.open().await;
    let told = agent.call("reads", "", r#"{"path":"told"}"#).await.unwrap();
    assert!(told.contains("before [REDACTED:credential] after"), "{told}");
    let denied = agent.call("reads", "", &json!({"path": OLD}).to_string()).await.unwrap_err();
    assert_eq!((denied.code.as_str(), denied.detail.as_str()), ("policy.denied", "no_allow"));
    let log = gate.said();
    gate.finish();
    for kept in [log.into_bytes(), whole(&estate, "state")] {
        assert!(!holds(&kept, OLD));
    }
}

#[test]
fn a_token_that_was_cut_or_is_of_another_kind_is_refused_with_what_to_do() {
    let estate = reading(
        "package wicketgate.agent\nimport rego.v1\nallow if input.tool.name == \"reads\"\n",
        json!([{"subject": "anna", "roles": ["viewer"], "token_file": "anna.token"}]),
    );
    let check = |token: &str| {
        let _ = std::fs::remove_file(estate.path("anna.token"));
        private(estate.path("anna.token"), token);
        let (ok, out, err) =
            crate::process::run(estate.command(&["config", "check", "wicketgate.yaml"]));
        (ok, out + &err)
    };
    for (file, name) in [("a", "operator"), ("b", "agent")] {
        estate.run(&["keygen", "--token", name, "--out", file]);
        assert!(
            !crate::process::run(estate.command(&["keygen", "--token", name, "--out", file])).0,
            "it is not replaced"
        );
    }
    let [good, other] = ["a", "b"].map(|file| std::fs::read_to_string(estate.path(file)).unwrap());
    assert_eq!(token::parse(&good).unwrap().0, Family::Operator);
    let (ok, said) = check(&good);
    assert!(ok, "{said}");
    let (ok, said) = check(&near(&good));
    assert!(!ok && said.contains("its checksum is wrong"), "{said}");
    let (ok, said) = check(&other);
    assert!(!ok && said.contains("wicketgate config keygen --token operator"), "{said}");
    assert!(!said.contains(&other[4..20]), "{said}");
}
