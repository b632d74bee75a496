//! A kill at any moment of an export: there may be a record without a bundle, never a bundle without one.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::auditor::{auditor, export, manifest, recorded, verify};
use crate::fleet::{anchor, fleet, some_calls, sqlite};
use crate::scopes::database;
use crate::sidecar::Estate;
use crate::tool::Tool;

/// An export of everything to `out` under a tracer; whether the tracer killed it.
fn killed(estate: &Estate, tracer: &[&str], out: &Path) -> bool {
    let args = ["evidence", "export", "--config", "wicketgate.yaml", "--key", "evidence.pem"];
    let done = Command::new("strace")
        .args(["-f", "-qqq", "-o", "/dev/null"])
        .args(tracer)
        .arg(wicketgate_support::program::gate())
        .args(args)
        .args(["--artifacts", "state/artifacts", "--population", "--out"])
        .arg(out)
        .current_dir(estate.path("."))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap_or_else(|e| panic!("strace (tests/run installs it): {e}"));
    let killed = done.signal() == Some(9);
    assert!(killed || done.success(), "{tracer:?}: {done}");
    killed
}

/// Bundles, and what was to be one, below this directory.
fn left(parent: &Path) -> Vec<PathBuf> {
    let Ok(found) = std::fs::read_dir(parent) else { return Vec::new() };
    found.map(|place| place.unwrap().path()).collect()
}

/// Kills exports at all kinds of moments.
async fn sweep(estate: &Estate) {
    let parent = estate.path("made");
    let bundle = parent.join("bundle");
    let (at_parent, at_bundle) = (parent.display().to_string(), bundle.display().to_string());
    let before = recorded(estate).await.len();
    let kill = |what: &str| format!("inject={what}:signal=KILL");
    // After the record and before the first byte: where the bundle's parent is made.
    let mkdir = kill("?mkdir,?mkdirat");
    let tracer = ["-P", &at_parent, "-e", &mkdir];
    assert!(tokio::task::block_in_place(|| killed(estate, &tracer, &bundle)), "no mkdir was seen");
    assert!(!parent.exists());
    assert_eq!(recorded(estate).await.len(), before + 1, "a record without a bundle");
    // In any sync of the record; between two folders of the bundle; in the one sync of all its files; in
    // any renaming: the last gives a bundle that is there in every byte its name.
    let record = [1, 2, 3].map(|nth| ("?fsync,?fdatasync", nth));
    let files = [3, 4, 9, 12].map(|nth| ("?mkdir,?mkdirat", nth));
    let moments = record.into_iter().chain(files).chain([("syncfs", 1)]);
    let moments = moments.chain((1..=3).map(|nth| ("?rename,?renameat", nth)));
    let (mut ends, mut parts) = (0, 0);
    for (call, nth) in moments {
        let moment = format!("{}:when={nth}", kill(call));
        let tracer = ["-e", &moment];
        ends += u32::from(tokio::task::block_in_place(|| killed(estate, &tracer, &bundle)));
        let told = recorded(estate).await;
        for place in left(&parent) {
            parts += u32::from(place != bundle);
            if let Some(manifest) = manifest(&place) {
                assert!(told.contains(&manifest), "a bundle without a record: {moment}");
            }
            std::fs::remove_dir_all(&place).unwrap();
        }
    }
    assert!(ends >= 5, "only {ends} moments were reached");
    assert!(parts >= 4, "only {parts} exports were killed while they were written");
    // Another try needs nothing to be cleared away, and is a bundle as any.
    export(estate, &["--population"], &at_bundle).await.ends(0);
    verify(estate, &[], &at_bundle).await.ends(0);
    let told = recorded(estate).await;
    assert_eq!(told.last(), manifest(&bundle).as_ref());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_moment_an_export_from_sqlite_leaves_no_bundle_without_a_record() {
    let tool = Tool::start().await;
    let estate = sqlite(&tool);
    some_calls(&estate, &["a", "b"]).await;
    anchor(&estate).await.ends(0);
    auditor(&estate, &[&estate]);
    sweep(&estate).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_moment_an_export_from_postgres_leaves_no_bundle_without_a_record() {
    let tool = Tool::start().await;
    let db = database().await;
    let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "shop/agents");
    some_calls(&estate, &["a", "b"]).await;
    fleet(&estate);
    anchor(&estate).await.ends(0);
    auditor(&estate, &[&estate]);
    sweep(&estate).await;
}
