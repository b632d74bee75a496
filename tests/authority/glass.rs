//! Break-glass in front of the built program: what opens it, what it lets through, and what is left of it.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::{Value, json};
use wicketgate::clock::SystemEntropy;
use wicketgate::crypto::keys::SecretKey;
use wicketgate::crypto::openssh;

use crate::agent::Agent;
use crate::checker::check;
use crate::people::People;
use crate::sidecar::{Estate, Sidecar, run};
use crate::tool::Tool;
use wicketgate_support::ran::Ran;

/// What waits, what is denied, what no rule allows, and what counts approvers for itself.
pub const RULES: &str = "package wicketgate.agent\nimport rego.v1\n\
    allow if {\n startswith(input.tool.name, \"work.\")\n not input.args.unknown\n }\n\
    deny contains \"never\" if input.args.evil\n\
    require_approval contains {\"code\": \"two\", \"message\": \"two people\", \"approvers\": 2} if input.args.hold\n\
    require_approval contains \"somebody\" if input.args.unknown\n";

/// Approvers and operators, and Harry, Iris and Jack, who hold break-glass keys; Jack is no signer.
struct Setup {
    people: People,
    tool: Tool,
    estate: Estate,
    sidecar: Sidecar,
    agent: Agent,
}

fn line(people: &People, name: &str) -> String {
    let key = std::fs::read_to_string(people.path(&format!("{name}.pub"))).unwrap();
    let key: Vec<&str> = key.split_whitespace().take(2).collect();
    format!("{name} namespaces=\"wicketgate-break-glass\" {} roles=break_glass\n", key.join(" "))
}

fn list(people: &People, names: &[&str]) {
    let text: String = names.iter().map(|name| line(people, name)).collect();
    std::fs::write(people.path("glass"), text).unwrap();
    let dir = people.path(".");
    run(&dir, &["break-glass", "sign-signers", "glass", "--key", "glass.pem"]);
}

/// Makes the keys of those who hold them, and signs the list.
pub fn hand_out(people: &People) {
    for name in ["harry", "iris", "jack"] {
        openssh::store(&SecretKey::generate(&SystemEntropy), &people.path(name), name).unwrap();
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(people.path(name), mode).unwrap();
    }
    let token = people.path("aude.token");
    std::fs::write(&token, "a".repeat(48)).unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    run(&people.path("."), &["keygen", "--out", "glass.pem"]);
    list(people, &["harry", "iris"]);
}

/// A statement about this tool, for this long.
pub fn request(people: &People, name: &str, tool: &str, minutes: &str) {
    let args = ["break-glass", "request", "--agent", "test-agent", "--tool", tool, "--reason"];
    let rest = ["nobody answers", "--minutes", minutes, "--out", name];
    run(&people.path("."), &[&args[..], &rest].concat());
}

/// Somebody signs it with our command; the name of the signature.
pub fn signs(people: &People, who: &str, statement: &str) -> String {
    let out = format!("{statement}.{who}.sig");
    let args = ["break-glass", "sign", statement, "--key", who, "--out", &out];
    run(&people.path("."), &args);
    out
}

/// What a statement is good for once.
pub fn nonce(people: &People, name: &str) -> String {
    let text = std::fs::read(people.path(name)).unwrap();
    let said: Value = serde_json::from_slice(&text).unwrap();
    said["nonce"].as_str().unwrap().to_owned()
}

/// Says so in the configuration.
pub fn configure(people: &People, config: &mut Value) {
    people.configure(config, true);
    let shown = |name: &str| people.path(name).display().to_string();
    config["trust"]["break_glass"] =
        json!({"signers": shown("glass"), "keys": [shown("glass.pem.pub")], "max_minutes": 30});
    let aude = json!({"subject": "aude", "roles": ["auditor"], "token_file": shown("aude.token")});
    config["operators"].as_array_mut().unwrap().push(aude);
}

