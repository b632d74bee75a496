//! The built program on real files: what it says about wrong ones, and how it ends.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may stop at the first surprise, and share what not all of them use"
)]

mod archive;
mod check;
mod config;
mod firewall;
mod folder;
mod groups;
mod manifest;
mod new_config;
mod probe;
mod steps;
mod tools;

use folder::Folder;
use std::os::unix::fs::PermissionsExt as _;
use wicketgate_support::{ca, private};

#[test]
fn keygen_makes_a_private_secret_key_a_public_key_and_never_replaces_either() {
    let folder = Folder::new();
    let made = folder.run(&["keygen", "--out", "k"]).ends(0);
    let mode = std::fs::metadata(folder.path("k")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert!(folder.read("k").starts_with("-----BEGIN PRIVATE KEY-----"));
    assert!(folder.read("k.pub").starts_with("-----BEGIN PUBLIC KEY-----"));
    let id = made.out.lines().last().unwrap().split_whitespace().last().unwrap();
    assert_eq!(id.len(), 64);
    let before = (folder.read("k"), folder.read("k.pub"));
    folder.run(&["keygen", "--out", "k"]).ends(1);
    std::fs::remove_file(folder.path("k")).unwrap();
    folder.run(&["keygen", "--out", "k"]).ends(1).complains("`k.pub` exists and is not replaced");
    assert!(!folder.path("k").exists());
    assert_eq!(folder.read("k.pub"), before.1);
    let json = folder.run(&["keygen", "--out", "k2", "--json"]).ends(0);
    let value: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(value["public"], "k2.pub");
}

#[test]
fn openssl_form_keys_are_what_keygen_writes() {
    // RFC 8410: the fixed prefix of an Ed25519 SubjectPublicKeyInfo, then the 32 raw bytes.
    let folder = Folder::new();
    folder.run(&["keygen", "--out", "k"]).ends(0);
    let pem = folder.read("k.pub");
    let body = pem.lines().nth(1).unwrap();
    assert!(body.starts_with("MCowBQYDK2VwAyEA"), "{pem}");
}

#[test]
fn a_wrong_command_line_ends_with_64_and_help_with_0() {
    let folder = Folder::new();
    folder.run(&["keygen"]).ends(64).complains("--out");
    folder.run(&["no-such-command"]).ends(64);
    folder.run(&[]).ends(64).complains("Usage");
    folder.run(&["manifest", "verify", "agent.yaml"]).ends(64).complains("--public-key");
    folder.run(&["manifest", "verify", "a", "--trust", "b", "--threshold", "0"]).ends(64);
    for args in [&["--help"][..], &["manifest", "verify", "--help"], &["config", "check", "--help"]]
    {
        let help = folder.run(args).ends(0);
        assert!(!help.out.contains('\u{1b}'), "no colour into a pipe");
    }
    let help = folder.run(&["manifest", "verify", "--help"]).ends(0);
    assert!(help.out.contains("Examples:"), "{}", help.out);
    folder.run(&["--version"]).ends(0);
}
