//! Clocks that are wrong, or set while the gate runs: corpus 16, FLT-016 and FLT-054.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::checker::{Database, calls, check, kinds};
use crate::crash::on_postgres;
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;

const FIVE_MINUTES: i64 = 300;
const HOUR: i64 = 60 * 60;
const DAY: i64 = 24 * HOUR;

/// What makes a process' clock wrong, made once.
fn library() -> &'static Path {
    static MADE: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_dir, path) = MADE.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("skew.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/skew.c");
        let made = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .arg(&path)
            .arg(source)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        (dir, path)
    });
    path
}

/// Sets the clock of the estate's gates: so many seconds ahead of the machine's, also of one that runs.
fn set(estate: &Estate, seconds: i64) {
    let (path, new) = (estate.path("ahead"), seconds.to_ne_bytes());
    if path.exists() {
        // In place: the gate has this file mapped.
        use std::os::unix::fs::FileExt as _;
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&new, 0).unwrap();
    } else {
        std::fs::write(path, new).unwrap();
    }
}

/// Starts a gate whose clock is as the estate's is set.
fn start(estate: &Estate) -> Sidecar {
    start_with(estate, &[])
}

/// The same, with these options of `serve`.
fn start_with(estate: &Estate, options: &[&str]) -> Sidecar {
    let preload = format!("LD_PRELOAD={}", library().display());
    let ahead = format!("WICKETGATE_TEST_AHEAD={}", estate.path("ahead").display());
    estate.start_with_options(&["env", &preload, &ahead], options)
}

/// Starts it and waits until it serves.
async fn serve(estate: &Estate) -> Sidecar {
    let mut sidecar = start(estate);
    sidecar.ready().await;
    sidecar
}

/// The chain that the estate's last receipt is of.
fn chain(estate: &Estate) -> String {
    let line: Value = serde_json::from_str(estate.receipts.lines().last().unwrap()).unwrap();
    line["chain"].as_str().unwrap().to_owned()
}

/// A gate of the same pool, with a clock that is so far off.
fn beside(tool: &Tool, first: &Estate, seconds: i64) -> Estate {
    let Database::Postgres(admin) = &first.database else { unreachable!() };
    let estate = Estate::postgres(tool, &first.writer_url(), admin, "pool/one");
    estate.configure(|config| config["ledger"]["postgres"]["lease_seconds"] = 2.into());
    set(&estate, seconds);
    estate
}

