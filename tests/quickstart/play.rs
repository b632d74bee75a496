//! A play that goes on: other clients can call, and whatever ends it ends all of it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::session::Session;
use crate::waiting::PATIENCE;
use wicketgate_support::program;

/// A play that was told to stay, and did.
struct Staying {
    child: Child,
    out: Option<BufReader<ChildStdout>>,
    gate: u64,
    tools: u64,
    socket: String,
    console: Value,
}

impl Drop for Staying {
    /// A test that failed leaves nothing running either; what has ended already is fine.
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn stay(session: &Session) -> Staying {
    let mut command = session.command(&["quickstart", "--json", "--keep", "--dir", "demo"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let (mut gate, mut tools, mut console) = (0, 0, Value::Null);
    loop {
        let mut line = String::new();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "it ended");
        let step: Value = serde_json::from_str(&line).unwrap();
        match step["step"].as_str().unwrap() {
            "gate" => gate = step["process"].as_u64().unwrap(),
            "tools" => tools = step["process"].as_u64().unwrap(),
            "console" => console = step,
            "keep" => {
                let socket = step["socket"].as_str().unwrap().to_owned();
                return Staying { child, out: Some(out), gate, tools, socket, console };
            }
            _ => {}
        }
    }
}

fn runs(process: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // What nobody has waited for yet has ended as well.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[track_caller]
fn ends(process: u64) {
    let began = Instant::now();
    while runs(process) {
        assert!(began.elapsed() < PATIENCE, "process {process} still runs");
        std::thread::yield_now();
    }
}

fn signal(child: &Child, name: &str) {
    let done = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(done.success());
}

#[test]
fn a_quickstart_that_receives_sigterm_drains_the_gate_and_verifies_the_ledger() {
    let session = Session::new();
    let mut staying = stay(&session);
    assert!(runs(staying.gate) && runs(staying.tools));
    signal(&staying.child, "-TERM");
    let rest: Vec<String> = staying.out.take().unwrap().lines().map(Result::unwrap).collect();
    assert!(rest.iter().any(|line| line.contains(r#""step":"ledger""#)), "{rest:?}");
    assert_eq!(staying.child.wait().unwrap().code(), Some(0));
    assert_eq!(session.processes(), Vec::<String>::new());
}

/// One request to the console.
fn ask(host: &str, line: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(host).unwrap();
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_console_of_a_kept_quickstart_shows_a_held_call_to_the_login_it_prints() {
    let session = Session::new();
    let staying = stay(&session);
    let text = |name: &str| staying.console[name].as_str().unwrap();
    let host = text("url").strip_prefix("http://").unwrap().strip_suffix("/console").unwrap();
    let token = std::fs::read_to_string(text("token_file")).unwrap();
    let form = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("token", token.trim())
        .finish();
    let headers =
        format!("Origin: http://{host}\r\nContent-Type: application/x-www-form-urlencoded\r\n");
    let answer = ask(host, "POST /console/login", &headers, &form);
    assert!(answer.starts_with("HTTP/1.1 303"), "{answer}");
    let cookie = answer.split("set-cookie: ").nth(1).unwrap().split(';').next().unwrap();
    let cookie = format!("Cookie: {cookie}\r\n");
    let page = ask(host, "GET /console", &cookie, "");
    let path = format!("/console/approvals/{}/pay-2500", text("run"));
    assert!(page.contains("● ready") && page.contains(&path), "{page}");
    let page = ask(host, &format!("GET {path}"), &cookie, "");
    for part in ["payments.transfer", "2500", "an amount over 1000 needs two approvers"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let page = ask(host, "GET /console/orders/new", &cookie, "");
    assert!(page.starts_with("HTTP/1.1 200"), "an operator: {page}");
}

#[test]
fn a_play_that_is_killed_leaves_no_process_behind_and_a_ledger_that_verifies() {
    let session = Session::new();
    let mut staying = stay(&session);
    staying.child.kill().unwrap();
    staying.child.wait().unwrap();
    ends(staying.gate);
    ends(staying.tools);
    let args = ["--sqlite", "demo/state/ledger.sqlite", "--trust", "demo/auditor/trust.txt"];
    session.play(&[&["ledger", "verify"][..], &args].concat()).ends(0);
}

/// The agent of `examples/python`, when the packages it needs are there (`tests/run` sees to that).
#[test]
fn the_example_agent_in_python_gets_its_answers_from_the_gate() {
    let Some(python) = std::env::var_os("WICKETGATE_TEST_PYTHON") else {
        eprintln!("not asked: WICKETGATE_TEST_PYTHON is not set; tests/run sets it");
        return;
    };
    let session = Session::new();
    let mut staying = stay(&session);
    let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/python/agent.py");
    let done = Command::new(python)
        .args([agent, &staying.socket])
        .arg(session.path("demo/instructions.txt"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}\n{err}");
    for part in ["crm.search: {", "[REDACTED:email]", "refused: policy.denied", "call.held"] {
        assert!(out.contains(part), "`{part}` is not in: {out}\n{err}");
    }
    signal(&staying.child, "-TERM");
    assert_eq!(staying.child.wait().unwrap().code(), Some(0));
}

/// The pages of one visit.
const PAGES: [&str; 23] = [
    "Log in",
    "What waits",
    "Held calls",
    "Runs",
    "Calls",
    "Alerts",
    "Health",
    "Trust",
    "Patterns",
    "Orders",
    "Stop something",
    "Policy",
    "What observe mode let run",
    "Evidence",
    "Custody",
    "Held call: payments.transfer",
    "Run of support-agent",
    "Call of payments.transfer",
    "Bundle support-agent 1.0.0",
    "Test on recorded decisions",
    "Verification of the ledger",
    "Your session",
    "Log in",
];

/// It takes half a minute: six visits with a browser, four of them judged by axe-core.
#[test]
fn a_person_with_chromium_logs_in_to_the_console_and_no_page_has_a_fault() {
    let home = std::env::var("WICKETGATE_TEST_CONSOLE").expect("tests/run sets it");
    let session = Session::new();
    let staying = stay(&session);
    let text = |name: &str| staying.console[name].as_str().unwrap();
    let script = program::top().join("tests/console/chromium.py");
    let axe = format!("{home}/axe/node_modules/axe-core/axe.min.js");
    let done = Command::new(format!("{home}/python/bin/python"))
        .arg("-B")
        .arg(script)
        .args([text("url"), text("token_file"), &axe])
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{err}");
    let seen: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(seen["faults"], serde_json::json!([]));
    let visits = seen["visits"].as_object().unwrap();
    let titles = PAGES.map(|title| Value::from(format!("{title} · Wicketgate")));
    assert_eq!(visits.len(), 6, "{seen}");
    for (visit, seen) in visits {
        assert_eq!(seen.as_array().unwrap(), &titles, "{visit}");
    }
}
