//! Directories as they are shown.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use rustix::fs::{FileType, Mode};
use serde_json::{Value, json};

use crate::rig::Rig;

fn names(listing: &Value) -> Vec<&str> {
    let entries = listing["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

fn fifo(rig: &Rig, name: &str) {
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, rig.path(name), FileType::Fifo, mode, 0).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_listed_in_order_with_kinds_and_sizes_and_links_are_only_links() {
    let rig = Rig::new().await;
    std::fs::create_dir(rig.path("sub")).unwrap();
    rig.put("sub/inner.txt", "12345");
    rig.put("b.txt", "12");
    rig.put("a.txt", "1");
    symlink(rig.keeper.path("outside"), rig.path("out")).unwrap();
    fifo(&rig, "pipe");
    let (sidecar, agent) = rig.serve().await;
    let listing = rig.call(&agent, "fs.list", json!({})).await.unwrap();
    assert_eq!(
        listing,
        json!({"path": ".", "truncated": false, "entries": [
            {"name": "a.txt", "kind": "file", "size": 1},
            {"name": "b.txt", "kind": "file", "size": 2},
            {"name": "out", "kind": "link"},
            {"name": "pipe", "kind": "fifo"},
            {"name": "sub", "kind": "directory"},
        ]})
    );
    let deep = rig.call(&agent, "fs.list", json!({"depth": 3})).await.unwrap();
    assert_eq!(names(&deep), ["a.txt", "b.txt", "out", "pipe", "sub", "sub/inner.txt"]);
    let sub = rig.call(&agent, "fs.list", json!({"path": "sub"})).await.unwrap();
    assert_eq!((&sub["path"], names(&sub)), (&json!("sub"), vec!["inner.txt"]));
    for (args, detail) in [
        (json!({"path": "a.txt"}), "file.not_directory"),
        (json!({"path": "pipe"}), "file.not_directory"),
        (json!({"path": "missing"}), "file.not_found"),
        (json!({"depth": 4}), "file.depth"),
    ] {
        assert_eq!(rig.denied(&agent, "fs.list", args).await, detail);
    }
    rig.end(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_hide_or_are_no_text_are_shown_escaped() {
    let rig = Rig::new().await;
    let raw = std::ffi::OsStr::from_bytes(b"bad\xff\x1b[2J");
    std::fs::write(rig.path("").join(raw), "x").unwrap();
    std::fs::create_dir(rig.path("rtl\u{202e}txt")).unwrap();
    rig.put("rtl\u{202e}txt/inner", "x");
    rig.put("back\\slash", "x");
    let (sidecar, agent) = rig.serve().await;
    let listing = rig.call(&agent, "fs.list", json!({"depth": 2})).await.unwrap();
    assert_eq!(names(&listing), ["back\\\\slash", "bad\\xff\\u{1b}[2J", "rtl\\u{202e}txt"]);
    for entry in listing["entries"].as_array().unwrap() {
        assert_eq!(entry["escaped"], true, "{entry}");
    }
    rig.end(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lies_below_a_protected_name_is_not_shown() {
    let rig = Rig::new().await;
    std::fs::create_dir_all(rig.path(".git/refs")).unwrap();
    rig.put(".git/HEAD", "ref");
    rig.put(".env", "KEY=1");
    rig.put("x", "1");
    let (sidecar, agent) = rig.serve().await;
    let listing = rig.call(&agent, "fs.list", json!({"depth": 3})).await.unwrap();
    assert_eq!(names(&listing), [".env", ".git", "x"]);
    assert_eq!(listing["entries"][1]["protected"], true);
    assert_eq!(listing["entries"][2].get("protected"), None);
    rig.end(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_directory_is_cut_at_its_bound_and_says_so() {
    let rig = Rig::with(|config| {
        config["tools"][1]["file"]["entries_max"] = 50.into();
    })
    .await;
    for n in 0..120 {
        rig.put(&format!("f{n:03}"), "");
    }
    let (sidecar, agent) = rig.serve().await;
    let listing = rig.call(&agent, "fs.list", json!({})).await.unwrap();
    assert_eq!((names(&listing).len(), &listing["truncated"]), (50, &json!(true)));
    assert_eq!(names(&listing)[49], "f049");
    rig.end(sidecar, &agent).await;
}
