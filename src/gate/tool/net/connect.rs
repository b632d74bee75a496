//! Connects a fixed host at an address that was checked.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::catalog::address::{Cidr, is_public};
use crate::catalog::host::{Host, Origin};
use crate::catalog::unreached::Unreached;

/// Addresses of one name that are checked; a name with more is refused.
const ANSWERS_MAX: usize = 16;
/// How long the resolution of a name may take.
const RESOLVE: Duration = Duration::from_secs(2);
/// How long TCP may take, for all addresses together.
const CONNECT: Duration = Duration::from_secs(5);
/// After this long without an answer an address is one that does not answer, also if the call ends earlier.
const SILENT: Duration = Duration::from_secs(1);

/// Why no connection was made. Nothing was sent. Its text is for everyone and names no address; [`ConnectError::detail`]
/// is for the operator.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name did not resolve in time.
    #[error("the name of the host does not resolve")]
    Name,
    /// The name has more addresses than the gate checks.
    #[error("the name of the host has more than {ANSWERS_MAX} addresses")]
    Answers,
    /// One of the name's addresses is not allowed, so none is used.
    #[error("the host has an address that is not allowed")]
    Address(IpAddr),
    /// No address of the host accepted a connection; the last one that was tried.
    #[error("the host does not answer")]
    Unreachable(Unreached),
    /// The host accepted a connection, and ended it or was silent during the TLS handshake.
    #[error("the host does not answer")]
    Silent,
    /// The server's certificate is not valid for its name, or not from a trusted authority.
    #[error("the certificate of the host is not valid for it")]
    Certificate,
    /// The TLS handshake failed.
    #[error("the host does not speak TLS that can be trusted")]
    Tls,
    /// The connection leads to another address than requested.
    #[error("the connection leads to another address")]
    Elsewhere,
}

impl ConnectError {
    /// The error for the operator, with the address that it is about.
    #[must_use]
    pub fn detail(&self) -> String {
        match self {
            Self::Address(ip) => format!("{self}: {ip}"),
            Self::Unreachable(unreached) => format!("{self}: {unreached}"),
            Self::Silent
            | Self::Name
            | Self::Answers
            | Self::Certificate
            | Self::Tls
            | Self::Elsewhere => self.to_string(),
        }
    }
}

/// Resolves names.
#[async_trait]
pub trait Resolve: Send + Sync + std::fmt::Debug + 'static {
    /// Every address of the name, with this port.
    ///
    /// # Errors
    /// The resolver's error.
    async fn lookup(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// The machine's resolver.
#[derive(Debug)]
pub struct System;

#[async_trait]
impl Resolve for System {
    async fn lookup(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((name, port))
            .await?
            .take(ANSWERS_MAX.saturating_add(1))
            .collect())
    }
}

/// Connects to one origin only, whatever the request names.
#[derive(Clone, Debug)]
pub struct Connector {
    origin: Arc<Origin>,
    open: Arc<[Cidr]>,
    public: bool,
    resolve: Arc<dyn Resolve>,
    /// Whether the last connection was not made, and the log says so.
    is_down: Arc<AtomicBool>,
}

impl Connector {
    /// A connector to this origin; `open` lists the address ranges beyond the public Internet that
    /// it may reach. Without TLS it reaches only those ranges, if there are any.
    ///
    /// WHY: data sent in clear text to an internal host, including credentials, must not leave the
    /// network because its name was pointed elsewhere.
    pub fn new(origin: Origin, open: Vec<Cidr>, resolve: Arc<dyn Resolve>) -> Self {
        let public = origin.tls || open.is_empty();
        Self {
            origin: Arc::new(origin),
            open: open.into(),
            public,
            resolve,
            is_down: Arc::default(),
        }
    }

    /// The same, with the public Internet allowed: the request contains no secrets.
    #[must_use]
    pub fn and_public(self) -> Self {
        Self { public: true, ..self }
    }

    /// Whether the origin is reached over TLS.
    pub(super) fn is_tls(&self) -> bool {
        self.origin.tls
    }

    fn allows(&self, address: IpAddr) -> bool {
        (self.public && is_public(address)) || self.open.iter().any(|range| range.contains(address))
    }

