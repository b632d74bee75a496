//! The sources of connections: Unix sockets whose peer the kernel names, and TCP.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Error;
use super::framing::{Framing, HEAD_WITHIN};
use super::places::{ConnectionSlot, Origin};
use crate::identity::Peer;

const BACKLOG: i32 = 1024;

/// Mode of an agent's socket: read and write for its owner and its group.
const SOCKET_MODE: u32 = 0o660;

/// Bytes every client sends first: the preface of HTTP/2, and less than any HTTP/1.1 request.
const PREFACE_BYTES: usize = 16;
const PREFACE_WITHIN: Duration = Duration::from_secs(10);

/// How long a client may read nothing of its answer.
pub(super) const STALLS_MAX: Duration = Duration::from_secs(30);

/// No request contains it, and it ends what looks like headers: the HTTP parser answers 400.
const POISON: &[u8] = b"\0\r\n\r\n";

/// A bound listener. A Unix socket's file is gone when this is dropped.
#[derive(Debug)]
pub struct Listener(Kind);

#[derive(Debug)]
enum Kind {
    Socket(UnixListener, SocketFile),
    Tcp(TcpListener),
}

impl Listener {
    /// The address, for TCP.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.0 {
            Kind::Socket(..) => None,
            Kind::Tcp(listener) => listener.local_addr().ok(),
        }
    }

    /// Where this listens, for a person.
    pub fn place(&self) -> String {
        match &self.0 {
            Kind::Socket(_, file) => file.path.display().to_string(),
            Kind::Tcp(_) => self.address().map(|addr| addr.to_string()).unwrap_or_default(),
        }
    }

    /// Waits for a connection and identifies its peer, as far as the kernel knows it.
    ///
    /// # Errors
    /// The system's error. The listener can still accept.
    pub async fn accept(&self) -> io::Result<(Stream, Peer, Origin)> {
        match &self.0 {
            Kind::Socket(listener, file) => {
                let (stream, _) = listener.accept().await?;
                let uid = stream.peer_cred()?.uid();
                let socket = Some(file.path.clone());
                Ok((
                    Stream::new(Wire::Socket(stream), PREFACE_WITHIN),
                    Peer { listener: "uds", uid: Some(uid), socket, certificate: None },
                    Origin::User(uid),
                ))
            }
            Kind::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok((
                    Stream::new(Wire::Tcp(stream), PREFACE_WITHIN),
                    Peer { listener: "tcp", ..Peer::default() },
                    Origin::of(from.ip()),
                ))
            }
        }
    }
}

/// Listens on a TCP address.
///
/// # Errors
/// The address cannot be bound.
pub async fn tcp(addr: SocketAddr) -> Result<Listener, Error> {
    let bound = TcpListener::bind(addr).await;
    let bound = bound.map_err(|source| Error::Bind { place: addr.to_string(), source })?;
    deepen(&bound).map_err(|source| Error::Bind { place: addr.to_string(), source })?;
    Ok(Listener(Kind::Tcp(bound)))
}

/// Clients that may wait to be accepted; the system has a bound of its own (`net.core.somaxconn`).
const WAITING: i32 = 4096;

/// WHY: a listener of the standard library queues 128. Beyond them the system drops the clients'
/// packets, and clients try again after one second, then three, then seven: a crowd that is closed
/// at once would shut others out for minutes.
fn deepen(bound: &impl AsFd) -> io::Result<()> {
    Ok(rustix::net::listen(bound, WAITING)?)
}

/// Listens with a socket that was bound outside of the runtime.
pub(super) fn adopt(bound: std::net::TcpListener) -> io::Result<Listener> {
    bound.set_nonblocking(true)?;
    deepen(&bound)?;
    Ok(Listener(Kind::Tcp(TcpListener::from_std(bound)?)))
}

/// Listens on a Unix socket in the file system, mode 0660; a missing folder is made, mode 0700.
///
/// A socket without a listening process is a left-over of one that died, and is removed. Abstract
/// sockets have no owner and no mode and are refused.
///
/// # Errors
/// Another process listens there, the path is something else, or the system refuses.
pub async fn socket(path: &Path) -> Result<Listener, Error> {
    let place = path.display().to_string();
    let folder = path.parent().filter(|_| path.is_absolute() && path.file_name().is_some());
    let folder = folder.ok_or_else(|| Error::NotASocket(place.clone()))?;
    let failed = |source| Error::Bind { place: place.clone(), source };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    // WHY: two processes that start together must not each remove the other's new socket.
    let lock = std::fs::File::open(folder).map_err(failed)?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| Error::Taken(place.clone()))?;
    clear(path, &place).await?;
    let bound = bind(path).map_err(failed)?;
    deepen(&bound).map_err(failed)?;
    let file = SocketFile::of(path).map_err(failed)?;
    let bound = UnixListener::from_std(bound).map_err(failed)?;
    drop(lock);
    Ok(Listener(Kind::Socket(bound, file)))
}

