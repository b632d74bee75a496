//! What the older build left behind, in the place where this one finds it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::sidecar::Estate;
use crate::tool::Tool;
use wicketgate_support::ran::Ran;

const LEFT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/upgrade");
/// What the older build wrote into.
pub const LEDGER: &str = "state/ledger.sqlite";

/// An estate that an older gate served; only the tool's port and the agent's uid are this test's.
pub fn estate(tool: &Tool) -> Estate {
    let estate = Estate::sqlite(tool);
    std::fs::remove_dir_all(estate.path("bundle")).unwrap();
    copy(Path::new(LEFT), &estate.path("."));
    let port = tool.port;
    estate.configure(|config| {
        for tool in config["tools"].as_array_mut().unwrap() {
            tool["http"]["url"] = format!("http://127.0.0.1:{port}/do").into();
        }
        config["agents"][0]["callers"][0]["uid"] = rustix::process::getuid().as_raw().into();
        config["trust"]["policy_keys"] = serde_json::json!(["signer.pem.pub"]);
    });
    // The composition library is part of what a policy's signer signs, and this build has another one. Who signed for the
    // older build is not here, so somebody else does.
    done(&estate, &["keygen", "--out", "signer.pem"]);
    let newer = r#"{"name":"test","version":"1.0.1"}"#;
    std::fs::write(estate.path("bundle/bundle.json"), newer).unwrap();
    done(&estate, &["policy", "sign", "bundle", "--key", "signer.pem"]);
    estate
}

/// Copies everything, readable by its owner alone: a checkout does not keep the mode of a key.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let place = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &place);
        } else {
            std::fs::copy(&path, &place).unwrap();
            std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
    }
}

/// The run that the older gate sealed.
pub fn sealed_run() -> String {
    let made = std::fs::read_to_string(Path::new(LEFT).join("MADE")).unwrap();
    let run = made.lines().find_map(|line| line.strip_prefix("run "));
    run.unwrap().to_owned()
}

/// Runs one command of this build in the estate.
pub fn gate(estate: &Estate, args: &[&str]) -> Ran {
    estate.try_run(args)
}

/// The same, to its good end: what it printed.
#[track_caller]
pub fn done(estate: &Estate, args: &[&str]) -> String {
    estate.run(args)
}

/// The trust roots of an auditor who knew the older gate, in a file.
pub fn trust(estate: &Estate) -> String {
    let kept = std::fs::read_dir(estate.path("state/artifacts/policy")).unwrap();
    let mut text = "evidence-key evidence.pub\nmanifest-key manifest.pub\nenrolment-key state/enrolment.key.pub\n".to_owned();
    for name in kept.map(|one| one.unwrap().path()) {
        let digest = name.file_stem().unwrap().to_str().unwrap();
        text.push_str(&format!("policy sha256:{digest}\n"));
    }
    std::fs::write(estate.path("trust.txt"), text).unwrap();
    "trust.txt".to_owned()
}

/// Every file of the state directory that holds books, with its bytes.
pub fn database(estate: &Estate) -> Vec<(PathBuf, Vec<u8>)> {
    let files = std::fs::read_dir(estate.path("state")).unwrap().map(|one| one.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|path| is_book(path)).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

fn is_book(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    // Locks, and what SQLite keeps beside a file while it is open, hold no books.
    name == "ledger.sqlite" || name.ends_with(".head")
}
