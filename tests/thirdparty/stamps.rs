//! RFC 3161 tokens, made and verified by stock OpenSSL with the guide's commands.

use std::path::Path;
use std::process::Command;

use crate::demo::{bundle, said, written};
use crate::guide::{Tools, guide, run, script};

const CONFIG: &str = "[ tsa ]\ndefault_tsa = main\n[ main ]\nserial = serial\ncrypto_device = builtin\n\
signer_digest = sha256\ndefault_policy = 1.2.3.4.1\ndigests = sha256\nordering = yes\naccuracy = secs:1\n\
ess_cert_id_chain = no\ness_cert_id_alg = sha256\n";

fn openssl(dir: &Path, args: &[&str]) {
    let done = Command::new("openssl").args(args).current_dir(dir).output().unwrap();
    assert!(done.status.success(), "openssl {args:?}: {}", said(&done));
}

/// An authority with a certificate of its own in `dir`: `ca.pem`, `tsa.pem`, `tsa.key`.
fn authority(dir: &Path) {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let run = |text: &str| {
        let words = words(text);
        openssl(dir, &words.iter().map(String::as_str).collect::<Vec<_>>());
    };
    run("req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=ca -keyout ca.key -out ca.pem");
    run("req -newkey rsa:2048 -nodes -subj /CN=tsa -keyout tsa.key -out tsa.csr");
    std::fs::write(dir.join("tsa.ext"), "extendedKeyUsage = critical,timeStamping\n").unwrap();
    run(
        "x509 -req -in tsa.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile tsa.ext -out tsa.pem",
    );
    std::fs::write(dir.join("tsa.cnf"), CONFIG).unwrap();
    std::fs::write(dir.join("serial"), "01\n").unwrap();
}

#[test]
fn stock_openssl_verifies_a_token_over_a_head_and_refuses_it_for_another() {
    let dir = tempfile::tempdir().unwrap();
    authority(dir.path());
    let mut files = bundle();
    let head = files.get("ledger/checkpoint.txt").unwrap().to_vec();
    let body: Vec<u8> = head.split_inclusive(|b| *b == b'\n').take(3).flatten().copied().collect();
    std::fs::write(dir.path().join("body"), &body).unwrap();
    openssl(dir.path(), &["ts", "-query", "-data", "body", "-sha256", "-cert", "-out", "q.tsq"]);
    let reply = ["ts", "-reply", "-config", "tsa.cnf", "-queryfile", "q.tsq", "-signer", "tsa.pem"];
    openssl(dir.path(), &[&reply[..], &["-inkey", "tsa.key", "-out", "r.tsr"]].concat());
    files.put("anchors/0.txt", head.clone());
    files.put("anchors/0.tsr", std::fs::read(dir.path().join("r.tsr")).unwrap());
    let check = format!("export W=$(mktemp -d)\n{}", script(&guide(&files), Tools::Stock, 8..=8));
    let (ca, other) = (dir.path().join("ca.pem"), tempfile::tempdir().unwrap());
    let (_dir, path) = written(&files);
    let (fine, told) = run(&check, &path, &[("TSA_CA", ca.as_os_str())]);
    assert!(fine && told.contains("Verification: OK"), "{told}");
    // Another authority, and another head.
    authority(other.path());
    let stranger = other.path().join("ca.pem");
    let (fine, told) = run(&check, &path, &[("TSA_CA", stranger.as_os_str())]);
    assert!(!fine && told.contains("Verification: FAILED"), "{told}");
    let edited = String::from_utf8(head).unwrap().replacen("default", "another", 1);
    files.put("anchors/0.txt", edited);
    let (_dir, path) = written(&files);
    let (fine, told) = run(&check, &path, &[("TSA_CA", ca.as_os_str())]);
    assert!(!fine && told.contains("message imprint mismatch"), "{told}");
}