/// Removes a left-over socket.
async fn clear(path: &Path, place: &str) -> Result<(), Error> {
    let failed = |source| Error::Bind { place: place.to_owned(), source };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(Error::NotASocket(place.to_owned()));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Ok(_) => Err(Error::Taken(place.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Binds with the right mode from the first instant, whatever the umask says.
fn bind(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // WHY: Linux gives the file the mode of the descriptor, less the umask: at no moment can every
    // user connect.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(SOCKET_MODE))?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(SOCKET_MODE))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// The file of a socket we bound; removed on drop if it is still that one.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(path)? })
    }
}

/// Device and inode.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = identity(&self.path).is_ok_and(|found| found == self.identity);
        if ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the socket");
        }
    }
}

/// The answers of one HTTP/1.1 connection until which its client may end its own side.
#[derive(Clone, Debug, Default)]
pub(super) struct HalfClose(Arc<AtomicUsize>);

impl HalfClose {
    /// Counts one more, until the guard is dropped.
    pub(super) fn allow(&self) -> HalfCloseGuard {
        self.0.fetch_add(1, Ordering::AcqRel);
        HalfCloseGuard(Arc::clone(&self.0))
    }

    fn is_allowed(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

/// One such answer.
#[derive(Debug)]
pub(super) struct HalfCloseGuard(Arc<AtomicUsize>);

impl Drop for HalfCloseGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The end of what a client sends, kept back while it may still read.
#[derive(Debug)]
struct HeldEnd {
    end: io::Result<()>,
    reader: Waker,
}

/// One connection with deadlines: a client begins to speak within 10 seconds, ends the headers of a
/// request within as many, and reads what it is sent.
#[derive(Debug)]
pub struct Stream {
    wire: Wire,
    // `None` once enough was read.
    preface: Option<(usize, Pin<Box<Sleep>>)>,
    /// Follows the client's requests, once the connection speaks HTTP.
    framing: Option<Framing>,
    /// Until when the headers that have begun must end.
    head: Option<Pin<Box<Sleep>>>,
    /// The deadline for the client to read more, if it reads nothing now.
    stalled: Option<Pin<Box<Sleep>>>,
    stalls: Duration,
    /// The rest of the poison that replaces the client's bytes, once those were ambiguous.
    poison: Option<&'static [u8]>,
    /// Its place among the connections of its listener.
    slot: Option<ConnectionSlot>,
    half_close: HalfClose,
    held: Option<HeldEnd>,
    /// Bytes of an answer were written and not flushed.
    unflushed: bool,
}

#[derive(Debug)]
enum Wire {
    Socket(UnixStream),
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Bytes in both directions.
trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for T {}

impl Wire {
    fn io(&mut self) -> Pin<&mut dyn Duplex> {
        match self {
            Self::Socket(stream) => Pin::new(stream),
            Self::Tcp(stream) => Pin::new(stream),
            Self::Tls(stream) => Pin::new(stream),
        }
    }
}

impl Stream {
    /// The same TCP connection after a handshake within 10 seconds, and the certificate (DER) the client
    /// showed, if it did: it leads to the acceptor's authorities.
    ///
    /// # Errors
    /// What was wrong with the handshake. No byte of a request was read.
    pub(super) async fn secured(
        self,
        acceptor: &TlsAcceptor,
    ) -> io::Result<(Self, Option<Vec<u8>>)> {
        let Wire::Tcp(tcp) = self.wire else { return Err(io::ErrorKind::InvalidInput.into()) };
        let handshake = tokio::time::timeout(PREFACE_WITHIN, acceptor.accept(tcp)).await;
        let stream = handshake.map_err(|_late| io::Error::from(io::ErrorKind::TimedOut))??;
        let certificates = stream.get_ref().1.peer_certificates();
        let shown = certificates.and_then(<[_]>::first).map(|first| first.to_vec());
        let secured = Self::new(Wire::Tls(Box::new(stream)), PREFACE_WITHIN);
        Ok((Self { slot: self.slot, ..secured }, shown))
    }

    /// The same connection in its place.
    pub(super) fn placed(self, slot: ConnectionSlot) -> Self {
        Self { slot: Some(slot), ..self }
    }

    /// The same connection, for an HTTP server: the framing of its requests is followed.
    pub(super) fn http(self) -> Self {
        Self { framing: Some(Framing::default()), ..self }
    }

    /// Its place, if it has one.
    pub(super) fn slot(&self) -> Option<ConnectionSlot> {
        self.slot.clone()
    }

    /// Decides until when the client's end of the connection is not its end.
    pub(super) fn half_close(&self) -> HalfClose {
        self.half_close.clone()
    }

    fn new(wire: Wire, within: Duration) -> Self {
        Self {
            wire,
            preface: Some((0, Box::pin(tokio::time::sleep(within)))),
            framing: None,
            head: None,
            stalled: None,
            stalls: STALLS_MAX,
            poison: None,
            slot: None,
            half_close: HalfClose::default(),
            held: None,
            unflushed: false,
        }
    }

    /// Whether the client may have ended its side and wait for the rest of an answer. WHY here: the
    /// HTTP library takes any end for the end of the client, or none.
    fn still_reads(&self) -> bool {
        let asked = self.framing.as_ref().is_some_and(Framing::is_between);
        asked && (self.half_close.is_allowed() || self.unflushed)
    }

    /// Whether the client may still take its time.
    fn is_in_time(&mut self, cx: &mut Context<'_>) -> bool {
        let preface = self.preface.as_mut().map(|(_, deadline)| deadline);
        let mut deadlines = preface.into_iter().chain(self.head.as_mut());
        !deadlines.any(|deadline| deadline.as_mut().poll(cx).is_ready())
    }

    /// Looks at the bytes that came. It replaces an ambiguous request by an invalid one: the HTTP
    /// parser then answers 400 and closes the connection.
    fn look(&mut self, buf: &mut ReadBuf<'_>, before: usize) {
        let new = buf.filled().get(before..).unwrap_or_default();
        if let Some((read, _)) = &mut self.preface {
            if *read == 0
                && !new.is_empty()
                && let Some(slot) = &self.slot
            {
                slot.spoke();
            }
            *read += new.len();
            if *read >= PREFACE_BYTES {
                self.preface = None;
            }
        }
        let Some(framing) = &mut self.framing else { return };
        let ambiguous = framing.read(new).is_err();
        let in_head = framing.in_head();
        if ambiguous {
            buf.set_filled(before);
            self.poison = Some(POISON);
            self.give_poison(buf);
        }
        if !in_head {
            self.head = None;
        } else if self.head.is_none() {
            self.head = Some(Box::pin(tokio::time::sleep(HEAD_WITHIN)));
        }
    }

    /// Gives poison instead of the client's bytes; `false` if there is none to give.
    fn give_poison(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let Some(left) = self.poison else { return false };
        let (now, later) = left.split_at(left.len().min(buf.remaining()));
        buf.put_slice(now);
        self.poison = Some(later);
        true
    }

    /// The result of a write, or an error if the client has read nothing for too long.
    fn unless_stalled<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalls = self.stalls;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(stalls)));
        stalled.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.give_poison(buf) {
            return Poll::Ready(Ok(()));
        }
        if !self.is_in_time(cx) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let still_reads = self.still_reads();
        if let Some(mut held) = self.held.take() {
            if !still_reads {
                return Poll::Ready(held.end);
            }
            held.reader.clone_from(cx.waker());
            self.held = Some(held);
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let end = ready!(self.wire.io().poll_read(cx, buf));
        if still_reads && (end.is_err() || buf.filled().len() == before && buf.remaining() > 0) {
            self.held = Some(HeldEnd { end, reader: cx.waker().clone() });
            return Poll::Pending;
        }
        end?;
        self.look(buf, before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.unflushed = true;
        let written = self.wire.io().poll_write(cx, buf);
        self.unless_stalled(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.unflushed = true;
        let written = self.wire.io().poll_write_vectored(cx, bufs);
        self.unless_stalled(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.wire.io().poll_flush(cx))?;
        // The HTTP library flushes when it has given everything.
        self.unflushed = false;
        if !self.still_reads()
            && let Some(held) = &self.held
        {
            held.reader.wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire.io().poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_client_that_does_not_begin_to_speak_is_hung_up_on() {
        let (mut client, server) = UnixStream::pair().unwrap();
        let mut server = Stream::new(Wire::Socket(server), Duration::from_millis(20));
        client.write_all(&[0; PREFACE_BYTES - 1]).await.unwrap();
        let error = server.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_of_what_it_is_sent_is_hung_up_on() {
        let (client, server) = UnixStream::pair().unwrap();
        let mut server = Stream::new(Wire::Socket(server), Duration::from_secs(60));
        server.stalls = Duration::from_millis(20);
        let error = loop {
            if let Err(error) = server.write_all(&[0; 64 * 1024]).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(client);
    }

    #[tokio::test]
    async fn bytes_that_could_be_read_in_two_ways_are_not_read() {
        let (mut client, server) = UnixStream::pair().unwrap();
        let mut server = Stream::new(Wire::Socket(server), Duration::from_secs(60)).http();
        client.write_all(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n").await.unwrap();
        let mut seen = vec![0; 36];
        server.read_exact(&mut seen).await.unwrap();
        client.write_all(b"Content-Length: 4\r\n\r\nabc GET /").await.unwrap();
        seen.clear();
        server.read_to_end(&mut seen).await.unwrap();
        assert_eq!(seen, POISON);
    }

    #[tokio::test]
    async fn a_client_that_has_spoken_may_be_silent() {
        let (mut client, server) = UnixStream::pair().unwrap();
        let mut server = Stream::new(Wire::Socket(server), Duration::from_secs(60));
        client.write_all(&[0; PREFACE_BYTES]).await.unwrap();
        server.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();
        assert!(server.preface.is_none());
    }
}
