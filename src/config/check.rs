//! Checks beyond the schema: addresses, keys, callers, references. Works on the raw value, so that
//! one wrong field hides no other.

use std::collections::BTreeMap;
use std::iter;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use serde_json::Value;
use zeroize::Zeroizing;

use super::Problem;
use crate::crypto::keys::PublicKey;
use crate::crypto::private;
use crate::domain::plural::many;
use crate::domain::token::Family;
use crate::identity::callers::{self, CallerConfig, CallerError, CallerForm};
use crate::ledger::fleet::POOL;
use crate::ledger::postgres::unprotected;
use crate::operator::enrolment::HUBS;
use crate::serve::tls::Section;
use crate::yaml::Document;

/// Bytes of a Unix socket's path, without the zero that ends it (unix(7), `sun_path`).
pub const SOCKET_PATH_MAX: usize = 107;

struct Check<'a> {
    document: &'a Document,
    problems: &'a mut Vec<Problem>,
}

/// Adds every problem; the connection URL of the ledger, if it has one.
pub(super) fn check(
    document: &Document,
    env: &dyn Fn(&str) -> Option<String>,
    problems: &mut Vec<Problem>,
) -> Option<Zeroizing<String>> {
    let mut check = Check { document, problems };
    if document.value.get("state").is_none() {
        check.add("/state", "set it: neither XDG_STATE_HOME nor HOME is set");
    }
    check.listeners();
    check.trust();
    check.amendments();
    check.agents();
    check.tools();
    check.lock();
    check.encryption();
    let value = &document.value;
    check.all(super::tls::check(value, "/operator/tls", Section::open));
    check.all(super::tls::check(value, "/listen/tls", Section::demand));
    check.all(super::operators::check(value));
    check.all(super::console::check(value));
    check.all(value.get("fleet").map(super::fleet::check).unwrap_or_default());
    check.all(super::evidence::check(value));
    check.all(super::hub::check(value));
    check.all(super::enrolment::check(value));
    check.all(super::telemetry::check(value));
    check.all(super::pools::check(value));
    check.ledger(env)
}

/// Adds each socket whose path the kernel would not take where the gate runs: a check of a
/// container's files has moved it below `root`.
pub(super) fn sockets(document: &Document, root: Option<&Path>, problems: &mut Vec<Problem>) {
    let mut check = Check { document, problems };
    let callers = |(i, agent): (usize, &Value)| {
        let count = agent.get("callers").and_then(Value::as_array).map_or(0, Vec::len);
        (0..count).map(move |j| format!("/agents/{i}/callers/{j}/socket"))
    };
    let agents = check.list("/agents").iter().enumerate().flat_map(callers);
    for pointer in iter::once("/listen/socket".to_owned()).chain(agents).collect::<Vec<_>>() {
        let path = Path::new(check.text(&pointer).unwrap_or_default());
        let there = root.and_then(|root| path.strip_prefix(root).ok());
        let there = there.map_or_else(|| path.to_owned(), |path| Path::new("/").join(path));
        let bytes = there.as_os_str().len();
        if bytes > SOCKET_PATH_MAX {
            let message =
                format!("the socket path has {bytes} bytes, the maximum is {SOCKET_PATH_MAX}");
            check.add(&pointer, message);
        }
    }
}

