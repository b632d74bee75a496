//! The commands of VERIFY.md, taken out of the bundle and run.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use wicketgate::evidence::bundle::{ENTRIES, Files};

use crate::demo::{
    bundle, calls, demo, noted_head, origin, python, replace, resign, resign_with, said, sealed,
    witnesses, written,
};

/// The steps of the guide that need nothing but Python and OpenSSL, and those that need packages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tools {
    Stock,
    Packages,
}

/// The commands of these steps. The indented ones come first in each, as the guide has them.
pub fn script(guide: &str, tools: Tools, steps: std::ops::RangeInclusive<u32>) -> String {
    let (mut out, mut step, mut block) = (String::new(), 0, false);
    for line in guide.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            step = heading.split('.').next().unwrap().parse().unwrap();
        }
        if !steps.contains(&step) {
            continue;
        }
        match (block, line) {
            (false, "```python") if tools == Tools::Packages => {
                block = true;
                out.push_str("PYTHONPATH=$W \"$PYTHON\" - <<'PY'\n");
            }
            (true, "```") => {
                block = false;
                out.push_str("PY\n");
            }
            (true, line) => out.push_str(&format!("{line}\n")),
            (false, line) => {
                if let Some(command) = line.strip_prefix("    ") {
                    out.push_str(&format!("{command}\n"));
                }
            }
        }
    }
    assert!(!block && !out.is_empty());
    out
}

