//! Files that are made, replaced and deleted, and what is never written over.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt};

use rustix::fs::{FileType, Mode};
use serde_json::json;

use crate::checker::{calls, kinds};
use crate::rig::{PRECIOUS, Rig, sha256};

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_made_replaced_and_deleted_as_a_whole() {
    let rig = Rig::new().await;
    std::fs::create_dir(rig.path("src")).unwrap();
    let (sidecar, agent) = rig.serve().await;
    let made = rig.write(&agent, "src/main.rs", "fn main() {}\n").await;
    assert_eq!(
        made,
        json!({"path": "src/main.rs", "operation": "create", "size": 13, "sha256": sha256("fn main() {}\n")})
    );
    assert_eq!(rig.path("src/main.rs").metadata().unwrap().mode() & 0o7777, 0o644);
    std::fs::set_permissions(rig.path("src/main.rs"), PermissionsExt::from_mode(0o755)).unwrap();
    let replaced = rig.write(&agent, "src/main.rs", "new").await;
    assert_eq!(replaced["operation"], "replace");
    assert_eq!(replaced["before_sha256"], sha256("fn main() {}\n"));
    assert_eq!(rig.text("src/main.rs"), "new");
    assert_eq!(rig.path("src/main.rs").metadata().unwrap().mode() & 0o7777, 0o755, "as it was");
    let bytes = json!({"path": "b", "content_base64": "AP8B"});
    rig.call(&agent, "fs.write", bytes).await.unwrap();
    assert_eq!(std::fs::read(rig.path("b")).unwrap(), [0, 255, 1]);
    rig.write(&agent, "empty", "").await;
    assert_eq!(rig.text("empty"), "");
    rig.write(&agent, "日本語 naïve.md", "été").await;
    let gone = json!({"path": "src/main.rs", "mode": "delete"});
    let gone = rig.call(&agent, "fs.write", gone).await.unwrap();
    assert_eq!(gone["operation"], "delete");
    assert!(!rig.path("src/main.rs").exists());
    let summary = rig.end(sidecar, &agent).await;
    assert_eq!(calls(&summary, "completed"), 6, "{summary}");
}

