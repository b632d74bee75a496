//! The files of a witness: the built program as a witness, a log to be cosigned, and HTTP by hand.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tempfile::TempDir;
use wicketgate::crypto::consistency::consistency_proof;
use wicketgate::crypto::keys::{PublicKey, SecretKey};
use wicketgate::crypto::merkle::{leaf_hash, root};
use wicketgate::crypto::note::{Checkpoint, SignatureLine, VerifierKey};
use wicketgate::domain::digest::Digest;

use crate::forged::key;
use wicketgate_support::program;
use wicketgate_support::ran::Ran;

pub const NAME: &str = "witness.example/1";

/// A log whose leaves are told by a word: logs of two words fork where they are told to.
#[derive(Clone)]
pub struct Log {
    pub origin: String,
    pub key: SecretKey,
    pub leaves: Vec<Digest>,
}

impl Log {
    pub fn new(origin: &str, size: usize) -> Self {
        let leaves = (0..size).map(|n| leaf_hash(format!("leaf {n}").as_bytes())).collect();
        Self { origin: origin.into(), key: key(60), leaves }
    }

    /// The same up to `at`, something else after.
    pub fn forked(&self, at: usize, word: &str) -> Self {
        let mut fork = self.clone();
        for (n, leaf) in fork.leaves.iter_mut().enumerate().skip(at) {
            *leaf = leaf_hash(format!("{word} {n}").as_bytes());
        }
        fork
    }

    pub fn vkey(&self) -> VerifierKey {
        VerifierKey::log(&self.origin, self.key.public())
    }

    pub fn head(&self, size: usize) -> Checkpoint {
        let root = root(&self.leaves[..size]);
        Checkpoint { origin: self.origin.clone(), size: size as u64, root }
    }

    pub fn note(&self, size: usize) -> String {
        self.head(size).sign(&self.key)
    }

    /// A submission, written by hand.
    pub fn body(&self, old: usize, size: usize) -> String {
        let proof = match old {
            0 => Vec::new(),
            old if old < size => consistency_proof(&self.leaves[..size], old).unwrap(),
            _ => Vec::new(),
        };
        let lines: String =
            proof.iter().map(|hash| format!("{}\n", STANDARD.encode(hash.as_bytes()))).collect();
        format!("old {old}\n{lines}\n{}", self.note(size))
    }
}

/// Files of a witness: its key, the logs it knows, its state.
pub struct WitnessFiles {
    pub dir: TempDir,
    pub vkey: VerifierKey,
}

impl WitnessFiles {
    pub fn new(logs: &[&Log]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let keygen = ["witness", "keygen", "--name", NAME, "--json", "--out", "witness.pem"];
        let told = Ran::gate(&dir, keygen).ok().json();
        let vkey = VerifierKey::parse(told["vkey"].as_str().unwrap()).unwrap();
        let pem = std::fs::read_to_string(dir.path().join("witness.pem.pub")).unwrap();
        assert_eq!(PublicKey::read_pems(&pem, "").unwrap(), [vkey.key]);
        let mut list = "# logs of our client\n\n".to_owned();
        for log in logs {
            list.push_str(&format!("{}\n", log.vkey()));
        }
        std::fs::write(dir.path().join("logs.txt"), list).unwrap();
        Self { dir, vkey }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The state file of a log.
    pub fn state(&self, log: &Log) -> PathBuf {
        let name = Digest::of(&[log.origin.as_bytes()]).hex();
        self.path("state").join(format!("{name}.checkpoint"))
    }

    fn command(&self) -> Command {
        let serve = ["witness", "serve", "--name", NAME, "--listen", "127.0.0.1:0"];
        let files = ["--key", "witness.pem", "--logs", "logs.txt", "--state", "state"];
        program::command(&self.dir, serve.into_iter().chain(files))
    }

    /// Starts the witness; one that was killed a moment ago may still hold the lock.
    pub fn open(&self) -> Running {
        let mut tries = (0..100).map(|_| self.try_open());
        tries
            .find_map(|running| running)
            .unwrap_or_else(|| panic!("{}", std::fs::read_to_string(self.path("log.txt")).unwrap()))
    }

    /// Starts the witness; `None` if it ended before it listened.
    fn try_open(&self) -> Option<Running> {
        let log = std::fs::File::create(self.path("log.txt")).unwrap();
        let mut child = self.command().stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        match line.trim().strip_prefix("listening on http://") {
            Some(addr) => Some(Running { child, out, addr: addr.to_owned() }),
            None => {
                child.wait().unwrap();
                None
            }
        }
    }

    /// How it ends when it does not start, and what it says.
    pub fn refuses(&self) -> (ExitStatus, String) {
        let out = self.command().output().unwrap();
        (out.status, String::from_utf8(out.stderr).unwrap())
    }
}

/// A witness that listens; killed when dropped.
pub struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    pub addr: String,
}

