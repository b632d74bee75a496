//! Messages of PostgreSQL's protocol, version 3, as far as one statement needs them.
//!
//! The server is not trusted: a message is refused by its length before it is read, so nothing it says
//! makes us hold more than we asked for.

use std::io;

use futures_util::FutureExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::bytes::{Buf as _, Bytes, BytesMut};

/// Bytes of any message that is no row.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Bytes asked of the socket at once.
const CHUNK: usize = 16 * 1024;
/// Version 3.0.
const VERSION: i32 = 196_608;
const TLS_PLEASE: i32 = 80_877_103;
const CANCEL_PLEASE: i32 = 80_877_102;

/// What went wrong with the connection itself.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    /// It is gone.
    #[error("the connection to the database was lost")]
    Lost(#[from] io::Error),
    /// A row is larger than anybody would be shown.
    #[error("a row is larger than the answer may be")]
    RowTooLarge,
    /// It is not what the protocol says.
    #[error("the database does not speak its protocol: {0}")]
    Protocol(&'static str),
}

/// One message of the server.
#[derive(Debug)]
pub(super) struct Message {
    pub tag: u8,
    pub body: Bytes,
}

/// Bytes to and from the server.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.write_all(bytes).await,
            Self::Tls(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
        }
    }

    async fn read(&mut self, into: &mut BytesMut) -> io::Result<usize> {
        into.reserve(CHUNK);
        match self {
            Self::Plain(stream) => stream.read_buf(into).await,
            Self::Tls(stream) => stream.read_buf(into).await,
        }
    }

    /// Whether nothing came and nothing ended since it was last used.
    pub fn is_quiet(&self) -> bool {
        let socket = match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        };
        socket.peek(&mut [0]).now_or_never().is_none()
    }
}

/// Asks a server on a fresh connection for TLS.
///
/// # Errors
/// A server that has none, or says anything but yes.
pub(super) async fn ask_tls(stream: &mut TcpStream) -> Result<(), WireError> {
    let mut out = Vec::new();
    out.extend(8_i32.to_be_bytes());
    out.extend(TLS_PLEASE.to_be_bytes());
    stream.write_all(&out).await?;
    match stream.read_u8().await? {
        b'S' => Ok(()),
        _ => Err(WireError::Protocol("the server has no TLS")),
    }
}

/// Asks a server on a fresh connection to stop what another one is doing.
///
/// # Errors
/// A connection that is lost.
pub(super) async fn ask_cancel(stream: &mut Stream, key: (i32, i32)) -> Result<(), WireError> {
    let mut out = Vec::new();
    for word in [16, CANCEL_PLEASE, key.0, key.1] {
        out.extend(word.to_be_bytes());
    }
    stream.write(&out).await?;
    // The server closes; until it does, the request may still be on its way.
    let _ = stream.read(&mut BytesMut::new()).await;
    Ok(())
}

/// A connection with what was read and not yet looked at, and what is to be sent.
#[derive(Debug)]
pub(super) struct Wire {
    stream: Stream,
    inbox: BytesMut,
    outbox: Vec<u8>,
}

impl Wire {
    pub fn new(stream: Stream) -> Self {
        Self { stream, inbox: BytesMut::new(), outbox: Vec::new() }
    }

    pub fn is_quiet(&self) -> bool {
        self.inbox.is_empty() && self.stream.is_quiet()
    }

    /// The first message, which has no tag.
    pub fn startup(&mut self, settings: &[(&str, &str)]) {
        let mut body = VERSION.to_be_bytes().to_vec();
        for (name, value) in settings {
            text(&mut body, name);
            text(&mut body, value);
        }
        body.push(0);
        let length = i32::try_from(body.len().saturating_add(4)).unwrap_or(i32::MAX);
        self.outbox.extend(length.to_be_bytes());
        self.outbox.extend(body);
    }

    fn put(&mut self, tag: u8, body: &[u8]) {
        let length = i32::try_from(body.len().saturating_add(4)).unwrap_or(i32::MAX);
        self.outbox.push(tag);
        self.outbox.extend(length.to_be_bytes());
        self.outbox.extend(body);
    }

    /// The first word of a password exchange.
    pub fn sasl_first(&mut self, mechanism: &str, message: &str) {
        let mut body = Vec::new();
        text(&mut body, mechanism);
        body.extend(i32::try_from(message.len()).unwrap_or(i32::MAX).to_be_bytes());
        body.extend(message.as_bytes());
        self.put(b'p', &body);
    }

    /// A later word of it.
    pub fn sasl_next(&mut self, message: &str) {
        self.put(b'p', message.as_bytes());
    }

    /// Gives the server one statement to read; more than one it refuses.
    pub fn parse(&mut self, sql: &str) {
        let mut body = vec![0];
        text(&mut body, sql);
        body.extend(0_i16.to_be_bytes());
        self.put(b'P', &body);
    }

    /// Asks for the columns of that statement.
    pub fn describe(&mut self) {
        self.put(b'D', b"S\0");
    }

    /// Binds values, as text, and asks for text.
    pub fn bind(&mut self, values: &[Option<String>]) {
        let mut body = vec![0, 0];
        body.extend(0_i16.to_be_bytes());
        body.extend(i16::try_from(values.len()).unwrap_or(i16::MAX).to_be_bytes());
        for value in values {
            match value {
                None => body.extend((-1_i32).to_be_bytes()),
                Some(value) => {
                    body.extend(i32::try_from(value.len()).unwrap_or(i32::MAX).to_be_bytes());
                    body.extend(value.as_bytes());
                }
            }
        }
        body.extend(0_i16.to_be_bytes());
        self.put(b'B', &body);
    }

