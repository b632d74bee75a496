//! Servers that are played by `tests/support/mcp_server.py`.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use wicketgate::catalog::address::Cidr;
use wicketgate::catalog::binding::{Credential, CredentialTarget};
use wicketgate::catalog::host::Origin;
use wicketgate::catalog::secret::Secret;
use wicketgate::catalog::server::{self, Isolation, Server, Transport};
use wicketgate::domain::digest::Digest;

/// A credential of the server's.
pub const TOKEN: &str = "tok-of-the-server-1234";

/// Longer than anything that works takes, so that a deadline is never met by chance.
pub const LONG: Duration = Duration::from_secs(60);
/// For calls that end by their deadline.
pub const SHORT: Duration = Duration::from_millis(1500);

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/mcp_server.py")
}

/// The interpreter itself, not a script that looks for one.
pub fn python() -> &'static str {
    static PYTHON: OnceLock<String> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let ask = ["-c", "import sys; print(sys.executable)"];
        let out = Command::new("python3").args(ask).output().unwrap();
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    })
}

fn server(name: &str, transport: Transport, timeout: Duration) -> Server {
    Server {
        name: name.to_owned(),
        transport,
        tier: None,
        timeout,
        result_bytes_max: 1 << 20,
        tools: BTreeMap::new(),
        binding: Digest::of(&[name.as_bytes()]),
        files: OnceLock::new(),
    }
}

/// A child named `fix` that does this.
pub fn stdio(behaviours: &[&str], timeout: Duration) -> Server {
    named("fix", behaviours, timeout)
}

/// A child of this name that does this.
pub fn named(name: &str, behaviours: &[&str], timeout: Duration) -> Server {
    let own = ["-I".to_owned(), script().to_str().unwrap().to_owned(), "stdio".to_owned()];
    let stdio = server::Stdio {
        program: python().to_owned(),
        args: own.into_iter().chain(behaviours.iter().map(|b| (*b).to_owned())).collect(),
        env: vec![("LANG".to_owned(), "C.UTF-8".to_owned())],
        secrets: vec![("TOKEN".to_owned(), Secret::parse(TOKEN).unwrap(), "env:T".to_owned())],
        cwd: PathBuf::from("/"),
        isolation: Isolation::None { stated: true },
        path: None,
    };
    server(name, Transport::Stdio(stdio), timeout)
}

/// A server behind a socket; it ends when this is dropped, and when the test dies.
pub struct Web {
    child: Child,
    pub port: u16,
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Web {
    /// Starts one that does this.
    pub fn start(behaviours: &[&str]) -> Web {
        let mut child = Command::new(python())
            .arg("-I")
            .arg(script())
            .arg("http")
            .args(behaviours)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Web { child, port: line.trim().parse().unwrap() }
    }

    /// It, as the operator binds it.
    pub fn server(&self, timeout: Duration) -> Server {
        remote(self.port, &["127.0.0.1/32"], timeout)
    }
}

/// Whatever listens at this port, named `fix`, with these ranges opened.
pub fn remote(port: u16, open: &[&str], timeout: Duration) -> Server {
    let (origin, target) = Origin::parse(&format!("http://127.0.0.1:{port}/mcp")).unwrap();
    let remote = server::Remote {
        origin,
        target,
        headers: vec![("x-plain".parse().unwrap(), "plain".parse().unwrap())],
        private_addresses: open.iter().map(|range| Cidr::parse(range).unwrap()).collect(),
        ca: None,
        credentials: vec![Credential {
            place: CredentialTarget::Header("authorization".parse().unwrap()),
            prefix: "Bearer ".to_owned(),
            secret: Secret::parse(TOKEN).unwrap(),
            reference: "env:T".to_owned(),
        }],
    };
    server("fix", Transport::Http(Box::new(remote)), timeout)
}

/// An address that nothing may ever connect to.
pub struct Canary(TcpListener);

impl Canary {
    pub fn set() -> Canary {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Canary(listener)
    }

    pub fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    pub fn is_untouched(&self) -> bool {
        self.0.accept().is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }
}
