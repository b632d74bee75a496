//! Both directions with the OpenSSH of this machine: its keys, signatures, agent and verifier.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use wicketgate::approval::approvers::Approvers;
use wicketgate::approval::sign::{Error, Key, sign};
use wicketgate::approval::{ApproverVerdict, NAMESPACE, Statement as _, check};
use wicketgate::crypto::ssh::SshKey;
use wicketgate::crypto::sshsig::SshHash;
use zeroize::Zeroizing;

use crate::hardware;
use crate::holds::{ALICE, hold, now, statement};

fn ran(command: &mut Command) -> Output {
    let done = command.stdin(Stdio::null()).output().unwrap();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    done
}

/// A key as `ssh-keygen` makes it.
fn keygen(dir: &TempDir, name: &str, kind: &str, phrase: &str) -> PathBuf {
    let path = dir.path().join(name);
    ran(Command::new("ssh-keygen")
        .args(["-q", "-t", kind, "-N", phrase, "-C", "a@b", "-f"])
        .arg(&path));
    path
}

fn public(path: &Path) -> String {
    let text = std::fs::read_to_string(path.with_extension("pub")).unwrap();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

fn listed(key: &str) -> String {
    format!(
        "# approvers\nalice namespaces=\"{NAMESPACE}\",valid-after=\"20270101Z\" {key} roles=approver,treasury\n"
    )
}

/// What stock tools say about a signature over this message at noon of a day in 2027.
pub fn verified(
    dir: &TempDir,
    list: &str,
    namespace: &str,
    signature: &str,
    message: &[u8],
) -> bool {
    let (signers, sig) = (dir.path().join("allowed_signers"), dir.path().join("word.sig"));
    std::fs::write(&signers, list).unwrap();
    std::fs::write(&sig, signature).unwrap();
    let mut asked = Command::new("ssh-keygen");
    asked.args([
        "-Y",
        "verify",
        "-O",
        "verify-time=20270115120000Z",
        "-I",
        "alice",
        "-n",
        namespace,
    ]);
    asked.arg("-f").arg(signers).arg("-s").arg(sig);
    // From a file: it may end before it reads the message.
    let file = dir.path().join("message");
    std::fs::write(&file, message).unwrap();
    asked.stdin(std::fs::File::open(file).unwrap()).stdout(Stdio::null()).stderr(Stdio::null());
    asked.status().unwrap().success()
}

fn no_passphrase(_: &Path) -> Option<Zeroizing<String>> {
    None
}

fn open(path: &Path) -> Result<Key, Error> {
    Key::open(path, &|_| None, &no_passphrase)
}

#[test]
fn a_signature_of_ssh_keygen_counts_here() {
    let dir = tempfile::tempdir().unwrap();
    let key = keygen(&dir, "id", "ed25519", "");
    let said = statement(ApproverVerdict::Approve);
    let file = dir.path().join("statement.json");
    std::fs::write(&file, said.bytes()).unwrap();
    let signed = |namespace: &str, hash: &str| {
        let mut sign = Command::new("ssh-keygen");
        sign.args(["-Y", "sign", "-n", namespace, "-O", hash, "-f"]).arg(&key).arg(&file);
        let sig = file.with_extension("json.sig");
        let _ = std::fs::remove_file(&sig);
        ran(&mut sign);
        std::fs::read_to_string(sig).unwrap()
    };
    let list = Approvers::parse(listed(&public(&key)).as_bytes()).unwrap();
    let word = |signature: &str| check(&hold(), &list, &said.bytes(), signature, now());
    for hash in ["hashalg=sha512", "hashalg=sha256"] {
        let signature = signed(NAMESPACE, hash);
        assert_eq!(word(&signature).unwrap().by.subject, "alice");
        // Written again it is the same text.
        let read = wicketgate::crypto::sshsig::SshSig::parse(&signature).unwrap();
        assert_eq!(read.armored(), signature);
    }
    // A signature under a commit of git is not an approval.
    assert_eq!(word(&signed("git", "hashalg=sha512")).unwrap_err().code(), "approval.namespace");
    // Its name for the key is ours.
    let shown = ran(Command::new("ssh-keygen").args(["-l", "-f"]).arg(&key));
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains(&word(&signed(NAMESPACE, "hashalg=sha512")).unwrap().by.key));
}

#[test]
fn keys_of_other_types_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let said = statement(ApproverVerdict::Approve);
    let file = dir.path().join("statement.json");
    std::fs::write(&file, said.bytes()).unwrap();
    for (kind, name) in [("rsa", "ssh-rsa"), ("ecdsa", "ecdsa-sha2-nistp256")] {
        let key = keygen(&dir, kind, kind, "");
        let sig = file.with_extension("json.sig");
        let _ = std::fs::remove_file(&sig);
        ran(Command::new("ssh-keygen")
            .args(["-Y", "sign", "-n", NAMESPACE, "-f"])
            .arg(&key)
            .arg(&file));
        let signature = std::fs::read_to_string(sig).unwrap();
        let list = crate::holds::approvers();
        let refused = check(&hold(), &list, &said.bytes(), &signature, now()).unwrap_err();
        assert_eq!(refused.code(), "approval.signature");
        assert!(
            refused.why.to_string().contains(name)
                && refused.why.to_string().contains("ssh-ed25519"),
            "{refused}"
        );
        let why = Approvers::parse(listed(&public(&key)).as_bytes()).unwrap_err().to_string();
        assert!(why.contains("line 2") && why.contains(name), "{why}");
        assert!(open(&key).unwrap_err().to_string().contains(name));
    }
}