impl Setup {
    async fn new() -> Setup {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Value)) -> Setup {
        let (people, tool) = (People::new(), Tool::start().await);
        hand_out(&people);
        let estate = Estate::sqlite(&tool);
        estate.bundle("1.0.1", RULES, "policy");
        estate.configure(|config| {
            configure(&people, config);
            change(config);
        });
        let sidecar = estate.serve().await;
        let agent = sidecar.open().await;
        Setup { people, tool, estate, sidecar, agent }
    }

    async fn restart(&mut self) {
        self.sidecar.kill();
        self.sidecar = self.estate.serve().await;
    }

    fn types(&self, who: &str, args: &[&str]) -> (Option<i32>, String) {
        self.people.types(who, &self.sidecar.operator_url(), args)
    }

    /// A statement about this tool, for this long.
    fn request(&self, name: &str, tool: &str, minutes: &str) {
        request(&self.people, name, tool, minutes);
    }

    /// Somebody signs it with our command; the name of the signature.
    fn signs(&self, who: &str, statement: &str) -> String {
        signs(&self.people, who, statement)
    }

    /// Somebody signs it with stock OpenSSH.
    fn signs_with_stock_tools(&self, who: &str, statement: &str) -> String {
        let copy = format!("{statement}.{who}");
        std::fs::copy(self.people.path(statement), self.people.path(&copy)).unwrap();
        let done = Command::new("ssh-keygen")
            .args(["-Y", "sign", "-n", "wicketgate-break-glass", "-f", who, &copy])
            .current_dir(self.people.path("."))
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        format!("{copy}.sig")
    }

    /// Otto brings it.
    fn opens(&self, statement: &str, signatures: &[&str]) -> (Option<i32>, String) {
        let mut args = vec!["break-glass", "open", statement];
        signatures.iter().for_each(|signature| args.extend(["--signature", signature]));
        self.types("otto", &args)
    }

    /// Hugo and Iris sign, Otto brings it, and it opens.
    #[track_caller]
    fn breaks(&self, name: &str, tool: &str) -> Vec<String> {
        self.request(name, tool, "30");
        let signatures = vec![self.signs("harry", name), self.signs_with_stock_tools("iris", name)];
        let (exit, said) = self.opens(name, &[&signatures[0], &signatures[1]]);
        assert_eq!(exit, Some(0), "{said}");
        signatures
    }

    fn nonce(&self, name: &str) -> String {
        nonce(&self.people, name)
    }

    #[track_caller]
    fn refused(&self, name: &str, signatures: &[&str], code: &str) {
        let (exit, said) = self.opens(name, signatures);
        assert!(exit == Some(1) && said.contains(code), "`{code}` is not in {exit:?} {said}");
    }

    async fn held(&self, tool: &str, id: &str, args: &str) {
        let held = self.agent.call(tool, id, args).await;
        assert_eq!(held.unwrap_err().code, "call.held", "{id}");
    }

    async fn close(mut self) {
        self.sidecar.stop().await;
        check(&self.estate.database, &self.tool, &self.estate.receipts);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn break_glass_lets_run_what_waits_for_approvers_and_nothing_that_is_denied() {
    let setup = Setup::new().await;
    setup.held("work.do", "before", r#"{"hold":true,"n":1}"#).await;
    setup.breaks("glass.json", "work.do");
    // What waited runs, and so does what is asked now.
    setup.agent.wait("before", 20_000).await.unwrap();
    setup.agent.call("work.do", "after", r#"{"hold":true,"n":2}"#).await.unwrap();
    let denied = setup.agent.call("work.do", "evil", r#"{"hold":true,"evil":true}"#).await;
    assert_eq!(denied.unwrap_err().code, "policy.denied");
    // No rule allows it: with every approval in the world it would not run.
    setup.held("work.do", "unknown", r#"{"unknown":true}"#).await;
    setup.held("work.held", "other-tool", r#"{"hold":true}"#).await;
    assert_eq!(setup.tool.count(), 2);
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn break_glass_needs_two_different_key_holders_and_keys_of_its_own() {
    let setup = Setup::new().await;
    setup.request("glass.json", "work.do", "30");
    let (harry, jack) = (setup.signs("harry", "glass.json"), setup.signs("jack", "glass.json"));
    setup.refused("glass.json", &[&harry], "break_glass.quorum");
    setup.refused("glass.json", &[&harry, &harry], "break_glass.again");
    setup.refused("glass.json", &[&harry, &jack], "break_glass.signer");
    // An approver's key, and an approval's namespace.
    let ada = setup.signs("ada", "glass.json");
    setup.refused("glass.json", &[&harry, &ada], "break_glass.signer");
    let args = ["-Y", "sign", "-n", "wicketgate-approval", "-f", "iris", "glass.json"];
    let done = Command::new("ssh-keygen").args(args).current_dir(setup.people.path(".")).output();
    assert!(done.unwrap().status.success());
    setup.refused("glass.json", &[&harry, "glass.json.sig"], "break_glass.namespace");
    // A statement of somebody's own making: edited, longer than configured, for another tenant.
    let iris = setup.signs("iris", "glass.json");
    let text = std::fs::read_to_string(setup.people.path("glass.json")).unwrap();
    let edited = text.replace("work.do", "work.fail");
    std::fs::write(setup.people.path("edited.json"), edited).unwrap();
    setup.refused("edited.json", &[&harry, &iris], "break_glass.signature");
    setup.request("long.json", "work.do", "31");
    let both = [setup.signs("harry", "long.json"), setup.signs("iris", "long.json")];
    setup.refused("long.json", &[&both[0], &both[1]], "break_glass.span");
    let other = text.replace("\"tenant\":\"default\"", "\"tenant\":\"others\"");
    std::fs::write(setup.people.path("other.json"), other).unwrap();
    let both = [setup.signs("harry", "other.json"), setup.signs("iris", "other.json")];
    setup.refused("other.json", &[&both[0], &both[1]], "break_glass.tenant");
    // A signer who approves calls too is none.
    list(&setup.people, &["harry", "ada"]);
    setup.refused("glass.json", &[&harry, &ada], "break-glass needs separate keys");
    list(&setup.people, &["harry", "iris"]);
    // Only operators bring it.
    let args = ["break-glass", "open", "glass.json", "--signature", &harry, "--signature", &iris];
    let (exit, said) = setup.types("ada", &args);
    assert!(exit == Some(1) && said.contains("operator.forbidden"), "{said}");
    setup.held("work.do", "c", r#"{"hold":true}"#).await;
    assert_eq!(setup.tool.count(), 0);
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn break_glass_opens_once_survives_a_restart_and_ends_when_it_is_closed() {
    let mut setup = Setup::new().await;
    let signatures = setup.breaks("glass.json", "work.do");
    let (harry, iris) = (signatures[0].as_str(), signatures[1].as_str());
    setup.refused("glass.json", &[harry, iris], "break_glass.used");
    setup.restart().await;
    setup.agent.call("work.do", "c1", r#"{"hold":true}"#).await.unwrap();
    let (_, told) = setup.sidecar.readiness().await.unwrap();
    assert!(told.contains("break-glass: agent `test-agent` needs no approver"), "{told}");
    let said = setup.sidecar.metrics().await;
    assert!(said.contains("wicketgate_break_glass_open 1"), "{said}");
    assert!(said.contains("wicketgate_break_glass_calls_total 1"), "{said}");
    setup.refused("glass.json", &[harry, iris], "break_glass.used");
    let nonce = setup.nonce("glass.json");
    let (exit, said) = setup.types("otto", &["break-glass", "close", &nonce, "--reason", "over"]);
    assert_eq!(exit, Some(0), "{said}");
    setup.held("work.do", "c2", r#"{"hold":true}"#).await;
    setup.restart().await;
    setup.held("work.do", "c3", r#"{"hold":true}"#).await;
    setup.refused("glass.json", &[harry, iris], "break_glass.used");
    let (_, told) = setup.sidecar.readiness().await.unwrap();
    assert!(!told.contains("break-glass"), "{told}");
    assert_eq!(setup.tool.count(), 1);
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn break_glass_ends_by_itself_and_with_the_keys_that_signed_it() {
    let mut setup = Setup::new().await;
    setup.breaks("glass.json", "work.do");
    setup.agent.call("work.do", "c1", r#"{"hold":true}"#).await.unwrap();
    let key = setup.people.fingerprint("iris");
    let (exit, said) = setup.types("otto", &["control", "revoke", "key", &key, "--reason", "lost"]);
    assert_eq!(exit, Some(0), "{said}");
    setup.held("work.do", "c2", r#"{"hold":true}"#).await;
    let otto = setup.people.path("otto").display().to_string();
    let reinstate = ["control", "reinstate", "key", &key, "--reason", "x", "--key", &otto];
    let (exit, said) = setup.types("otto", &reinstate);
    assert_eq!(exit, Some(0), "{said}");
    setup.held("work.do", "c3", r#"{"hold":true}"#).await;
    // A statement whose time is over opens nothing, before and after a restart.
    let ends = wicketgate::clock::Clock::now(&wicketgate::clock::SystemClock::new());
    let at = |seconds: i64| {
        let at = ends.millis() + seconds * 1000;
        wicketgate::domain::time::Timestamp::from_millis(at).to_string()
    };
    setup.request("short.json", "work.do", "1");
    let path = setup.people.path("short.json");
    let mut said: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    (said["not_before"], said["expires"]) = (at(-60).into(), at(15).into());
    std::fs::write(&path, said.to_string()).unwrap();
    let both = [setup.signs("harry", "short.json"), setup.signs("iris", "short.json")];
    let (exit, said) = setup.opens("short.json", &[&both[0], &both[1]]);
    assert_eq!(exit, Some(0), "{said}");
    for open in [true, false] {
        crate::until("break-glass to be told, and then to end by itself", || async {
            let (_, told) = setup.sidecar.readiness().await.unwrap();
            told.contains("needs no approver") == open
        })
        .await;
    }
    setup.held("work.do", "c4", r#"{"hold":true}"#).await;
    setup.restart().await;
    setup.held("work.do", "c5", r#"{"hold":true}"#).await;
    setup.request("late.json", "work.do", "1");
    let path = setup.people.path("late.json");
    let mut said: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    (said["not_before"], said["expires"]) = (at(600).into(), at(900).into());
    std::fs::write(&path, said.to_string()).unwrap();
    let both = [setup.signs("harry", "late.json"), setup.signs("iris", "late.json")];
    setup.refused("late.json", &[&both[0], &both[1]], "break_glass.not_yet");
    // The first, and what waited when the second statement opened.
    assert_eq!(setup.tool.count(), 3);
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn break_glass_is_reviewed_by_somebody_who_had_no_part_in_it() {
    let setup = Setup::new().await;
    setup.breaks("glass.json", "work.do");
    let nonce = setup.nonce("glass.json");
    let review = |who: &str| setup.types(who, &["break-glass", "review", &nonce, "--note", "fine"]);
    let (exit, said) = review("aude");
    assert!(exit == Some(1) && said.contains("break_glass.open"), "{said}");
    let (exit, said) = setup.types("otto", &["break-glass", "close", &nonce, "--reason", "over"]);
    assert_eq!(exit, Some(0), "{said}");
    let (_, listed) = setup.types("aude", &["break-glass", "list"]);
    assert!(listed.contains(&nonce) && listed.contains("NOT REVIEWED"), "{listed}");
    let (exit, said) = review("otto");
    assert!(exit == Some(1) && said.contains("break_glass.self"), "{said}");
    // Where nobody can tell who signed it, nobody can tell who had no part in it.
    let signed = std::fs::read(setup.people.path("glass")).unwrap();
    std::fs::write(setup.people.path("glass"), "nobody signed this").unwrap();
    let (exit, said) = review("aude");
    assert!(exit == Some(1) && said.contains("break_glass.signers"), "{said}");
    list(&setup.people, &["harry", "jack"]);
    let (exit, said) = review("aude");
    assert!(exit == Some(1) && said.contains("one of its keys is no longer in the list"), "{said}");
    list(&setup.people, &["harry", "iris"]);
    assert_eq!(std::fs::read(setup.people.path("glass")).unwrap(), signed);
    let (exit, said) = review("aude");
    assert_eq!(exit, Some(0), "{said}");
    let (_, listed) = setup.types("aude", &["break-glass", "list"]);
    assert!(listed.contains("reviewed by aude: fine") && !listed.contains("NOT"), "{listed}");
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_without_break_glass_signers_has_no_break_glass() {
    let setup = Setup::with(|config| {
        config["trust"].as_object_mut().unwrap().remove("break_glass");
    })
    .await;
    setup.request("glass.json", "work.do", "30");
    let both = [setup.signs("harry", "glass.json"), setup.signs("iris", "glass.json")];
    setup.refused("glass.json", &[&both[0], &both[1]], "break_glass.none");
    setup.held("work.do", "c", r#"{"hold":true}"#).await;
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_under_break_glass_is_proven_with_the_statement_and_its_signatures() {
    let setup = Setup::new().await;
    setup.held("work.do", "held", r#"{"hold":true,"n":1}"#).await;
    setup.breaks("glass.json", "work.do");
    setup.agent.wait("held", 20_000).await.unwrap();
    setup.agent.call("work.do", "asked", r#"{"hold":true,"n":2}"#).await.unwrap();
    // What needs no approver anyway has nothing to do with it.
    setup.agent.call("work.do", "plain", r#"{"n":3}"#).await.unwrap();
    setup.agent.seal().await.unwrap();
    let dir = setup.estate.path(".");
    run(&dir, &["keygen", "--out", "evidence.pem"]);
    run(&dir, &["keygen", "--out", "fleet.pem"]);
    let order = ["evidence", "export", "--config", "wicketgate.yaml", "--run", &setup.agent.run];
    let rest = [
        "--out",
        "proof",
        "--key",
        "evidence.pem",
        "--artifacts",
        "state/artifacts",
        "--fleet-key",
        "fleet.pem",
        "--enrolment-key",
        "state/enrolment.key",
    ];
    run(&dir, &[&order[..], &rest].concat());
    let there = |suffix: &str| {
        let all = std::fs::read_dir(dir.join("proof/approvals")).unwrap();
        let names = all.map(|one| one.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(suffix)).count()
    };
    assert_eq!((there(".break-glass.json"), there(".sig")), (2, 4), "two calls, two signers");
    let verify = |more: &str| {
        let key = |name: &str| crate::sidecar::key(name);
        let trust = format!(
            "evidence-key evidence.pem.pub\nenrolment-key state/enrolment.key.pub\nmanifest-key {}\n{more}",
            key("manifest.pub")
        );
        std::fs::write(dir.join("trust.txt"), trust).unwrap();
        let args = ["evidence", "verify", "--json", "--replay", "--trust", "trust.txt", "proof"];
        let said = Ran::gate(&dir, args).json();
        let check = |id: &str| {
            let all = said["checks"].as_array().unwrap();
            let check = all.iter().find(|one| one["id"] == id).unwrap();
            (check["outcome"].as_str().unwrap().to_owned(), check["detail"].to_string())
        };
        (check("P4"), check("P5"), check("S5"))
    };
    let glass = setup.people.path("glass.pem.pub");
    let (p4, p5, s5) = verify(&format!("break-glass {}\n", glass.display()));
    assert!(p4.1.contains("2 calls ran under BREAK-GLASS"), "{p4:?}");
    assert_eq!(
        (p4.0.as_str(), p5.0.as_str(), s5.0.as_str()),
        ("VALID", "VALID", "VALID"),
        "{p5:?}"
    );
    let (p4, ..) = verify("");
    assert!(p4.0 == "UNVERIFIABLE" && p4.1.contains("no break-glass signers"), "{p4:?}");
    // Who may sign lists of approvers may not say who breaks glass.
    let list = setup.people.path("list.pem.pub");
    let (p4, ..) = verify(&format!("break-glass {}\n", list.display()));
    assert_eq!(p4.0, "INVALID", "{p4:?}");
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_opens_while_the_alarm_is_not_taken() {
    let receiver = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", receiver.local_addr().unwrap());
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), &["keygen", "--out", "hook.pem"]);
    let key = dir.path().join("hook.pem").display().to_string();
    let setup = Setup::with(|config| {
        config["approvals"]["webhook"] = json!({"url": url, "key": key});
    })
    .await;
    setup.request("glass.json", "work.do", "30");
    let both = [setup.signs("harry", "glass.json"), setup.signs("iris", "glass.json")];
    // The receiver fails once, then takes it.
    let heard = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let told = std::sync::Arc::clone(&heard);
    let hears = tokio::spawn(async move {
        for status in ["500 No", "204 Taken"] {
            let (stream, _) = receiver.accept().await.unwrap();
            let body = answered(stream, status).await;
            told.lock().push(body);
        }
    });
    setup.refused("glass.json", &[&both[0], &both[1]], "break_glass.alarm");
    let (exit, said) = setup.opens("glass.json", &[&both[0], &both[1]]);
    assert_eq!(exit, Some(0), "{said}");
    hears.await.unwrap();
    let heard = heard.lock().clone();
    assert_eq!(heard.len(), 2);
    assert!(heard.iter().all(|one| one.contains("break_glass.opening")), "{heard:?}");
    assert!(heard[1].contains("\"signed_by\":[\"harry\",\"iris\"]"), "{heard:?}");
    setup.agent.call("work.do", "d", r#"{"hold":true}"#).await.unwrap();
    setup.close().await;
}

/// Reads one request and answers it; its body.
async fn answered(mut stream: tokio::net::TcpStream, status: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut text = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await.unwrap();
        text.extend_from_slice(&piece[..read]);
        let so_far = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = so_far.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() < length.trim().parse().unwrap() {
            continue;
        }
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.unwrap();
        return body.to_owned();
    }
}
