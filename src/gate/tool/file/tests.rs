//! Tests on real files, with everything real except the permit.

#![expect(clippy::wildcard_enum_match_arm, reason = "tests may stop at the first surprise")]

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::read::{bytes, read};
use super::*;
use crate::domain::call::{CallOrigin, CallerAuth, ToolCall};
use crate::domain::canonical;
use crate::domain::effect::Effect;
use crate::domain::facts::ToolFacts;
use crate::domain::id::{CallId, RunId, ToolName};
use crate::domain::json::Json;
use crate::domain::tier::Tier;
use crate::judge::prepared::Prepared;
use crate::tool::ToolExecutor as _;

struct Fixture {
    dir: tempfile::TempDir,
    tool: FileRead,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("root")).unwrap();
        std::fs::write(dir.path().join("canary"), "CANARY").unwrap();
        let path = dir.path().join("root").canonicalize().unwrap();
        let root = Root { name: "work".into(), path, ..Root::default() };
        let tool = FileRead::new(&root, 1000).unwrap();
        Self { dir, tool }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("root").join(name)
    }

    fn prepare(&self, args: &str) -> Result<Prepared, LayerReason> {
        let asking = CallOrigin {
            run: RunId::from_random([7; 16]),
            id: CallId::parse("c1").unwrap(),
            after: 0,
            agent: "agent".into(),
            auth: CallerAuth::default(),
            traceparent: None,
        };
        let call = ToolCall::parse(asking, "f", args.as_bytes()).unwrap();
        let facts = ToolFacts {
            name: ToolName::parse("f").unwrap(),
            kind: "file.read".into(),
            tier: Tier::T0,
            read_only: true,
            idempotent: true,
            definition: Digest::of(&[]),
            timeout: std::time::Duration::from_secs(1),
            result_bytes_max: 1000,
            cost_micro_usd: None,
            dedupe: None,
            roles: crate::domain::taint::ToolRoles::default(),
        };
        let (effect, hold) = self.tool.prepare(&call).map_err(|mut all| all.remove(0))?;
        Ok(Prepared::ready(call, Arc::new(facts), effect, Vec::new(), hold))
    }

    fn refusal(&self, path: &str) -> String {
        self.prepare(&canonical::text(&Json::object([("path", Json::from(path))])))
            .unwrap_err()
            .detail
    }
}

