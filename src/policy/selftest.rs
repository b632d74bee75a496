//! Tries a candidate in a child process first: a stack overflow, a hang or a memory leak ends the
//! child and not the gate.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};

use super::bundle::Bundle;
use super::fault::Error;
use super::rego::RegoEngine;
use super::{EngineError, PolicyEngine as _};
use crate::domain::digest::Digest;

/// How long the whole trial may take.
const WALL: Duration = Duration::from_secs(10);
/// Address space of the child.
const MEMORY_BYTES: u64 = 2 << 30;
/// One evaluation in the trial: generous, so that a busy machine refuses no sound bundle.
const DEADLINE: Duration = Duration::from_secs(1);
const REPORT_BYTES_MAX: u64 = 64 << 10;

/// Tries the bundle of this directory in a child: `exe policy self-test --bundle DIR`.
///
/// Blocks for at most ten seconds. Gives the digest of the bundle that was tried: the caller puts
/// only that one in force.
///
/// # Errors
/// The child refused the bundle, crashed, or did not end in time.
pub fn run_in_child(exe: &Path, dir: &Path) -> Result<Digest, Error> {
    run(Command::new(exe).args(["policy", "self-test", "--bundle"]).arg(dir), WALL)
}

fn run(command: &mut Command, wall: Duration) -> Result<Digest, Error> {
    let failed = |why: String| Error::SelfTest(why);
    let mut child = command
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| failed(format!("cannot start the child: {e}")))?;
    let (send, receive) = mpsc::sync_channel(1);
    let pipe = child.stdout.take();
    // The pipe ends when the child does, however it ends; the thread ends with the pipe.
    let reader = std::thread::spawn(move || {
        let mut report = String::new();
        let read = pipe.map(|pipe| pipe.take(REPORT_BYTES_MAX).read_to_string(&mut report));
        let _the_receiver_may_have_given_up = send.send(read.is_some().then_some(report));
    });
    let report = receive.recv_timeout(wall);
    if report.is_err() {
        child.kill().map_err(|e| failed(e.to_string()))?;
    }
    let status = child.wait().map_err(|e| failed(e.to_string()))?;
    let _it_only_reads = reader.join();
    let report = report
        .map_err(|_| failed(format!("it did not end within {} s", wall.as_secs())))?
        .unwrap_or_default();
    let report = report.trim();
    if !status.success() {
        let shown = if report.is_empty() { status.to_string() } else { report.to_owned() };
        return Err(failed(shown));
    }
    Digest::parse(report).ok_or_else(|| failed("it said nothing".to_owned()))
}

/// The child's work: limit itself, load the bundle, decide about a few calls of every kind.
///
/// # Errors
/// The bundle does not load, does not prepare, hangs, or answers none of the calls.
pub fn child_main(dir: &Path) -> Result<Digest, Error> {
    let limit = |resource, most| {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
            .map_err(|e| Error::SelfTest(e.to_string()))
    };
    limit(Resource::Core, 0)?;
    limit(Resource::As, MEMORY_BYTES)?;
    limit(Resource::Cpu, WALL.as_secs())?;
    let bundle = Bundle::load(dir).map_err(Error::Load)?;
    try_out(&bundle)?;
    Ok(bundle.digest())
}

/// Decides about the canned calls.
///
/// # Errors
/// One of them hangs, or none of them has an answer.
pub fn try_out(bundle: &Bundle) -> Result<(), Error> {
    let engine = RegoEngine::new(bundle, DEADLINE)?;
    let mut answered = false;
    let mut last = None;
    for input in CANNED {
        match engine.decide(input.as_bytes()) {
            Ok(_) => answered = true,
            Err(EngineError::Deadline(limit)) => {
                return Err(Error::SelfTest(EngineError::Deadline(limit).to_string()));
            }
            Err(failure) => last = Some(failure.to_string()),
        }
    }
    match last {
        Some(failure) if !answered => Err(Error::SelfTest(failure)),
        Some(_) | None => Ok(()),
    }
}