impl Check<'_> {
    fn add(&mut self, pointer: &str, message: impl Into<String>) {
        let problem = self.document.error(pointer, message);
        self.problems.push(problem);
    }

    fn all(&mut self, problems: Vec<(String, String)>) {
        for (at, message) in problems {
            self.add(&at, message);
        }
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        self.document.value.pointer(pointer).and_then(Value::as_str)
    }

    fn list(&self, pointer: &str) -> &[Value] {
        let list = self.document.value.pointer(pointer).and_then(Value::as_array);
        list.map_or(&[], Vec::as_slice)
    }

    /// Where agents' listeners have addresses: every text below `listen` but the socket.
    fn addresses(&self) -> Vec<String> {
        let listen = self.document.value.pointer("/listen").and_then(Value::as_object);
        let texts = listen.into_iter().flatten().filter(|(_, value)| value.is_string());
        let addresses = texts.filter(|(name, _)| name.as_str() != "socket");
        addresses.map(|(name, _)| format!("/listen/{name}")).collect()
    }

    fn listeners(&mut self) {
        let agents = self.addresses();
        for pointer in agents.iter().map(String::as_str).chain(["/operator/listen"]) {
            let Some(text) = self.text(pointer).map(str::to_owned) else { continue };
            match text.parse::<SocketAddr>() {
                Err(_) => {
                    self.add(pointer, format!("`{text}` is not an address like `127.0.0.1:7300`"));
                }
                Ok(address) if !address.ip().is_loopback() => {
                    let (tls, why) = match pointer {
                        "/operator/listen" => {
                            ("/operator/tls", "beyond loopback operators need `operator.tls`")
                        }
                        _ => ("/listen/tls", "beyond loopback agents need `listen.tls`"),
                    };
                    if self.document.value.pointer(tls).is_none() {
                        self.add(pointer, format!("`{text}` is not a loopback address: {why}"));
                    }
                }
                Ok(_) => {}
            }
        }
        if self.document.value.pointer("/listen/tls").is_some() && agents.is_empty() {
            self.add("/listen/tls", "`listen.tcp` is off: TLS has no listener to apply to");
        }
        if self.text("/listen/socket").is_none() && agents.is_empty() {
            self.add("/listen", "neither `socket` nor `tcp` is set: agents could not connect");
        }
    }

    fn trust(&mut self) {
        let mut owners: BTreeMap<[u8; 32], &str> = BTreeMap::new();
        let kinds = [
            ("manifest", true, ""),
            ("policy", self.text("/policy/bundle").is_some(), "policy.bundle"),
            ("approver", self.text("/approvals/signers").is_some(), "approvals.signers"),
            // The schema requires its keys.
            ("break-glass", false, ""),
        ];
        for (kind, needed, because) in kinds {
            let (list, threshold) = match kind {
                "break-glass" => {
                    ("/trust/break_glass/keys".into(), "/trust/break_glass/threshold".into())
                }
                kind => (format!("/trust/{kind}_keys"), format!("/trust/{kind}_threshold")),
            };
            let files: Vec<Option<PathBuf>> =
                self.list(&list).iter().map(|file| file.as_str().map(PathBuf::from)).collect();
            let mut count = 0_u64;
            for (i, file) in files.iter().enumerate() {
                let Some(file) = file else { continue };
                let at = format!("{list}/{i}");
                match PublicKey::load_all(file) {
                    Err(error) => self.add(&at, error.to_string()),
                    Ok(keys) => {
                        for key in keys {
                            count = count.saturating_add(1);
                            if let Some(other) = owners.insert(key.to_bytes(), kind) {
                                self.add(
                                    &at,
                                    format!("key `{}` is already a {other} key", key.id()),
                                );
                            }
                        }
                    }
                }
            }
            if needed && !because.is_empty() && files.is_empty() {
                let message = format!("`{because}` is set and `{kind}_keys` is empty");
                self.add("/trust", message);
            }
            let at = threshold;
            let threshold = self.document.value.pointer(&at).and_then(Value::as_u64).unwrap_or(1);
            if !files.is_empty() && threshold > count.max(1) {
                self.add(
                    &at,
                    format!(
                        "{threshold} signatures can never be reached with {}",
                        many(count, "usable key")
                    ),
                );
            }
        }
    }

    fn amendments(&mut self) {
        if self.text("/policy/amendments") != Some("required") {
            return;
        }
        let needs = [
            ("/policy/bundle", "policy.bundle", "the first bundle comes from there"),
            ("/approvals/signers", "approvals.signers", "no amendment could be approved"),
        ];
        for (at, name, why) in needs {
            if self.text(at).is_none() {
                let message = format!("`required` without `{name}`: {why}");
                self.add("/policy/amendments", message);
            }
        }
    }

    fn encryption(&mut self) {
        let at = "/encryption/key_file";
        let Some(first) = self.text(at).map(PathBuf::from) else { return };
        let others = self.list("/encryption/old_key_files").iter();
        let others: Vec<PathBuf> =
            others.filter_map(|file| file.as_str().map(PathBuf::from)).collect();
        if let Err(error) = crate::ledger::vault::Vault::load(&first, &others) {
            self.add(at, error.to_string());
        }
    }

    fn lock(&mut self) {
        // WHY: a manifest names the lock's signer anyway, so its signers may sign locks.
        let files =
            self.list("/trust/lock_keys").iter().map(|file| file.as_str().map(PathBuf::from));
        for (i, file) in files.collect::<Vec<_>>().into_iter().enumerate() {
            if let Some(Err(error)) = file.map(|file| PublicKey::load_all(&file)) {
                self.add(&format!("/trust/lock_keys/{i}"), error.to_string());
            }
        }
        if !self.list("/servers").is_empty() && self.list("/trust/lock_keys").is_empty() {
            self.add(
                "/trust",
                "`servers` is set and `lock_keys` is empty: the gate would accept no lock for them",
            );
        }
        let mut seen = std::collections::BTreeSet::new();
        let mut problems = Vec::new();
        for (i, server) in self.list("/servers").iter().enumerate() {
            let name = server.get("name").and_then(Value::as_str);
            if let Some(name) = name.filter(|name| !seen.insert((*name).to_owned())) {
                problems.push((
                    format!("/servers/{i}/name"),
                    format!("server `{name}` is configured twice"),
                ));
            }
            if server.get("stdio").is_some() == server.get("http").is_some() {
                let why = "expected exactly one of `stdio` and `http`";
                problems.push((format!("/servers/{i}"), why.to_owned()));
            }
        }
        self.all(problems);
    }

    fn agents(&mut self) {
        let default = self.text("/listen/socket").map(PathBuf::from);
        let tls = self.document.value.pointer("/listen/tls").is_some();
        let cluster = self.document.value.pointer("/trust/kubernetes").is_some();
        let mut seen = BTreeMap::new();
        let mut problems = Vec::new();
        for (i, agent) in self.list("/agents").iter().enumerate() {
            let manifest = agent.get("manifest").and_then(Value::as_str);
            if let Some(file) = manifest.filter(|file| !Path::new(file).is_file()) {
                problems.push((format!("/agents/{i}/manifest"), format!("`{file}` is not a file")));
            }
            let callers = agent.get("callers").and_then(Value::as_array);
            for (j, caller) in callers.into_iter().flatten().enumerate() {
                // What the schema refused is reported already.
                let Ok(caller) = CallerConfig::deserialize(caller) else { continue };
                let at = format!("/agents/{i}/callers/{j}");
                let form = callers::form(&caller, default.as_deref());
                let form = form.map_err(|e| e.to_string()).and_then(|form| {
                    match &form {
                        CallerForm::Token(path) => drop(
                            callers::read_token_of(Family::Agent, path)
                                .map_err(|e| e.to_string())?,
                        ),
                        CallerForm::Certified(_) if !tls => {
                            return Err("clients show certificates only with `listen.tls`".into());
                        }
                        CallerForm::Account(_) if !cluster => {
                            return Err(CallerError::NoCluster.to_string());
                        }
                        CallerForm::Certified(_)
                        | CallerForm::Peer { .. }
                        | CallerForm::Account(_) => {}
                    }
                    Ok(form)
                });
                match form {
                    Err(message) => problems.push((at, message)),
                    Ok(form) => {
                        if let Some(first) = seen.insert(format!("{form:?}"), at.clone()) {
                            let first = first.trim_start_matches('/').replace('/', ".");
                            problems.push((at, format!("the same caller as `{first}`: the gate could not tell the two agents apart")));
                        }
                    }
                }
            }
        }
        self.all(problems);
    }

    fn tools(&mut self) {
        let mut seen = std::collections::BTreeSet::new();
        let mut problems = Vec::new();
        for (i, tool) in self.list("/tools").iter().enumerate() {
            if let Some(name) = tool.get("name").and_then(Value::as_str)
                && !seen.insert(name.to_owned())
            {
                problems
                    .push((format!("/tools/{i}/name"), format!("tool `{name}` is bound twice")));
            }
        }
        self.all(problems);
    }

    fn ledger(&mut self, env: &dyn Fn(&str) -> Option<String>) -> Option<Zeroizing<String>> {
        let at = "/ledger/postgres";
        self.document.value.pointer(at)?;
        let slots = format!("{at}/slots");
        if self.text(&slots).is_some_and(|pool| [POOL, HUBS].contains(&pool)) {
            self.add(&slots, "this pool is reserved for the fleet log and hubs");
        }
        let field = |name: &str| self.text(&format!("{at}/{name}")).map(str::to_owned);
        let given = (field("url"), field("url_file"), field("url_env"));
        let (pointer, url) = match given {
            (Some(url), None, None) => {
                let secret = url::Url::parse(&url).is_ok_and(|u| {
                    u.password().is_some() || u.query_pairs().any(|(name, _)| name == "password")
                });
                if secret {
                    self.add(
                        "/ledger/postgres/url",
                        "holds a password: give it by `url_file` or `url_env`",
                    );
                    return None;
                }
                ("/ledger/postgres/url", Ok(Zeroizing::new(url)))
            }
            (None, Some(file), None) => (
                "/ledger/postgres/url_file",
                private::line(Path::new(&file)).map_err(|e| e.to_string()),
            ),
            (None, None, Some(name)) => {
                let missing = format!("environment variable `{name}` is not set");
                ("/ledger/postgres/url_env", env(&name).map(Zeroizing::new).ok_or(missing))
            }
            _ => {
                self.add(at, "expected exactly one of `url`, `url_file` and `url_env`");
                return None;
            }
        };
        // Neither message may show the value.
        match url {
            Ok(url) if ["postgres://", "postgresql://"].iter().any(|s| url.starts_with(s)) => {
                let accepted = format!("{at}/accept_unverified_server");
                let accepted = self.document.value.pointer(&accepted) == Some(&Value::Bool(true));
                if let Some(why) = unprotected(&url).filter(|_| !accepted) {
                    self.add(pointer, why);
                }
                Some(url)
            }
            Ok(_) => {
                self.add(pointer, "expected a postgres:// URL");
                None
            }
            Err(message) => {
                self.add(pointer, message);
                None
            }
        }
    }
}
