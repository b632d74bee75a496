//! As much of a Kubernetes API server as reviews tokens, over TLS; and kubelet, as far as it writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};

use crate::ca::Ca;

/// What hubs of these tests call themselves.
pub const AUDIENCE: &str = "wicketgate-hub";

/// What is answered, given what a good API server would say.
pub enum Reply {
    /// This document, with this status.
    Says(u16, Value),
    /// These bytes.
    Bytes(Vec<u8>),
    /// Nothing, until whoever asks has left.
    Nothing,
    /// Nothing; the connection is cut before TLS.
    Cut,
}

type Manner = Arc<dyn Fn(Value) -> Reply + Send + Sync>;
type Session = rustls::StreamOwned<rustls::ServerConnection, TcpStream>;

/// Whose a token is, and for whom.
#[derive(Clone)]
struct Issued {
    account: String,
    pod: String,
    audience: String,
}

#[derive(Default)]
struct Database {
    issued: Mutex<BTreeMap<String, Issued>>,
    expired: Mutex<BTreeSet<String>>,
    /// Tokens of those who may ask.
    reviewers: Mutex<BTreeSet<String>>,
    /// Each request: its first line, its headers, its body.
    asked: Mutex<Vec<(String, String, Value)>>,
    manner: Mutex<Option<Manner>>,
    numbers: AtomicU32,
    /// Requests nothing was answered to so far.
    waiting: AtomicU32,
}

/// A server that reviews tokens.
pub struct ApiServer {
    port: u16,
    database: Arc<Database>,
}

impl ApiServer {
    /// One at this port whose certificate this authority made.
    pub fn start(ca: &Ca, port: u16) -> ApiServer {
        ca.server("api");
        let chain = CertificateDer::from_pem_file(ca.path("api.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(ca.path("api.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![chain], key)
            .unwrap();
        let (tls, database) = (Arc::new(tls), Arc::new(Database::default()));
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let (port, shared) = (listener.local_addr().unwrap().port(), Arc::clone(&database));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(stream), tls, database) = (stream, Arc::clone(&tls), Arc::clone(&shared))
                else {
                    return;
                };
                std::thread::spawn(move || database.serve(stream, tls));
            }
        });
        ApiServer { port, database }
    }

    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// A fresh token of a pod with this account, `<namespace>/<service account>`, for the hub.
    pub fn token(&self, account: &str, pod: &str) -> String {
        self.token_for(account, pod, AUDIENCE)
    }

    /// The same for this audience.
    pub fn token_for(&self, account: &str, pod: &str, audience: &str) -> String {
        let number = self.database.numbers.fetch_add(1, Ordering::SeqCst);
        let claims = json!({"aud": [audience], "jti": number, "sub": account}).to_string();
        let parts = [r#"{"alg":"RS256"}"#, &claims, &"signature".repeat(40)];
        let token = parts.map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
        let (account, pod) = (account.to_owned(), pod.to_owned());
        let issued = Issued { account, pod, audience: audience.to_owned() };
        self.database.issued.lock().insert(token.clone(), issued);
        token
    }

    /// The time of this token is over, or its pod is gone.
    pub fn expire(&self, token: &str) {
        self.database.expired.lock().insert(token.to_owned());
    }

    /// From now on whoever has this token may ask, and nobody else.
    pub fn lets_ask(&self, token: &str) {
        *self.database.reviewers.lock() = [token.to_owned()].into();
    }

    /// From now on it answers so.
    pub fn answers(&self, manner: impl Fn(Value) -> Reply + Send + Sync + 'static) {
        *self.database.manner.lock() = Some(Arc::new(manner));
    }

    /// From now on it says what is so.
    pub fn is_good_again(&self) {
        *self.database.manner.lock() = None;
    }

    /// Every request so far: its first line, its headers, its body.
    pub fn asked(&self) -> Vec<(String, String, Value)> {
        self.database.asked.lock().clone()
    }

    /// How many wait for an answer that does not come.
    pub fn waiting(&self) -> u32 {
        self.database.waiting.load(Ordering::SeqCst)
    }
}

impl Database {
    fn serve(&self, stream: TcpStream, tls: Arc<rustls::ServerConfig>) {
        let manner = self.manner.lock().clone();
        let cut = manner.as_ref().is_some_and(|manner| matches!(manner(Value::Null), Reply::Cut));
        if cut {
            return;
        }
        let mut stream =
            rustls::StreamOwned::new(rustls::ServerConnection::new(tls).unwrap(), stream);
        // Who does not believe the certificate asks nothing.
        let Some((line, headers, body)) = request(&mut stream) else { return };
        self.asked.lock().push((line.clone(), headers.clone(), body.clone()));
        let (status, said) = self.review(&line, &headers, &body);
        let reply = match manner {
            Some(manner) if status == 201 => manner(said),
            Some(_) | None => Reply::Says(status, said),
        };
        let bytes = match reply {
            Reply::Cut => return,
            Reply::Bytes(bytes) => bytes,
            Reply::Says(status, said) => response(status, &said.to_string()),
            Reply::Nothing => {
                self.waiting.fetch_add(1, Ordering::SeqCst);
                drop(stream.read(&mut [0]));
                return;
            }
        };
        // Who has read enough leaves.
        drop(stream.write_all(&bytes).and_then(|()| stream.flush()));
        stream.conn.send_close_notify();
        drop(stream.flush());
    }