    /// The addresses to connect to: all are allowed, or none is used.
    ///
    /// # Errors
    /// Why there are none.
    pub async fn addresses(&self) -> Result<Vec<SocketAddr>, ConnectError> {
        let port = self.origin.port;
        let addresses = match &self.origin.host {
            Host::Ip(ip) => vec![SocketAddr::new(*ip, port)],
            Host::Name(name) => {
                // A trailing dot keeps the resolver from trying search domains. Names inside a
                // private network may depend on these or on a hosts file; their addresses are
                // checked all the same.
                let absolute = format!("{name}.");
                let asked = if self.open.is_empty() { absolute.as_str() } else { name.as_str() };
                tokio::time::timeout(RESOLVE, self.resolve.lookup(asked, port))
                    .await
                    .map_err(|_elapsed| ConnectError::Name)?
                    .map_err(|_error| ConnectError::Name)?
            }
        };
        if addresses.is_empty() {
            return Err(ConnectError::Name);
        }
        if addresses.len() > ANSWERS_MAX {
            return Err(ConnectError::Answers);
        }
        if let Some(excluded) = addresses.iter().find(|address| !self.allows(address.ip())) {
            return Err(ConnectError::Address(excluded.ip()));
        }
        Ok(addresses.iter().map(|address| SocketAddr::new(address.ip(), port)).collect())
    }

    /// A connection to one of the checked addresses.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn connect(&self) -> Result<TcpStream, ConnectError> {
        let made = match self.addresses().await {
            Ok(addresses) => {
                let mut attempt = Attempt { connector: self, began: Instant::now(), at: None };
                let made = attempt.first_of(&addresses).await;
                attempt.at = None;
                made
            }
            Err(refused) => Err(refused),
        };
        self.report(made.as_ref().err());
        made
    }

    /// Logs the first connection that is not made, and the next one that is.
    fn report(&self, failed: Option<&ConnectError>) {
        let was_down = self.is_down.swap(failed.is_some(), Ordering::Relaxed);
        let host = self.origin.authority();
        match failed {
            Some(error) if !was_down => {
                tracing::warn!(host, error = error.detail(), "no connection");
            }
            None if was_down => tracing::info!(host, "connected again"),
            Some(_) | None => {}
        }
    }
}

/// One attempt to connect. A call whose own time ends drops it before [`CONNECT`] is over: then it is reported too.
struct Attempt<'a> {
    connector: &'a Connector,
    began: Instant,
    /// The address that has not answered yet.
    at: Option<SocketAddr>,
}

impl Attempt<'_> {
    /// A connection to the first of these addresses that accepts one.
    async fn first_of(&mut self, addresses: &[SocketAddr]) -> Result<TcpStream, ConnectError> {
        let mut end = io::ErrorKind::TimedOut;
        let trying = async {
            for address in addresses {
                self.at = Some(*address);
                match TcpStream::connect(address).await {
                    Ok(stream) => return Some(checked(stream, *address)),
                    Err(error) => end = error.kind(),
                }
            }
            None
        };
        match tokio::time::timeout(CONNECT, trying).await {
            Ok(Some(made)) => made,
            Ok(None) => Err(self.unreached(end)),
            Err(_elapsed) => Err(self.unreached(io::ErrorKind::TimedOut)),
        }
    }

    fn unreached(&self, end: io::ErrorKind) -> ConnectError {
        let address = self.at.map(|address| address.to_string()).unwrap_or_default();
        ConnectError::Unreachable(Unreached { address, end })
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.at.is_some() && self.began.elapsed() >= SILENT {
            self.connector.report(Some(&self.unreached(io::ErrorKind::TimedOut)));
        }
    }
}

/// The connection, if it leads to the address that was asked for.
fn checked(stream: TcpStream, address: SocketAddr) -> Result<TcpStream, ConnectError> {
    let _ = stream.set_nodelay(true);
    match stream.peer_addr() {
        Ok(peer) if peer == address => Ok(stream),
        Ok(_) | Err(_) => Err(ConnectError::Elsewhere),
    }
}