#[tokio::test(flavor = "multi_thread")]
async fn modes_and_preconditions_are_kept() {
    let rig = Rig::new().await;
    rig.put("there", "old");
    let (sidecar, agent) = rig.serve().await;
    for (args, detail) in [
        (json!({"path": "there", "content": "x", "mode": "create"}), "file.exists"),
        (json!({"path": "not", "content": "x", "mode": "replace"}), "file.not_found"),
        (json!({"path": "not", "mode": "delete"}), "file.not_found"),
        (json!({"path": "no/dir/x", "content": "x"}), "file.not_found"),
        (json!({"path": "there/x", "content": "x"}), "file.not_found"),
        (json!({"path": "there", "mode": "delete", "content": "x"}), "file.content"),
        (json!({"path": "there"}), "file.content"),
        (json!({"path": "there", "content": "x", "content_base64": "eA=="}), "file.content"),
        (json!({"path": "there", "content_base64": "?"}), "file.content"),
        (json!({"path": "there", "content": "x", "if_match": sha256("other")}), "file.changed"),
        (json!({"path": "not", "content": "x", "if_match": sha256("old")}), "file.changed"),
    ] {
        assert_eq!(rig.denied(&agent, "fs.write", args.clone()).await, detail, "{args}");
    }
    assert_eq!(rig.text("there"), "old");
    let fits = json!({"path": "there", "content": "new", "if_match": sha256("old")});
    rig.call(&agent, "fs.write", fits).await.unwrap();
    assert_eq!(rig.text("there"), "new");
    let summary = rig.end(sidecar, &agent).await;
    assert_eq!(kinds(&summary, "call.denied"), 11, "{summary}");
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_are_made_only_where_the_binding_says_so() {
    let rig = Rig::new().await;
    let (sidecar, agent) = rig.serve().await;
    let deep = json!({"path": "a/b/c.txt", "content": "deep"});
    assert_eq!(rig.denied(&agent, "fs.write", deep.clone()).await, "file.not_found");
    assert!(!rig.path("a").exists());
    rig.call(&agent, "fs.deep", deep).await.unwrap();
    assert_eq!(rig.text("a/b/c.txt"), "deep");
    let delete = json!({"path": "x/y", "mode": "delete"});
    assert_eq!(rig.denied(&agent, "fs.deep", delete).await, "file.not_found");
    assert!(!rig.path("x").exists());
    rig.end(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_plain_file_of_ours_with_one_name_is_written_over() {
    let rig = Rig::new().await;
    std::fs::hard_link(rig.keeper.path("outside/canary"), rig.path("hard")).unwrap();
    std::fs::create_dir(rig.path("dir")).unwrap();
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, rig.path("fifo"), FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(rig.path("socket")).unwrap();
    rig.put("setuid", "x");
    std::fs::set_permissions(rig.path("setuid"), PermissionsExt::from_mode(0o4755)).unwrap();
    std::fs::File::create(rig.path("sparse")).unwrap().set_len(1 << 40).unwrap();
    let mut cases = vec![
        ("hard", "file.not_regular"),
        ("dir", "file.not_regular"),
        ("fifo", "file.not_regular"),
        ("socket", "file.not_regular"),
        ("setuid", "file.special_mode"),
        ("sparse", "file.too_large"),
    ];
    rig.put("foreign", "x");
    if std::os::unix::fs::chown(rig.path("foreign"), Some(12345), None).is_ok() {
        cases.push(("foreign", "file.foreign_owner"));
    } else {
        eprintln!("not tested here: a file of another user (run as root)");
    }
    let device = rustix::fs::makedev(1, 3);
    let kind = FileType::CharacterDevice;
    if rustix::fs::mknodat(rustix::fs::CWD, rig.path("null"), kind, mode, device).is_ok() {
        cases.push(("null", "file.not_regular"));
    } else {
        eprintln!("not tested here: a device (run as root)");
    }
    let (sidecar, agent) = rig.serve().await;
    for (path, detail) in cases {
        for args in [
            json!({"path": path, "content": "OWNED"}),
            json!({"path": path, "content": "OWNED", "mode": "create"}),
            json!({"path": path, "mode": "delete"}),
        ] {
            // Within the patience of a call: a FIFO does not wait for a reader.
            assert_eq!(rig.denied(&agent, "fs.write", args).await, detail, "{path}");
            assert!(rig.path(path).exists(), "{path}");
        }
    }
    assert_eq!(rig.text("setuid"), "x");
    std::fs::remove_file(rig.path("hard")).unwrap();
    rig.end(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_judge_what_a_write_would_make_of_the_file() {
    let rig = Rig::new().await;
    rig.put("stays.txt", "x");
    rig.put("old.txt", PRECIOUS);
    let (sidecar, agent) = rig.serve().await;
    let large = "x".repeat(900_001);
    for args in [
        json!({"path": "stays.txt", "mode": "delete"}),
        json!({"path": "large.txt", "content": large}),
        json!({"path": "old.txt", "content": "y"}),
        json!({"path": "old.txt", "mode": "delete"}),
    ] {
        let refused = rig.call(&agent, "fs.write", args).await.unwrap_err();
        assert_eq!(refused.code, "policy.denied", "{refused:?}");
    }
    assert_eq!((rig.text("stays.txt").as_str(), rig.text("old.txt").as_str()), ("x", PRECIOUS));
    assert!(!rig.path("large.txt").exists());
    rig.write(&agent, "stays.txt", "y").await;
    rig.end(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reversible_write_that_cannot_keep_what_was_there_does_not_run() {
    let rig = Rig::new().await;
    let large = "x".repeat((512 << 10) + 1);
    rig.put("large", &large);
    let (sidecar, agent) = rig.serve().await;
    let args = json!({"path": "large", "content": "y"});
    assert_eq!(rig.denied(&agent, "fs.write", args.clone()).await, "file.pre_image");
    assert_eq!(rig.text("large"), large);
    // A tool of tier T2 promises no way back.
    rig.call(&agent, "fs.heavy", args).await.unwrap();
    assert_eq!(rig.text("large"), "y");
    // Nothing of an incognito run is stored, so nothing could be put back.
    let hidden = rig.keeper.open_incognito().await;
    let args = json!({"path": "large", "content": "z"});
    assert_eq!(rig.denied(&hidden, "fs.write", args).await, "pre_image.not_kept");
    assert_eq!(rig.text("large"), "y");
    hidden.seal().await.unwrap();
    rig.end(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_tool_that_says_it_only_reads_is_refused_at_the_configuration() {
    let rig = Rig::with(|config| {
        config["tools"][2]["read_only"] = true.into();
        config["tools"][3]["tier"] = "T0".into();
        config["tools"][0]["file"]["create_parents"] = true.into();
        config["tools"][1]["file"]["protect"] = json!(["a/b"]);
        config["tools"][4]["file"]["allow"] = json!(["/etc/passwd"]);
    })
    .await;
    let said = rig.keeper.ask(&["config", "check", "wicketgate.yaml"]);
    assert_eq!(said.code, 78, "{said:?}");
    for place in [
        "tools[2].read_only",
        "tools[3].tier",
        "tools[0].file.create_parents",
        "tools[1].file.protect[0]",
        "tools[4].file.allow[0]",
    ] {
        assert!(said.err.contains(place) || said.out.contains(place), "{place}: {said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_changes_one_place_of_a_file_and_is_undone_as_any_write() {
    let before = "fn total() {\n    a + b\n}\n// a + c\n";
    let rig = Rig::with(|config| {
        let tools = config["tools"].as_array_mut().unwrap();
        let write = tools.iter_mut().find(|tool| tool["name"] == "fs.write").unwrap();
        write["file"]["edits"] = true.into();
    })
    .await;
    rig.put("total.rs", before);
    std::fs::write(rig.path("raw"), [0xff]).unwrap();
    let (sidecar, agent) = rig.serve().await;
    let edit = |old: &str| json!({"path": "total.rs", "mode": "edit", "old": old, "new": "a - b"});
    let edited = rig.call(&agent, "fs.write", edit("a + b")).await.unwrap();
    assert_eq!(edited["operation"], "replace");
    assert_eq!(edited["before_sha256"], sha256(before));
    let after = before.replace("a + b", "a - b");
    assert_eq!(rig.text("total.rs"), after);
    for (args, detail) in [
        (edit("a + b"), "file.edit"),
        (edit("a"), "file.edit"),
        (json!({"path": "total.rs", "mode": "edit", "old": "a"}), "file.edit"),
        (
            json!({"path": "total.rs", "mode": "edit", "old": "a", "new": "b", "content": "x"}),
            "file.content",
        ),
        (json!({"path": "raw", "mode": "edit", "old": "a", "new": "b"}), "file.edit"),
        (json!({"path": "not", "mode": "edit", "old": "a", "new": "b"}), "file.not_found"),
    ] {
        assert_eq!(rig.denied(&agent, "fs.write", args.clone()).await, detail, "{args}");
    }
    // A tool whose binding does not say `edits` has none, whatever its schema lets through.
    let heavy = rig.call(&agent, "fs.heavy", edit("a - b")).await;
    assert!(heavy.is_err(), "{heavy:?}");
    assert_eq!(rig.text("total.rs"), after);
    let all = json!({"path": "total.rs", "mode": "edit", "old": "a", "new": "z", "all": true});
    rig.call(&agent, "fs.write", all).await.unwrap();
    assert_eq!(rig.text("total.rs"), after.replace('a', "z"));
    agent.seal().await.unwrap();
    let undone = crate::rollback::roll(&rig, &agent.run, &[]);
    assert_eq!(undone.code, 0, "{undone:?}");
    assert_eq!(rig.text("total.rs"), before);
    drop(sidecar);
}
