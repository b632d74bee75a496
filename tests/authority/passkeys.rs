//! Approvals by passkey through the built program: what a console's browser would send, made in software.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::checker::check;
use crate::people::{People, RULES, ask, done};
use crate::sidecar::{Estate, Sidecar, run};
use crate::tool::Tool;
use wicketgate_support::passkey::{Ceremony, Passkey, SYNCED};
use wicketgate_support::ran::Ran;

const CONSOLE: &str = "https://console.example.com";
const NAMESPACE: &str = "wicketgate-approval";
const ARGS: &str = r#"{"hold":true,"n":1}"#;

/// A gate with a trusted console; Ada has a passkey and an SSH key, Grace an SSH key.
struct Setup {
    people: People,
    passkey: Passkey,
    tool: Tool,
    estate: Estate,
    sidecar: Sidecar,
    agent: Agent,
}

impl Setup {
    async fn new(tier: &str, change: impl FnOnce(&mut Value)) -> Self {
        Self::under(RULES, tier, change).await
    }

    async fn under(rules: &str, tier: &str, change: impl FnOnce(&mut Value)) -> Self {
        let (people, tool) = (People::new(), Tool::start().await);
        let passkey = Passkey::new("example.com");
        let estate = Estate::sqlite(&tool);
        estate.bundle("1.0.1", rules, "policy");
        grant(&estate, tier);
        let line = |name: &str, key: &str| {
            format!("{name} namespaces=\"{NAMESPACE}\" {key} roles=approver\n")
        };
        let public = |name: &str| {
            let text = std::fs::read_to_string(people.path(&format!("{name}.pub"))).unwrap();
            text.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
        };
        let lines = [
            line("ada", &passkey.public().line()),
            line("ada", &public("ada")),
            line("grace", &public("grace")),
        ];
        people.sign(&format!("# wicketgate: version=2\n{}", lines.concat()));
        estate.configure(|config| {
            people.configure(config, true);
            config["approvals"]["passkey_origins"] = json!([CONSOLE]);
            change(config);
        });
        let sidecar = estate.serve().await;
        let agent = sidecar.open().await;
        Self { people, passkey, tool, estate, sidecar, agent }
    }

    async fn hold(&self, id: &str, args: &str) {
        let held = self.agent.call("work.do", id, args).await;
        assert_eq!(held.unwrap_err().code, "call.held", "{id}");
    }

    /// The statement that Ada is shown.
    async fn statement(&self, call: &str, verdict: &str) -> String {
        let path = format!("GET /v1/approvals/{}/{call}", self.agent.run);
        let door = self.sidecar.operator_url();
        let (status, _, shown) = ask(&door, &self.people.token("ada"), &path, &json!({})).await;
        assert_eq!(status, 200, "{shown}");
        shown[verdict].as_str().unwrap().to_owned()
    }

    /// Ada posts this about the call.
    async fn posts(&self, call: &str, statement: &str, signature: &str) -> (u16, Value) {
        let line = format!("POST /v1/approvals/{}/{call}", self.agent.run);
        let (door, body) =
            (self.sidecar.operator_url(), json!({"statement": statement, "signature": signature}));
        let (status, _, said) = ask(&door, &self.people.token("ada"), &line, &body).await;
        (status, said)
    }

    /// Ada decides in the browser; where the call is then, and why.
    async fn decides(&self, call: &str, verdict: &str, how: &Ceremony) -> (String, String) {
        let statement = self.statement(call, verdict).await;
        let signature = self.passkey.signs(NAMESPACE, statement.as_bytes(), how);
        done(&self.posts(call, &statement, &signature).await.1)
    }

    fn says(&self, who: &str, call: &str) -> (String, String) {
        let door = self.sidecar.operator_url();
        done(&self.people.says(who, "approve", &door, (&self.agent.run, call)).1)
    }

    async fn close(mut self) {
        self.sidecar.stop().await;
        check(&self.estate.database, &self.tool, &self.estate.receipts);
    }
}

fn at(origin: &str) -> Ceremony {
    Ceremony::at(origin)
}