fn text(outcome: Unmasked) -> String {
    match outcome {
        Unmasked::Completed { result, .. } => String::from_utf8(result.into_parts().0).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn is_changed(outcome: &Unmasked) -> bool {
    matches!(outcome, Unmasked::Failed { class: FailureClass::Changed, .. })
}

#[tokio::test]
async fn a_file_is_read_through_the_descriptor_that_was_judged() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.path("sub")).unwrap();
    std::fs::write(fixture.path("sub/ok.txt"), "hello").unwrap();
    let prepared = fixture.prepare(r#"{"path":"sub/ok.txt"}"#).unwrap();
    let Effect::File { access, root, path, kind, size, .. } = prepared.effect() else {
        panic!("a file effect")
    };
    let facts = (access.as_str(), root.as_str(), path.as_str(), kind.as_str(), *size);
    assert_eq!(facts, ("read", "work", "sub/ok.txt", "regular", 5));
    // Another file under the same name was not judged, so it is not read.
    std::fs::write(fixture.path("other"), "other").unwrap();
    std::fs::rename(fixture.path("other"), fixture.path("sub/ok.txt")).unwrap();
    assert_eq!(text(read(&prepared).await), r#"{"path":"sub/ok.txt","size":5,"text":"hello"}"#);
}

#[tokio::test]
async fn a_part_and_bytes_that_are_no_text_come_back_as_they_are() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path("b"), [b'a', 0xff, b'c']).unwrap();
    let whole = fixture.prepare(r#"{"path":"b"}"#).unwrap();
    assert_eq!(text(read(&whole).await), r#"{"base64":"Yf9j","path":"b","size":3}"#);
    let part = fixture.prepare(r#"{"path":"b","offset":2,"length":99}"#).unwrap();
    assert_eq!(
        text(read(&part).await),
        r#"{"length":1,"offset":2,"path":"b","size":3,"text":"c"}"#
    );
    let beyond = fixture.prepare(r#"{"path":"b","offset":99}"#).unwrap();
    assert!(text(read(&beyond).await).contains(r#""text":"""#));
}

#[test]
fn what_is_no_plain_file_beneath_the_root_is_refused() {
    let fixture = Fixture::new();
    let canary = fixture.dir.path().join("canary");
    symlink(&canary, fixture.path("link")).unwrap();
    symlink("ok.txt", fixture.path("inner")).unwrap();
    symlink(fixture.dir.path(), fixture.path("updir")).unwrap();
    std::fs::write(fixture.path("ok.txt"), "x").unwrap();
    std::fs::hard_link(&canary, fixture.path("hard")).unwrap();
    std::fs::create_dir(fixture.path("dir")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(fixture.path("socket")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        fixture.path("fifo"),
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    let sparse = File::create(fixture.path("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    std::fs::write(fixture.path("large"), vec![b'x'; 1001]).unwrap();
    for (path, detail) in [
        ("link", "file.symlink"),
        ("inner", "file.symlink"),
        ("updir/canary", "file.symlink"),
        ("hard", "file.not_regular"),
        ("dir", "file.not_regular"),
        ("socket", "file.not_regular"),
        ("fifo", "file.not_regular"),
        ("sparse", "file.too_large"),
        ("large", "file.too_large"),
        ("missing", "file.not_found"),
        ("ok.txt/x", "file.not_found"),
        ("../canary", "file.traversal"),
        ("/etc/passwd", "file.path"),
        ("‥/canary", "file.traversal"),
        (".env", "file.protected_name"),
        (".git/hooks/post-checkout", "file.protected_name"),
    ] {
        assert_eq!(fixture.refusal(path), detail, "{path}");
    }
    assert!(fixture.prepare(r#"{"path":"large","length":10}"#).is_ok());
    assert_eq!(
        fixture.prepare(r#"{"path":"sparse","length":10}"#).unwrap_err().detail,
        "file.too_large"
    );
    assert_eq!(
        fixture.prepare(r#"{"path":"ok.txt","offset":-1}"#).unwrap_err().detail,
        "file.span"
    );
}

#[tokio::test]
async fn a_file_that_changes_after_it_was_judged_is_not_released() {
    let fixture = Fixture::new();
    for change in ["grown", "", "swap"] {
        std::fs::write(fixture.path("f"), "calm").unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH;
        File::options().write(true).open(fixture.path("f")).unwrap().set_modified(old).unwrap();
        let prepared = fixture.prepare(r#"{"path":"f"}"#).unwrap();
        let mut file = File::options()
            .write(true)
            .truncate(change.is_empty())
            .open(fixture.path("f"))
            .unwrap();
        file.write_all(change.as_bytes()).unwrap();
        drop(file);
        assert!(is_changed(&read(&prepared).await), "{change:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_grows_while_it_is_read_never_gives_more_than_was_judged() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path("grow"), "0123456789").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (path, stopped) = (fixture.path("grow"), Arc::clone(&stop));
    let writer = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            let mut file = File::options().append(true).open(&path).unwrap();
            file.write_all(b"more").unwrap();
            if file.metadata().unwrap().len() > 900 {
                file.set_len(10).unwrap();
            }
        }
    });
    for _ in 0..500 {
        let Ok(prepared) = fixture.prepare(r#"{"path":"grow"}"#) else { continue };
        let Effect::File { size, .. } = prepared.effect() else { panic!("a file effect") };
        let size = usize::try_from(*size).unwrap();
        match read(&prepared).await {
            Unmasked::Completed { result, .. } => {
                let result = result.into_parts().0;
                let read = Json::parse(&result, &crate::domain::json::Limits::FILE).unwrap();
                assert_eq!(read.get("text").and_then(Json::as_str).unwrap().len(), size);
            }
            other => assert!(is_changed(&other), "{other:?}"),
        }
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
}

#[tokio::test]
async fn swapping_the_file_for_a_link_never_shows_what_lies_outside() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.path("d")).unwrap();
    std::fs::write(fixture.path("d/canary"), "inside").unwrap();
    symlink(fixture.dir.path(), fixture.path("link")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (a, b) = (fixture.path("d"), fixture.path("link"));
    let stopped = Arc::clone(&stop);
    let swapper = std::thread::spawn(move || {
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        let mut swaps = 0_u32;
        while !stopped.load(Ordering::Relaxed) {
            rustix::fs::renameat_with(rustix::fs::CWD, &a, rustix::fs::CWD, &b, flags).unwrap();
            swaps += 1;
        }
        swaps
    });
    let (mut inside, mut refused) = (0, 0);
    // At least twenty thousand walks, and on a busy machine until both sides of the race were seen.
    for walk in 0..5_000_000 {
        if walk >= 20_000 && inside > 0 && refused > 0 {
            break;
        }
        match fixture.tool.look("d/canary", (0, None)) {
            Ok((_, opened)) => {
                let read = bytes(File::from(opened.file), opened.seen, 0, opened.length);
                assert_eq!(read.unwrap(), b"inside");
                inside += 1;
            }
            Err(reason) => {
                assert!(
                    matches!(reason.detail.as_str(), "file.symlink" | "file.path"),
                    "{reason:?}"
                );
                refused += 1;
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    assert!(swapper.join().unwrap() > 0 && inside > 0 && refused > 0, "{inside} {refused}");
}

#[tokio::test]
async fn the_root_that_was_opened_counts_and_not_its_name() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path("ok.txt"), "mine").unwrap();
    let root = fixture.dir.path().join("root");
    std::fs::rename(&root, fixture.dir.path().join("moved")).unwrap();
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("ok.txt"), "planted").unwrap();
    let prepared = fixture.prepare(r#"{"path":"ok.txt"}"#).unwrap();
    assert!(text(read(&prepared).await).contains("mine"));
}
