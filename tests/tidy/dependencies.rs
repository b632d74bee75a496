//! What we build on: how much of it, and what never.

use std::collections::BTreeSet;

use crate::source::Source;

/// Build and development dependencies included. More is a decision, made here.
const DIRECT_MAX: usize = 98;
const LOCKED_MAX: usize = 497;

/// Never, in any version: a second TLS provider, and one that needs the system's library.
const BANNED: [&str; 5] = ["openssl", "openssl-sys", "native-tls", "aws-lc-rs", "aws-lc-sys"];
/// Versions that were published with something in them that does not belong there.
const BANNED_VERSIONS: [(&str, &str); 3] =
    [("arrayref", "0.3.10"), ("internment", "0.8.7"), ("append-only-vec", "0.1.9")];
/// Not named by us; what others bring along is theirs.
const BANNED_DIRECT: [&str; 3] = ["eyre", "lazy_static", "once_cell"];

fn file<'a>(tree: &'a [Source], path: &str) -> &'a str {
    tree.iter().find(|s| s.path == path).map_or("", |s| &s.text)
}

/// The lines of the tables whose name ends so: name and value.
fn table<'a>(text: &'a str, ends: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let mut inside = false;
    text.lines().filter_map(move |line| {
        if line.starts_with('[') {
            inside = line.ends_with(ends);
        }
        let (name, value) = line.split_once('=').filter(|_| inside && !line.starts_with('#'))?;
        Some((name.trim(), value))
    })
}

/// Crates that name a version of their own: all stand in the table of the workspace.
pub fn versions(tree: &[Source]) -> Vec<String> {
    let ours = |s: &&Source| s.path == "Cargo.toml" || s.is_member();
    let mut wrong = Vec::new();
    for source in tree.iter().filter(ours) {
        let of_workspace = |line: &(&str, &str)| line.1.contains("workspace = true");
        let text = source.text.replace("[workspace.dependencies]", "[workspace.versions]");
        let other = table(&text, "dependencies]").filter(|line| !of_workspace(line));
        wrong.extend(
            other.map(|(name, _)| format!("{}: `{name}` has a version of its own", source.path)),
        );
    }
    wrong
}

/// Too many dependencies of our own, one without a version, one that is banned.
pub fn direct(tree: &[Source]) -> Vec<String> {
    let (mut wrong, mut names) = (Vec::new(), BTreeSet::new());
    for (name, value) in table(file(tree, "Cargo.toml"), "[workspace.dependencies]") {
        if value.contains("path =") {
            continue;
        }
        names.insert(name.to_owned());
        if value.contains("\"*\"") || value.contains("git =") {
            wrong.push(format!("Cargo.toml: `{name}` is not held to a published version"));
        }
        if BANNED_DIRECT.contains(&name) {
            wrong.push(format!("Cargo.toml: `{name}` is not used here"));
        }
    }
    if names.len() > DIRECT_MAX {
        wrong.push(format!("Cargo.toml: {} direct dependencies of {DIRECT_MAX}", names.len()));
    }
    if names.is_empty() {
        wrong.push("Cargo.toml: no dependency was found".to_owned());
    }
    wrong
}

/// Too many locked packages, or one that is banned.
pub fn locked(tree: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut count = 0;
    let field = |block: &str, name: &str| {
        let line = block.lines().find_map(|l| l.strip_prefix(name).map(str::to_owned));
        line.map(|value| value.trim_matches([' ', '=', '"']).to_owned()).unwrap_or_default()
    };
    for block in file(tree, "Cargo.lock").split("[[package]]").skip(1) {
        let (name, version) = (field(block, "name"), field(block, "version"));
        count += usize::from(!name.starts_with("wicketgate"));
        let poisoned = BANNED_VERSIONS.contains(&(name.as_str(), version.as_str()));
        if BANNED.contains(&name.as_str()) || poisoned {
            wrong.push(format!("Cargo.lock: `{name} {version}` is banned"));
        }
    }
    if count > LOCKED_MAX || count == 0 {
        wrong.push(format!("Cargo.lock: {count} locked packages of {LOCKED_MAX}"));
    }
    wrong
}

#[test]
fn a_direct_dependency_too_many_or_banned_is_found() {
    let of = |text: &str| direct(&[Source::of("Cargo.toml", text)]);
    let names = |n: usize| (0..n).map(|i| format!("a{i} = \"1\"\n")).collect::<String>();
    let all = "[workspace.dependencies]\n";
    assert_eq!(of(&format!("{all}{}", names(DIRECT_MAX))), Vec::<String>::new());
    assert_eq!(of(&format!("{all}{}", names(DIRECT_MAX + 1))).len(), 1);
    assert_eq!(of(&format!("{all}eyre = \"1\"\n")).len(), 1);
    assert_eq!(of(&format!("{all}serde = {{ version = \"*\" }}\n")).len(), 1);
    assert_eq!(of(&format!("[lints.rust]\nx = \"deny\"\n{all}")).len(), 1);
}

#[test]
fn a_crate_with_a_version_of_its_own_is_found() {
    let of = |path: &str, text: &str| versions(&[Source::of(path, text)]).len();
    assert_eq!(of("src/gate/Cargo.toml", "[dependencies]\na = \"1\"\n"), 1);
    assert_eq!(of("Cargo.toml", "[dev-dependencies]\na = { version = \"1\" }\n"), 1);
    assert_eq!(of("Cargo.toml", "[workspace.dependencies]\na = \"1\"\n"), 0);
    assert_eq!(of("src/gate/Cargo.toml", "[dependencies]\na = { workspace = true }\n"), 0);
}

#[test]
fn a_locked_package_too_many_or_banned_is_found() {
    let package = |name: &str, version: &str| {
        format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n\n")
    };
    let of = |text: &str| locked(&[Source::of("Cargo.lock", text)]);
    assert_eq!(of(&package("serde", "1.0.0")), Vec::<String>::new());
    assert_eq!(of(&package("arrayref", "0.3.9")), Vec::<String>::new());
    for (name, version) in
        [("openssl-sys", "0.9.1"), ("aws-lc-rs", "1.0.0"), ("arrayref", "0.3.10")]
    {
        assert_eq!(of(&package(name, version)).len(), 1, "{name}");
    }
    assert_eq!(of(&package("a", "1").repeat(LOCKED_MAX + 1)).len(), 1);
    assert_eq!(of("").len(), 1);
}