    /// What a good API server says to this.
    fn review(&self, line: &str, headers: &str, body: &Value) -> (u16, Value) {
        let failure =
            |code: u16| (code, json!({"kind": "Status", "apiVersion": "v1", "code": code}));
        let mut reviewers = self.reviewers.lock().clone().into_iter();
        if !reviewers.any(|token| headers.contains(&format!("authorization: bearer {token}"))) {
            return failure(401);
        }
        if line != "POST /apis/authentication.k8s.io/v1/tokenreviews HTTP/1.1"
            || body["kind"] != "TokenReview"
            || body["apiVersion"] != "authentication.k8s.io/v1"
        {
            return failure(404);
        }
        let token = body["spec"]["token"].as_str().unwrap_or_default();
        let audiences = body["spec"]["audiences"].as_array().cloned().unwrap_or_default();
        let known = self.issued.lock().get(token).cloned();
        let mut answer = body.clone();
        answer["metadata"] = json!({"creationTimestamp": null});
        answer["status"] = match known {
            None => json!({"error": "invalid bearer token", "user": {}}),
            Some(_) if self.expired.lock().contains(token) => {
                json!({"error": "[invalid bearer token, service account token has expired]", "user": {}})
            }
            Some(of) if !audiences.contains(&json!(of.audience)) => {
                json!({"error": format!("token audiences [{}] are invalid for {audiences:?}", of.audience), "user": {}})
            }
            Some(of) => status(&of),
        };
        (201, answer)
    }
}

fn status(of: &Issued) -> Value {
    let (namespace, name) = of.account.split_once('/').unwrap();
    json!({"authenticated": true, "audiences": [of.audience], "user": {
    "username": format!("system:serviceaccount:{namespace}:{name}"),
    "uid": "ac1c9f1e-0000-4000-8000-000000000000",
    "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated"],
    "extra": {
        "authentication.kubernetes.io/credential-id": ["JTI=1"],
        "authentication.kubernetes.io/node-name": ["node-1"],
        "authentication.kubernetes.io/pod-name": [of.pod],
        "authentication.kubernetes.io/pod-uid": [uid(&of.pod)],
    }}})
}

/// The uid of the pod of this name.
pub fn uid(pod: &str) -> String {
    let hex: String = pod.bytes().map(|b| format!("{b:02x}")).collect();
    format!("{:0>8.8}-0000-4000-8000-000000000000", hex)
}

/// An answer over HTTP.
pub fn response(status: u16, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

fn request(stream: &mut Session) -> Option<(String, String, Value)> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).unwrap();
    let (line, headers) = head.split_once("\r\n").unwrap();
    // Names and the scheme in lower case; the token as it is.
    let headers: Vec<String> = headers
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| {
            format!("{}: {}", name.to_lowercase(), value.replace("Bearer", "bearer"))
        })
        .collect();
    let length = headers.iter().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).ok()?;
    Some((line.to_owned(), headers.join("\n"), serde_json::from_slice(&body).unwrap_or_default()))
}

/// A volume with one token, as kubelet makes it: what is read is a link through `..data`, which is swapped.
pub struct Projected {
    dir: PathBuf,
    turns: AtomicU32,
}

impl Projected {
    /// A volume in this directory that has this token.
    pub fn new(dir: &Path, token: &str) -> Projected {
        std::fs::create_dir(dir).unwrap();
        let volume = Projected { dir: dir.to_owned(), turns: AtomicU32::new(0) };
        volume.put(token);
        symlink("..data/token", dir.join("token")).unwrap();
        volume
    }

    /// Replaces the token.
    pub fn put(&self, token: &str) {
        let turn = format!("..2026_11_22_10_00_00.{}", self.turns.fetch_add(1, Ordering::SeqCst));
        let file = self.dir.join(&turn).join("token");
        std::fs::create_dir(self.dir.join(&turn)).unwrap();
        std::fs::write(&file, token).unwrap();
        // As in a pod with `fsGroup`; where the directory is not root's, no such volume is known.
        let mode = if rustix::process::geteuid().is_root() { 0o640 } else { 0o600 };
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        symlink(&turn, self.dir.join("..data_tmp")).unwrap();
        std::fs::rename(self.dir.join("..data_tmp"), self.dir.join("..data")).unwrap();
    }

    /// The path of the token.
    pub fn token(&self) -> String {
        self.dir.join("token").display().to_string()
    }
}
