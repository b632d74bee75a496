//! Digest, archive, signature, and which bundle may follow which.

use wicketgate::clock::SystemEntropy;
use wicketgate::crypto::keys::SecretKey;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::time::Timestamp;
use wicketgate::policy::activation::{InForce, follows};
use wicketgate::policy::bundle::Bundle;
use wicketgate::policy::fault::Error;

use super::{agent, decide, load};

const RULES: &str = "allow if input.x == data.limits.x";

fn bundle(version: &str, rules: &str) -> Bundle {
    let meta = format!(r#"{{"name":"t","version":"{version}"}}"#);
    let main = format!("package wicketgate.agent\nimport rego.v1\n{rules}\n");
    load(&[("bundle.json", &meta), ("agent/main.rego", &main), ("data/limits.json", r#"{"x":1}"#)])
        .unwrap()
}

#[test]
fn the_archive_is_deterministic_and_reads_back_as_the_same_bundle() {
    let (one, two) = (bundle("1.0.0", RULES), bundle("1.0.0", RULES));
    assert_eq!(one.tar(), two.tar());
    assert_eq!(one.digest(), Digest::of(&[one.tar()]));
    let layers: Vec<_> = one.layers().iter().map(|l| l.layer.as_str()).collect();
    assert_eq!(layers, ["lib", "agent", "data"]);
    let back = Bundle::from_tar(one.tar()).unwrap();
    assert_eq!((back.digest(), back.layers()), (one.digest(), one.layers()));
    assert!(back.has_own_library());
    let input = r#"{"x":1,"tool":{"tier":"T0"}}"#;
    assert_eq!(decide(&back, input), decide(&one, input));
    for at in (0..one.tar().len()).step_by(97) {
        let mut other = one.tar().to_vec();
        other[at] ^= 1;
        if let Ok(read) = Bundle::from_tar(&other) {
            assert_ne!(read.digest(), one.digest(), "byte {at}");
        }
    }
    assert_ne!(bundle("1.0.1", RULES).digest(), one.digest());
}

#[test]
fn stock_tar_reads_the_archive() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bundle.tar");
    std::fs::write(&path, bundle("1.0.0", RULES).tar()).unwrap();
    let out = std::process::Command::new("tar").arg("-tf").arg(&path).output().unwrap();
    let names = String::from_utf8(out.stdout).unwrap();
    assert_eq!(names, "agent/main.rego\nbundle.json\ndata/limits.json\nlib/decision.rego\n");
}

#[test]
fn only_a_trusted_signature_over_these_very_bytes_holds() {
    let keys: Vec<_> = (0..3).map(|_| SecretKey::generate(&SystemEntropy)).collect();
    let trusted = [keys[0].public(), keys[1].public()];
    let plain = bundle("1.0.0", RULES);
    assert!(matches!(plain.verify_signature(&trusted, 1), Err(Error::Unsigned)));
    let signed = |by: &[&SecretKey]| plain.clone().with_signature(plain.sign(by));
    let good = signed(&[&keys[0], &keys[1]]);
    assert_eq!(good.verify_signature(&trusted, 2).unwrap().signers.len(), 2);
    let twice = signed(&[&keys[0], &keys[0]]);
    assert!(matches!(twice.verify_signature(&trusted, 2), Err(Error::Signature(_))));
    let stranger = signed(&[&keys[2]]);
    assert!(matches!(stranger.verify_signature(&trusted, 1), Err(Error::Signature(_))));
    assert!(matches!(stranger.verify_signature(&trusted, 0), Err(Error::Signature(_))));
    let moved = bundle("1.0.0", "allow if true").with_signature(plain.sign(&[&keys[0]]));
    assert!(matches!(moved.verify_signature(&trusted, 1), Err(Error::OtherBytes)));
    let newer = bundle("1.0.1", RULES).with_signature(plain.sign(&[&keys[0]]));
    assert!(matches!(newer.verify_signature(&trusted, 1), Err(Error::OtherBytes)));
}

#[test]
fn a_bundle_is_valid_in_its_time_and_for_its_manifests() {
    let meta = r#"{"name":"t","version":"1.0.0","not_before":"2026-11-01T00:00:00Z","not_after":"2026-12-01T00:00:00Z","manifests":["a"]}"#;
    let rule = "package wicketgate.agent\nimport rego.v1\nallow if true\n";
    let bundle = load(&[("bundle.json", meta), ("agent/main.rego", rule)]).unwrap();
    let at = |text: &str| bundle.check_validity(Timestamp::parse(text).unwrap()).is_ok();
    assert!(!at("2026-10-31T23:59:59.999Z") && at("2026-11-01T00:00:00.000Z"));
    assert!(at("2026-11-30T23:59:59.999Z") && !at("2026-12-01T00:00:00.000Z"));
    assert!(bundle.check_manifest("a").is_ok() && bundle.check_manifest("b").is_err());
    assert!(agent("allow if true").unwrap().check_manifest("b").is_ok());
}

#[test]
fn only_a_newer_version_replaces_the_one_in_force() {
    let now = bundle("1.1.0", RULES);
    let version = now.version().clone();
    let active = InForce { name: now.name().to_owned(), version, digest: now.digest() };
    let refused = |next: Bundle| follows(&next, &active).unwrap_err();
    assert!(follows(&bundle("1.2.0", RULES), &active).unwrap());
    assert!(!follows(&now, &active).unwrap());
    assert!(matches!(refused(bundle("1.0.9", RULES)), Error::Rollback { .. }));
    assert!(matches!(refused(bundle("1.1.0", "allow if true")), Error::Equivocation { .. }));
    let named = load(&[
        ("bundle.json", r#"{"name":"u","version":"9.0.0"}"#),
        ("agent/main.rego", "package wicketgate.agent\nimport rego.v1\nallow if true\n"),
    ]);
    assert!(matches!(refused(named.unwrap()), Error::OtherName { .. }));
}
