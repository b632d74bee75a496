//! One listener for every address of the network: behind the public one a server with manners of its
//! own per path, behind all others canaries.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The one address that is not inside.
pub const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34));

#[derive(Default)]
struct Seen {
    /// Every connection: to which address and port.
    reached: Vec<(IpAddr, u16)>,
    /// Heads of every request.
    heads: Vec<String>,
}

/// Their threads end with the test's process.
pub struct Servers {
    seen: Arc<Mutex<Seen>>,
}

impl Servers {
    pub fn listen() -> Self {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let tls = Arc::new(tls());
        for port in [80, 443, 8080] {
            let listener = TcpListener::bind(("::", port)).unwrap();
            let (seen, tls) = (Arc::clone(&seen), Arc::clone(&tls));
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    let stream = stream.unwrap();
                    let ip = stream.local_addr().unwrap().ip().to_canonical();
                    seen.lock().reached.push((ip, port));
                    let (seen, tls) = (Arc::clone(&seen), Arc::clone(&tls));
                    std::thread::spawn(move || connection(stream, ip, port, &seen, tls));
                }
            });
        }
        Self { seen }
    }

    /// Where connections went so far.
    pub fn reached(&self) -> Vec<(IpAddr, u16)> {
        self.seen.lock().reached.clone()
    }

    /// Heads of the requests for this path.
    pub fn heads(&self, path: &str) -> Vec<String> {
        let seen = self.seen.lock();
        let of = |head: &&String| head.split(' ').nth(1) == Some(path);
        seen.heads.iter().filter(of).cloned().collect()
    }
}

fn tls() -> rustls::ServerConfig {
    let leaf = CertificateDer::from_pem_slice(include_bytes!("../data/tls/leaf.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../data/tls/leaf.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf], key)
        .unwrap()
}

fn connection(
    mut stream: TcpStream,
    ip: IpAddr,
    port: u16,
    seen: &Mutex<Seen>,
    tls: Arc<rustls::ServerConfig>,
) {
    if port == 443 {
        let connection = rustls::ServerConnection::new(tls).unwrap();
        conversation(&mut rustls::StreamOwned::new(connection, stream), ip, seen);
    } else {
        conversation(&mut stream, ip, seen);
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

fn conversation(stream: &mut (impl Read + Write), ip: IpAddr, seen: &Mutex<Seen>) {
    while let Some(head) = head(stream) {
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        seen.lock().heads.push(head.clone());
        let path = if ip == PUBLIC { path.as_str() } else { "/canary" };
        if manners(stream, path, &head).is_err() || path != "/kept" {
            return;
        }
    }
}

fn head(stream: &mut impl Read) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn ok(headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\n{headers}content-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn redirect(status: &str, location: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Elsewhere\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        .into_bytes()
}

/// What the server does for this path.
fn manners(stream: &mut impl Write, path: &str, head: &str) -> std::io::Result<()> {
    const OK: &str = "HTTP/1.1 200 OK\r\n";
    let path = path.split('?').next().unwrap_or_default();
    let text = |text: String| text.into_bytes();
    let bytes = match path {
        "/kept" => ok("content-type: text/plain\r\n", b"kept"),
        "/json" => ok(
            "content-type: application/json\r\netag: \"e\"\r\nset-cookie: s=1\r\n",
            b"{\"b\":1, \"a\":2}",
        ),
        "/latin" => ok("content-type: text/plain; charset=iso-8859-1\r\n", b"caf\xe9"),
        "/binary" => ok("content-type: image/png\r\n", b"\x89PNG\xff"),
        "/missing" => text(
            "HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\ncontent-length: 4\r\n\r\ngone"
                .into(),
        ),
        "/empty" => text("HTTP/1.1 204 No Content\r\n\r\n".into()),
        "/echo" => ok("content-type: text/plain\r\n", head.as_bytes()),
        "/to/here" => redirect("302", "/json?x=1#f"),
        "/to/itself" => redirect("307", "/to/itself"),
        "/to/metadata" => redirect("302", "http://169.254.169.254/latest/meta-data/"),
        "/to/mapped" => redirect("302", "http://[::ffff:169.254.169.254]/"),
        "/to/decimal" => redirect("302", "http://2852039166/"),
        "/to/evil" => redirect("301", "http://evil.test/"),
        "/to/relative" => redirect("308", "//evil.test/"),
        "/to/backslash" => redirect("302", "\\\\evil.test/"),
        "/to/user" => redirect("302", "http://allowed.test@evil.test/"),
        "/to/port" => redirect("302", "http://allowed.test:8080/"),
        "/to/file" => redirect("302", "file:///etc/passwd"),
        "/short" => text(format!("{OK}content-length: 1000\r\n\r\nhalf")),
        "/large" => ok("", &[b'x'; 70_000]),
        "/announced" => text(format!("{OK}content-length: 9999999999\r\n\r\n")),
        "/both" => text(format!(
            "{OK}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        )),
        "/twice" => text(format!("{OK}content-length: 5\r\ncontent-length: 5\r\n\r\nhello")),
        "/differs" => text(format!("{OK}content-length: 5\r\ncontent-length: 6\r\n\r\nhello!")),
        "/coding" => text(format!("{OK}transfer-encoding: xchunked\r\n\r\nhello")),
        "/chunk" => text(format!("{OK}transfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n")),
        "/bare" => text(format!("{OK}set-cookie: a\rb\r\ncontent-length: 0\r\n\r\n")),
        "/gzip" => ok("content-encoding: gzip\r\n", &[0x1f, 0x8b, 8, 0]),
        "/many" => text(format!("{OK}{}\r\n", "x: y\r\n".repeat(10_000))),
        "/wide" => text(format!("{OK}x: {}\r\n\r\n", "y".repeat(64 * 1024))),
        "/other" => text("SSH-2.0-OpenSSH_9\r\n\r\n".into()),
        "/nothing" => Vec::new(),
        "/switch" => text(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n".into(),
        ),
        "/interim" => text(format!(
            "{}{OK}content-length: 2\r\n\r\nok",
            "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(2)
        )),
        "/trailers" => text(format!(
            "{OK}transfer-encoding: chunked\r\ntrailer: x\r\n\r\n2\r\nok\r\n0\r\nx: y\r\n\r\n"
        )),
        "/endless" => return endless(stream),
        "/flood" => return flood(stream),
        "/drip" => return drip(stream),
        "/silent" => {
            std::thread::park_timeout(Duration::from_secs(120));
            return Ok(());
        }
        "/canary" => ok("", b"canary"),
        _other => ok("content-type: text/plain\r\nconnection: close\r\n", b"hello"),
    };
    stream.write_all(&bytes)?;
    stream.flush()
}

fn endless(stream: &mut impl Write) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
    loop {
        stream.write_all(b"400\r\n")?;
        stream.write_all(&[b'x'; 1024])?;
        stream.write_all(b"\r\n")?;
    }
}

fn flood(stream: &mut impl Write) -> std::io::Result<()> {
    loop {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
}

/// A byte every so often: enough for any deadline that starts anew with each byte.
fn drip(stream: &mut impl Write) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 60000\r\n\r\n")?;
    loop {
        stream.write_all(b"x")?;
        stream.flush()?;
        std::thread::park_timeout(Duration::from_millis(200));
    }
}
