//! Approvers in the console with real browsers: Chromium, whose virtual authenticators make passkeys and sign with them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::checker::check;
use crate::passkeys::{exported, grant, stock_verifies};
use crate::people::{People, RULES, done};
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;
use wicketgate_support::passkey::Passkey;
use wicketgate_support::ports::Port;
use wicketgate_support::program;

const APPROVE: &str = "Approve with passkey";
const REFUSE: &str = "Refuse with passkey";
const ARGS: &str = r#"{"hold":true,"n":1,"s":"per \u200b \"ticket\" \\n"}"#;

/// Browsers of several people.
struct Chromium {
    child: Child,
    asks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Drop for Chromium {
    /// A test that failed leaves nothing running either.
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Chromium {
    fn start() -> Self {
        let home = std::env::var("WICKETGATE_TEST_CONSOLE").expect("tests/run sets it");
        let mut child = Command::new(format!("{home}/python/bin/python"))
            .arg("-B")
            .arg(program::top().join("tests/console/passkeys.py"))
            .arg(format!("{home}/axe/node_modules/axe-core/axe.min.js"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let asks = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, asks, answers }
    }

    #[track_caller]
    fn answer(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(self.answers.read_line(&mut line).unwrap(), 0, "the script ended");
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert!(answer.get("error").is_none(), "{answer:#}");
        answer
    }

    /// One person does something.
    #[track_caller]
    fn ask(&mut self, who: &str, what: &str, mut arguments: Value) -> Value {
        arguments["do"] = what.into();
        arguments["who"] = who.into();
        writeln!(self.asks.as_mut().unwrap(), "{arguments}").unwrap();
        self.answer()
    }

    /// Ends the browsers, which complained about nothing.
    fn close(mut self) {
        drop(self.asks.take());
        assert_eq!(self.answer()["faults"], json!([]));
    }
}

/// A gate whose console is at `localhost`, and people in front of it.
struct Stage {
    people: People,
    tool: Tool,
    estate: Estate,
    sidecar: Sidecar,
    agent: Agent,
    chromium: Chromium,
    port: Port,
    version: u32,
}

impl Stage {
    async fn new(tier: &str, change: impl FnOnce(&mut Value)) -> Self {
        let (people, tool, port) = (People::new(), Tool::start().await, Port::claim());
        let estate = Estate::sqlite(&tool);
        estate.bundle("1.0.1", RULES, "policy");
        grant(&estate, tier);
        estate.configure(|config| {
            people.configure(config, true);
            config["operator"]["listen"] = format!("127.0.0.1:{}", port.number()).into();
            let origin = format!("http://localhost:{}", port.number());
            config["approvals"]["passkey_origins"] = json!([origin]);
            change(config);
        });
        let sidecar = estate.serve().await;
        let agent = sidecar.open().await;
        let chromium = Chromium::start();
        Self { people, tool, estate, sidecar, agent, chromium, port, version: 10 }
    }

    fn log_in(&mut self, who: &str) {
        let (url, token) =
            (format!("http://localhost:{}/console", self.port.number()), self.people.token(who));
        self.chromium.ask(who, "log_in", json!({"url": url, "token": token}));
    }

    /// Makes a passkey in the browser; the line that the page gives.
    fn enrol(&mut self, who: &str) -> String {
        let seen = self.chromium.ask(who, "enrol", json!({}));
        seen["line"].as_str().unwrap().to_owned()
    }

    /// Signs a list of Ada's and Grace's SSH keys and these lines.
    fn list(&mut self, lines: &[String]) {
        let ssh = ["ada", "grace"].map(|name| {
            let text = std::fs::read_to_string(self.people.path(&format!("{name}.pub"))).unwrap();
            let key: Vec<&str> = text.split_whitespace().take(2).collect();
            format!("{name} namespaces=\"wicketgate-approval\" {} roles=approver", key.join(" "))
        });
        self.version += 1;
        let all: Vec<&str> = ssh.iter().chain(lines).map(String::as_str).collect();
        self.people.sign(&format!("# wicketgate: version={}\n{}\n", self.version, all.join("\n")));
    }

    /// Ada has a passkey on the list.
    fn listed(&mut self) {
        self.log_in("ada");
        let line = self.enrol("ada");
        self.list(&[line]);
    }

    async fn hold(&self, id: &str, args: &str) {
        let held = self.agent.call("work.do", id, args).await;
        assert_eq!(held.unwrap_err().code, "call.held", "{id}");
    }

    fn path(&self, call: &str) -> String {
        format!("/console/approvals/{}/{call}", self.agent.run)
    }

    fn decide(&mut self, who: &str, call: &str, button: &str, mut how: Value) -> Value {
        how["path"] = self.path(call).into();
        how["button"] = button.into();
        self.chromium.ask(who, "decide", how)
    }

    /// Ada decides, and the page that follows says this.
    #[track_caller]
    fn says(&mut self, call: &str, button: &str, sentence: &str) {
        let seen = self.decide("ada", call, button, json!({}));
        assert!(seen["text"].as_str().unwrap().contains(sentence), "{sentence}: {seen:#}");
    }

    /// The page of a call says this.
    #[track_caller]
    fn shows(&mut self, call: &str, status: u16, sentence: &str) {
        let path = self.path(call);
        let seen = self.chromium.ask("ada", "look", json!({"path": path}));
        assert_eq!(seen["status"], status, "{seen:#}");
        assert!(seen["text"].as_str().unwrap().contains(sentence), "{sentence}: {seen:#}");
    }

    /// A browser sends fields of a form that another one sent.
    #[track_caller]
    fn sends(&mut self, who: &str, mut sent: Value, fields: &Value, (status, said): (u16, &str)) {
        sent["fields"] = fields.clone();
        let seen = self.chromium.ask(who, "send", sent);
        assert_eq!(seen["status"], status, "{seen:#}");
        assert!(seen["text"].as_str().unwrap().contains(said), "{said}: {seen:#}");
    }

    /// What the browser last sent, field by field.
    #[track_caller]
    fn sent(seen: &Value) -> Value {
        let body = seen["sent"][0].as_str().unwrap_or_else(|| panic!("{seen:#}"));
        let fields = url::form_urlencoded::parse(body.as_bytes()).into_owned();
        fields.map(|(name, value)| (name, Value::from(value))).collect()
    }

    async fn close(mut self) {
        self.chromium.close();
        self.sidecar.stop().await;
        check(&self.estate.database, &self.tool, &self.estate.receipts);
    }
}

/// It takes half a minute: a browser, a gate, an export, and pages that axe-core judges eight times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_passkey_made_in_the_console_approves_a_call_once_and_stock_openssh_verifies_it() {
    let mut stage = Stage::new("T2", |_| {}).await;
    stage.log_in("ada");
    stage.hold("c1", ARGS).await;
    let line = stage.enrol("ada");
    let start = "ada namespaces=\"wicketgate-approval\" sk-ecdsa-sha2-nistp256@openssh.com AAAA";
    assert!(line.starts_with(start) && line.ends_with(" roles=approver"), "{line}");
    // The console made it, and trusts it no more than another one before the list is signed.
    stage.shows("c1", 200, "The signed list of approvers has no passkey of yours");
    stage.list(&[line]);
    let seen = stage.decide("ada", "c1", APPROVE, json!({}));
    assert!(seen["text"].as_str().unwrap().contains("● approved: the call runs now"), "{seen:#}");
    stage.agent.wait("c1", 20_000).await.unwrap();
    assert_eq!(stage.tool.count(), 1);
    stage.shows("c1", 404, "the call is not held: it was approved by ada and has ended: completed");
    // What the browser sent, again: for the same call, for another one, and under the other one's statement.
    stage.hold("c2", ARGS).await;
    let (fields, first, second) = (Stage::sent(&seen), stage.path("c1"), stage.path("c2"));
    for (sent, status, sentence) in [
        (json!({"path": first}), 404, "the call is not held: it was approved by ada"),
        (json!({"path": first, "page": second}), 403, "the form is not of this session"),
        (json!({"path": second, "page": second}), 400, "does not match this held call"),
        (json!({"path": second, "page": second, "stated": true}), 200, "(approval.signature)"),
    ] {
        stage.sends("ada", sent, &fields, (status, sentence));
    }
    stage.says("c2", REFUSE, "● refused: the call does not run");
    stage.shows("c2", 404, "the call is not held: it was refused by ada, and does not run");
    assert_eq!(stage.tool.count(), 1);
    stage.agent.seal().await.unwrap();
    stage.sidecar.stop().await;
    let report = exported(&stage.estate, &stage.people, &stage.agent.run);
    let decided = report["checks"].as_array().unwrap().iter().find(|c| c["id"] == "P4").unwrap();
    assert_eq!(decided["outcome"], "VALID", "{report}");
    stock_verifies(&stage.estate.path("evidence/approvals"), 2);
    stage.chromium.close();
    check(&stage.estate.database, &stage.tool, &stage.estate.receipts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_shows_one_call_and_has_another_signed_gets_no_signature() {
    let mut stage = Stage::new("T2", |_| {}).await;
    stage.listed();
    stage.hold("c", r#"{"hold":true,"n":1}"#).await;
    stage.hold("d", r#"{"hold":true,"n":2}"#).await;
    let (shown, bytes) =
        (["&quot;n&quot;: 1", "&quot;n&quot;: 2"], ["&quot;n&quot;:1", "&quot;n&quot;:2"]);
    let said = [
        (json!([shown, bytes]), "the arguments on this page are not those of the digest"),
        (json!([shown]), "the page shows the arguments in two ways that differ"),
        (json!([bytes]), "the page shows the arguments in two ways that differ"),
        (
            json!([["data-approve=\"{", "data-approve=\"{&quot;a&quot;:1,"]]),
            "something else than this page shows",
        ),
        (
            json!([[">work.do<", ">work.fail<"]]),
            "the arguments on this page are not those of the digest",
        ),
        (json!([["data-is=\"call\">c<", "data-is=\"call\">d<"]]), "are not those of the digest"),
    ];
    for (swaps, sentence) in said {
        let seen = stage.decide("ada", "c", APPROVE, json!({"swaps": swaps}));
        let text = seen["text"].as_str().unwrap();
        assert!(text.contains(sentence), "{sentence}: {seen:#}");
        assert_eq!(seen["sent"], json!([]), "{sentence}");
    }
    // A refusal that the server would have taken for an approval, and the other way round.
    let other = json!([[
        "&quot;verdict&quot;:&quot;refuse&quot;",
        "&quot;verdict&quot;:&quot;approve&quot;"
    ]]);
    let seen = stage.decide("ada", "c", REFUSE, json!({"swaps": other}));
    assert!(
        seen["text"].as_str().unwrap().contains("something else than this page shows"),
        "{seen:#}"
    );
    assert_eq!(stage.tool.count(), 0);
    stage.says("c", APPROVE, "● approved: the call runs now");
    stage.agent.wait("c", 20_000).await.unwrap();
    stage.says("d", REFUSE, "● refused: the call does not run");
    assert_eq!(stage.tool.count(), 1);
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_verified_person_with_their_own_listed_passkey_decides_in_their_session() {
    let mut stage = Stage::new("T2", |_| {}).await;
    for who in ["ada", "grace"] {
        stage.log_in(who);
    }
    let lines = ["ada", "grace"].map(|who| stage.enrol(who));
    stage.list(&lines);
    stage.hold("c", ARGS).await;
    // Without its owner the authenticator signs nothing, and what it signs all the same counts for nothing.
    stage.chromium.ask("ada", "verify", json!({"verified": false}));
    stage.says("c", APPROVE, "Nothing was signed: the passkey was refused");
    let required = "userVerification: \"required\" } }";
    let script = json!([[required, required.replace("required", "discouraged")]]);
    let seen = stage.decide("ada", "c", APPROVE, json!({"script": script}));
    assert!(seen["text"].as_str().unwrap().contains("(approval.unverified)"), "{seen:#}");
    stage.chromium.ask("ada", "verify", json!({"verified": true}));
    // Whose session it is decides, not who lent a signature.
    let seen = stage.decide("ada", "c", APPROVE, json!({"kept": true}));
    let (fields, path) = (Stage::sent(&seen), stage.path("c"));
    let lent = json!({"path": path, "page": path});
    stage.sends("grace", lent, &fields, (403, "is not a key of `grace` on the list of approvers"));
    // Nothing at all is signed by a passkey that is not on the list, and what it signed before counts no more.
    let software = Passkey::new("localhost").public().line();
    stage.list(&[format!("ada namespaces=\"wicketgate-approval\" {software} roles=approver")]);
    stage.says("c", APPROVE, "this passkey is not yours on the signed list of approvers");
    let late = json!({"path": path});
    stage.sends("ada", late, &fields, (403, "is not a key of `ada` on the list of approvers"));
    stage.list(&[]);
    stage.shows("c", 200, "has no passkey of yours");
    assert_eq!(stage.tool.count(), 0);
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_people_one_in_a_browser_and_one_in_a_terminal_release_a_grave_call() {
    let mut stage = Stage::new("T3", |_| {}).await;
    stage.listed();
    stage.hold("two", r#"{"hold":2}"#).await;
    stage.says("two", APPROVE, "● counted");
    stage.shows("two", 200, "signed at http://localhost:");
    stage.says("two", APPROVE, "(approval.again)");
    // One person is enough for the policy, and a passkey alone is not for a call that cannot be undone.
    stage.hold("one", r#"{"hold":true}"#).await;
    stage.says("one", APPROVE, "(approval.passkey)");
    assert_eq!(stage.tool.count(), 0);
    for call in ["two", "one"] {
        let door = stage.sidecar.operator_url();
        let (_, told) = stage.people.says("grace", "approve", &door, (&stage.agent.run, call));
        assert_eq!(done(&told).0, "authorized", "{told}");
        stage.agent.wait(call, 20_000).await.unwrap();
    }
    assert_eq!(stage.tool.count(), 2);
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_a_decision_says_that_it_waits_is_void_or_asks_for_other_arguments() {
    let mut stage = Stage::new("T1", |_| {}).await;
    stage.listed();
    stage.hold("two", r#"{"hold":2}"#).await;
    stage.says("two", APPROVE, "● counted, and not enough for the call to run");
    stage.says("two", REFUSE, "● refused: the call does not run");
    stage.hold("other", r#"{"hold":true,"n":2}"#).await;
    let changed = json!({"arguments": "{\"n\": 1, \"hold\": true}"});
    let seen = stage.decide("ada", "other", "Propose with passkey", changed);
    let text = seen["text"].as_str().unwrap();
    assert!(text.contains("● asked again as `other.m1`: another approver decides"), "{seen:#}");
    stage.says("other.m1", APPROVE, "■ not counted");
    // The policy changes while the call is held.
    stage.hold("void", ARGS).await;
    stage.sidecar.kill();
    stage.estate.bundle("1.0.2", &format!("{RULES}# changed\n"), "policy");
    stage.sidecar = stage.estate.serve().await;
    stage.chromium.ask("ada", "log_in_again", json!({"token": stage.people.token("ada")}));
    stage.says("void", APPROVE, "its approvals are void, because the policy changed");
    assert_eq!(stage.tool.count(), 0);
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_ends_while_its_page_is_open_leaves_nothing_to_sign() {
    let mut stage = Stage::new("T2", |config| config["limits"]["hold_seconds"] = 10.into()).await;
    stage.listed();
    stage.hold("c", ARGS).await;
    let path = stage.path("c");
    let kept = Stage::sent(&stage.decide("ada", "c", APPROVE, json!({"kept": true})));
    let seen = stage.chromium.ask("ada", "expire", json!({"path": path}));
    assert_eq!(seen["buttons"], 0, "{seen:#}");
    let expired = stage.agent.wait("c", 30_000).await;
    assert_eq!(expired.unwrap_err().code, "call.expired");
    let said = "the call is not held: it expired before enough approvers had signed";
    stage.shows("c", 404, said);
    stage.sends("ada", json!({"path": path}), &kept, (404, said));
    assert_eq!(stage.tool.count(), 0);
    stage.close().await;
}

/// It takes half a minute: axe-core judges three pages four times each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_of_passkeys_have_no_fault_and_work_without_scripts_as_far_as_they_can() {
    let mut stage = Stage::new("T2", |_| {}).await;
    stage.listed();
    stage.hold("c", ARGS).await;
    stage.hold("d", ARGS).await;
    let decided = stage.decide("ada", "d", APPROVE, json!({}))["path"].clone();
    let url = format!("http://localhost:{}/console", stage.port.number());
    let token = stage.people.token("ada");
    let judge = json!({"url": url, "token": token, "judged": true});
    stage.chromium.ask("judge", "log_in", judge);
    let paths = json!(["/console/me", stage.path("c"), decided]);
    let seen = stage.chromium.ask("judge", "judge", json!({"paths": paths}));
    assert_eq!(seen["found"], json!([]));
    let plain = json!({"url": url, "token": token, "scripts": false});
    stage.chromium.ask("plain", "log_in", plain);
    let press = json!({"path": stage.path("c"), "button": APPROVE});
    let seen = stage.chromium.ask("plain", "press", press);
    let text = seen["text"].as_str().unwrap();
    assert!(text.contains("use the commands of the page"), "{seen:#}");
    stage.agent.wait("d", 20_000).await.unwrap();
    assert_eq!(stage.tool.count(), 1);
    stage.close().await;
}
