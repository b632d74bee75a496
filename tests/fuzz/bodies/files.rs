//! Whole files: archives of policies, and the members of a bundle.

use std::sync::OnceLock;

use wicketgate::evidence::bundle::{ENVELOPE, Files, MANIFEST};
use wicketgate::evidence::trust::Trust;
use wicketgate::evidence::verify::verify_files;
use wicketgate::policy::bundle::{Bundle, meta_of_archive};

use wicketgate_support::forged::{self, bundle, run_id};

/// An archive that reads is in its one form, so it comes back byte for byte.
pub fn archive(bytes: &[u8]) {
    let meta = meta_of_archive(bytes);
    if let Ok(bundle) = Bundle::from_tar(bytes) {
        assert_eq!(bundle.tar(), bytes, "two spellings of one archive");
        assert!(meta.is_ok());
    }
}

/// Whatever an archive holds, its names stay below the folder it is unpacked in, and what is read is read
/// again from our own form of it.
pub fn zip(bytes: &[u8]) {
    let Ok(files) = wicketgate::evidence::zip::read(bytes) else { return };
    for name in files.0.keys() {
        let steps: Vec<&str> = name.split('/').collect();
        let leads_out = |step: &&str| step.is_empty() || *step == "." || *step == "..";
        assert!(!steps.iter().any(leads_out) && !name.contains(['\\', '\0', ':']), "{name:?}");
    }
    let ours = wicketgate::evidence::zip::write(&files).unwrap();
    assert_eq!(wicketgate::evidence::zip::read(&ours).unwrap(), files);
}

/// A good bundle, and those who trust it.
fn good() -> &'static (Files, Trust) {
    static GOOD: OnceLock<(Files, Trust)> = OnceLock::new();
    GOOD.get_or_init(|| (bundle::export_of(&bundle::two_runs(), run_id(1), &[]), bundle::trust()))
}

/// The first byte chooses a file of a good bundle, the rest is what it holds now: whatever that is, the
/// bundle is no longer valid, and the verifier says so in a form that a program can read.
pub fn bundle(bytes: &[u8]) {
    let (good, trust) = good();
    let Some((which, rest)) = bytes.split_first() else { return };
    let names: Vec<&String> = good.0.keys().collect();
    let name = names[usize::from(*which) % names.len()];
    let mut files = good.clone();
    files.put(name.clone(), rest);
    let same = files == *good;
    let report = verify_files(&files, trust);
    assert_eq!(report.exit_code() == 0, same, "{name}:\n{}", report.to_text());
    if [MANIFEST, ENVELOPE].contains(&name.as_str()) {
        return;
    }
    // Once more by somebody who signs what he finds: nothing but the form is known now.
    bundle::resign(&mut files, &forged::key(bundle::EVIDENCE));
    let report = verify_files(&files, &Trust { replay: true, ..trust.clone() });
    assert!(!report.to_text().contains('\u{1b}'));
    assert!(report.to_json().get("outcome").is_some());
}