fn pair(call: &str, code: &str) -> (String, String) {
    (call.to_owned(), code.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_approved_by_passkey_runs_once_and_stock_openssh_verifies_the_bundle() {
    let mut setup = Setup::new("T2", |_| {}).await;
    setup.hold("c1", ARGS).await;
    let statement = setup.statement("c1", "statement").await;
    let signature = setup.passkey.signs(NAMESPACE, statement.as_bytes(), &at(CONSOLE));
    let (status, told) = setup.posts("c1", &statement, &signature).await;
    assert_eq!((status, done(&told)), (200, pair("authorized", "")), "{told}");
    setup.agent.wait("c1", 20_000).await.unwrap();
    // The same assertion again, while nothing waits under this id, and for another call.
    assert_eq!(setup.posts("c1", &statement, &signature).await.0, 404);
    setup.hold("c2", ARGS).await;
    let (status, told) = setup.posts("c2", &statement, &signature).await;
    assert_eq!((status, told["cause"].as_str()), (400, Some("approval.statement")), "{told}");
    // Under the right statement it is a signature over another one.
    let other = setup.statement("c2", "statement").await;
    assert_eq!(
        done(&setup.posts("c2", &other, &signature).await.1),
        pair("held", "approval.signature")
    );
    assert_eq!(setup.decides("c2", "refusal", &at(CONSOLE)).await, pair("denied", ""));
    assert_eq!(setup.tool.count(), 1);
    setup.agent.seal().await.unwrap();
    setup.sidecar.stop().await;
    let report = exported(&setup.estate, &setup.people, &setup.agent.run);
    let text = report.to_string();
    let decided = report["checks"].as_array().unwrap().iter().find(|c| c["id"] == "P4").unwrap();
    assert_eq!(decided["outcome"], "VALID", "{text}");
    assert!(decided.to_string().contains("signed at https://console.example.com"), "{decided}");
    let page = std::fs::read_to_string(setup.estate.path("evidence/report.html")).unwrap();
    let said = "A passkey, signed at https://console.example.com, shown by that console.";
    assert_eq!(page.matches(said).count(), 2, "approved one, refused one");
    stock_verifies(&setup.estate.path("evidence/approvals"), 2);
    check(&setup.estate.database, &setup.tool, &setup.estate.receipts);
}

/// Grants the tool in this tier to an agent that claims nothing.
pub fn grant(estate: &Estate, tier: &str) {
    estate.manifest("1.1.0", "manifest", |text| {
        let mut value: Value = serde_json::from_str(&text).unwrap();
        value["spec"]["binding"] = json!({"minimum": "unclaimed", "tier3": "unclaimed"});
        let tools = value["spec"]["tools"].as_array_mut().unwrap();
        let granted = tools.iter_mut().find(|grant| grant["name"] == "work.do").unwrap();
        granted["tier"] = tier.into();
        value.to_string()
    });
}

/// Exports the run; what verifying it says.
pub fn exported(estate: &Estate, people: &People, exported: &str) -> Value {
    let dir = estate.path(".");
    for name in ["evidence.pem", "fleet.pem"] {
        run(&dir, &["keygen", "--out", name]);
    }
    let order = ["evidence", "export", "--run", exported, "--out", "evidence"];
    let from = ["--key", "evidence.pem", "--config", "wicketgate.yaml"];
    let kept = ["--artifacts", "state/artifacts", "--fleet-key", "fleet.pem"];
    let by = ["--enrolment-key", "state/enrolment.key"];
    run(&dir, &[&order[..], &from, &kept, &by].concat());
    let trust = [
        ("enrolment-key", estate.path("state/enrolment.key.pub")),
        ("evidence-key", estate.path("evidence.pem.pub")),
        ("approvers", people.path("list.pem.pub")),
    ];
    let trust = trust.map(|(word, path)| format!("{word} {}\n", path.display())).concat();
    std::fs::write(estate.path("trust.txt"), trust).unwrap();
    Ran::gate(&dir, ["evidence", "verify", "--json", "--trust", "trust.txt", "evidence"]).json()
}

/// `ssh-keygen` verifies so many statements of this folder, and no changed one.
#[track_caller]
pub fn stock_verifies(folder: &Path, count: usize) {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let signatures: Vec<_> =
        names.filter(|path| path.extension().is_some_and(|e| e == "sig")).collect();
    assert_eq!(signatures.len(), count);
    for signature in signatures {
        let statement = signature.with_extension("json");
        let verify = |file: &Path| {
            let args =
                ["-Y", "verify", "-f", "allowed_signers", "-I", "ada", "-n", NAMESPACE, "-s"];
            let mut asked = Command::new("ssh-keygen");
            asked.args(args).arg(&signature).current_dir(folder);
            asked.stdin(File::open(file).unwrap()).output().unwrap().status.success()
        };
        assert!(verify(&statement), "{statement:?}");
        let other = std::fs::read_to_string(&statement).unwrap().replace("\"run\":", "\"ran\":");
        let changed = folder.join("changed");
        std::fs::write(&changed, other).unwrap();
        assert!(!verify(&changed), "{statement:?}");
        std::fs::remove_file(changed).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_passkey_that_signs_elsewhere_or_unverified_or_is_not_listed_counts_for_nothing() {
    let mut setup = Setup::new("T2", |config| {
        config["approvals"]["synced_passkeys"] = false.into();
    })
    .await;
    setup.hold("c", ARGS).await;
    let with = |flags: u8| Ceremony { flags, ..at(CONSOLE) };
    let table = [
        ("approval.unverified", with(0x01)),
        ("approval.signature", with(0x04)),
        ("approval.synced", with(SYNCED)),
        ("approval.origin", at("https://example.com")),
        ("approval.origin", at("https://console.example.com:8443")),
        ("approval.signature", at("https://console.example.org")),
        ("approval.signature", Ceremony { kind: "webauthn.create", ..at(CONSOLE) }),
    ];
    for (code, how) in table {
        assert_eq!(setup.decides("c", "statement", &how).await, pair("held", code), "{how:?}");
    }
    // Another passkey of the same domain, which is on no list.
    setup.passkey = Passkey::new("example.com");
    let told = setup.decides("c", "statement", &at(CONSOLE)).await;
    assert_eq!(told, pair("held", "approval.signer"));
    assert_eq!(setup.says("grace", "c"), pair("authorized", ""));
    setup.agent.wait("c", 20_000).await.unwrap();
    assert_eq!(setup.tool.count(), 1);
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_passkeys_approval_after_the_hold_ended_counts_for_nothing() {
    let setup = Setup::new("T2", |config| config["limits"]["hold_seconds"] = 8.into()).await;
    setup.hold("c", ARGS).await;
    let statement = setup.statement("c", "statement").await;
    let expired = setup.agent.wait("c", 30_000).await;
    assert_eq!(expired.unwrap_err().code, "call.expired");
    let signature = setup.passkey.signs(NAMESPACE, statement.as_bytes(), &at(CONSOLE));
    let (status, told) = setup.posts("c", &statement, &signature).await;
    assert_eq!((status, told["cause"].as_str()), (404, Some("approval.not_held")), "{told}");
    assert_eq!(setup.tool.count(), 0);
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passkeys_alone_do_not_release_a_t3_call() {
    let mut setup = Setup::new("T3", |_| {}).await;
    setup.hold("c", ARGS).await;
    let told = setup.decides("c", "statement", &at(CONSOLE)).await;
    assert_eq!(told, pair("held", "approval.passkey"));
    // It stays so after a restart.
    setup.sidecar.kill();
    setup.sidecar = setup.estate.serve().await;
    setup.hold("c", ARGS).await;
    assert_eq!(setup.tool.count(), 0);
    assert_eq!(setup.says("grace", "c"), pair("authorized", ""));
    setup.agent.wait("c", 20_000).await.unwrap();
    assert_eq!(setup.tool.count(), 1);
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_is_one_approval_and_their_own_key_takes_the_place_of_their_passkey() {
    let mut setup = Setup::new("T3", |_| {}).await;
    // Where one person is enough, it is the same one.
    setup.hold("one", ARGS).await;
    let told = setup.decides("one", "statement", &at(CONSOLE)).await;
    assert_eq!(told, pair("held", "approval.passkey"));
    assert_eq!(setup.says("ada", "one"), pair("authorized", ""));
    setup.agent.wait("one", 20_000).await.unwrap();
    // Where two are, the same person is still one.
    setup.hold("two", r#"{"hold":2}"#).await;
    let told = setup.decides("two", "statement", &at(CONSOLE)).await;
    assert_eq!(told, pair("held", "approval.passkey"));
    assert_eq!(setup.says("ada", "two"), pair("held", ""));
    // Neither key of theirs counts again.
    assert_eq!(setup.says("ada", "two"), pair("held", "approval.again"));
    let told = setup.decides("two", "statement", &at(CONSOLE)).await;
    assert_eq!(told, pair("held", "approval.again"));
    assert_eq!(setup.tool.count(), 1);
    assert_eq!(setup.says("grace", "two"), pair("authorized", ""));
    setup.agent.wait("two", 20_000).await.unwrap();
    assert_eq!(setup.tool.count(), 2);
    setup.agent.seal().await.unwrap();
    setup.sidecar.stop().await;
    let report = exported(&setup.estate, &setup.people, &setup.agent.run);
    let decided = report["checks"].as_array().unwrap().iter().find(|c| c["id"] == "P4").unwrap();
    assert_eq!(decided["outcome"], "VALID", "{report}");
    check(&setup.estate.database, &setup.tool, &setup.estate.receipts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_configuration_says_whether_passkeys_release_a_t3_call_or_none() {
    let setup = Setup::new("T3", |config| config["approvals"]["passkeys"] = "all".into()).await;
    setup.hold("c", ARGS).await;
    assert_eq!(setup.decides("c", "statement", &at(CONSOLE)).await, pair("authorized", ""));
    setup.agent.wait("c", 20_000).await.unwrap();
    setup.close().await;
    let off = |config: &mut Value| config["approvals"]["passkeys"] = "off".into();
    let no_console = |config: &mut Value| {
        config["approvals"].as_object_mut().unwrap().remove("passkey_origins");
    };
    for change in [off as fn(&mut Value), no_console] {
        let setup = Setup::new("T1", change).await;
        setup.hold("c", ARGS).await;
        let told = setup.decides("c", "statement", &at(CONSOLE)).await;
        assert_eq!(told, pair("held", "approval.passkey"));
        setup.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_by_passkey_waits_again_once_passkeys_are_off() {
    let mut setup = Setup::new("T2", |_| {}).await;
    setup.hold("c", r#"{"hold":2}"#).await;
    let told = setup.decides("c", "statement", &at(CONSOLE)).await;
    assert_eq!(told, pair("held", ""));
    setup.sidecar.kill();
    setup.estate.configure(|config| config["approvals"]["passkeys"] = "off".into());
    setup.sidecar = setup.estate.serve().await;
    setup.hold("c", r#"{"hold":2}"#).await;
    assert_eq!(setup.says("grace", "c"), pair("held", "approval.passkey"));
    assert_eq!(setup.tool.count(), 0);
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_tells_a_passkey_from_other_keys() {
    const KINDS: &str = "package wicketgate.agent\nimport rego.v1\nallow if startswith(input.tool.name, \"work.\")\n\
        require_approval contains {\"code\": \"one\", \"message\": \"one person\"} if count(files) == 0\n\
        files contains approval.approver if { some approval in input.approvals; approval.key_kind == \"file\" }\n";
    let setup = Setup::under(KINDS, "T1", |_| {}).await;
    setup.hold("c", ARGS).await;
    assert_eq!(setup.decides("c", "statement", &at(CONSOLE)).await, pair("held", ""));
    assert_eq!(setup.says("grace", "c"), pair("authorized", ""));
    setup.agent.wait("c", 20_000).await.unwrap();
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_origin_that_no_browser_names_so_is_refused_by_config_check() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    for wrong in
        ["https://console.example.com/", "https://127.0.0.1:7301", "http://console.example.com"]
    {
        estate.configure(|config| config["approvals"]["passkey_origins"] = json!([CONSOLE, wrong]));
        let ran = Ran::gate(estate.path("."), ["config", "check", "wicketgate.yaml"]);
        assert_ne!(ran.code, 0, "{wrong}");
        assert!(ran.says("as browsers write it").text().contains(wrong), "{wrong}");
    }
}
