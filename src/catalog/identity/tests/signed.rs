//! Whose keys make a manifest, and which version follows another.

use super::*;

#[test]
fn only_enough_trusted_keys_over_the_same_bytes_make_a_manifest() {
    let (a, b, untrusted) = (key(), key(), key());
    let code = |keys: &[&SecretKey], trusted: &[&SecretKey], threshold| {
        verify(TEXT, keys, trusted, threshold).map_or_else(|e| e.code(), |_| "ok")
    };
    assert_eq!(code(&[&a], &[&a], 1), "ok");
    assert_eq!(code(&[&a, &b], &[&a, &b], 2), "ok");
    assert_eq!(code(&[&untrusted, &a], &[&a], 1), "ok");
    assert_eq!(code(&[&untrusted], &[&a], 1), "manifest.signature");
    assert_eq!(code(&[], &[&a], 1), "manifest.signature");
    assert_eq!(code(&[&a], &[], 1), "manifest.signature");
    assert_eq!(code(&[&a], &[&a, &b], 2), "manifest.threshold");
    assert_eq!(code(&[&a, &a], &[&a, &b], 2), "manifest.threshold");
}

#[test]
fn changed_bytes_a_bad_second_signature_and_another_type_are_refused() {
    let (a, b) = (key(), key());
    let trusted = [a.public(), b.public()];
    let check = |text: &str, envelope: &str, threshold| {
        Manifest::verify("agent.yaml", text.as_bytes(), envelope.into(), &trusted, threshold, now())
            .map_or_else(|e| e.code(), |_| "ok")
    };
    let envelope = String::from_utf8(dsse::sign(PAYLOAD_TYPE, TEXT.as_bytes(), &[&a, &b])).unwrap();
    assert_eq!(check(TEXT, &envelope, 2), "ok");
    assert_eq!(check(&TEXT.replace("500", "501"), &envelope, 2), "manifest.signature");
    assert_eq!(check(&format!("{TEXT}\n"), &envelope, 2), "manifest.signature");
    let other = String::from_utf8(dsse::sign(PAYLOAD_TYPE, b"x", &[&b])).unwrap();
    let sig = |text: &str| {
        text.rsplit("\"sig\":\"").next().unwrap().split('"').next().unwrap().to_owned()
    };
    let half = envelope.replace(&sig(&envelope), &sig(&other));
    assert_eq!(check(TEXT, &half, 2), "manifest.threshold");
    assert_eq!(check(TEXT, &half, 1), "manifest.signature");
    let policy = dsse::sign("application/vnd.wicketgate.policy", TEXT.as_bytes(), &[&a]);
    assert_eq!(check(TEXT, &String::from_utf8(policy).unwrap(), 1), "manifest.signature");
    let none = envelope.replacen("\"keyid\"", "\"alg\":\"none\",\"keyid\"", 1);
    assert_eq!(check(TEXT, &none, 1), "manifest.alg");
    let hs256 = envelope
        .replace(&sig(&envelope), &"A".repeat(43))
        .replace(&"A".repeat(43), &format!("{}=", "A".repeat(43)));
    assert_eq!(check(TEXT, &hs256, 1), "manifest.alg");
}

#[test]
fn versions_only_grow_and_one_version_is_one_content() {
    let key = key();
    let read =
        |from: &str, to: &str| verify(&TEXT.replacen(from, to, 1), &[&key], &[&key], 1).unwrap();
    let old = read("1.4.0", "1.4.0");
    let before = Some((&old.version, &old.digest));
    let code = |m: &Manifest| succeeds(before, m).map_or_else(|e| e.code(), |()| "ok");
    assert!(succeeds(None, &old).is_ok());
    assert_eq!(code(&old), "ok");
    assert_eq!(code(&read("1.4.0", "1.4.1")), "ok");
    assert_eq!(code(&read("1.4.0", "1.10.0")), "ok");
    assert_eq!(code(&read("1.4.0", "1.3.9")), "manifest.downgrade");
    assert_eq!(code(&read("1.4.0", "1.4.0-rc.1")), "manifest.downgrade");
    assert_eq!(code(&read("calls: 500", "calls: 501")), "manifest.equivocation");
    assert_eq!(code(&read("1.4.0", "1.4.0+other")), "manifest.equivocation");
}
