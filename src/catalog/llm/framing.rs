//! How streamed answers are framed: what of a request says so, the reader of a provider's bytes, and the
//! writer of those for the agent.
//!
//! The gate always asks a provider of Gemini for events, and an agent may ask for one list of JSON
//! values instead: the data is the same.

use super::answer::Frame;
use super::sse::{self, Event, TooLarge};
use crate::domain::dialect::Dialect;
use crate::domain::json::Json;

/// The framing of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamFraming {
    /// Server-sent events.
    Events,
    /// One JSON value a line.
    Lines,
    /// One JSON list, an item for each event.
    List,
}

impl StreamFraming {
    /// The framing that a request asks for.
    #[must_use]
    pub fn of(dialect: Dialect, args: &Json) -> Self {
        match dialect {
            Dialect::Chat | Dialect::Responses | Dialect::Messages => Self::Events,
            Dialect::Gemini if args.get("alt").is_some_and(|alt| alt.as_str() != Some("sse")) => {
                Self::List
            }
            Dialect::Gemini => Self::Events,
            Dialect::Ollama => Self::Lines,
        }
    }

    /// The media type of a stream of it.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Events => "text/event-stream",
            Self::Lines => "application/x-ndjson",
            Self::List => "application/json",
        }
    }
}

/// Whether a request asks for a stream. WHY by dialect: a request to Ollama that says nothing asks for
/// one.
#[must_use]
pub fn streams(dialect: Dialect, args: &Json) -> bool {
    let says = |streams: bool| args.get("stream") == Some(&Json::Bool(streams));
    match dialect {
        Dialect::Chat | Dialect::Responses | Dialect::Messages | Dialect::Gemini => says(true),
        Dialect::Ollama => !says(false),
    }
}

/// Reads the events of a provider from bytes as they come.
#[derive(Debug)]
pub enum FrameReader {
    /// Server-sent events.
    Events(sse::Reader),
    /// Lines.
    Lines(LineReader),
}

impl FrameReader {
    /// A reader of what the provider of this dialect streams, for events of at most this many bytes.
    #[must_use]
    pub fn of(dialect: Dialect, bytes_max: usize) -> Self {
        match dialect {
            Dialect::Chat | Dialect::Responses | Dialect::Messages | Dialect::Gemini => {
                Self::Events(sse::Reader::new(bytes_max))
            }
            Dialect::Ollama => Self::Lines(LineReader { line: Vec::new(), bytes_max }),
        }
    }

    /// The media type that it reads.
    #[must_use]
    pub const fn media_type(&self) -> &'static str {
        match self {
            Self::Events(_) => StreamFraming::Events.media_type(),
            Self::Lines(_) => StreamFraming::Lines.media_type(),
        }
    }

    /// The events that these bytes complete.
    ///
    /// # Errors
    /// An event grew too large; the stream is unusable from here on.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLarge> {
        match self {
            Self::Events(reader) => reader.push(bytes),
            Self::Lines(reader) => reader.push(bytes),
        }
    }
}

/// Reads lines. Bytes that no line feed ends are no line.
#[derive(Debug)]
pub struct LineReader {
    line: Vec<u8>,
    bytes_max: usize,
}

impl LineReader {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLarge> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len().saturating_add(piece.len()) > self.bytes_max {
                return Err(TooLarge(self.bytes_max));
            }
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                let data = String::from_utf8_lossy(line.trim_ascii()).into_owned();
                let event = Event { name: None, id: None, data };
                events.extend(Some(event).filter(|event| !event.data.is_empty()));
            }
        }
        Ok(events)
    }
}

/// Writes frames in the order in which they leave.
#[derive(Debug)]
pub struct FrameWriter {
    framing: StreamFraming,
    has_begun: bool,
}

impl FrameWriter {
    /// A writer of which nothing has left.
    #[must_use]
    pub const fn new(framing: StreamFraming) -> Self {
        Self { framing, has_begun: false }
    }

    /// The bytes of these frames.
    pub fn write(&mut self, frames: &[Frame]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for frame in frames {
            match self.framing {
                StreamFraming::Events => bytes.extend(frame.encode()),
                StreamFraming::Lines => {
                    bytes.extend_from_slice(frame.data.as_bytes());
                    bytes.push(b'\n');
                }
                StreamFraming::List => {
                    let before = if self.has_begun { ",\r\n" } else { "[" };
                    bytes.extend_from_slice(before.as_bytes());
                    bytes.extend_from_slice(frame.data.as_bytes());
                }
            }
            self.has_begun = true;
        }
        bytes
    }

    /// The bytes of the frames that end the stream.
    #[must_use]
    pub fn end(mut self, frames: &[Frame]) -> Vec<u8> {
        let mut bytes = self.write(frames);
        if self.framing == StreamFraming::List {
            let close: &[u8] = if self.has_begun { b"\n]\n" } else { b"[]\n" };
            bytes.extend_from_slice(close);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::json;

    fn frames(texts: &[&str]) -> Vec<Frame> {
        texts.iter().map(|text| Frame { event: None, data: (*text).to_owned() }).collect()
    }

    #[test]
    fn lines_are_read_however_they_are_cut_and_none_before_its_end() {
        let text = b"{\"a\":1}\n\n {\"b\":\"\xc3\xa4\"} \r\n{\"c\"";
        let data = |events: Vec<Event>| events.into_iter().map(|one| one.data).collect::<Vec<_>>();
        for size in 1..text.len() {
            let mut reader = FrameReader::of(Dialect::Ollama, 64);
            let read: Vec<Event> =
                text.chunks(size).flat_map(|piece| reader.push(piece).unwrap()).collect();
            assert_eq!(data(read), ["{\"a\":1}", "{\"b\":\"ä\"}"]);
        }
        assert_eq!(FrameReader::of(Dialect::Ollama, 4).push(b"12345"), Err(TooLarge(4)));
    }

    #[test]
    fn a_list_has_a_comma_between_its_items_and_one_end() {
        let all = |framing: StreamFraming, pieces: &[&[&str]], end: &[&str]| {
            let mut writer = FrameWriter::new(framing);
            let mut bytes: Vec<u8> =
                pieces.iter().flat_map(|piece| writer.write(&frames(piece))).collect();
            bytes.extend(writer.end(&frames(end)));
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!(all(StreamFraming::List, &[&["1"], &[], &["2"]], &["3"]), "[1,\r\n2,\r\n3\n]\n");
        assert_eq!(all(StreamFraming::List, &[], &["1"]), "[1\n]\n");
        assert_eq!(all(StreamFraming::List, &[], &[]), "[]\n");
        assert_eq!(all(StreamFraming::Lines, &[&["1"]], &["2"]), "1\n2\n");
        assert_eq!(all(StreamFraming::Events, &[&["1"]], &["2"]), "data: 1\n\ndata: 2\n\n");
    }

    #[test]
    fn a_request_to_ollama_asks_for_a_stream_unless_it_says_no() {
        for (dialect, args, expected) in [
            (Dialect::Ollama, json!({}), true),
            (Dialect::Ollama, json!({"stream": null}), true),
            (Dialect::Ollama, json!({"stream": false}), false),
            (Dialect::Chat, json!({}), false),
            (Dialect::Gemini, json!({"stream": true}), true),
        ] {
            assert_eq!(streams(dialect, &args), expected, "{args:?}");
        }
        let of = |args: &Json| StreamFraming::of(Dialect::Gemini, args);
        assert_eq!(of(&json!({"alt": "json"})), StreamFraming::List);
        assert_eq!(of(&json!({})), StreamFraming::Events);
    }
}
