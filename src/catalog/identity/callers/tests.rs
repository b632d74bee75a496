//! Callers: who is which agent, and which configurations are refused.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::crypto::keys::SecretKey;
use crate::identity::certificate::ClientCertificate;
use crate::identity::tests::{TEXT, key, now};
use crate::identity::{envelope_path, sign};

struct AgentFiles {
    dir: tempfile::TempDir,
    key: SecretKey,
}

impl AgentFiles {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), key: key() }
    }

    fn manifest(&self, name: &str) -> PathBuf {
        let path = self.dir.path().join(format!("{name}.yaml"));
        let text = TEXT.replace("code-review-agent", name);
        std::fs::write(&path, &text).unwrap();
        std::fs::write(envelope_path(&path), sign(text.as_bytes(), "x", &[&self.key]).unwrap())
            .unwrap();
        path
    }

    fn token(&self, name: &str, text: &str, mode: u32) -> CallerConfig {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        CallerConfig { token_file: Some(path), ..CallerConfig::default() }
    }

    fn load(&self, agents: &[Config]) -> Result<Callers, String> {
        let trust = Trust {
            keys: &[self.key.public()],
            threshold: 1,
            socket: Some(Path::new("/run/a.sock")),
            kubernetes: None,
        };
        Callers::load(agents, &trust, &Arc::new(RunTokens::new([1; 32])), now())
            .map_err(|e| e.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }
}

fn uid(uid: u32) -> CallerConfig {
    CallerConfig { uid: Some(uid), ..CallerConfig::default() }
}

fn peer(socket: Option<&str>, uid: Option<u32>) -> Peer {
    let listener = if socket.is_some() { "uds" } else { "tcp" };
    Peer { listener, uid, socket: socket.map(PathBuf::from), certificate: None }
}

const T1: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn the_listener_or_the_token_decides_the_manifest_and_any_doubt_is_refused() {
    let files = AgentFiles::new();
    let other = CallerConfig { socket: Some("/run/b.sock".into()), ..uid(1000) };
    let agents = [
        Config {
            ordered: false,
            model: AgentModel::default(),
            manifest: files.manifest("one"),
            callers: vec![uid(1000), files.token("t", &format!("{T1}\n"), 0o600)],
        },
        Config {
            ordered: false,
            model: AgentModel::default(),
            manifest: files.manifest("two"),
            callers: vec![other, uid(1001)],
        },
    ];
    let callers = files.load(&agents).unwrap();
    let who = |peer: &Peer, bearer| {
        callers.identify(peer, bearer, now()).map(|c| (c.manifest.name.clone(), c.auth))
    };
    let name = |peer: &Peer, bearer| who(peer, bearer).map(|(name, _)| name);
    assert_eq!(name(&peer(Some("/run/a.sock"), Some(1000)), None).unwrap(), "one");
    assert_eq!(name(&peer(Some("/run/b.sock"), Some(1000)), None).unwrap(), "two");
    assert_eq!(name(&peer(Some("/run/a.sock"), Some(1001)), None).unwrap(), "two");
    assert_eq!(name(&peer(Some("/run/a.sock"), Some(0)), None), Err(IdentityError::Missing));
    assert_eq!(name(&peer(Some("/run/a.sock"), None), None), Err(IdentityError::Missing));
    assert_eq!(name(&peer(None, Some(1000)), None), Err(IdentityError::Missing));
    let (agent, auth) = who(&peer(None, None), Some(T1)).unwrap();
    assert_eq!((agent.as_str(), auth.method.as_str(), auth.uid), ("one", "token", None));
    assert_eq!(auth.token.unwrap().len(), 16);
    let (_, auth) = who(&peer(Some("/run/a.sock"), Some(1000)), None).unwrap();
    assert_eq!((auth.method.as_str(), auth.uid, auth.token), ("uds", Some(1000), None));
    let other_token = "x".repeat(32);
    assert_eq!(
        name(&peer(Some("/run/a.sock"), Some(1000)), Some(&other_token)),
        Err(IdentityError::Unknown)
    );
    assert_eq!(
        name(&peer(Some("/run/b.sock"), Some(1000)), Some(T1)),
        Err(IdentityError::Ambiguous)
    );
    assert_eq!(name(&peer(None, None), Some("")), Err(IdentityError::Unknown));
}

