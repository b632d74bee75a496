//! The small program as cargo builds it: it starts, and says what it was given wrong.

#![allow(clippy::unwrap_used, reason = "tests may stop at the first surprise")]

use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wicketgate-verify")).args(args).output().unwrap()
}

#[test]
fn it_shows_its_guide_and_refuses_a_command_line_without_trust() {
    let guide = run(&["guide"]);
    assert_eq!(guide.status.code(), Some(0));
    assert_eq!(guide.stdout, wicketgate_verify::guide::GUIDE.as_bytes());
    let bare = run(&["evidence"]);
    assert!(!bare.status.success() && bare.stdout.is_empty());
    assert!(String::from_utf8(bare.stderr).unwrap().contains("--trust"));
}
