//! Approvers and operators: their keys, their tokens, the signed list, and what they type.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ran::Ran;
use serde_json::{Value, json};
use tempfile::TempDir;
use wicketgate_crypto::keys::SecretKey;
use wicketgate_crypto::openssh;
use wicketgate_crypto::ssh::SshKey;
use wicketgate_record::clock::SystemEntropy;

/// A call with `{"hold":true}` waits for one person, with `{"hold":2}` for two.
pub const RULES: &str = "package wicketgate.agent\nimport rego.v1\nallow if startswith(input.tool.name, \"work.\")\n\
    require_approval contains {\"code\": \"one\", \"message\": \"one person\"} if input.args.hold == true\n\
    require_approval contains {\"code\": \"two\", \"message\": \"two people\", \"approvers\": 2} if input.args.hold == 2\n";

/// Approvers and operators, in one directory.
pub struct People {
    dir: TempDir,
    /// Of the list of those who may approve: each has a higher one than the list before.
    version: AtomicU64,
}

impl People {
    /// Ada and Grace approve; Otto operates.
    pub fn new() -> People {
        let people = People { dir: tempfile::tempdir().unwrap(), version: AtomicU64::new(0) };
        for name in ["ada", "grace", "otto", "mallory", "paula", "hugo", "vera"] {
            openssh::store(&SecretKey::generate(&SystemEntropy), &people.path(name), name).unwrap();
            let token = people.path(&format!("{name}.token"));
            std::fs::write(&token, format!("{name:x<48}")).unwrap();
            std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        crate::sidecar::run(people.dir.path(), &["keygen", "--out", "list.pem"]);
        people.list(&["ada", "grace"]);
        people
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn shown(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The fingerprint of the key of this person.
    pub fn fingerprint(&self, name: &str) -> String {
        let line = std::fs::read_to_string(self.path(&format!("{name}.pub"))).unwrap();
        SshKey::parse(line.trim()).unwrap().fingerprint()
    }

    /// Writes and signs the list of those who may approve from now on.
    pub fn list(&self, names: &[&str]) {
        self.list_of(names, "wicketgate-approval", "approver");
    }

    fn list_of(&self, names: &[&str], namespace: &str, role: &str) {
        let line = |name: &&str| {
            let key = std::fs::read_to_string(self.path(&format!("{name}.pub"))).unwrap();
            let key: Vec<&str> = key.split_whitespace().take(2).collect();
            format!("{name} namespaces=\"{namespace}\" {} roles={role}\n", key.join(" "))
        };
        let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
        let mut text = format!("# wicketgate: version={version}\n");
        text.extend(names.iter().map(line));
        // Otto operates, whoever approves.
        let key = std::fs::read_to_string(self.path("otto.pub")).unwrap();
        let key: Vec<&str> = key.split_whitespace().take(2).collect();
        if !names.contains(&"otto") {
            text +=
                &format!("otto namespaces=\"wicketgate-order\" {} roles=operator\n", key.join(" "));
        }
        self.sign(&text);
    }

    /// Ada and Grace approve; Otto, Grace and Mallory give orders.
    pub fn custodians(&self) {
        let lines = [
            ("ada", "wicketgate-approval", "approver"),
            ("grace", "wicketgate-approval,wicketgate-order", "approver,operator"),
            ("otto", "wicketgate-order", "operator"),
            ("mallory", "wicketgate-order", "operator"),
        ];
        let line = |(name, spaces, roles): (&str, &str, &str)| {
            let key = std::fs::read_to_string(self.path(&format!("{name}.pub"))).unwrap();
            let key: Vec<&str> = key.split_whitespace().take(2).collect();
            format!("{name} namespaces=\"{spaces}\" {} roles={roles}\n", key.join(" "))
        };
        let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
        let lines: String = lines.into_iter().map(line).collect();
        self.sign(&format!("# wicketgate: version={version}\n{lines}"));
    }

    /// Writes and signs this list of those who may approve.
    pub fn sign(&self, text: &str) {
        std::fs::write(self.path("signers"), text).unwrap();
        let sign = ["approval", "sign-approvers", "signers", "--key", "list.pem"];
        crate::sidecar::run(self.dir.path(), &sign);
    }

    /// Writes and signs a list of those who may approve amendments from now on.
    pub fn publishers(&self, names: &[&str]) {
        self.list_of(names, "wicketgate-amendment", "policy_publisher");
    }

    /// What a configuration says of them where amendments are required: Paula writes policies, and could
    /// approve them; Grace and Hugo publish, Vera looks.
    pub fn configure_amendments(&self, config: &mut Value, operators: bool) {
        self.publishers(&["grace", "hugo", "paula"]);
        self.configure(config, false);
        config["policy"]["amendments"] = json!("required");
        if operators {
            let member = |name: &str, roles: &[&str]| json!({"subject": name, "roles": roles, "token_file": self.shown(&format!("{name}.token"))});
            config["operators"] = json!([
                member("paula", &["policy_author", "policy_publisher"]),
                member("grace", &["policy_publisher"]),
                member("hugo", &["policy_publisher"]),
                member("otto", &["operator"]),
                member("vera", &["viewer"]),
            ]);
        }
    }

    /// What a configuration says of them.
    pub fn configure(&self, config: &mut Value, operators: bool) {
        config["trust"]["approver_keys"] = json!([self.shown("list.pem.pub")]);
        config["approvals"] = json!({"signers": self.shown("signers")});
        if operators {
            let member = |name: &str, role: &str| json!({"subject": name, "roles": [role], "token_file": self.shown(&format!("{name}.token"))});
            config["operators"] = json!([
                member("ada", "approver"),
                member("grace", "approver"),
                member("mallory", "approver"),
                member("otto", "operator"),
            ]);
        }
    }

    /// Runs a command as this person, against this operator API: its exit code and both streams.
    pub fn types(&self, who: &str, url: &str, args: &[&str]) -> (Option<i32>, String) {
        let token = self.shown(&format!("{who}.token"));
        let ran = Ran::gate(&self.dir, [args, &["--url", url, "--token-file", &token]].concat());
        (Some(ran.code), ran.text())
    }

    /// Runs a command as this person through this hub that others run beside a ledger.
    pub fn asks(&self, who: &str, url: &str, args: &[&str]) -> (Option<i32>, String) {
        let token = self.shown(&format!("{who}.token"));
        let ran = Ran::gate(&self.dir, [args, &["--hub", url, "--token-file", &token]].concat());
        (Some(ran.code), ran.text())
    }

    /// The same, signed with one's own key where it loosens.
    pub fn orders(&self, who: &str, url: &str, args: &[&str]) -> (Option<i32>, String) {
        let key = self.shown(who);
        self.asks(who, url, &[args, &["--operator-key", &key]].concat())
    }

    /// The token of this person.
    pub fn token(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(&format!("{name}.token"))).unwrap()
    }

    /// This person approves or refuses a call with their key.
    pub fn says(
        &self,
        who: &str,
        word: &str,
        url: &str,
        (run, call): (&str, &str),
    ) -> (Option<i32>, Value) {
        let (key, token) = (self.shown(who), self.shown(&format!("{who}.token")));
        let args = [
            "approval",
            word,
            run,
            call,
            "--key",
            &key,
            "--token-file",
            &token,
            "--url",
            url,
            "--yes",
            "--json",
        ];
        let ran = Ran::gate(&self.dir, args);
        let answer = serde_json::from_str(&ran.out).unwrap_or_else(|_| json!({"err": ran.err}));
        (Some(ran.code), answer)
    }
}

/// What the gate that holds the call did with a word about it: where the call is, and why not.
#[track_caller]
pub fn done(told: &Value) -> (String, String) {
    let text =
        |gate: &Value, name: &str| gate["done"][name].as_str().unwrap_or_default().to_owned();
    let gates = told["gates"].as_array().unwrap_or_else(|| panic!("{told}"));
    let gate = gates.iter().find(|gate| gate["done"].get("call").is_some());
    let gate = gate.unwrap_or_else(|| panic!("{told}"));
    (text(gate, "call"), text(gate, "detail"))
}

/// One request to an operator API: status, head and body.
pub async fn ask(url: &str, token: &str, line: &str, body: &Value) -> (u16, String, Value) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let address = url.trim_start_matches("http://");
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let body = body.to_string();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let body = serde_json::from_slice(&answer[end + 4..]).unwrap_or(Value::Null);
    (head[9..12].parse().unwrap(), head, body)
}
