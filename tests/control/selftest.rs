//! The gate tests itself: bundles it does not trust, and a call of its own that must be denied.

use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::process::Signal;
use serde_json::json;
use wicketgate::control::{Action, Target};
use wicketgate::domain::call::CallerAuth;
use wicketgate::domain::decision::{LayerDigest, Verdict};
use wicketgate::domain::digest::Digest;
use wicketgate::domain::tier::Face;
use wicketgate::enforce::{self, CallRequest, Canary, Opening, Policy, Thread};
use wicketgate::identity::Caller;
use wicketgate::policy::bundle::Bundle;
use wicketgate::policy::lint::{Surroundings, lint};
use wicketgate::policy::{Answer, EngineError, PolicyEngine};
use wicketgate_support::memory;
use wicketgate_support::memory::orders::MemoryControl;

use crate::checker::{check, kinds};
use crate::road::{Bench, Serving, granting, manifest};
use crate::sidecar::{Estate, run};
use crate::tool::Tool;

const HEAD: &str = "package wicketgate.agent\nimport rego.v1\n";
const SOUND: &str = "allow if input.tool.name == \"work.do\"\n";
/// A protection that protects nothing: it is `tool.name`.
const MISSPELT: &str = "deny contains \"no\" if input.tool.naem == \"work.do\"\n";