impl tower::Service<http::Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    /// The URI is ignored: host and port are the binding's.
    fn call(&mut self, _: http::Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect().await.map(TokioIo::new) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[derive(Debug, Default)]
    struct Fixed {
        answers: Vec<&'static str>,
        asked: Mutex<Vec<String>>,
        hangs: bool,
    }

    #[async_trait]
    impl Resolve for Fixed {
        async fn lookup(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
            self.asked.lock().push(name.to_owned());
            if self.hangs {
                std::future::pending::<()>().await;
            }
            if self.answers.is_empty() {
                return Err(io::Error::other("SERVFAIL"));
            }
            Ok(self.answers.iter().map(|a| SocketAddr::new(a.parse().unwrap(), port)).collect())
        }
    }

    fn connector(url: &str, open: &[&str], fixed: &Arc<Fixed>) -> Connector {
        let (origin, _) = Origin::parse(url).unwrap();
        let open = open.iter().map(|r| Cidr::parse(r).unwrap()).collect();
        Connector::new(origin, open, Arc::<Fixed>::clone(fixed) as Arc<dyn Resolve>)
    }

    async fn of(answers: &[&'static str]) -> Result<Vec<SocketAddr>, ConnectError> {
        let fixed = Arc::new(Fixed { answers: answers.to_vec(), ..Fixed::default() });
        let result = connector("http://api.test/", &[], &fixed).addresses().await;
        assert_eq!(*fixed.asked.lock(), ["api.test."], "one question, absolute");
        result
    }

    #[tokio::test]
    async fn one_bad_answer_refuses_the_whole_name() {
        for excluded in
            ["10.0.0.1", "::ffff:10.0.0.1", "169.254.169.254", "64:ff9b::a9fe:a9fe", "::1"]
        {
            let refused = of(&["93.184.216.34", excluded]).await.unwrap_err();
            assert_eq!(refused, ConnectError::Address(excluded.parse().unwrap()));
        }
        assert_eq!(of(&["93.184.216.34", "2606:4700::1111"]).await.unwrap().len(), 2);
    }

    #[tokio::test]
    async fn no_answer_and_too_many_answers_are_refused() {
        assert_eq!(of(&[]).await, Err(ConnectError::Name));
        assert_eq!(of(&["93.184.216.34"; 17]).await, Err(ConnectError::Answers));
        assert!(of(&["93.184.216.34"; 16]).await.is_ok());
    }

    #[tokio::test]
    async fn a_resolver_that_hangs_is_given_up() {
        let fixed = Arc::new(Fixed { hangs: true, ..Fixed::default() });
        let connector = connector("http://api.test/", &[], &fixed);
        assert_eq!(connector.addresses().await, Err(ConnectError::Name));
    }

    #[tokio::test]
    async fn a_private_address_opens_only_by_its_own_range() {
        let fixed = Arc::new(Fixed { answers: vec!["10.1.2.3"], ..Fixed::default() });
        let open = connector("http://db.internal/", &["10.1.0.0/16"], &fixed);
        assert!(open.addresses().await.is_ok());
        let other = connector("http://db.internal/", &["10.2.0.0/16"], &fixed);
        assert!(other.addresses().await.is_err());
    }

    #[tokio::test]
    async fn a_host_inside_that_moves_out_is_reached_over_tls_alone() {
        let fixed = Arc::new(Fixed { answers: vec!["93.184.216.34"], ..Fixed::default() });
        let clear = connector("http://db.internal/", &["10.1.0.0/16"], &fixed);
        let moved = ConnectError::Address("93.184.216.34".parse().unwrap());
        assert_eq!(clear.addresses().await, Err(moved));
        assert!(clear.and_public().addresses().await.is_ok());
        let tls = connector("https://db.internal/", &["10.1.0.0/16"], &fixed);
        assert!(tls.addresses().await.is_ok());
        assert!(connector("http://api.test/", &[], &fixed).addresses().await.is_ok());
    }

    #[tokio::test]
    async fn no_listener_on_a_refused_literal_ever_sees_a_connection() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let fixed = Arc::new(Fixed::default());
        for host in [
            "127.0.0.1",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::127.0.0.1]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::1]",
            "0.0.0.0",
            "[::]",
            "[::1]",
            "127.255.255.254",
        ] {
            let connector = connector(&format!("http://{host}:{port}/"), &[], &fixed);
            assert!(matches!(connector.connect().await, Err(ConnectError::Address(_))), "{host}");
        }
        assert!(fixed.asked.lock().is_empty());
        // The listener is alive: the one connection it sees is the allowed one made last.
        let open = connector(&format!("http://127.0.0.1:{port}/"), &["127.0.0.1/32"], &fixed);
        let stream = open.connect().await.unwrap();
        let (_, from) = listener.accept().await.unwrap();
        assert_eq!(from, stream.local_addr().unwrap());
    }
}
