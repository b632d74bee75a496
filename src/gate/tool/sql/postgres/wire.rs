//! A connection to a PostgreSQL server: messages that the library encodes and decodes, and the
//! limit on their size.
//!
//! The server is not trusted: a message is refused by its length before it is read, so the server
//! cannot make the gate hold more than it requested. `tokio-postgres` is not used: it requests
//! every value in the binary form of its type, while the gate releases the text form, which types
//! of extensions have too.

use std::io;

use futures_util::FutureExt as _;
use postgres_protocol::IsNull;
use postgres_protocol::message::backend::{DATA_ROW_TAG, Header, Message};
use postgres_protocol::message::frontend;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::bytes::BytesMut;
use tokio_util::either::Either;

/// Bytes of any message that is not a row.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Bytes requested from the socket at once.
const CHUNK: usize = 16 * 1024;

/// An error of the connection itself.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    /// The connection is lost.
    #[error("the connection to the database was lost")]
    Lost(#[from] io::Error),
    /// A row is larger than the answer may be.
    #[error("a row is larger than the answer may be")]
    RowTooLarge,
    /// The server sent a message that the protocol does not have.
    #[error("the database does not speak its protocol: {0}")]
    Protocol(&'static str),
    /// The library cannot encode a message: a zero byte in a statement, or too many values. Nothing
    /// was sent.
    #[error("the statement has no form in the protocol of the database")]
    Unwritable,
}

impl WireError {
    /// Converts the library's errors about the server's data.
    pub fn unreadable(_: io::Error) -> Self {
        Self::Protocol("a message is malformed")
    }

    fn unwritable(_: io::Error) -> Self {
        Self::Unwritable
    }
}

/// The byte stream to the server, over TLS if the binding demands it.
pub(super) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// The underlying socket.
pub(super) fn socket(stream: &Stream) -> &TcpStream {
    match stream {
        Either::Left(plain) => plain,
        Either::Right(tls) => tls.get_ref().0,
    }
}

/// Requests TLS from a server on a fresh connection.
///
/// # Errors
/// The server does not support TLS, or its response is anything but yes.
pub(super) async fn ask_tls(stream: &mut TcpStream) -> Result<(), WireError> {
    let mut out = BytesMut::new();
    frontend::ssl_request(&mut out);
    stream.write_all(&out).await?;
    match stream.read_u8().await? {
        b'S' => Ok(()),
        _ => Err(WireError::Protocol("the server has no TLS")),
    }
}

/// Sends a cancel request for another session, on a fresh connection.
///
/// # Errors
/// The connection is lost.
pub(super) async fn ask_cancel(stream: &mut Stream, key: (i32, i32)) -> Result<(), WireError> {
    let mut out = BytesMut::new();
    frontend::cancel_request(key.0, key.1, &mut out);
    stream.write_all(&out).await?;
    stream.flush().await?;
    // The server closes the connection once it has processed the request.
    let _ = stream.read_u8().await;
    Ok(())
}

/// A connection with its unread input and unsent output.
#[derive(Debug)]
pub(super) struct PostgresWire {
    stream: Stream,
    inbox: BytesMut,
    outbox: BytesMut,
}

impl PostgresWire {
    pub fn new(stream: Stream) -> Self {
        Self { stream, inbox: BytesMut::new(), outbox: BytesMut::new() }
    }

    /// Whether the connection is open and has no unread data since it was last used.
    pub fn is_quiet(&self) -> bool {
        self.inbox.is_empty() && socket(&self.stream).peek(&mut [0]).now_or_never().is_none()
    }

    /// Writes the startup message.
    pub fn startup(&mut self, settings: &[(&str, &str)]) -> Result<(), WireError> {
        let settings = settings.iter().copied();
        frontend::startup_message(settings, &mut self.outbox).map_err(WireError::unwritable)
    }

    /// Writes the first message of a password exchange.
    pub fn sasl_first(&mut self, mechanism: &str, message: &[u8]) -> Result<(), WireError> {
        frontend::sasl_initial_response(mechanism, message, &mut self.outbox)
            .map_err(WireError::unwritable)
    }

    /// Writes a later message of the exchange.
    pub fn sasl_next(&mut self, message: &[u8]) -> Result<(), WireError> {
        frontend::sasl_response(message, &mut self.outbox).map_err(WireError::unwritable)
    }

    /// Writes one statement to parse; the server refuses more than one.
    pub fn parse(&mut self, sql: &str) -> Result<(), WireError> {
        frontend::parse("", sql, [], &mut self.outbox).map_err(WireError::unwritable)
    }

    /// Requests the columns of that statement.
    pub fn describe(&mut self) -> Result<(), WireError> {
        frontend::describe(b'S', "", &mut self.outbox).map_err(WireError::unwritable)
    }

    /// Binds values as text, and requests text.
    pub fn bind(&mut self, values: &[Option<String>]) -> Result<(), WireError> {
        let put = |value: &Option<String>, out: &mut BytesMut| {
            let Some(value) = value else { return Ok(IsNull::Yes) };
            out.extend_from_slice(value.as_bytes());
            Ok(IsNull::No)
        };
        frontend::bind("", "", [], values, put, [], &mut self.outbox)
            .map_err(|_error| WireError::Unwritable)
    }

    /// Executes it for this many rows; 0: all.
    pub fn execute(&mut self, rows: i32) -> Result<(), WireError> {
        frontend::execute("", rows, &mut self.outbox).map_err(WireError::unwritable)
    }

    /// A whole statement of the gate's own, without columns.
    pub fn run(&mut self, sql: &str, values: &[Option<String>]) -> Result<(), WireError> {
        self.parse(sql)?;
        self.bind(values)?;
        self.execute(0)
    }

    /// Ends a request: the server responds with `ReadyForQuery` in any case.
    pub fn sync(&mut self) {
        frontend::sync(&mut self.outbox);
    }

    /// Ends the session.
    pub fn terminate(&mut self) {
        frontend::terminate(&mut self.outbox);
    }

    pub async fn flush(&mut self) -> Result<(), WireError> {
        let out = self.outbox.split();
        self.stream.write_all(&out).await?;
        Ok(self.stream.flush().await?)
    }

    /// The next message. A row has at most `row_max` bytes.
    pub async fn message(&mut self, row_max: usize) -> Result<Message, WireError> {
        loop {
            self.check_length(row_max)?;
            match Message::parse(&mut self.inbox).map_err(WireError::unreadable)? {
                // Notices for human readers.
                Some(Message::NoticeResponse(_) | Message::NotificationResponse(_)) => continue,
                Some(message) => return Ok(message),
                None => self.inbox.reserve(CHUNK),
            }
            if self.stream.read_buf(&mut self.inbox).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    fn check_length(&self, row_max: usize) -> Result<(), WireError> {
        let header = Header::parse(&self.inbox).map_err(WireError::unreadable)?;
        let Some(header) = header else { return Ok(()) };
        let body = usize::try_from(header.len()).unwrap_or(usize::MAX).saturating_sub(4);
        match header.tag() {
            DATA_ROW_TAG if body > row_max => Err(WireError::RowTooLarge),
            DATA_ROW_TAG => Ok(()),
            _ if body > MESSAGE_BYTES_MAX => Err(WireError::Protocol("a message is too large")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// A connection to a server that sends these bytes and closes.
    async fn server_sending(bytes: Vec<u8>) -> PostgresWire {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = std::net::TcpStream::connect(address).unwrap();
        client.set_nonblocking(true).unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        server.write_all(&bytes).await.unwrap();
        drop(server);
        PostgresWire::new(Either::Left(TcpStream::from_std(client).unwrap()))
    }

    #[tokio::test]
    async fn a_message_is_refused_by_its_length_before_it_is_read() {
        let header = |tag: u8, length: u32| [&[tag], length.to_be_bytes().as_slice()].concat();
        let next = async |bytes| server_sending(bytes).await.message(100).await.map(drop);
        let row = next(header(b'D', 1 << 30)).await;
        assert!(matches!(row, Err(WireError::RowTooLarge)), "{row:?}");
        let other = next(header(b'S', 1 << 30)).await;
        assert!(matches!(other, Err(WireError::Protocol(_))), "{other:?}");
        let none = next(header(b'Z', 3)).await;
        assert!(matches!(none, Err(WireError::Protocol(_))), "{none:?}");
        let cut = next(header(b'Z', 9)).await;
        assert!(matches!(cut, Err(WireError::Lost(_))), "{cut:?}");
    }

    #[tokio::test]
    async fn a_message_that_is_shorter_than_it_says_is_refused() {
        // Two texts are announced, and one of them has no end; then a tag that no message has.
        for bytes in [&b"S\0\0\0\x0aabc\0de"[..], b"*\0\0\0\x04"] {
            let read = server_sending(bytes.to_vec()).await.message(100).await.map(drop);
            assert!(matches!(read, Err(WireError::Protocol(_))), "{read:?}");
        }
    }

    #[tokio::test]
    async fn a_statement_that_would_be_cut_at_a_zero_byte_is_not_written() {
        let mut wire = server_sending(Vec::new()).await;
        assert!(matches!(wire.run("SELECT '\0'", &[]), Err(WireError::Unwritable)));
    }
}