async fn serving() -> (Serving, Arc<MemoryControl>, Arc<Bench>) {
    let (list, bench) = (Arc::new(MemoryControl::default()), Bench::new());
    let (store, orders) = (Arc::new(memory::MemoryStore::new()), Arc::clone(&list));
    let settings = enforce::Settings { self_test: true, ..enforce::Settings::default() };
    let serving = Serving::start(store, &bench, settings, |_| orders as _).await;
    (serving, list, bench)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_canary_is_denied_and_recorded_before_the_gate_is_ready_and_again_later() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    estate.configure(|config| config["self_test"] = json!({"every_seconds": 10}));
    let mut sidecar = estate.serve().await;
    let passed = |count: u64| format!("wicketgate_self_tests_total{{passed=\"true\"}} {count}");
    assert!(sidecar.metrics().await.contains(&passed(1)), "{}", sidecar.metrics().await);
    let agent = sidecar.open().await;
    agent.call("work.do", "a", "{}").await.unwrap();
    crate::until("a second canary", || async { sidecar.metrics().await.contains(&passed(2)) })
        .await;
    agent.call("work.do", "b", "{}").await.unwrap();
    agent.seal().await.unwrap();
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!(kinds(&summary, "enforcement.tested"), 2);
    assert_eq!(kinds(&summary, "call.denied"), 2);
    assert_eq!((kinds(&summary, "run.opened"), kinds(&summary, "run.sealed")), (3, 3));
    assert_eq!(tool.count(), 2, "the canary reached nothing");
    let shown = estate.try_run(&["ledger", "verify", "--sqlite", "state/ledger.sqlite"]).out;
    assert!(shown.contains("3 runs sealed, 0 open") && !shown.contains("not known"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_that_is_not_denied_runs_nothing_and_shuts_the_gate_until_one_is() {
    let (serving, _list, bench) = serving().await;
    let call = serving.open().await.unwrap();
    serving.call(&call, "t.one").await.unwrap();
    // This manifest grants what nobody may have, and the scripted policy allows everything.
    let wrong = [granting(|_| true)];
    let why = "the self-test call got `call.cancelled` instead of `tool.not_granted`".to_owned();
    assert_eq!(serving.road.test_enforcement(&wrong).await, Canary::Failed(why.clone()));
    assert_eq!(bench.count(), 1, "an allowed canary is only simulated");
    assert_eq!(
        serving.road.control().self_test_reasons(),
        [format!("self-test: {why}: the gate accepts no calls")]
    );
    let refused = ("not_ready".to_owned(), "self_test.canary".to_owned());
    for tool in ["t.zero", "t.one", "t.two", "t.three"] {
        assert_eq!(serving.call(&call, tool).await.unwrap_err(), refused, "{tool}");
    }
    assert_eq!(serving.road.test_enforcement(&[manifest()]).await, Canary::Passed);
    assert!(serving.road.control().self_test_reasons().is_empty());
    serving.call(&call, "t.one").await.unwrap();
    assert_eq!(bench.count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_that_cannot_be_recorded_shuts_the_gate() {
    let (serving, _list, _bench) = serving().await;
    assert_eq!(
        serving.road.control().self_test_reasons(),
        ["self-test: the first call has not passed yet"]
    );
    // Its run is open already, so that it is the call that cannot be written down, nor the run sealed.
    let auth = CallerAuth { method: "internal".into(), ..CallerAuth::default() };
    let caller = Caller { manifest: manifest(), auth };
    let thread = Thread::Named("canary".into());
    serving.road.implicit_run(Face::Mcp, &caller, &thread, Opening::default()).await.unwrap();
    serving.close_ledger();
    let failed = serving.road.test_enforcement(&[manifest()]).await;
    let Canary::Failed(why) = failed else { panic!("{failed:?}") };
    assert!(why.starts_with("the self-test call could not be recorded: "), "{why}");
    assert_eq!(
        serving.road.control().self_test_reasons(),
        [format!("self-test: {why}: the gate accepts no calls")]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_at_which_no_agent_may_open_a_run_has_nothing_to_test() {
    let (serving, list, _bench) = serving().await;
    crate::control::order(&*list, Action::Suspend, Target::All).await;
    let came = serving.road.test_enforcement(&[manifest()]).await;
    assert_eq!(came, Canary::NotTried("no agent may open a run".to_owned()));
    assert!(serving.road.control().self_test_reasons().is_empty());
    crate::control::order(&*list, Action::Reinstate, Target::All).await;
    assert_eq!(serving.road.test_enforcement(&[manifest()]).await, Canary::Passed);
}

/// Keeps what it was asked, and allows it.
#[derive(Debug, Default)]
struct Spy(Mutex<Vec<u8>>);

impl PolicyEngine for Spy {
    fn decide(&self, input: &[u8]) -> Result<Answer, EngineError> {
        *self.0.lock() = input.to_vec();
        let (reasons, obligations) = (Vec::new(), Vec::new());
        Ok(Answer { verdict: Verdict::Allow, reasons, obligations, enforced: true })
    }

    fn digest(&self) -> Digest {
        Digest::of(&[b"spy"])
    }

    fn layers(&self) -> &[LayerDigest] {
        &[]
    }

    fn engine(&self) -> &'static str {
        "test/1"
    }
}

/// A condition for everything below this place of an input document.
fn conditions(at: &str, value: &serde_json::Value, out: &mut String) {
    match value {
        serde_json::Value::Object(members) => {
            for (name, member) in members {
                conditions(&format!("{at}[\"{name}\"]"), member, out);
            }
        }
        serde_json::Value::Array(items) => {
            for item in items {
                conditions(&format!("{at}[_]"), item, out);
            }
        }
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => {
            writeln!(out, "deny contains \"no\" if {at} == {value}").unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lints_know_every_member_that_a_real_input_has_and_its_values() {
    let (serving, _list, _bench) = serving().await;
    let spy = Arc::new(Spy::default());
    serving.road.activate(Policy::unsigned(Arc::clone(&spy) as _, "spy", "1"), None).await.unwrap();
    let call = serving.open().await.unwrap();
    let arguments = br#"{"to":"ada@mail.example.org","n":[1,{"m":null}]}"#.to_vec();
    let request = CallRequest { tool: "t.one".into(), arguments, ..CallRequest::default() };
    serving.road.execute(&call, request).await.unwrap();
    let input: serde_json::Value = serde_json::from_slice(&spy.0.lock()).unwrap();
    assert_eq!(input["findings"][0]["kind"], "email", "{input}");
    let mut rules = format!("{HEAD}{SOUND}");
    conditions("input", &input, &mut rules);
    assert!(rules.lines().count() > 30, "{rules}");
    // The tools of these tests are of a kind of their own.
    let rules = rules.replace("== \"test\"", "== \"http\"");
    let text = |text: &str| text.as_bytes().to_vec();
    let meta = text(r#"{"name":"t","version":"1.0.0"}"#);
    let files = [("bundle.json".to_owned(), meta), ("agent/a.rego".to_owned(), text(&rules))];
    let bundle = Bundle::of_files(files.into()).unwrap();
    let around = Surroundings { tools: &[], approvers: 1, webhook: false };
    assert_eq!(lint(&bundle, &around), [], "{rules}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_that_a_lint_finds_an_error_in_is_refused_at_start_and_on_reload() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    estate.bundle("1.0.0", &format!("{HEAD}{SOUND}{MISSPELT}"), "policy");
    let mut sidecar = estate.start();
    sidecar.not_ready("policy: no bundle is in force").await;
    crate::until("the finding", || async {
        sidecar.said().contains("agent/main.rego:4: error: lint.input_never_supplied")
    })
    .await;
    estate.bundle("1.0.1", &format!("{HEAD}{SOUND}"), "policy");
    sidecar.signal(Signal::HUP);
    sidecar.ready().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", "{}").await.unwrap();
    estate.bundle("1.0.2", &format!("{HEAD}allow if true\n"), "policy");
    sidecar.signal(Signal::HUP);
    crate::until("the refusal", || async {
        sidecar.said().contains("agent/main.rego:3: error: lint.default_allow")
    })
    .await;
    // The old one stays: it never allowed this tool.
    assert_eq!(agent.call("work.fail", "b", "{}").await.unwrap_err().detail, "no_allow");
    agent.call("work.do", "c", "{}").await.unwrap();
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!(kinds(&summary, "policy.activated"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_lints_only_warn_the_bundle_is_in_force_and_readiness_says_what_was_found() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    estate.configure(|config| config["policy"]["lint"] = json!("warn"));
    estate.bundle("1.0.0", &format!("{HEAD}allow if true\n"), "policy");
    let mut sidecar = estate.serve().await;
    let (_, text) = sidecar.readiness().await.unwrap();
    assert!(text.contains("policy: agent/main.rego:3: error: lint.default_allow"), "{text}");
    sidecar.open().await.call("work.do", "a", "{}").await.unwrap();
    estate.bundle("1.0.1", &format!("{HEAD}{SOUND}"), "policy");
    sidecar.signal(Signal::HUP);
    crate::until("a bundle without findings", || async {
        sidecar.readiness().await.is_some_and(|(ready, text)| ready && !text.contains("lint."))
    })
    .await;
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_whose_agents_are_granted_nothing_is_not_ready() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    estate.manifest("1.0.1", "manifest", |text| {
        let mut manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
        manifest["spec"]["tools"] = json!([]);
        manifest.to_string()
    });
    let mut sidecar = estate.start();
    sidecar.not_ready("manifests: no agent is granted a tool").await;
    sidecar.signal(Signal::TERM);
    sidecar.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lint_command_takes_tools_and_approvers_from_the_configuration() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let lint = ["policy", "lint", "--bundle", "bundle"];
    let alone = run(&estate.path("."), &lint);
    assert_eq!(alone, "test 1.0.0: no finding\n");
    let config = ["--config", "wicketgate.yaml"];
    let told = run(&estate.path("."), &[&lint[..], &config[..]].concat());
    assert!(told.contains("warning: lint.no_channel"), "{told}");
    assert_eq!(told.matches(": lint.").count(), 1, "{told}");
}
