//! What the play wrote: valid for every other command, verifiable, and without secrets.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::session::{Played, Session};

fn played() -> (Session, Played) {
    let session = Session::new();
    let played = session.play(&["quickstart", "--json", "--dir", "demo"]).ends(0);
    (session, played)
}

/// Every file below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

#[test]
fn a_denied_or_held_call_names_the_file_and_line_of_its_rule() {
    let (session, played) = played();
    for (verdict, rule) in [("denied", "deny contains"), ("held", "require_approval contains")] {
        let call = played.calls().find(|call| call["verdict"] == verdict).unwrap();
        let (_, place) = call["rule"].as_str().unwrap().split_once(' ').unwrap();
        let (file, line) = place.split_once(':').unwrap();
        let text = std::fs::read_to_string(session.path("demo/policy").join(file)).unwrap();
        let line = text.lines().nth(line.parse::<usize>().unwrap() - 1).unwrap();
        assert!(line.starts_with(rule), "{place}: {line}");
    }
}

#[test]
fn the_files_it_writes_are_valid_for_the_commands_that_check_them() {
    let (session, _) = played();
    for args in [
        &["config", "check", "demo/wicketgate.yaml"][..],
        &["policy", "check", "demo/policy"],
        &["manifest", "verify", "demo/agent.yaml", "--trust", "demo/keys/manifest.pem.pub"],
    ] {
        session.play(args).ends(0);
    }
    // Three signers, three keys.
    session
        .play(&["manifest", "verify", "demo/agent.yaml", "--trust", "demo/keys/policy.pem.pub"])
        .ends(1);
}

#[test]
fn the_ledger_it_leaves_can_be_verified_and_read() {
    let (session, _) = played();
    let ledger = ["--sqlite", "demo/state/ledger.sqlite"];
    let on = |args: &[&str]| session.play(&[args, &ledger].concat());
    let said = on(&["ledger", "verify", "--trust", "demo/auditor/trust.txt"]).ends(0).out;
    assert!(said.contains("VALID") && said.contains("1 run sealed, 0 open"), "{said}");
    // Whom nobody trusts, nobody vouches for.
    on(&["ledger", "verify"]).ends(2);
    let tail = on(&["ledger", "tail", "-n", "100"]).ends(0).out;
    for kind in [
        "chain.genesis",
        "manifest.bound",
        "policy.activated",
        "run.opened",
        "call.authorized",
        "call.completed",
        "call.denied",
        "call.held",
        "approval.granted",
        "run.sealed",
        "writer.stopped",
    ] {
        assert!(tail.contains(kind), "`{kind}` is not in:\n{tail}");
    }
}

#[test]
fn the_evidence_verifies_and_its_tampered_copy_fails_by_name() {
    let (session, played) = played();
    let verify = |dir: &str| {
        session.play(&[
            "evidence",
            "verify",
            "--trust",
            "demo/auditor/trust.txt",
            "--level",
            "2",
            dir,
        ])
    };
    verify("demo/evidence").ends(0);
    let said = verify("demo/evidence-tampered").ends(1).out;
    assert!(said.contains("INVALID       B3"), "{said}");
    let failed = &played.step("tamper")["failed"];
    assert_eq!(failed[0]["id"], "B3", "{failed}");
    // Exactly one byte differs.
    let (mut files_differing, mut bytes_differing) = (0, 0);
    let top = session.path("demo/evidence");
    for path in files(&top) {
        let copy = session.path("demo/evidence-tampered").join(path.strip_prefix(&top).unwrap());
        let (a, b) = (std::fs::read(&path).unwrap(), std::fs::read(copy).unwrap());
        assert_eq!(a.len(), b.len());
        files_differing += usize::from(a != b);
        bytes_differing += a.iter().zip(&b).filter(|(a, b)| a != b).count();
    }
    assert_eq!((files_differing, bytes_differing), (1, 1));
}

#[test]
fn stock_openssh_verifies_who_approved_the_held_call() {
    let (session, _) = played();
    let folder = session.path("demo/evidence/approvals");
    let mut signed: Vec<_> = files(&folder);
    signed.retain(|path| path.extension().is_some_and(|e| e == "sig"));
    assert_eq!(signed.len(), 2);
    let mut names = Vec::new();
    for signature in signed {
        let statement = signature.with_extension("json");
        let find = ["-Y", "find-principals", "-f", "allowed_signers", "-s"];
        let found =
            Command::new("ssh-keygen").args(find).arg(&signature).current_dir(&folder).output();
        let name = String::from_utf8(found.unwrap().stdout).unwrap().trim().to_owned();
        let verify = |bytes: Vec<u8>| {
            let mut child = Command::new("ssh-keygen")
                .args([
                    "-Y",
                    "verify",
                    "-f",
                    "allowed_signers",
                    "-n",
                    "wicketgate-approval",
                    "-I",
                    &name,
                    "-s",
                ])
                .arg(&signature)
                .current_dir(&folder)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(&bytes).unwrap();
            child.wait().unwrap().success()
        };
        let bytes = std::fs::read(&statement).unwrap();
        assert!(verify(bytes.clone()), "{name}");
        let text = String::from_utf8(bytes).unwrap();
        let other = text.replace("\"verdict\":\"approve\"", "\"verdict\":\"refuse\"");
        assert!(other != text && !verify(other.into_bytes()), "{name}");
        names.push(name);
    }
    names.sort();
    assert_eq!(names, ["ada@example.com", "grace@example.com"]);
}

