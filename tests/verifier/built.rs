//! What the small program is made of: packages, symbols, and the system calls it makes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::same::Folder;
use crate::{large, output, small, text};

/// Packages that talk to a database or a network, or run asynchronous code. (`ring` and `webpki` are there:
/// they check signatures of time stamps.)
const ABSENT: [&str; 17] = [
    "tokio",
    "hyper",
    "hyper-util",
    "hyper-rustls",
    "tonic",
    "axum",
    "tower",
    "sqlx",
    "sqlx-core",
    "sqlx-postgres",
    "sqlx-sqlite",
    "libsqlite3-sys",
    "rustls",
    "socket2",
    "mio",
    "opentelemetry",
    "reqwest",
];

fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    // What cargo told this test about itself would look like a change to build scripts.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        let told = ["OUT_DIR", "CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];
        if told.iter().any(|prefix| name.starts_with(prefix)) {
            cargo.env_remove(name.as_ref());
        }
    }
    // What lints the product builds it as well: this program is built as its users build it.
    cargo.env_remove("RUSTC_WORKSPACE_WRAPPER");
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo
}

/// The packages that the workspace optimises in the tests' own build.
fn optimised() -> impl Iterator<Item = &'static str> {
    let sections = include_str!("../../Cargo.toml").lines();
    let names =
        sections.filter_map(|line| line.strip_prefix("[profile.dev.package.")?.strip_suffix(']'));
    names.filter(|name| *name != "\"*\"")
}

/// Builds it as the README says, but for speed: neither optimised nor with debug information.
pub fn build() -> PathBuf {
    let host = text(Command::new("rustc").arg("-vV"));
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/verifier");
    let began = Instant::now();
    let mut cargo = cargo();
    cargo.args(["build", "--offline", "--locked", "--quiet"]);
    cargo.args(["--package", "wicketgate-verify", "--target", &host, "--target-dir"]).arg(&dir);
    cargo.env("RUSTFLAGS", "-C target-feature=+crt-static");
    cargo.env_remove("CARGO_ENCODED_RUSTFLAGS");
    for setting in ["debug=0", "incremental=false", "debug-assertions=false"] {
        cargo.args(["--config", &format!("profile.dev.{setting}")]);
    }
    for package in optimised() {
        cargo.args(["--config", &format!("profile.dev.package.{package}.opt-level=0")]);
    }
    let built = output(&mut cargo);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    eprintln!("wicketgate-verify: built in {:.1} s", began.elapsed().as_secs_f64());
    dir.join(host).join("debug/wicketgate-verify")
}

/// Names of the packages that are linked into this one.
fn packages(package: &str) -> Vec<String> {
    let mut cargo = cargo();
    cargo.args(["tree", "--offline", "--locked", "-e", "normal", "--prefix", "none"]);
    let tree = text(cargo.args(["--format", "{p}", "--package", package]));
    tree.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn no_package_of_it_knows_a_database_a_network_or_an_async_runtime() {
    let slim = packages("wicketgate-verify");
    assert!(slim.iter().any(|name| name == "regorus"), "{slim:?}");
    let found: Vec<_> = slim.iter().filter(|name| ABSENT.contains(&name.as_str())).collect();
    assert!(found.is_empty(), "{found:?}");
    // The same names are found where they are.
    let all = packages("wicketgate");
    let there = |name: &&str| all.iter().any(|package| package == *name);
    assert!(ABSENT.iter().filter(|name| there(name)).count() >= 15);
}

/// Functions of the system library without which no program reaches another machine or is reached.
const NETWORK: [&str; 10] = [
    "connect",
    "listen",
    "accept",
    "accept4",
    "getaddrinfo",
    "gethostbyname",
    "gethostbyname_r",
    "__res_nsend",
    "res_query",
    "getpeername",
];

/// The symbols that a program has, own or imported.
fn symbols(program: &Path) -> Vec<String> {
    let all = text(Command::new("nm").arg(program));
    let name = |line: &str| {
        // `n`: a note of the linker and no code.
        let mut words = line.split_ascii_whitespace().rev();
        let (name, kind) = (words.next()?, words.next()?);
        (kind != "n").then(|| name.split('@').next().unwrap_or(name).to_owned())
    };
    all.lines().filter_map(name).collect()
}

fn of_a_database(symbol: &str) -> bool {
    ["sqlite3_", "PQ"].iter().any(|prefix| symbol.starts_with(prefix))
        || ["sqlx", "tokio", "hyper", "rustls", "tonic"].iter().any(|name| {
            // How the compiler spells a crate: its length, then its name; `16rustls_pki_types` is another.
            let spelt = format!("{}{name}", name.len());
            let whole = |(at, _): (usize, &str)| {
                !symbol.get(..at).is_some_and(|b| b.ends_with(|c: char| c.is_ascii_digit()))
            };
            symbol.starts_with('_') && symbol.match_indices(&spelt).any(whole)
        })
}

#[test]
fn it_is_static_and_has_no_function_to_reach_anybody_with() {
    let said = output(Command::new("ldd").arg(small()));
    let said = [said.stdout, said.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let fixed = ["statically linked", "not a dynamic executable"];
    assert!(fixed.iter().any(|words| said.contains(words)), "{said}");
    let ours = symbols(small());
    assert!(ours.len() > 1000, "{}", ours.len());
    let found: Vec<_> = ours.iter().filter(|symbol| of_a_database(symbol)).collect();
    assert!(found.is_empty(), "{found:?}");
    let found: Vec<_> = ours.iter().filter(|s| NETWORK.contains(&s.as_str())).collect();
    assert!(found.is_empty(), "{found:?}");
    // The large program has them: the search finds what is there.
    let theirs = symbols(&large());
    assert!(theirs.iter().any(|symbol| symbol.starts_with("sqlite3_")));
    assert!(theirs.iter().any(|symbol| symbol.starts_with('_') && of_a_database(symbol)));
    assert!(["connect", "getaddrinfo"].iter().all(|name| theirs.iter().any(|s| s == name)));
}

#[test]
fn verifying_opens_no_socket_and_starts_nothing() {
    let folder = Folder::new();
    let log = folder.path("calls.log");
    let mut traced = Command::new("strace");
    traced.args(["-f", "-e", "trace=%network,%process,openat", "-o"]).arg(&log);
    traced.arg(small()).args(["--replay", "--trust", "auditor/trust.txt", "evidence"]);
    let done = output(traced.current_dir(folder.top()));
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("openat(") && log.contains("manifest.dsse.json"), "{log}");
    for call in ["socket", "connect", "sendto", "bind", "fork", "vfork"] {
        assert!(!log.contains(&format!("{call}(")), "{call}:\n{log}");
    }
    assert_eq!(log.matches("execve(").count(), 1, "{log}");
}
