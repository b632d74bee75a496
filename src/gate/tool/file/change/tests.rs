//! A file or directory changes between the judgement and the write.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::*;
use crate::catalog::binding::{Root, Writing};
use crate::ledger::fuse::Fuse;
use crate::tool::file::FileWrite;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("root/d")).unwrap();
        std::fs::write(dir.path().join("root/d/f"), "old").unwrap();
        std::fs::write(dir.path().join("canary"), "CANARY").unwrap();
        Self(dir)
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("root").canonicalize().unwrap()
    }

    fn tool(&self) -> FileWrite {
        let root = Root { name: "r".into(), path: self.root(), ..Root::default() };
        FileWrite::new(&Writing { root, create_parents: true, edits: true }).unwrap()
    }

    fn plan(&self, path: &str, mode: &str) -> WritePlan {
        let mut args = vec![("path", Json::from(path)), ("mode", Json::from(mode))];
        if mode != "delete" {
            args.push(("content", Json::from("new")));
        }
        self.tool().plan(&Json::object(args)).unwrap().1
    }

    fn tidy(&self) -> bool {
        let mut names = std::fs::read_dir(self.root()).unwrap().map(|e| e.unwrap().file_name());
        names.all(|name| !name.to_string_lossy().starts_with(STAGED_PREFIX))
    }
}

fn is_changed(outcome: &Unmasked) -> bool {
    matches!(outcome, Unmasked::Failed { class: FailureClass::Changed, .. })
}

/// A change of `root/d/f` by another process, and the content that `root/d/f` has afterwards.
type Tampering = (&'static str, fn(&Path), Option<&'static str>);

const TAMPERINGS: &[Tampering] = &[
    ("its bytes", |root| std::fs::write(root.join("d/f"), "odd").unwrap(), Some("odd")),
    (
        "another file",
        |root| {
            std::fs::write(root.join("g"), "old").unwrap();
            std::fs::rename(root.join("g"), root.join("d/f")).unwrap();
        },
        Some("old"),
    ),
    (
        "a link",
        |root| {
            std::fs::remove_file(root.join("d/f")).unwrap();
            symlink(root.join("../canary"), root.join("d/f")).unwrap();
        },
        Some("CANARY"),
    ),
    ("nothing", |root| std::fs::remove_file(root.join("d/f")).unwrap(), None),
    (
        "its bits",
        |root| {
            std::fs::set_permissions(root.join("d/f"), PermissionsExt::from_mode(0o600)).unwrap();
        },
        Some("old"),
    ),
    (
        "a second name",
        |root| std::fs::hard_link(root.join("d/f"), root.join("h")).unwrap(),
        Some("old"),
    ),
    (
        "another directory",
        |root| {
            std::fs::rename(root.join("d"), root.join("e")).unwrap();
            std::fs::create_dir(root.join("d")).unwrap();
            std::fs::write(root.join("d/f"), "old").unwrap();
        },
        Some("old"),
    ),
    (
        "a link to the directory",
        |root| {
            std::fs::rename(root.join("d"), root.join("e")).unwrap();
            symlink("e", root.join("d")).unwrap();
        },
        Some("old"),
    ),
];

#[test]
fn what_changed_after_it_was_judged_is_not_written_over() {
    for (what, tamper, content) in TAMPERINGS {
        for mode in ["write", "replace", "delete"] {
            let place = Place::new();
            let plan = place.plan("d/f", mode);
            tamper(&place.root());
            assert!(is_changed(&apply(&plan, &Fuse::never())), "{what} {mode}");
            let now = std::fs::read_to_string(place.root().join("d/f")).ok();
            assert_eq!(now.as_deref(), *content, "{what} {mode}");
            let canary = std::fs::read_to_string(place.0.path().join("canary")).unwrap();
            assert!(canary == "CANARY" && place.tidy(), "{what} {mode}");
        }
    }
}

#[test]
fn what_appeared_after_it_was_judged_is_not_written_over() {
    let place = Place::new();
    let plan = place.plan("d/new", "write");
    std::fs::write(place.root().join("d/new"), "theirs").unwrap();
    assert!(is_changed(&apply(&plan, &Fuse::never())));
    assert_eq!(std::fs::read_to_string(place.root().join("d/new")).unwrap(), "theirs");
    assert!(place.tidy());
    let deep = place.plan("x/y/z", "create");
    std::fs::create_dir_all(place.root().join("x")).unwrap();
    symlink(place.0.path(), place.root().join("x/y")).unwrap();
    assert!(is_changed(&apply(&deep, &Fuse::never())));
    assert!(!place.0.path().join("z").exists() && place.tidy());
}

#[test]
fn directories_of_a_write_that_failed_are_taken_away_again() {
    let place = Place::new();
    let plan = place.plan("x/y/z", "create");
    std::fs::create_dir_all(place.root().join("x/y")).unwrap();
    std::fs::write(place.root().join("x/y/z"), "theirs").unwrap();
    assert!(is_changed(&apply(&plan, &Fuse::never())));
    assert_eq!(std::fs::read_to_string(place.root().join("x/y/z")).unwrap(), "theirs");
    let plan = place.plan("p/q/z", "create");
    assert!(matches!(apply(&plan, &Fuse::never()), Unmasked::Completed { .. }));
    assert_eq!(std::fs::read_to_string(place.root().join("p/q/z")).unwrap(), "new");
}

#[test]
fn only_what_a_write_leaves_is_swept_away() {
    let place = Place::new();
    let staged_as = |n: u64| format!("{STAGED_PREFIX}{n:032x}{STAGED_SUFFIX}");
    let leftover = place.root().join(staged_as(1));
    std::fs::write(&leftover, "left").unwrap();
    let under_way = place.root().join(staged_name());
    std::fs::write(&under_way, "of a call of this process").unwrap();
    let others = [".wicketgate-x.tmp", "f.tmp", ".wicketgate-00000000000000000000000000000000.tm"];
    for name in others {
        std::fs::write(place.root().join(name), "kept").unwrap();
    }
    let linked = place.root().join(staged_as(2));
    symlink(place.0.path().join("canary"), &linked).unwrap();
    let _tool = place.tool();
    assert!(!leftover.exists() && linked.is_symlink() && under_way.exists());
    assert!(others.iter().all(|name| place.root().join(name).exists()));
    assert_eq!(std::fs::read_to_string(place.0.path().join("canary")).unwrap(), "CANARY");
}
