//! Streamable HTTP: headers of a request, the session, and the messages of an answer.
//!
//! The gate calls servers with it (`tool::mcp`), and the bridge for clients on standard streams
//! calls the gate with it (`cli::mcp`). Each brings its own transport. The face for agents
//! (`serve::mcp`) reads the same headers.

use std::collections::VecDeque;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes};

use super::header::{Mirrored, encoded, value};
use super::sse;
use crate::domain::json::Json;

/// The header with the id of a session.
pub const SESSION: &str = "mcp-session-id";
/// The header with the version that is spoken.
pub const VERSION: &str = "mcp-protocol-version";
/// The header that repeats the method of a request without a session.
pub const METHOD: &str = "mcp-method";
/// The header that repeats what such a request is about.
pub const NAME: &str = "mcp-name";
/// Begins the headers that repeat arguments of a tool.
pub const PARAM: &str = "mcp-param-";
/// The type of one message.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The type of a stream of messages.
pub const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
/// Bytes of a session's id.
const SESSION_BYTES_MAX: usize = 1024;

/// Something cannot be written as a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an argument fits no header")]
pub struct InvalidHeader;

/// What the handshake of a session agreed on: both are in the headers of every later request.
#[derive(Clone, Default, Debug)]
pub struct Session {
    /// Its id, if the server gave one.
    pub id: Option<HeaderValue>,
    /// The version that is spoken.
    pub version: Option<HeaderValue>,
}

impl Session {
    /// Puts the headers of a request with this method.
    pub fn put(&self, method: &Method, headers: &mut HeaderMap) {
        let accept = match *method {
            Method::POST => HeaderValue::from_static("application/json, text/event-stream"),
            Method::GET => EVENTS,
            _ => JSON,
        };
        headers.insert(header::ACCEPT, accept);
        if method == Method::POST {
            headers.insert(header::CONTENT_TYPE, JSON);
        }
        for (name, value) in [(SESSION, &self.id), (VERSION, &self.version)] {
            if let Some(value) = value {
                headers.insert(name, value.clone());
            }
        }
    }
}

/// The id of a session in the answer to `initialize`; a secret.
///
/// # Errors
/// It is empty, too long, or contains invisible characters.
pub fn session_id(headers: &HeaderMap) -> Result<Option<HeaderValue>, InvalidHeader> {
    let Some(id) = headers.get(SESSION) else { return Ok(None) };
    let visible = id.as_bytes().iter().all(|byte| (0x21..=0x7e).contains(byte));
    if !visible || id.is_empty() || id.len() > SESSION_BYTES_MAX {
        return Err(InvalidHeader);
    }
    let mut id = id.clone();
    id.set_sensitive(true);
    Ok(Some(id))
}

/// The parameter that `Mcp-Name` repeats, if the method has one.
#[must_use]
pub fn name_of(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        _ => None,
    }
}

/// The headers in which a request without a session repeats its method and name.
///
/// # Errors
/// A value that does not fit a header.
pub fn mirror(
    method: &str,
    name: Option<&str>,
    headers: &mut HeaderMap,
) -> Result<(), InvalidHeader> {
    headers.insert(METHOD, HeaderValue::from_str(method).map_err(|_| InvalidHeader)?);
    if let Some(name) = name {
        headers.insert(NAME, HeaderValue::from_str(&encoded(name)).map_err(|_| InvalidHeader)?);
    }
    Ok(())
}

/// The headers in which it repeats arguments of a tool.
///
/// # Errors
/// A value that does not fit a header.
pub fn mirror_args(
    args: &Json,
    mirrored: &[Mirrored],
) -> Result<Vec<(HeaderName, HeaderValue)>, InvalidHeader> {
    let pairs = mirrored.iter().filter_map(|one| Some((one, value(args, &one.path)?)));
    let pair = |(one, value): (&Mirrored, String)| {
        let name = HeaderName::try_from(one.header());
        let value = HeaderValue::try_from(encoded(&value));
        Ok((name.map_err(|_| InvalidHeader)?, value.map_err(|_| InvalidHeader)?))
    };
    pairs.map(pair).collect()
}

/// What a body is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyForm {
    /// One message.
    Json,
    /// A stream of events with a message each.
    Events,
    /// Neither.
    Other,
}

impl BodyForm {
    /// The form in these headers.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if media_type.eq_ignore_ascii_case("text/event-stream") {
            Self::Events
        } else if media_type.eq_ignore_ascii_case("application/json") {
            Self::Json
        } else {
            Self::Other
        }
    }
}