macro_rules! canned {
    ($tool:literal, $kind:literal, $tier:literal, $binding:literal, $args:literal, $effect:literal, $findings:literal) => {
        concat!(
            r#"{"v":"wicketgate/input/2","agent":{"id":"a","version":"1.0.0","owner":"o","labels":{},"#,
            r#""manifest":"sha256:00","binding":""#, $binding, r#"","delegation":[]},"run":{"id":"r","#,
            r#""mode":"enforce","incognito":false,"opened_at":"2026-11-20T10:00:00.000Z","calls":1,"errors":0,"cost":0,"#,
            r#""labels":{}},"tool":{"name":""#, $tool, r#"","kind":""#, $kind, r#"","tier":""#, $tier,
            r#"","read_only":true,"definition":"sha256:00"},"call":{"id":"c"},"args":"#, $args,
            r#","effect":"#, $effect, r#","context":{"attested":{},"claimed":{}},"time":{"rfc3339":"#,
            r#""2026-11-20T10:00:00.000Z","unix":1795168800,"weekday":"friday","hour":10,"minute":0,"#,
            r#""tz":"UTC"},"findings":"#, $findings,
            r#","approvals":[],"observe":[],"taint":{"egress":"outside","floor":{"label_only":"alert","trifecta":"approve"},"#,
            r#""influence":{"private":0,"unknown":false,"untrusted":0},"labels":[],"since":{},"trifecta":false,"#,
            r#""trifecta_influenced":false},"history":{"calls":1,"errors":0,"denied":0}}"#
        )
    };
}

/// A read, a request, an irreversible call, and unusually large and odd arguments.
const CANNED: [&str; 4] = [
    canned!(
        "repo.read_file",
        "file.read",
        "T0",
        "claimed",
        r#"{"path":"src/main.rs"}"#,
        r#"{"kind":"file","access":"read","root":"repo","path":"src/main.rs","file_kind":"regular","size":10,"mode":420}"#,
        "[]"
    ),
    canned!(
        "tickets.create",
        "http",
        "T2",
        "observed",
        r#"{"title":"t","amount":1200}"#,
        r#"{"kind":"http","method":"POST","scheme":"https","host":"api.example.com","port":443,"path":"/t","query":[{"name":"q","value":"1"}],"body_bytes":20}"#,
        r#"[{"kind":"email","path":"/title"}]"#
    ),
    canned!("pay", "http", "T3", "observed", "{}", r#"{"kind":"none"}"#, "[]"),
    canned!(
        "odd",
        "sql",
        "T1",
        "observed",
        r#"{"a":[[],{},null,-1.5,"\u0000"],"":{"b":[1,2,3,4,5,6,7,8,9]}}"#,
        r#"{"kind":"none"}"#,
        "[]"
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::{Json, Limits};

    #[test]
    fn the_canned_calls_are_strict_documents() {
        for input in CANNED {
            Json::parse(input.as_bytes(), &Limits::ARGUMENTS).unwrap();
        }
    }

    #[test]
    fn a_child_that_crashes_or_hangs_or_says_nothing_refuses_the_bundle() {
        let shell = |script: &str, wall| run(Command::new("/bin/sh").args(["-c", script]), wall);
        let long = Duration::from_secs(30);
        let why = |result: Result<Digest, Error>| result.unwrap_err().to_string();
        assert!(why(shell("kill -ABRT $$", long)).contains("signal"));
        assert!(why(shell("echo no; exit 1", long)).contains("no"));
        assert!(why(shell("exit 0", long)).contains("said nothing"));
        assert!(
            why(shell("exec /bin/sleep 600", Duration::from_millis(50))).contains("did not end")
        );
        let digest = Digest::of(&[b"x"]);
        assert_eq!(shell(&format!("echo {}", digest.prefixed()), long).unwrap(), digest);
    }
}