#[test]
fn a_spiffe_id_or_a_thumbprint_identifies_an_agent_and_a_disagreement_is_refused() {
    let files = AgentFiles::new();
    let id = |name: &str| format!("spiffe://example.org/{name}");
    let spiffe = |name: &str| CallerConfig { spiffe: Some(id(name)), ..CallerConfig::default() };
    let print = Digest::of(&[b"known"]);
    let known = CallerConfig { certificate: Some(print.prefixed()), ..CallerConfig::default() };
    let one = vec![spiffe("one"), known, files.token("t", T1, 0o600)];
    let agents = [
        Config {
            ordered: false,
            model: AgentModel::default(),
            manifest: files.manifest("one"),
            callers: one,
        },
        Config {
            ordered: false,
            model: AgentModel::default(),
            manifest: files.manifest("two"),
            callers: vec![spiffe("two")],
        },
    ];
    let callers = files.load(&agents).unwrap();
    let who = |shown: Option<&str>, der: &[u8], bearer| {
        let (thumbprint, not_after) = (Digest::of(&[der]), now());
        let shown = ClientCertificate { thumbprint, not_after, spiffe: shown.map(id) };
        let peer = Peer { listener: "tls", certificate: Some(Arc::new(shown)), ..Peer::default() };
        callers.identify(&peer, bearer, now()).map(|c| (c.manifest.name.clone(), c.auth))
    };
    let (agent, auth) = who(Some("two"), b"any", None).unwrap();
    assert_eq!((agent.as_str(), auth.method.as_str()), ("two", "mtls"));
    assert_eq!(auth.holder(), Some(id("two").as_str()));
    assert!(auth.admits(&who(Some("two"), b"renewed", None).unwrap().1));
    let (agent, auth) = who(None, b"known", None).unwrap();
    assert_eq!((agent.as_str(), auth.holder()), ("one", Some(print.prefixed().as_str())));
    assert!(!auth.admits(&who(Some("two"), b"any", None).unwrap().1));
    assert!(!auth.admits(&Peer::default().auth("token", None)));
    assert_eq!(who(Some("two"), b"known", None).unwrap_err(), IdentityError::Ambiguous);
    assert_eq!(who(Some("two"), b"any", Some(T1)).unwrap_err(), IdentityError::Ambiguous);
    assert_eq!(who(Some("three"), b"any", None).unwrap_err(), IdentityError::Missing);
    let (agent, auth) = who(Some("one"), b"any", Some(T1)).unwrap();
    assert_eq!((agent.as_str(), auth.method.as_str()), ("one", "token"));
    assert_eq!(auth.spiffe, Some(id("one")));
    let twice = Config {
        ordered: false,
        model: AgentModel::default(),
        manifest: files.manifest("three"),
        callers: vec![spiffe("one")],
    };
    let errors = files.load(&[agents[0].clone(), twice]).unwrap_err();
    assert!(
        errors.contains("agents[1].callers[0]: `spiffe://example.org/one` is mapped twice"),
        "{errors}"
    );
}

#[test]
fn callers_that_are_ambiguous_unsupported_or_careless_are_refused_all_at_once() {
    let files = AgentFiles::new();
    let spiffe = CallerConfig { spiffe: Some("spiffe://x".into()), ..CallerConfig::default() };
    let k8s = CallerConfig { k8s_service_account: Some("x".into()), ..CallerConfig::default() };
    let both = CallerConfig { uid: Some(1), ..files.token("b", T1, 0o600) };
    let first = vec![
        uid(1000),
        uid(1000),
        spiffe,
        k8s,
        both,
        CallerConfig::default(),
        files.token("open", T1, 0o644),
        files.token("short", "abc", 0o600),
        files.token("ok", T1, 0o600),
    ];
    let agents = [
        Config {
            ordered: false,
            model: AgentModel::default(),
            manifest: files.manifest("one"),
            callers: first,
        },
        Config {
            ordered: false,
            model: AgentModel::default(),
            manifest: files.manifest("two"),
            callers: vec![files.token("same", T1, 0o600)],
        },
        Config {
            ordered: false,
            model: AgentModel::default(),
            manifest: files.dir.path().join("one.yaml"),
            callers: vec![],
        },
        Config {
            ordered: false,
            model: AgentModel::default(),
            manifest: files.dir.path().join("none.yaml"),
            callers: vec![],
        },
    ];
    let errors = files.load(&agents).unwrap_err();
    let expected = [
        "agents[0].callers[1]: uid `1000` on `/run/a.sock` is mapped twice",
        "agents[0].callers[2]: `spiffe://x` is not a SPIFFE id",
        "agents[0].callers[3]: `x` is not a service account like `agents/reviewer`",
        "agents[0].callers[4]: `token_file` stands alone",
        "agents[0].callers[5]: expected `uid`",
        "has mode 644",
        "at least 32 printable characters",
        "agents[1].callers[0]: the token in",
        "agents[2].manifest: agent `one` is configured twice",
        "none.yaml",
    ];
    for part in expected {
        assert!(errors.contains(part), "{part}\n{errors}");
    }
    assert_eq!(errors.lines().count(), expected.len(), "{errors}");
    assert!(!errors.contains(T1));
}

#[test]
fn a_service_account_needs_a_cluster_and_stands_alone() {
    let files = AgentFiles::new();
    let account = |name: &str| CallerConfig {
        k8s_service_account: Some(name.to_owned()),
        ..CallerConfig::default()
    };
    let manifest = files.manifest("one");
    let agent = |callers| Config {
        ordered: false,
        model: AgentModel::default(),
        manifest: manifest.clone(),
        callers,
    };
    for (caller, why) in [
        (account("agents/reviewer"), "needs `trust.kubernetes`"),
        (CallerConfig { uid: Some(1), ..account("a/b") }, "`k8s_service_account` stands alone"),
        (account("reviewer"), "is not a service account"),
        (account("agents/Reviewer"), "is not a service account"),
        (account("agents/reviewer/x"), "is not a service account"),
        (account("/reviewer"), "is not a service account"),
        (account("agents/-x"), "is not a service account"),
        (account(&format!("{}/x", "a".repeat(64))), "is not a service account"),
    ] {
        let errors = files.load(&[agent(vec![caller])]).unwrap_err();
        assert!(errors.contains(why), "{why}\n{errors}");
    }
}

#[test]
fn callers_with_two_tokens_of_one_account_are_one_caller() {
    let auth = |token: Option<&str>, account: Option<&str>| CallerAuth {
        account: account.map(str::to_owned),
        ..Peer::default().auth("service_account", token.map(str::to_owned))
    };
    let one = auth(None, Some("agents/reviewer"));
    assert_eq!(one.identity(), auth(None, Some("agents/reviewer")).identity());
    assert_ne!(one.identity(), auth(None, Some("agents/other")).identity());
}