/// Runs a script in a bundle, with these variables beside the evidence key.
pub fn run(script: &str, bundle: &Path, env: &[(&str, &OsStr)]) -> (bool, String) {
    let work = tempfile::tempdir().unwrap();
    let done = Command::new("bash")
        .args(["-euc", script])
        .current_dir(bundle)
        .env("EVIDENCE_KEY", demo().join("keys/evidence.pem.pub"))
        .env("TMPDIR", work.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .envs(env.iter().copied())
        .output()
        .unwrap();
    (done.status.success(), said(&done))
}

pub fn guide(files: &Files) -> String {
    String::from_utf8(files.get("VERIFY.md").unwrap().to_vec()).unwrap()
}

#[test]
fn an_auditor_with_the_guide_python_and_openssl_alone_can_check_the_quickstart() {
    let script = script(&guide(&bundle()), Tools::Stock, 1..=8);
    let (head, trusted) = (noted_head(), witnesses());
    let env = [("HEAD", head.as_ref()), ("WITNESSES", trusted.as_ref())];
    let (fine, told) = run(&script, &demo().join("evidence"), &env);
    assert!(fine, "{told}");
    for part in ["files match", "extends the head you noted", &sealed(), "all here"] {
        assert!(told.contains(part), "`{part}` is not in:\n{told}");
    }
    let (fine, told) = run(&script, &demo().join("evidence-tampered"), &[]);
    assert!(!fine, "{told}");
}

/// Every step stops somebody: an insider who signs the list of files again after each change.
#[test]
fn the_guide_alone_catches_what_an_insider_changes_and_signs_again() {
    let good = bundle();
    let script = script(&guide(&good), Tools::Stock, 1..=8);
    let head = noted_head();
    let caught = |by: &str, change: &dyn Fn(&mut Files)| {
        let mut files = good.clone();
        change(&mut files);
        resign(&mut files);
        let (_dir, path) = written(&files);
        let (fine, told) = run(&script, &path, &[("HEAD", head.as_ref())]);
        assert!(!fine && told.contains("files match"), "{by} is not caught:\n{told}");
        assert!(told.contains(by), "not caught by `{by}`:\n{told}");
    };
    let payload = || {
        let names = good.0.keys().filter(|name| name.ends_with(".bin"));
        names.min_by_key(|name| good.0[*name].len()).unwrap().clone()
    };
    caught("is not in the tree", &|f| {
        replace(f, ENTRIES, r#""verdict":"deny""#, r#""verdict":"allow""#);
    });
    caught("not canonical", &|f| replace(f, ENTRIES, r#""attempts":1"#, r#""attempts": 1"#));
    caught("a fraction", &|f| replace(f, ENTRIES, r#""attempts":1"#, r#""attempts":1.0"#));
    caught("an entry of the run is missing", &|f| {
        let text = String::from_utf8(f.get(ENTRIES).unwrap().to_vec()).unwrap();
        let gone = text.lines().position(|line| line.contains(r#""kind":"call.denied""#)).unwrap();
        let left = text.lines().enumerate().filter(|(at, _)| *at != gone);
        let seq: serde_json::Value = serde_json::from_str(text.lines().nth(gone).unwrap()).unwrap();
        f.put(ENTRIES, left.map(|(_, line)| format!("{line}\n")).collect::<String>());
        let mut proofs: serde_json::Value =
            serde_json::from_slice(f.get("ledger/inclusion.json").unwrap()).unwrap();
        proofs["proofs"].as_array_mut().unwrap().retain(|p| p["seq"] != seq["seq"]);
        f.put("ledger/inclusion.json", proofs.to_string());
        f.0.remove(&format!("ledger/{}.tlog-proof", seq["seq"])).unwrap();
    });
    caught("payload ", &|f| f.put(payload(), "{}"));
    caught("a policy here was never in force", &|f| f.put("policy/bundle.tar", "another policy"));
    caught("Signature Verification Failure", &|f| {
        // The third character of the signature line's blob is of the key's hash: take a late one.
        let note = String::from_utf8(f.get("ledger/checkpoint.txt").unwrap().to_vec()).unwrap();
        let at = note.len() - 10;
        let other = if &note[at..=at] == "A" { "B" } else { "A" };
        let forged = format!("{}{other}{}", &note[..at], &note[at + 1..]);
        // The proofs that stand on their own have it, too.
        for (name, bytes) in f.0.clone() {
            if name == "ledger/checkpoint.txt" || name.ends_with(".tlog-proof") {
                f.put(name, String::from_utf8(bytes).unwrap().replace(&note, &forged));
            }
        }
    });
    caught("proves nothing", &|f| {
        let names = f.0.keys().filter(|name| name.ends_with(".tlog-proof"));
        let names: Vec<String> = names.take(2).cloned().collect();
        let text = |name: &String| String::from_utf8(f.get(name).unwrap().to_vec()).unwrap();
        let index = |text: &str| text.lines().nth(1).unwrap().to_owned();
        let (mine, other) = (text(&names[0]), text(&names[1]));
        f.put(names[0].clone(), other.replace(&index(&other), &index(&mine)));
    });
    // A head of another history than the one that was noted.
    let (_dir, path) = written(&good);
    let other = format!("{}{}", &head[..head.len() - 64], "0".repeat(64));
    let (fine, told) = run(&script, &path, &[("HEAD", other.as_ref())]);
    assert!(!fine && told.contains("another history"), "{told}");
    // Another key than the auditor's.
    let mut files = good.clone();
    resign_with(
        &mut files,
        &wicketgate::crypto::keys::SecretKey::generate(&wicketgate::clock::SystemEntropy),
    );
    let (_dir, path) = written(&files);
    let (fine, told) = run(&script, &path, &[]);
    assert!(!fine && told.contains("Signature Verification Failure"), "{told}");
}

#[test]
fn every_program_the_guide_names_accepts_the_quickstart() {
    let Some(python) = python() else { return };
    let script = script(&guide(&bundle()), Tools::Packages, 1..=10);
    let (head, trusted) = (noted_head(), witnesses());
    let env =
        [("PYTHON", python.as_os_str()), ("HEAD", head.as_ref()), ("WITNESSES", trusted.as_ref())];
    let (fine, told) = run(&script, &demo().join("evidence"), &env);
    assert!(fine, "{told}");
    let again = format!(
        "{} decisions made again by OPA: the same verdicts, reasons and obligations",
        calls() + 1
    );
    let alone = format!("aics-tlog: ledger: {} proofs that stand on their own", calls() + 3);
    for part in [
        again.as_str(),
        alone.as_str(),
        "securesystemslib and in-toto-attestation: ",
        "aics-tlog: ledger extends the head you noted",
        "rfc8785, aics-tlog, scitt-cose: ledger: ",
        "aics-tlog: ledger/checkpoint.txt at ",
        "aics-tlog: fleet/checkpoint.txt at ",
        "signed by the log and by ",
    ] {
        assert!(told.contains(part), "`{part}` is not in:\n{told}");
    }
}

type Refused<'a> = &'a dyn Fn(&str, &str, &dyn Fn(&mut Files));

/// A proof that stands on its own: at another place, of another entry, under a head nobody signed.
fn alone_is_refused(refused: Refused<'_>) {
    let alone = |f: &mut Files, from: &str, to: &str| {
        let name = f.0.keys().find(|name| name.ends_with(".tlog-proof")).unwrap().clone();
        replace(f, &name, from, to);
    };
    refused("tlog-proof", ".tlog-proof", &|f| alone(f, "\nindex 1", "\nindex "));
    refused("tlog-proof", ".tlog-proof", &|f| {
        let names = f.0.keys().filter(|name| name.ends_with(".tlog-proof"));
        let names: Vec<String> = names.take(2).cloned().collect();
        let other = f.get(&names[1]).unwrap().to_vec();
        let index = |text: &str| text.lines().nth(1).unwrap().to_owned();
        let (mine, text) = (f.get(&names[0]).unwrap(), String::from_utf8(other).unwrap());
        let (mine, theirs) = (index(std::str::from_utf8(mine).unwrap()), index(&text));
        f.put(names[0].clone(), text.replace(&theirs, &mine));
    });
    refused("tlog-proof", "StopIteration", &|f| {
        let log = format!("\n{}\n", origin());
        alone(f, &log, &log.replace("/0/0", "/0/1"));
    });
}

/// A program that says yes to everything would prove nothing: each of them has something it refuses.
#[test]
fn every_program_the_guide_names_refuses_what_is_not_so() {
    let Some(python) = python() else { return };
    let good = bundle();
    let text = guide(&good);
    // Steps that define what the blocks use, without those that would refuse first.
    let prepared = format!("export W=$(mktemp -d)\n{}", script(&text, Tools::Stock, 3..=3));
    let prepared = prepared.split("PYTHONPATH").next().unwrap().to_owned();
    let blocks: Vec<String> = script(&text, Tools::Packages, 9..=10)
        .split("PYTHONPATH=$W ")
        .skip(1)
        .map(|block| format!("{prepared}PYTHONPATH=$W {block}"))
        .collect();
    let block = |word: &str| blocks.iter().find(|block| block.contains(word)).unwrap();
    let refused = |word: &str, by: &str, change: &dyn Fn(&mut Files)| {
        let mut files = good.clone();
        change(&mut files);
        let (_dir, path) = written(&files);
        let (fine, told) = run(block(word), &path, &[("PYTHON", python.as_os_str())]);
        assert!(!fine && told.contains(by), "{word} is not refused by {by}:\n{told}");
    };
    for block in &blocks {
        let (fine, told) = run(block, &demo().join("evidence"), &[("PYTHON", python.as_os_str())]);
        assert!(fine, "{told}");
    }
    refused("securesystemslib", "VerificationError", &|f| {
        resign_with(
            f,
            &wicketgate::crypto::keys::SecretKey::generate(&wicketgate::clock::SystemEntropy),
        );
    });
    refused("in_toto_attestation", "ParseError", &|f| {
        let mut json: serde_json::Value =
            serde_json::from_slice(f.get("manifest.json").unwrap()).unwrap();
        json["subjects"] = json["subject"].clone();
        let manifest = json.to_string().into_bytes();
        let kind = "application/vnd.in-toto+json";
        let key = crate::demo::evidence_key();
        f.put("manifest.dsse.json", wicketgate::crypto::dsse::sign(kind, &manifest, &[&key]));
        f.put("manifest.json", manifest);
    });
    refused("rfc8785.dumps", "not canonical: rfc8785", &|f| {
        replace(f, ENTRIES, r#"{"boot""#, r#"{ "boot""#);
    });
    refused("verify_leaf_inclusion", "not in the tree: aics-tlog", &|f| {
        replace(f, ENTRIES, r#""verdict":"deny""#, r#""verdict":"allow""#);
    });
    alone_is_refused(&refused);
    refused("parse_vkey", "StopIteration", &|f| {
        let note = String::from_utf8(f.get("ledger/checkpoint.txt").unwrap().to_vec()).unwrap();
        let size = note.split('\n').nth(1).unwrap().to_owned();
        replace(f, "ledger/checkpoint.txt", &format!("\n{size}\n"), "\n3\n");
    });
    refused("opa_bindings", "OPA says otherwise", &|f| {
        // The policy is told of a smaller amount than the one that was held.
        let asked = f.0.iter().find(|(name, bytes)| {
            let text = String::from_utf8_lossy(bytes);
            // Before anybody had approved: afterwards a smaller amount is allowed as well.
            let held = text.contains("2500") && text.contains(r#""approvals":[]"#);
            name.ends_with(".bin") && text.contains("wicketgate/input/2") && held
        });
        let name = asked.unwrap().0.clone();
        replace(f, &name, "2500", "250");
    });
}
