//! `wicketgate config pack`, and `wicketgate check` of what it made.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use wicketgate::config::archive::PAYLOAD_TYPE;
use wicketgate::crypto::dsse;
use wicketgate::crypto::keys::SecretKey;
use wicketgate_support::ran::Ran;

use crate::folder::Folder;

const CONFIG: &str = "state: /nonexistent/state
trust: {manifest_keys: [keys/k.pub]}
agents:
- manifest: agent.yaml
  callers: [{uid: 1000}]
operator: {listen: '127.0.0.1:0'}
";
const CHECK: [&str; 7] = [
    "check",
    "--pre",
    "--json",
    "--config-archive",
    "gate.archive",
    "--archive-key",
    "archive.pem.pub",
];

/// A folder with `gate/`, the files of a gate, and the keys of an archive beside it.
fn folder() -> Folder {
    let folder = Folder::with_manifest();
    std::fs::create_dir_all(folder.path("gate/keys")).unwrap();
    for (from, to) in [
        ("agent.yaml", "gate/agent.yaml"),
        ("agent.yaml.sig.json", "gate/agent.yaml.sig.json"),
        ("k.pub", "gate/keys/k.pub"),
    ] {
        std::fs::copy(folder.path(from), folder.path(to)).unwrap();
    }
    folder.write("gate/wicketgate.yaml", CONFIG);
    for key in ["archive.pem", "stranger.pem"] {
        folder.run(&["config", "keygen", "--out", key]).ends(0);
    }
    folder
}

fn pack(folder: &Folder, more: &[&str]) -> Ran {
    folder.run(&[&["config", "pack", "gate", "--key", "archive.pem"][..], more].concat())
}

/// What check says of each subject, as one text.
fn subject(ran: &Ran, name: &str) -> String {
    let list = ran.json();
    let sections = list["sections"].as_array().unwrap().iter();
    let mut of = sections.filter(|section| section["section"] == name);
    of.next().map(|section| section["checks"].to_string()).unwrap_or_default()
}

/// Signs these bytes as if they were an archive.
fn signed(folder: &Folder, payload: &[u8]) {
    let key = SecretKey::load(&folder.path("archive.pem")).unwrap();
    folder.write("gate.archive", dsse::sign(PAYLOAD_TYPE, payload, &[&key]));
}