#[test]
fn ssh_keygen_accepts_what_is_signed_here_and_the_list_it_is_held_against() {
    let dir = tempfile::tempdir().unwrap();
    let said = statement(ApproverVerdict::Approve);
    let plain = keygen(&dir, "plain", "ed25519", "");
    let locked = keygen(&dir, "locked", "ed25519", "a long phrase");
    let asking = |_: &Path| Some(Zeroizing::new("a long phrase".to_owned()));
    for (path, key) in [
        (&plain, open(&plain).unwrap()),
        (&locked, Key::open(&locked, &|_| None, &asking).unwrap()),
    ] {
        let (signature, list) = (sign(&key, &said).unwrap(), listed(&public(path)));
        Approvers::parse(list.as_bytes()).unwrap();
        let stock = |namespace: &str, list: &str, message: &[u8]| {
            verified(&dir, list, namespace, &signature, message)
        };
        assert!(stock(NAMESPACE, &list, &said.bytes()));
        assert!(!stock("git", &list, &said.bytes()));
        assert!(!stock(NAMESPACE, &list, &statement(ApproverVerdict::Refuse).bytes()));
        assert!(!stock(NAMESPACE, &list.replace("20270101", "20270116"), &said.bytes()));
        assert!(!stock(
            NAMESPACE,
            &listed(&SshKey::Plain(crate::holds::key(ALICE).public()).line()),
            &said.bytes()
        ));
    }
}

#[test]
fn ssh_keygen_and_we_agree_about_a_hardware_key() {
    let dir = tempfile::tempdir().unwrap();
    let said = statement(ApproverVerdict::Approve);
    let list = hardware::listed(ALICE);
    for hash in [SshHash::Sha256, SshHash::Sha512] {
        let signature = hardware::signature(ALICE, 1, hash, &said.bytes()).armored();
        assert!(verified(&dir, &list, NAMESPACE, &signature, &said.bytes()));
        assert!(!verified(&dir, &list, NAMESPACE, &signature, b"another"));
    }
}

#[test]
fn a_key_file_that_cannot_be_used_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let locked = keygen(&dir, "locked", "ed25519", "a long phrase");
    let said = |path: &Path, phrase: Option<&str>| {
        let ask = |_: &Path| phrase.map(|phrase| Zeroizing::new(phrase.to_owned()));
        Key::open(path, &|_| None, &ask).unwrap_err().to_string()
    };
    assert!(said(&locked, None).contains("there is no terminal to ask for it"));
    assert!(said(&locked, Some("another phrase")).contains("the passphrase is wrong"));
    assert!(said(&locked, Some("")).contains("the passphrase is wrong"));
    assert!(said(&dir.path().join("absent"), None).contains("absent"));
    assert!(said(&locked.with_extension("pub"), None).contains("mode 644"));
    let text = dir.path().join("text");
    std::fs::write(&text, "hello").unwrap();
    let owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&text, owner).unwrap();
    assert!(said(&text, None).contains("no OpenSSH private key"));
    let agent = PathBuf::from(format!("ssh-agent:{}", locked.with_extension("pub").display()));
    assert!(said(&agent, None).contains("SSH_AUTH_SOCK"));
}

/// An agent that ends with the test.
struct Agent(std::process::Child, PathBuf);

impl Agent {
    fn start(dir: &TempDir) -> Self {
        let socket = dir.path().join("agent.sock");
        let mut agent = Command::new("ssh-agent");
        agent.args(["-D", "-a"]).arg(&socket).stdin(Stdio::null()).stdout(Stdio::null());
        let agent = Self(agent.spawn().unwrap(), socket);
        while std::os::unix::net::UnixStream::connect(&agent.1).is_err() {
            std::thread::yield_now();
        }
        agent
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn an_agent_signs_with_the_key_it_holds_and_with_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let (key, other) = (keygen(&dir, "id", "ed25519", ""), keygen(&dir, "other", "ed25519", ""));
    let agent = Agent::start(&dir);
    ran(Command::new("ssh-add").arg("-q").arg(&key).env("SSH_AUTH_SOCK", &agent.1));
    let env = |name: &str| (name == "SSH_AUTH_SOCK").then(|| agent.1.display().to_string());
    let open = |path: &Path| {
        let reference =
            PathBuf::from(format!("ssh-agent:{}", path.with_extension("pub").display()));
        Key::open(&reference, &env, &no_passphrase).unwrap()
    };
    let said = statement(ApproverVerdict::Refuse);
    let signature = sign(&open(&key), &said).unwrap();
    let list = listed(&public(&key));
    assert!(verified(&dir, &list, NAMESPACE, &signature, &said.bytes()));
    let list = Approvers::parse(list.as_bytes()).unwrap();
    let counted = check(&hold(), &list, &said.bytes(), &signature, now()).unwrap();
    assert_eq!(counted.statement.verdict, ApproverVerdict::Refuse);
    let why = sign(&open(&other), &said).unwrap_err().to_string();
    assert!(why.contains("refused to sign"), "{why}");
}