/// Why there is not another message.
#[derive(Debug, thiserror::Error)]
pub enum Unread<E> {
    /// The connection failed.
    #[error(transparent)]
    Broken(#[from] E),
    /// A message has more bytes than allowed.
    #[error("a message is too large")]
    TooLarge,
    /// There are more events than allowed.
    #[error("the stream does not end")]
    Endless,
}

/// The texts of an answer, one after the other: of each event with data, or the whole body.
#[derive(Debug)]
pub struct Messages<B> {
    body: B,
    bytes_max: usize,
    reading: BodyReading,
}

#[derive(Debug)]
enum BodyReading {
    Whole,
    Events { reader: sse::Reader, ready: VecDeque<String>, left: usize },
    Over,
}

impl<B: Body<Data = Bytes> + Unpin> Messages<B> {
    /// Texts of at most `bytes_max` bytes each, and at most `events_max` of them.
    pub fn of(answer: Response<B>, bytes_max: usize, events_max: usize) -> Self {
        let reading = match BodyForm::of(answer.headers()) {
            BodyForm::Events => BodyReading::Events {
                reader: sse::Reader::new(bytes_max),
                ready: VecDeque::new(),
                left: events_max,
            },
            BodyForm::Json | BodyForm::Other => BodyReading::Whole,
        };
        Self { body: answer.into_body(), bytes_max, reading }
    }

    /// The next text; `None` at the end.
    ///
    /// # Errors
    /// As [`Unread`] says.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Unread<B::Error>> {
        let Self { body, bytes_max, reading } = self;
        match reading {
            BodyReading::Over => Ok(None),
            BodyReading::Whole => {
                *reading = BodyReading::Over;
                whole(body, *bytes_max).await.map(Some)
            }
            BodyReading::Events { reader, ready, left } => loop {
                if let Some(text) = ready.pop_front() {
                    *left = left.checked_sub(1).ok_or(Unread::Endless)?;
                    return Ok(Some(text.into_bytes()));
                }
                let Some(data) = piece(body).await? else { return Ok(None) };
                let events = reader.push(&data).map_err(|_large| Unread::TooLarge)?;
                ready.extend(events.into_iter().map(|event| event.data));
            },
        }
    }
}

async fn whole<B: Body<Data = Bytes> + Unpin>(
    body: &mut B,
    bytes_max: usize,
) -> Result<Vec<u8>, Unread<B::Error>> {
    if body.size_hint().lower() > u64::try_from(bytes_max).unwrap_or(u64::MAX) {
        return Err(Unread::TooLarge);
    }
    let mut bytes = Vec::new();
    while let Some(data) = piece(body).await? {
        if bytes.len().saturating_add(data.len()) > bytes_max {
            return Err(Unread::TooLarge);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

async fn piece<B: Body<Data = Bytes> + Unpin>(body: &mut B) -> Result<Option<Bytes>, B::Error> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    fn messages(kind: &'static str, body: &'static str, most: usize) -> Messages<Full<Bytes>> {
        let answer = Response::builder().header(header::CONTENT_TYPE, kind);
        Messages::of(answer.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap(), most, 2)
    }

    #[tokio::test]
    async fn texts_come_one_by_one_within_bounds() {
        let stream = "id: 1\n\ndata\n\ndata: {}\n\ndata: []\n\ndata: 1\n\n";
        let mut events = messages("Text/Event-Stream; charset=utf-8", stream, 99);
        assert_eq!(events.next().await.unwrap(), Some(b"{}".to_vec()));
        assert_eq!(events.next().await.unwrap(), Some(b"[]".to_vec()));
        assert!(matches!(events.next().await, Err(Unread::Endless)));
        let mut large = messages("text/event-stream", "data: 123456789\n\n", 8);
        assert!(matches!(large.next().await, Err(Unread::TooLarge)));
        for kind in ["application/json", "text/html"] {
            let mut one = messages(kind, "12345678", 8);
            assert_eq!(one.next().await.unwrap(), Some(b"12345678".to_vec()));
            assert_eq!(one.next().await.unwrap(), None);
            assert!(matches!(messages(kind, "123456789", 8).next().await, Err(Unread::TooLarge)));
        }
    }

    #[test]
    fn an_id_of_a_session_is_visible_and_short() {
        let of = |id: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(SESSION, HeaderValue::from_bytes(id.as_bytes()).unwrap());
            session_id(&headers)
        };
        assert!(of("s-1").unwrap().unwrap().is_sensitive());
        assert_eq!(session_id(&HeaderMap::new()), Ok(None));
        for id in ["", "a b", "\u{e9}", &"x".repeat(SESSION_BYTES_MAX + 1)] {
            assert_eq!(of(id), Err(InvalidHeader), "{id}");
        }
    }
}