#[test]
fn no_credential_is_in_the_ledger_the_evidence_or_the_log() {
    let (session, _) = played();
    let token = std::fs::read_to_string(session.path("demo/keys/crm.token")).unwrap();
    assert_eq!(token.len(), 64);
    let holds = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(token.len()).any(|window| window == token.as_bytes())
            || bytes.windows(4).any(|window| window == b"wgr_")
    };
    let holding: Vec<_> = files(&session.path("demo")).into_iter().filter(holds).collect();
    assert_eq!(holding, [session.path("demo/keys/crm.token")]);
}

/// One thing that is wrong with what the configuration names: the file, what stands there, what is put there instead
/// (nothing: the file goes), and what `config check` says.
type Wrong<'a> = (&'a str, &'a str, &'a str, &'a [&'a str]);

const WRONG: [Wrong<'_>; 14] = [
    (
        "policy/bundle.sig.json",
        "",
        "",
        &["policy.bundle `", "is not signed", "wicketgate policy sign"],
    ),
    ("policy/agent/amount.rego", "1000", "2000", &["for other bytes", "wicketgate policy sign"]),
    ("agent.yaml", "owner:", "owner: x # ", &["(manifest.signature)", "wicketgate manifest sign"]),
    ("agent.yaml.sig.json", "", "", &["agent.yaml.sig.json", "manifest"]),
    ("approvers/allowed_signers", "ada@", "eva@", &["approvals.signers: ", "sign-approvers"]),
    ("approvers/allowed_signers", "", "", &["approvals.signers: ", "sign-approvers"]),
    (
        "wicketgate.yaml",
        "keys/policy.pem.pub]",
        "keys/fleet.pem.pub]",
        &["signature does not hold"],
    ),
    ("wicketgate.yaml", "bundle: policy}", "bundle: nowhere}", &["policy.bundle `", "nowhere"]),
    ("wicketgate.yaml", "root: handbook,", "root: nowhere,", &["tools[0].file.root: "]),
    ("wicketgate.yaml", "root: handbook,", "rot: handbook,", &["tools[0].file.rot: unknown field"]),
    (
        "wicketgate.yaml",
        "query: {name: \"{name}\"}",
        "query: {name: 5}",
        &["tools[1].http.query.name: expected text"],
    ),
    ("wicketgate.yaml", "engine: sqlite", "engine: oracle", &["tools[4].sql.engine: "]),
    ("wicketgate.yaml", "path: invoices.db", "path: nowhere.db", &["tools[4].sql.path: "]),
    (
        "wicketgate.yaml",
        "file: keys/crm.token",
        "file: keys/none.token",
        &["tools[1].credentials[0]"],
    ),
];

#[test]
fn config_check_loads_whatever_the_configuration_names_and_says_where_and_what_to_do() {
    let (session, _) = played();
    let check = || session.play(&["config", "check", "demo/wicketgate.yaml"]);
    check().ends(0);
    for (file, from, to, words) in WRONG {
        let path = session.path("demo").join(file);
        let before = std::fs::read_to_string(&path).unwrap();
        if from.is_empty() {
            std::fs::remove_file(&path).unwrap();
        } else {
            assert!(before.contains(from), "`{from}` is not in {file}");
            std::fs::write(&path, before.replacen(from, to, 1)).unwrap();
        }
        let said = check().ends(78).err;
        for word in words {
            assert!(said.contains(word), "{file}, `{to}`: `{word}` is not in {said}");
        }
        // Whatever is wrong within the tools is said with file, line and key.
        if words[0].starts_with("tools[") {
            for line in said.lines() {
                let place =
                    line.strip_prefix("demo/wicketgate.yaml:").unwrap_or_else(|| panic!("{line}"));
                let numbers: Vec<_> = place.split(':').take(2).map(str::parse::<u32>).collect();
                assert!(numbers.iter().all(|n| matches!(n, Ok(1..))), "{line}");
                assert!(place.contains(": tools["), "{line}");
            }
        }
        std::fs::write(&path, before).unwrap();
    }
    check().ends(0);
}

#[test]
fn config_check_holds_versions_against_those_in_force_on_the_ledger() {
    let (session, _) = played();
    let check = || session.play(&["config", "check", "demo/wicketgate.yaml"]);
    let edit = |file: &str, from: &str, to: &str| {
        let path = session.path("demo").join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "`{from}` is not in {text}");
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
    };
    let sign = || {
        session.play(&["policy", "sign", "demo/policy", "--key", "demo/keys/policy.pem"]).ends(0);
    };
    edit("policy/agent/amount.rego", "1000", "2000");
    sign();
    let said = check().ends(78).err;
    assert!(said.contains("policy.equivocation") && said.contains("raise `version`"), "{said}");
    edit("policy/bundle.json", "\"1.", "\"0.");
    sign();
    let said = check().ends(78).err;
    assert!(said.contains("policy.downgrade") && said.contains("raise `version`"), "{said}");
    edit("policy/bundle.json", "\"0.", "\"2.");
    sign();
    check().ends(0);
    edit("agent.yaml", "version: 1", "version: 0");
    session
        .play(&["manifest", "sign", "demo/agent.yaml", "--key", "demo/keys/manifest.pem"])
        .ends(0);
    let said = check().ends(78).err;
    assert!(said.contains("metadata.version") && said.contains("is older than"), "{said}");
}