/// Leases are the database's time: a clock that is ahead takes no slot that is held, one that is behind gets the slot
/// of one that died.
async fn two_clocks(newcomer: i64) {
    let tool = Tool::start().await;
    let estate = on_postgres(&tool, "pool/one").await;
    estate.configure(|config| config["ledger"]["postgres"]["lease_seconds"] = 2.into());
    let mut first = estate.serve().await;
    let agent = first.open().await;
    agent.call("work.do", "a", "{}").await.unwrap();
    let held = chain(&estate);

    let other = beside(&tool, &estate, newcomer);
    let mut second = serve(&other).await;
    second.open().await.call("work.do", "b", "{}").await.unwrap();
    assert_ne!(chain(&other), held, "a slot that is held was taken");
    agent.call("work.do", "c", "{}").await.unwrap();
    assert_eq!(chain(&estate), held);

    first.kill();
    let heir = beside(&tool, &estate, newcomer);
    let mut third = loop {
        let _ = std::fs::remove_dir_all(heir.path("state"));
        let mut sidecar = serve(&heir).await;
        sidecar.open().await.call("work.do", "d", "{}").await.unwrap();
        if chain(&heir) == held {
            break sidecar;
        }
        sidecar.stop().await;
    };
    third.stop().await;
    second.stop().await;
    let all = crate::agent::Receipts::all(&[
        estate.receipts.clone(),
        other.receipts.clone(),
        heir.receipts.clone(),
    ]);
    let summary = check(&estate.database, &tool, &all);
    assert!(calls(&summary, "completed") >= 4, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_five_minutes_ahead_takes_no_slot_that_is_held_and_inherits_one_that_is_not() {
    two_clocks(FIVE_MINUTES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_five_minutes_behind_takes_no_slot_that_is_held_and_inherits_one_that_is_not() {
    two_clocks(-FIVE_MINUTES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_clock_set_a_day_on_expired_stays_expired_when_it_is_set_back() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    // The run itself outlives the day: by itself it would end within one.
    estate.configure(|config| config["limits"]["run_wall_seconds"] = serde_json::json!(7 * 86_400));
    set(&estate, 0);
    let mut sidecar = serve(&estate).await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", "{}").await.unwrap();
    let held = agent.call("work.held", "h", "{}").await.unwrap_err();
    assert_eq!(held.code, "call.held", "{held:?}");

    set(&estate, DAY);
    crate::until("the hold to expire", || {
        let agent = agent.clone();
        async move { agent.call("work.held", "h", "{}").await.unwrap_err().code == "call.expired" }
    })
    .await;
    let later = sidecar.open().await;
    later.call("work.do", "b", "{}").await.unwrap();

    set(&estate, -DAY);
    let again = agent.call("work.held", "h", "{}").await.unwrap_err();
    assert_eq!(again.code, "call.expired", "{again:?}");
    let earlier = sidecar.open().await;
    earlier.call("work.do", "c", "{}").await.unwrap();
    sidecar.kill();

    // A gate does not begin before the last thing it did; nor does the restart bring back what expired.
    let mut early = start(&estate);
    early.ends(1).await;
    assert!(early.said().contains("behind the last entry"), "{}", early.said());
    set(&estate, DAY);
    let mut sidecar = serve(&estate).await;
    let again = agent.get("h").await.unwrap_err();
    assert_eq!(again.code, "call.expired", "{again:?}");
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!(tool.count(), 3);
    assert_eq!(
        (calls(&summary, "completed"), kinds(&summary, "call.expired")),
        (3, 1),
        "{summary}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_with_a_clock_days_ahead_costs_one_command_and_no_installation() {
    for days in [2, 3, 400] {
        let tool = Tool::start().await;
        let estate = Estate::sqlite(&tool);
        set(&estate, 0);
        let mut sidecar = serve(&estate).await;
        sidecar.open().await.call("work.do", "a", "{}").await.unwrap();
        sidecar.stop().await;
        set(&estate, days * DAY);
        let mut sidecar = serve(&estate).await;
        sidecar.open().await.call("work.do", "b", "{}").await.unwrap();
        sidecar.stop().await;
        set(&estate, 0);
        let mut refused = start(&estate);
        refused.ends(1).await;
        let said = refused.said();
        assert!(said.contains("start once with `--accept-clock-step`"), "{said}");
        let mut sidecar = start_with(&estate, &["--accept-clock-step"]);
        sidecar.ready().await;
        let agent = sidecar.open().await;
        agent.call("work.do", "c", "{}").await.unwrap();
        // What is to end ends, although the clock is days behind.
        sidecar.kill();
        // Once is enough: what was accepted is on the chain.
        let mut sidecar = serve(&estate).await;
        agent.call("work.do", "d", "{}").await.unwrap();
        sidecar.stop().await;
        // Another jump is another one.
        set(&estate, -2 * DAY);
        let mut refused = start(&estate);
        refused.ends(1).await;
        set(&estate, 0);
        let summary = check(&estate.database, &tool, &estate.receipts);
        assert_eq!(calls(&summary, "completed"), 4, "{summary}");
        assert_eq!(kinds(&summary, "clock.step"), 2, "{summary}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_that_ended_stays_ended_when_the_clock_is_set_back() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    set(&estate, 0);
    // It ends in three hours.
    let ends = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(3);
    let ends = ends.strftime("%Y-%m-%dT%H:%M:%S.000Z").to_string();
    let meta = serde_json::json!({"name": "test", "version": "1.0.1",
        "not_before": "2020-01-01T00:00:00.000Z", "not_after": ends});
    std::fs::write(estate.path("bundle/bundle.json"), meta.to_string()).unwrap();
    let sign = ["policy", "sign", "bundle", "--key", &crate::sidecar::key("policy")];
    crate::sidecar::run(&estate.path("."), &sign);
    let mut sidecar = serve(&estate).await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", "{}").await.unwrap();
    set(&estate, 4 * HOUR);
    let refused = agent.call("work.do", "b", "{}").await.unwrap_err();
    assert_ne!(refused.code, "", "{refused:?}");
    for (n, back) in [3 * HOUR, HOUR, 0, -HOUR, -12 * HOUR].into_iter().enumerate() {
        set(&estate, back);
        let again = agent.call("work.do", &format!("c{n}"), "{}").await.unwrap_err();
        assert_eq!(again.code, refused.code, "{back}: {again:?}");
    }
    sidecar.kill();
    // Nor does a restart bring it back.
    for back in [HOUR, 0] {
        set(&estate, back);
        let mut sidecar = start(&estate);
        crate::until("the bundle to be refused", || {
            let said = sidecar.said();
            async move { said.contains("no policy bundle is in force") }
        })
        .await;
        assert!(sidecar.said().contains("not now"), "{}", sidecar.said());
        sidecar.kill();
    }
    assert_eq!(tool.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_files_beside_the_ledger_allows_no_older_bundle_and_no_older_manifest() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    estate.bundle("2.0.0", crate::sidecar::RULES, "policy");
    estate.manifest("2.0.0", "manifest", |text| text);
    estate.serve().await.stop().await;
    for file in std::fs::read_dir(estate.path("state")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("ledger.sqlite") || name.starts_with("enrolment") {
            continue;
        }
        let removed = if path.is_dir() {
            std::fs::remove_dir_all(&path)
        } else {
            std::fs::remove_file(&path)
        };
        removed.unwrap();
    }
    for older in ["1.0.0", "1.9.9", "2.0.0-rc.1"] {
        estate.bundle(older, crate::sidecar::RULES, "policy");
        let mut sidecar = estate.start();
        crate::until("the bundle to be refused", || {
            let said = sidecar.said();
            async move { said.contains("policy.downgrade") }
        })
        .await;
        sidecar.kill();
    }
    estate.bundle("2.0.0", crate::sidecar::RULES, "policy");
    for older in ["1.0.0", "1.9.9", "2.0.0-rc.1"] {
        estate.manifest(older, "manifest", |text| text);
        let mut sidecar = estate.start();
        sidecar.ends(78).await;
        assert!(sidecar.said().contains(older), "{}", sidecar.said());
    }
    estate.manifest("2.0.0", "manifest", |text| text);
    estate.serve().await.stop().await;
}
