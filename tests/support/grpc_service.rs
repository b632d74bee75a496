//! The service of the tests, as a process of its own.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::program::{python, top};

/// A service of grpcio; it ends when dropped.
pub struct GrpcService {
    child: Child,
    dir: TempDir,
    pub port: u16,
}

impl GrpcService {
    pub fn start() -> GrpcService {
        Self::with(&[])
    }

    /// Over TLS with this certificate and key.
    pub fn secure(cert: &Path, key: &Path) -> GrpcService {
        Self::with(&[cert, key])
    }

    fn with(more: &[&Path]) -> GrpcService {
        let dir = tempfile::tempdir().unwrap();
        let script = top().join("tests/grpc/service.py");
        let mut child = Command::new(python())
            .arg("-B")
            .arg(script)
            .arg(dir.path())
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("port ").expect("the service starts").parse().unwrap();
        GrpcService { child, dir, port }
    }

    /// The descriptor set that protoc made.
    pub fn descriptors(&self) -> PathBuf {
        self.path("shop.pb")
    }

    /// A file beside it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What reached it.
    pub fn seen(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path("seen.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// How many times this was noted: `inside`, `gone`, ….
    pub fn noted(&self, act: &str) -> usize {
        self.seen().iter().filter(|event| event["act"] == act).count()
    }
}

impl Drop for GrpcService {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