    /// Runs it, for this many rows; 0: all.
    pub fn execute(&mut self, rows: i32) {
        let mut body = vec![0];
        body.extend(rows.to_be_bytes());
        self.put(b'E', &body);
    }

    /// A whole statement of ours, without columns.
    pub fn run(&mut self, sql: &str, values: &[Option<String>]) {
        self.parse(sql);
        self.bind(values);
        self.execute(0);
    }

    /// The end of a request: the server answers it with `Z`, whatever happened.
    pub fn sync(&mut self) {
        self.put(b'S', b"");
    }

    /// Says goodbye.
    pub fn terminate(&mut self) {
        self.put(b'X', b"");
    }

    pub async fn flush(&mut self) -> Result<(), WireError> {
        let out = std::mem::take(&mut self.outbox);
        Ok(self.stream.write(&out).await?)
    }

    /// The next message. A row (`D`) has at most `row_max` bytes.
    pub async fn message(&mut self, row_max: usize) -> Result<Message, WireError> {
        loop {
            if let Some(message) = self.whole(row_max)? {
                match message.tag {
                    // Notices and notifications are for people.
                    b'N' | b'A' => continue,
                    _ => return Ok(message),
                }
            }
            if self.stream.read(&mut self.inbox).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    fn whole(&mut self, row_max: usize) -> Result<Option<Message>, WireError> {
        let Some((head, _)) = self.inbox.split_first_chunk::<5>() else { return Ok(None) };
        let [tag, a, b, c, d] = *head;
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        let body = length.checked_sub(4).ok_or(WireError::Protocol("a message of no length"))?;
        match tag {
            b'D' if body > row_max => return Err(WireError::RowTooLarge),
            b'D' => {}
            _ if body > MESSAGE_BYTES_MAX => {
                return Err(WireError::Protocol("a message is too large"));
            }
            _ => {}
        }
        if self.inbox.len().saturating_sub(5) < body {
            return Ok(None);
        }
        self.inbox.advance(5);
        Ok(Some(Message { tag, body: self.inbox.split_to(body).freeze() }))
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes().filter(|byte| *byte != 0));
    out.push(0);
}

/// Reads the body of a message from its beginning.
#[derive(Debug)]
pub(super) struct Body(pub Bytes);

const SHORT: WireError = WireError::Protocol("a message is cut short");

impl Body {
    pub fn byte(&mut self) -> Result<u8, WireError> {
        if self.0.is_empty() { Err(SHORT) } else { Ok(self.0.get_u8()) }
    }

    pub fn short(&mut self) -> Result<i16, WireError> {
        if self.0.len() < 2 { Err(SHORT) } else { Ok(self.0.get_i16()) }
    }

    pub fn long(&mut self) -> Result<i32, WireError> {
        if self.0.len() < 4 { Err(SHORT) } else { Ok(self.0.get_i32()) }
    }

    pub fn skip(&mut self, bytes: usize) -> Result<(), WireError> {
        if self.0.len() < bytes {
            return Err(SHORT);
        }
        self.0.advance(bytes);
        Ok(())
    }

    /// Text up to its zero byte.
    pub fn text(&mut self) -> Result<String, WireError> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(SHORT)?;
        let text = self.0.split_to(end);
        self.0.advance(1);
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// What is left.
    pub fn rest(self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// A value with its length before it; NULL has the length -1.
    pub fn value(&mut self) -> Result<Option<Bytes>, WireError> {
        let length = self.long()?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| SHORT)?;
        if self.0.len() < length {
            return Err(SHORT);
        }
        Ok(Some(self.0.split_to(length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// A connection to a server that says these bytes and closes.
    async fn saying(bytes: Vec<u8>) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = std::net::TcpStream::connect(address).unwrap();
        client.set_nonblocking(true).unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        server.write_all(&bytes).await.unwrap();
        drop(server);
        Wire::new(Stream::Plain(TcpStream::from_std(client).unwrap()))
    }

    #[tokio::test]
    async fn a_message_is_refused_by_its_length_before_it_is_read() {
        let said = |tag: u8, length: u32| [&[tag], length.to_be_bytes().as_slice()].concat();
        let row = saying(said(b'D', 1 << 30)).await.message(100).await;
        assert!(matches!(row, Err(WireError::RowTooLarge)), "{row:?}");
        let other = saying(said(b'S', 1 << 30)).await.message(100).await;
        assert!(matches!(other, Err(WireError::Protocol(_))), "{other:?}");
        let none = saying(said(b'Z', 3)).await.message(100).await;
        assert!(matches!(none, Err(WireError::Protocol(_))), "{none:?}");
        let cut = saying(said(b'Z', 9)).await.message(100).await;
        assert!(matches!(cut, Err(WireError::Lost(_))), "{cut:?}");
    }

    #[test]
    fn a_body_that_is_shorter_than_it_says_is_refused() {
        let mut body = Body(Bytes::from_static(&[0, 0, 0, 9, 1]));
        assert!(body.value().is_err());
        assert!(Body(Bytes::from_static(b"abc")).text().is_err());
        assert!(Body(Bytes::new()).short().is_err());
        assert_eq!(Body(Bytes::from_static(&[0xff; 4])).value().unwrap(), None);
    }
}