/// A tar with these entries, whatever their names are.
fn tar(entries: &[(&str, tar::EntryType, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, kind, bytes) in entries {
        let mut header = tar::Header::new_ustar();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(u64::try_from(bytes.len()).unwrap());
        header.set_cksum();
        builder.append(&header, bytes.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn a_directory_becomes_one_signed_archive_that_check_reads_as_the_files_of_a_gate() {
    let folder = folder();
    let packed = pack(&folder, &[]).ends(0);
    let digest = packed.out.trim().rsplit(' ').next().unwrap().to_owned();
    assert!(packed.out.starts_with("wrote gate.archive: 4 files, "), "{}", packed.out);
    let checked = folder.run(&CHECK);
    let configuration = subject(&checked, "configuration");
    assert!(configuration.contains(&digest), "{configuration}");
    let agents = subject(&checked, "agents");
    assert!(agents.contains("signed by 1 trusted key"), "{agents}");
    // Nothing was laid out where a gate would, and paths are those of the archive.
    assert!(!folder.path("/nonexistent/state").exists());
    folder.edit("gate/agent.yaml", "example-agent", "another-agent");
    std::fs::remove_file(folder.path("gate.archive")).unwrap();
    pack(&folder, &[]).ends(0);
    let checked = folder.run(&CHECK).ends(78);
    let agents = subject(&checked, "agents");
    assert!(agents.contains("\"agent.yaml.sig.json: "), "{agents}");
    // The same files make the same archive.
    let first = folder.read("gate.archive");
    pack(&folder, &["--out", "again.archive"]).ends(0);
    assert_eq!(folder.read("again.archive"), first);
    pack(&folder, &[]).ends(1).complains("exists and is not replaced");
}

#[test]
fn secrets_and_hidden_files_are_left_out_of_an_archive_and_named() {
    let folder = folder();
    for (from, to) in [("k", "gate/keys/k"), ("archive.pem", "gate/keys/archive.pem")] {
        std::fs::copy(folder.path(from), folder.path(to)).unwrap();
    }
    folder.run(&["config", "keygen", "--token", "agent", "--out", "gate/agent.token"]).ends(0);
    folder.write("gate/.env", "A=B");
    // What looks like nothing known: a gate would take it as a secret only with this mode.
    folder.write("gate/database.url", "postgres://gate:hunter2@db/ledger");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(folder.path("gate/database.url"), private).unwrap();
    folder.write("gate/notes.txt", "not for the gate");
    let packed = pack(&folder, &["--without", "notes.txt"]).ends(0);
    for line in [
        "left out: keys/k (a private key)",
        "left out: keys/archive.pem (a private key)",
        "left out: agent.token (a token)",
        "left out: .env (a hidden file)",
        "left out: database.url (a file that only some may read)",
    ] {
        assert!(packed.err.contains(line), "`{line}` is not in {}", packed.err);
    }
    assert!(packed.out.contains(": 4 files, "), "{}", packed.out);
}

#[test]
fn what_can_be_in_no_archive_is_refused_by_its_name() {
    let folder = folder();
    std::os::unix::fs::symlink("agent.yaml", folder.path("gate/link.yaml")).unwrap();
    pack(&folder, &[]).ends(1).complains("`link.yaml` is neither a file nor a directory");
    std::fs::remove_file(folder.path("gate/link.yaml")).unwrap();
    folder.write("gate/two words.txt", "");
    pack(&folder, &[]).ends(1).complains("`two words.txt`: a file of an archive has a name");
    std::fs::remove_file(folder.path("gate/two words.txt")).unwrap();
    pack(&folder, &["--without", "keys/none"]).ends(1).complains("`--without keys/none` names");
    pack(&folder, &["--config", "hub.yaml"]).ends(1).complains("`hub.yaml` is not in `gate`");
    folder.write("gate/large.bin", vec![b'x'; (8 << 20) + 1]);
    pack(&folder, &[]).ends(1).complains("at most 1024 files of 8 MiB");
    assert!(!folder.path("gate.archive").exists());
}

#[test]
fn an_archive_counts_only_with_the_signature_of_a_key_from_elsewhere() {
    let folder = folder();
    pack(&folder, &[]).ends(0);
    let refused = |key: &str, words: &str| {
        let mut check = CHECK;
        check[6] = key;
        let ran = folder.run(&check).ends(78);
        let said = subject(&ran, "configuration");
        assert!(said.contains(words), "`{words}` is not in {said}");
        assert_eq!(subject(&ran, "agents"), "", "nothing of it is read");
    };
    refused("stranger.pem.pub", "0 of the 1 required trusted signatures");
    folder.run(&CHECK[..5]).ends(78).says("no key is trusted");
    let good = folder.read("gate.archive");
    let payload = good.find("\"payload\":\"").unwrap() + 500;
    let mut bytes = good.clone().into_bytes();
    bytes[payload] = if bytes[payload] == b'A' { b'B' } else { b'A' };
    folder.write("gate.archive", bytes);
    refused("archive.pem.pub", "does not verify");
    folder.write("gate.archive", &good.as_bytes()[..good.len() - 9]);
    refused("archive.pem.pub", "gate.archive`: envelope");
    folder.write("gate.archive", vec![b' '; (16 << 20) + 1]);
    refused("archive.pem.pub", "an archive has at most 16 MiB");
    std::fs::remove_file(folder.path("gate.archive")).unwrap();
    refused("archive.pem.pub", "gate.archive`: No such file");
}

#[test]
fn a_signed_archive_in_another_form_is_refused_with_what_is_wrong() {
    use tar::EntryType::{Link, Regular, Symlink};
    let folder = folder();
    let one = ("wicketgate.yaml", Regular, CONFIG);
    for (entries, words) in [
        (&[one, one][..], "two entries are named `wicketgate.yaml`"),
        (&[("../agent.yaml", Regular, ""), one], "`../agent.yaml` leaves the archive"),
        (&[("a/../../x", Regular, ""), one], "`a/../../x` leaves the archive"),
        (&[("/etc/passwd", Regular, ""), one], "`/etc/passwd` leaves the archive"),
        (&[("agent.yaml", Symlink, ""), one], "no regular file"),
        (&[("agent.yaml", Link, ""), one], "no regular file"),
        (&[one, ("agent.yaml", Regular, "")], "not in the deterministic form"),
        (&[(".env", Regular, ""), one], "`.env`: a file of an archive has a name"),
        (&[("agent.yaml", Regular, "")], "`wicketgate.yaml` is not in `gate.archive`"),
    ] {
        signed(&folder, &tar(entries));
        let said = subject(&folder.run(&CHECK).ends(78), "configuration");
        assert!(said.contains(words), "`{words}` is not in {said}");
    }
    signed(&folder, b"no tar at all");
    let said = subject(&folder.run(&CHECK).ends(78), "configuration");
    assert!(said.contains("gate.archive`: not a valid archive"), "{said}");
    let many: BTreeMap<String, Vec<u8>> =
        (0..1025).map(|i| (format!("f{i}"), Vec::new())).collect();
    signed(&folder, &wicketgate::policy::tar::write(&many).unwrap());
    let said = subject(&folder.run(&CHECK).ends(78), "configuration");
    assert!(said.contains("at most 1024 files"), "{said}");
}

#[test]
fn the_archive_in_values_of_the_chart_is_checked_with_the_paths_of_its_container() {
    let folder = folder();
    folder.edit("gate/wicketgate.yaml", "state: /nonexistent/state\n", "");
    pack(&folder, &[]).ends(0);
    let check = |key: &str| {
        let set = ["text=gate.archive", &format!("publicKey={key}")]
            .map(|one| format!("gate.archive.{one}"));
        folder.run(&["check", "--json", "--set-file", &set[0], "--set-file", &set[1]])
    };
    let checked = check("archive.pem.pub").ends(0);
    let found = subject(&checked, "configuration");
    let laid = "/var/lib/wicketgate/configuration/current/wicketgate.yaml";
    assert!(found.contains(laid), "{found}");
    assert!(subject(&checked, "agents").contains("signed by 1 trusted key"), "{}", checked.out);
    check("stranger.pem.pub").ends(78).complains("gate.archive: ");
    for part in ["gate", "hub"] {
        folder.write(
            "values.yaml",
            format!("{part}: {{archive: {{volume: {{configMap: {{name: reviewer}}}}}}}}"),
        );
        let refused = folder.run(&["check", "--chart", "values.yaml"]).ends(78);
        refused.complains(&format!("{part}.archive: these values do not hold the archive"));
    }
}

#[test]
fn the_archive_of_a_hub_in_values_of_the_chart_is_checked_as_the_hub_reads_it() {
    let folder = folder();
    folder.edit("gate/wicketgate.yaml", "state: /nonexistent/state\n", "");
    std::fs::rename(folder.path("gate/wicketgate.yaml"), folder.path("gate/hub.yaml")).unwrap();
    pack(&folder, &["--config", "hub.yaml"]).ends(0);
    let check = |key: &str| {
        let set = ["text=gate.archive", &format!("publicKey={key}")]
            .map(|one| format!("hub.archive.{one}"));
        folder.run(&["check", "--json", "--set-file", &set[0], "--set-file", &set[1]])
    };
    let found = subject(&check("archive.pem.pub").ends(0), "configuration");
    assert!(found.contains("/var/lib/wicketgate/configuration/current/hub.yaml"), "{found}");
    check("stranger.pem.pub").ends(78).complains("hub.archive: ");
}
