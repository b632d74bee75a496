//! What a recording costs to read and to play: `cargo bench --bench replay`, `-- --quick` from a small one.
//!
//! Reading checks every line and every commitment; playing finds the recorded call of each call, reads it and
//! gives it to the judge. The road around it is that of every call, and is measured by `cargo bench --bench road`.
//! Recording itself adds nothing to a call: what the agent is shown is one payload of the run's opening.
//! Nothing here asserts a time. See benches/README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measurement may stop at the first surprise, and prints"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use wicketgate::domain::call::{CallOrigin, CallerAuth, ToolCall};
use wicketgate::domain::canonical;
use wicketgate::domain::commitment::commit;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::id::{CallId, RunId};
use wicketgate::domain::json::Json;
use wicketgate::enforce::ReplaySession as _;
use wicketgate::replay::environment::RecordedClock;
use wicketgate::replay::player::{Player, ReplaySettings};
use wicketgate::replay::recording::{Recording, VERSION};
use wicketgate_support::bench;

const SALT: [u8; 32] = [7; 32];

fn arguments(number: u64) -> String {
    format!("{{\"name\":\"customer {number}\"}}")
}

fn bound(role: &str, body: &str) -> String {
    let c = commit(&SALT, body.as_bytes()).hex();
    format!("{{\"c\":\"{c}\",\"role\":\"{role}\",\"salt\":\"{}\"}}", hex::encode(SALT))
}

/// A recording of this many steps, one after the other, each with a result of 1 KiB.
fn write(path: &Path, run: &RunId, steps: u64) {
    let (at, none) = ("2026-11-22T12:00:00.000Z", Digest::of(&[]).prefixed());
    let tools = "{\"tools\":[]}";
    let mut text = format!(
        "{{\"agent\":\"bench\",\"manifest\":\"{none}\",\"opened_at\":\"{at}\",\"run\":\"{run}\",\"t\":\"recording\",\"v\":\"{VERSION}\"}}\n\
         {{\"base64\":\"\",\"name\":\"agent.yaml\",\"sha256\":\"{none}\",\"t\":\"file\"}}\n"
    );
    let c = commit(&SALT, tools.as_bytes()).hex();
    let salt = hex::encode(SALT);
    writeln!(text, "{{\"c\":\"{c}\",\"salt\":\"{salt}\",\"t\":\"tools\",\"tools\":{tools}}}")
        .unwrap();
    let result = format!("{{\"text\":\"{}\"}}", "x".repeat(1024));
    let quoted = canonical::text(&Json::from(result.as_str()));
    for n in 1..=steps {
        let args = arguments(n);
        let payloads = [bound("args", &args), bound("result", &result)].join(",");
        writeln!(
            text,
            "{{\"after\":{},\"args\":{args},\"at\":\"{at}\",\"decision\":{{\"verdict\":\"allow\"}},\
             \"end\":{},\"ended\":{{\"kind\":\"call.completed\",\"status\":\"200\"}},\"n\":{n},\
             \"payloads\":[{payloads}],\"result\":{quoted},\"t\":\"step\",\"tool\":\"crm.search\"}}",
            (n - 1) * 2,
            n * 2
        )
        .unwrap();
    }
    let digest = Digest::of(&[text.as_bytes()]).prefixed();
    writeln!(text, "{{\"sha256\":\"{digest}\",\"steps\":{steps},\"t\":\"end\"}}").unwrap();
    std::fs::write(path, text).unwrap();
}

fn call(run: RunId, number: u64) -> ToolCall {
    let id = CallId::parse(&format!("c-{number}")).unwrap();
    let asking = CallOrigin {
        run,
        id,
        after: 0,
        agent: "agent".into(),
        auth: CallerAuth::default(),
        traceparent: None,
    };
    ToolCall::parse(asking, "crm.search", arguments(number).as_bytes()).unwrap()
}

fn main() {
    let Some(asked) = bench::Asked::read("replay [-- --quick]") else { return };
    let steps: u64 = if asked.quick() { 1_000 } else { 100_000 };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.recording");
    let run = RunId::from_random([3; 16]);
    write(&path, &run, steps);
    let began = Instant::now();
    let recording = Recording::open(&path).unwrap();
    let read = began.elapsed();
    let clock = Arc::new(RecordedClock::at(recording.header.opened_at));
    let (engines, volatile) = (BTreeMap::new(), BTreeMap::new());
    let manner = ReplaySettings { collect: false, engines, now: None, volatile };
    let player = Player::new(recording, manner, clock).unwrap();
    let calls: Vec<ToolCall> = (1..=steps).map(|number| call(run, number)).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let began = Instant::now();
    runtime.block_on(async {
        for call in &calls {
            drop(player.recorded_call(call).await.unwrap());
            player.over(&run, call.id(), None);
        }
    });
    let played = began.elapsed();
    assert!(player.finish().drifts.is_empty());
    let rate = |took: std::time::Duration| steps as f64 / took.as_secs_f64();
    println!("a recording of {steps} steps, 1 KiB each");
    println!("  read and checked   {:>10.0} steps/s", rate(read));
    println!("  played             {:>10.0} steps/s", rate(played));
}