impl Running {
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// One request by hand: status, headers in lower case, body. `None` if nothing came back.
    pub fn try_ask(&self, method: &str, path: &str, body: &[u8]) -> Option<Answer> {
        let mut stream = TcpStream::connect(&self.addr).ok()?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            self.addr,
            body.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        // The server may answer before it has read everything.
        let _ = stream.write_all(body);
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let all = String::from_utf8(all).unwrap();
        let (head, body) = all.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Answer { status, head: head.to_lowercase(), body: body.to_owned() })
    }

    pub fn ask(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        self.try_ask(method, path, body).expect("an answer")
    }

    pub fn submit(&self, body: &str) -> Answer {
        self.ask("POST", "/add-checkpoint", body.as_bytes())
    }

    pub fn newest(&self, log: &Log) -> Answer {
        let hash = Digest::of(&[log.origin.as_bytes()]).hex();
        self.ask("GET", &format!("/{hash}/checkpoint"), b"")
    }

    pub fn signal(&mut self, signal: &str) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        self.child.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Until nobody is left who could write.
        let _ = self.out.read_to_end(&mut Vec::new());
    }
}

/// A tracer that does something to the system calls of a witness from now on.
///
/// It counts the calls of each thread for itself. A head is remembered in one thread, but who attaches
/// before that cannot know how much that thread did already: attach right before what is to be hit.
pub struct Tracer(Child);

impl Tracer {
    /// Has attached when this returns.
    pub fn attach(to: &Running, inject: &str) -> Self {
        let pid = to.child.id().to_string();
        let mut child = Command::new("strace")
            .args(["-f", "-o", "/dev/null", "-p", &pid, "-e", &format!("inject={inject}")])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("strace (tests/run installs it): {e}"));
        let mut said = String::new();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        while !said.contains(" attached") {
            assert_ne!(err.read_line(&mut said).unwrap(), 0, "strace: {said}");
        }
        // It has more to say of threads that come and go, and must not wait for a reader.
        std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
        Self(child)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// The time of the cosignature of this head in an answer 200, verified step by step.
    pub fn cosigned(&self, head: &Checkpoint, vkey: &VerifierKey) -> u64 {
        assert_eq!(self.status, 200, "{self:?}");
        let line = SignatureLine::parse(self.body.strip_suffix('\n').unwrap()).unwrap();
        assert_eq!((&line.name, line.hash), (&vkey.name, vkey.hash()));
        let time = u64::from_be_bytes(line.signature[..8].try_into().unwrap());
        let signature: [u8; 64] = line.signature[8..].try_into().unwrap();
        let message = format!("cosignature/v1\ntime {time}\n{}", head.body());
        assert!(vkey.key.verifies(message.as_bytes(), &signature));
        time
    }
}

/// Seconds since 1970 on this machine.
pub fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

pub fn exists(path: &Path) -> bool {
    path.try_exists().unwrap()
}
